// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Declaring which words are references [pobj 3.5.4].
#include "pobj/typing.hpp"

#include <algorithm>
#include <mutex>
#include <string>

#include "os/room_for_one.hpp"
#include "pobj/images.hpp"

namespace tenure::pobj {

namespace {

// Refuses objects of a defined type, whose references are fixed by its definition.
void require_single(const store& in, object o) {
  if (const type_description& t = in.types.of(o); !t.name.empty())
    throw failure(POBJ_ETYPE, "the object " + hexadecimal(o.handle) + " is of " + text_of(t) +
                                  ": give it another type with pobj_set_type or pobj_ref_typify");
}

void set_type(transaction& t, object o, const type_description& wanted) {
  store& in = t.get_store();
  const std::uint32_t number = in.types.intern(wanted);
  if (o.header().own_type == 0 && o.header().type == number) return;
  t.set_type(o, number);
}

}  // namespace

namespace {

// A word of an image becomes a reference, or ceases to be one.
void convert_word(transaction& t, position image, bool is_reference) {
  store& in = t.get_store();
  const std::uint64_t stored_word = load_word(in.free.at(image));
  if (stored_word == 0) return;
  object transient;
  const std::uint64_t converted = is_reference ? encode(in, stored_word, &transient).bits : decode(in, {stored_word});
  t.declare(image, 8);
  if (transient) t.note_waiting(image, transient);
  store_word(in.free.at(image), converted);
}

}  // namespace

void set_reference(transaction& t, object o, std::uint64_t offset, bool is_reference) {
  store& in = t.get_store();
  if (in.types.of(o).has_reference_at(offset) == is_reference) return;
  require_single(in, o);
  // What may fail for want of memory comes first.
  if (o.header().own_type == 0 && o.is_persistent()) t.note_typing(o);
  type_description& own = in.types.own(o);
  tenure::os::reserve_one_more(own.references);
  if (o.is_persistent()) convert_word(t, o.header().slot + 8 + offset, is_reference);
  const auto word = static_cast<std::uint32_t>(offset / 8);
  const auto at = std::ranges::lower_bound(own.references, word);
  if (is_reference)
    own.references.insert(at, word);
  else
    own.references.erase(at);
}

void change_of_words::set(std::uint64_t offset, bool is_reference) {
  store& in = t_.get_store();
  if (in.types.of(o_).has_reference_at(offset) == is_reference) return;
  tenure::os::reserve_one_more(changed_);
  const std::uint64_t image = o_.is_persistent() ? load_word(in.free.at(o_.header().slot + 8 + offset)) : 0;
  set_reference(t_, o_, offset, is_reference);
  changed_.push_back({offset, image});
}

void change_of_words::unflag(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> flagged;
  t_.get_store().types.of(o_).for_each_reference(from, to, o_.header().size,
                                                 [&](std::uint64_t at) { flagged.push_back(at); });
  for (const std::uint64_t at : flagged) set(at, false);
}

// Needs no memory: the list of references has been longer before, and what has changed in the image is declared.
change_of_words::~change_of_words() {
  const store& in = t_.get_store();
  for (auto each = changed_.rbegin(); each != changed_.rend(); ++each) {
    std::vector<std::uint32_t>& references = t_.get_store().types.own(o_).references;
    const auto word = static_cast<std::uint32_t>(each->offset / 8);
    const auto at = std::ranges::lower_bound(references, word);
    if (at != references.end() && *at == word)
      references.erase(at);
    else
      references.insert(at, word);
    if (!o_.is_persistent()) continue;
    std::byte* const image = in.free.at(o_.header().slot + 8 + each->offset);
    if (load_word(image) != each->image) store_word(image, each->image);
  }
}

std::uint64_t reference_offset(object o, const void* field) {
  const std::uint64_t offset = store::offset_of(o, field, 8);
  if (offset % 8 != 0)
    throw failure(POBJ_ERANGE, hexadecimal(field) + " is at offset " + std::to_string(offset) + " of the object " +
                                   hexadecimal(o.handle) + ": references lie at multiples of 8");
  return offset;
}

}  // namespace tenure::pobj

using namespace tenure::pobj;

const pobj_type* pobj_type_define(const char* name, size_t size, const size_t* references, const size_t* transients) {
  return guarded_pointer("pobj_type_define", [&]() -> const pobj_type* {
    const type_description wanted = checked_description(name, size, references, transients);
    const std::scoped_lock lock(defined_types::all().mutex);
    if (store* const in = open_store(); in != nullptr) {
      const store_lock inner(*in);
      in->types.compare(wanted);
    }
    return reinterpret_cast<const pobj_type*>(&defined_types::all().define(wanted));
  });
}

int pobj_set_type(void* handle, const pobj_type* type) {
  return guarded("pobj_set_type", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      if (type == nullptr) return set_type(t, o, {});
      const auto& wanted = reinterpret_cast<const type_description&>(*type);
      if (o.header().size % wanted.size != 0)
        throw failure(POBJ_ERANGE, "the object " + hexadecimal(handle) + " has " + std::to_string(o.header().size) +
                                       " bytes, which is no multiple of the size of " + text_of(wanted));
      set_type(t, o, wanted);
    });
  });
}

int pobj_ref_typify(void* handle, const size_t* references) {
  return guarded("pobj_ref_typify", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      set_type(t, o, {"", 0, checked_references(references, o.header().size), {}});
    });
  });
}

int pobj_ref_flag(void* handle, void* field) {
  return guarded("pobj_ref_flag", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      set_reference(t, o, reference_offset(o, field), true);
    });
  });
}

int pobj_ref_unflag(void* handle, void* field) {
  return guarded("pobj_ref_unflag", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      set_reference(t, o, reference_offset(o, field), false);
    });
  });
}
