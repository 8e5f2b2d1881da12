// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/type_check.hpp"

#include <cxxabi.h>

#include <algorithm>

#include <tenure/error.hpp>

#include "types/pointee.hpp"

namespace tenure::cache {

namespace {

const std::type_info* class_of(const type& t) { return t.operations != nullptr ? t.operations->info : nullptr; }

// Whether the object is of a class with the other one as a public base, at this offset. Descriptions do not tell: they have the
// members of bases, not the bases.
bool has_base_at(const type& in, const std::byte* object, std::uint64_t offset, const type& declared) {
  const std::type_info *const whole = class_of(in), *const part = class_of(declared);
  if (whole == nullptr || part == nullptr) return false;
  const auto* const base = dynamic_cast<const abi::__class_type_info*>(part);
  if (base == nullptr) return false;
  void* at = const_cast<std::byte*>(object);
  return whole->__do_upcast(base, &at) && at == object + offset;
}

}  // namespace

bool has_bool_at(const type& in, std::uint64_t offset) {
  return std::ranges::any_of(in.fields, [&](const type_field& f) {
    if (offset < f.offset || offset - f.offset >= f.size) return false;
    if (f.kind == field_kind::nested) return has_bool_at(f.of(), (offset - f.offset) % (f.size / f.count));
    return f.scalar == scalar_kind::boolean;
  });
}

void require_one_description(const bound_type& in_memory, const type& declared) {
  if (in_memory.program == &declared || in_memory.program->name != declared.name) return;
  const pointer_map other(declared);
  if (std::ranges::equal(in_memory.words.words(), other.words(), {}, &pointer_map::word::is_checked,
                         &pointer_map::word::is_checked))
    return;
  throw error(errc::wrong_type, declared.name +
                                    " is described twice in this program, with refs and with plain pointers, and an "
                                    "object is in the cache as one and used as the other: use one of them in a store");
}

bool contains_at(const type& in, const std::byte* object, std::uint64_t offset, const type& declared) {
  if (in.size == 0) return false;
  object += offset / in.size * in.size;
  offset %= in.size;
  if (offset == 0 && without_slots(in.name) == declared.name) return true;
  if (has_base_at(in, object, offset, declared)) return true;
  return std::ranges::any_of(in.fields, [&](const type_field& f) {
    if (offset < f.offset || offset - f.offset >= f.size) return false;
    const std::uint64_t step = f.size / f.count, rest = (offset - f.offset) % step;
    switch (f.kind) {
      case field_kind::nested: return contains_at(f.of(), object + (offset - rest), rest, declared);
      case field_kind::data:  // anything may have been made in an array of bytes
        return (rest == 0 && f.type_name == declared.name) || (step == 1 && f.count > 1);
      case field_kind::reference: return rest == 0 && f.type_name == declared.name;
      default: return false;
    }
  });
}

}  // namespace tenure::cache
