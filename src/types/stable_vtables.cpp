// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/stable_vtables.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <typeinfo>
#include <utility>

#include "os/modules.hpp"
#include "os/sanitizers.hpp"

namespace tenure::types {
namespace {

// Copies constants of the program that belong to no object. AddressSanitizer guards the gaps between them. Therefore
// the reads are volatile: a loop of ordinary reads might become a call of memcpy, which it watches.
TENURE_UNSANITIZED void copy_constants(std::byte* to, const std::byte* from, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) to[i] = static_cast<const volatile std::byte*>(from)[i];
}

// --- Vtables of types that the program lacks ---

// A stub cannot see from its arguments which type it stands for: `this` is the second argument if the function returns
// a class. So each type gets a stub, as long as some are left.
constexpr std::size_t stub_count = 256;

struct stub_names {
  std::mutex mutex;
  std::size_t used = 0;
  std::array<std::atomic<const char*>, stub_count> of{};  // never freed, because vtables refer to them
};
stub_names& names() {
  static stub_names* const the_names = new stub_names;
  return *the_names;
}

[[noreturn]] void end_with_message(const char* name) {
  std::fprintf(
      stderr,
      "tenure: a virtual function of an object of type %s was called, which is in the store, but not in this program: "
      "link the type into the program, and make it known with tenure::register_type or by using it, before the store "
      "is opened\n",
      name);
  std::abort();
}

template <std::size_t I>
[[noreturn]] void stub() {
  end_with_message(names().of[I].load(std::memory_order_relaxed));
}
[[noreturn]] void last_stub() { end_with_message("(one of more than 256 that are not in this program)"); }

using function = void (*)();
template <std::size_t... I>
constexpr std::array<function, stub_count> make_stubs(std::index_sequence<I...>) {
  return {&stub<I>...};
}
constexpr std::array<function, stub_count> stubs = make_stubs(std::make_index_sequence<stub_count>());

function stub_for(const std::string& name) {
  stub_names& all = names();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < all.used; ++i)
    if (name == all.of[i].load(std::memory_order_relaxed)) return stubs[i];
  if (all.used == stub_count) return last_stub;
  all.of[all.used].store(::strdup(name.c_str()), std::memory_order_relaxed);
  return stubs[all.used++];
}

// The class that typeid and dynamic_cast see. It is the base of no class.
class type_that_this_program_lacks {};

}  // namespace

void fill(std::byte* slot, const type& t, std::size_t subobject) {
  const auto* const vtable = static_cast<const std::byte*>(t.operations->vtables().at(subobject));
  const std::span<const std::byte> constants = os::constant_data_around(vtable);
  // Does not read beyond the module's constants.
  const std::size_t before = std::min<std::size_t>(vtable_slot_before, vtable - constants.data());
  const std::size_t behind =
      std::min<std::size_t>(vtable_slot_size - vtable_slot_before, constants.data() + constants.size() - vtable);
  std::memset(slot, 0, vtable_slot_size);
  copy_constants(slot + vtable_slot_before - before, vtable - before, before + behind);
}

void fill_with_stub(std::byte* slot, const std::string& name, std::uint64_t offset) {
  const function end = stub_for(name);
  // In place of offsets of virtual bases: a value that leads to no existing address.
  const std::uint64_t nowhere = std::uint64_t{1} << 62;
  for (std::size_t at = 0; at < vtable_slot_before - 16; at += sizeof nowhere)
    std::memcpy(slot + at, &nowhere, sizeof nowhere);
  const std::ptrdiff_t to_start = -static_cast<std::ptrdiff_t>(offset);
  const std::type_info* const class_seen = &typeid(type_that_this_program_lacks);
  std::memcpy(slot + vtable_slot_before - 16, &to_start, sizeof to_start);
  std::memcpy(slot + vtable_slot_before - 8, &class_seen, sizeof class_seen);
  for (std::size_t at = vtable_slot_before; at < vtable_slot_size; at += sizeof end)
    std::memcpy(slot + at, &end, sizeof end);
}

}  // namespace tenure::types
