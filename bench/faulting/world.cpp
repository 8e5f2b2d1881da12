// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "faulting/world.hpp"

#include <stdexcept>
#include <utility>

#include "faulting/checked.hpp"
#include "faulting/interpreter.hpp"

namespace tenure::bench::faulting {
namespace {

template <scheme S, template <class> class Program>
class world_of final : public world {
 public:
  explicit world_of(stored_objects& objects) : memory_(objects), program_(memory_) {}
  visits look_up(std::span<const int> ids) override { return program_.look_up(ids); }
  visits traverse(int from, int hops) override { return program_.traverse(from, hops); }
  const fault_counts& counts() const override { return memory_.counts(); }
  std::uint64_t indirections() override { return memory_.indirections(); }

 private:
  object_memory<S> memory_;
  Program<object_memory<S>> program_;
};

template <references R, granularity G, bypass B>
std::unique_ptr<world> make_if(const scheme& how, program which, stored_objects& objects) {
  constexpr scheme mine{R, G, B};
  if (how != mine) return nullptr;
  if (which == program::interpreted) return std::make_unique<world_of<mine, interpreter>>(objects);
  return std::make_unique<world_of<mine, checked_program>>(objects);
}

template <references R, bypass B>
std::unique_ptr<world> make_any(const scheme& how, program which, stored_objects& objects) {
  if (auto made = make_if<R, granularity::object, B>(how, which, objects)) return made;
  if (auto made = make_if<R, granularity::logical_segment, B>(how, which, objects)) return made;
  return make_if<R, granularity::physical_segment, B>(how, which, objects);
}

}  // namespace

std::unique_ptr<world> make_world(const scheme& how, program which, stored_objects& objects) {
  using enum references;
  if (auto made = make_if<direct, granularity::object, bypass::swizzling>(how, which, objects)) return made;
  if (auto made = make_any<identifiers, bypass::never>(how, which, objects)) return made;
  if (auto made = make_any<identifiers, bypass::swizzling>(how, which, objects)) return made;
  if (auto made = make_any<fault_blocks, bypass::swizzling>(how, which, objects)) return made;
  if (auto made = make_any<identifiers, bypass::faulting>(how, which, objects)) return made;
  if (auto made = make_any<fault_blocks, bypass::faulting>(how, which, objects)) return made;
#if defined(__x86_64__)
  if (auto made = make_any<protected_blocks, bypass::faulting>(how, which, objects)) return made;
#endif
  throw std::invalid_argument("no world is built for " + name_of(how));
}

}  // namespace tenure::bench::faulting
