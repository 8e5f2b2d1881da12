// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes objects from images at the beginning of an execution [pobj 4.3]. First, recoverable memory does its recovery.
// Then this visits every slot and allocates every object. It fills an object when the addresses of all objects to which
// it refers are known.
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "pobj/errors.hpp"
#include "pobj/images.hpp"
#include "pobj/store.hpp"

namespace tenure::pobj {

namespace {

[[noreturn]] void damaged(const store& in, position at, const std::string& what) {
  throw failure(POBJ_EDAMAGED, in.how.path + "/objects: the slot at offset " + std::to_string(at) + " " + what);
}

// Calls f(position, word) for each slot.
template <class F>
void for_each_slot(const store& in, F&& f) {
  const position end = in.header().end;
  for (position at = first_slot; at < end;) {
    const slot_word word = in.free.word_at(at);
    if (word.length() % 8 != 0 || word.length() > end - at)
      damaged(in, at, "says that it has " + std::to_string(word.length()) + " bytes");
    f(at, word);
    at += word.length();
  }
}

// Blocks of objects to which nothing else refers yet. They are kept in memory that the program's collector sees.
class visible_blocks {
 public:
  visible_blocks(const pobj_allocator& from, std::size_t most)
      : from_(from), all_(static_cast<void**>(most == 0 ? nullptr : from.malloc(most * sizeof(void*)))) {
    if (all_ == nullptr && most != 0)
      throw failure(POBJ_ENOMEM, "the memory manager for control structures has no memory");
  }
  ~visible_blocks() {
    if (all_ != nullptr && from_.free != nullptr) from_.free(static_cast<void*>(all_));
  }
  visible_blocks(const visible_blocks&) = delete;
  visible_blocks& operator=(const visible_blocks&) = delete;
  [[nodiscard]] void** data() const { return all_; }

 private:
  const pobj_allocator& from_;
  void** all_;
};

// An address with this execution's number. There are only 2^15 numbers, so it comes from an earlier execution with the
// same number.
bool is_old_address(const store& in, reference r) { return r.is_address() && r.execution() == (in.execution & 0x7fff); }

// The memory is still a copy of the image. Converts its references, and notes the places of old addresses.
void decode_references(const store& in, const stored_memory& m, pobj_report& report, std::vector<position>& old) {
  m.type.for_each_reference(0, m.size, m.size, [&](std::uint64_t at) {
    const reference r{load_word(m.memory + at)};
    if (is_old_address(in, r)) old.push_back(m.image + at);
    store_word(m.memory + at, decode(in, r, &report));
  });
}

}  // namespace

void store::load_type(position slot, slot_word word) {
  stored_type start;
  if (word.size() < sizeof start) damaged(*this, slot, "is too short for the description of a type");
  const std::byte* from = free.at(slot + 8);
  std::memcpy(&start, from, sizeof start);
  const std::uint64_t references = sizeof start,
                      transients = round_to_8(references + std::uint64_t{start.references} * 4),
                      name = transients + start.transients * sizeof(byte_range);
  if (name + start.name_length != word.size() || start.number >= slot_word::first_special)
    damaged(*this, slot, "has no description of a type");
  const auto copy = [&](auto& to, std::uint32_t count, std::uint64_t offset) {
    to.resize(count);
    if (count != 0) std::memcpy(to.data(), from + offset, count * sizeof to[0]);
  };
  type_description t;
  t.size = start.size;
  copy(t.references, start.references, references);
  copy(t.transients, start.transients, transients);
  t.name.assign(reinterpret_cast<const char*>(from + name), start.name_length);
  if (!t.makes_sense()) damaged(*this, slot, "describes a type that cannot be");
  if (!types.load(start.number, std::move(t), slot))
    damaged(*this, slot, "describes a type that another one describes, too");
}

void store::load_static(position slot, slot_word word) {
  stored_static start;
  if (word.size() < sizeof start) damaged(*this, slot, "is too short for a static variable");
  std::memcpy(&start, free.at(slot + 8), sizeof start);
  const std::uint64_t texts = std::uint64_t{start.module_length} + start.file_length + start.symbol_length;
  static_variable v;
  v.value = round_to_8(sizeof start + texts);
  v.size = start.size;
  v.type = start.type;
  v.slot = slot;
  if (v.value > word.size() || v.size != word.size() - v.value) damaged(*this, slot, "has no static variable");
  const char* text = reinterpret_cast<const char*>(free.at(slot + 8 + sizeof start));
  const auto next = [&](std::uint32_t length) { return std::string(std::exchange(text, text + length), length); };
  v.name.given = start.named != 0;
  v.name.module = next(start.module_length);
  v.name.file = next(start.file_length);
  v.name.symbol = next(start.symbol_length);
  v.name.offset = start.offset;
  statics.add(std::move(v));
}

void store::scan() {
  position free_from = 0, free_to = 0;
  for_each_slot(*this, [&](position at, slot_word word) {
    if (word.type() == slot_word::type_free) {
      // Adds many adjacent free slots in one step.
      if (at != free_to || at + word.length() - free_from > largest_free) {
        free.add(free_from, free_to);
        free_from = at;
      }
      free_to = at + word.length();
    } else if (word.type() == slot_word::type_description) {
      load_type(at, word);
    } else if (word.type() == slot_word::type_static) {
      load_static(at, word);
    } else if (word.type() < slot_word::first_special) {
      ++report.objects;
      report.object_bytes += word.size();
    } else {
      damaged(*this, at, "is of kind " + std::to_string(word.type()) + ", which does not exist");
    }
  });
  free.add(free_from, free_to);
  if (!types.is_whole()) throw failure(POBJ_EDAMAGED, how.path + "/objects: the description of a type is missing");
  for (const auto& v : statics.all())
    if (v->type >= types.count())
      damaged(*this, v->slot, "has a type that does not exist");
    else
      types.use(v->type);
}

// If `blocks` is given, writes each block there before it allocates the next one. Objects that refer to later ones are
// filled after all have been made.
void store::make_objects(void** blocks, std::vector<position>& old) {
  std::vector<object> to_fill;
  for_each_slot(*this, [&](position at, slot_word word) {
    if (word.type() >= slot_word::first_special) return;
    if (word.type() >= types.count()) damaged(*this, at, "has a type that does not exist");
    if (const std::uint64_t element = types[word.type()].size; element != 0 && word.size() % element != 0)
      damaged(*this, at, "is no array of its type");
    const std::size_t size = block_size(word.size());
    auto* const block = static_cast<std::byte*>(object_blocks.has_pool() ? object_blocks.take(size, false)
                                                                         : allocate_block(how.objects, size, false));
    if (blocks != nullptr) *blocks++ = block;
    const object o{block + sizeof(object_header)};
    o.begin(at, word.size(), word.type(), 0);
    if (!object_blocks.takes_back(o)) addresses.forget(o);
    addresses.add(o);
    slots.set(at, o);
    types.use(word.type());
    const stored_memory m = stored(*this, o);
    std::memcpy(m.memory, free.at(m.image), m.size);
    bool is_early = false;
    m.type.for_each_reference(0, m.size, m.size, [&](std::uint64_t offset) {
      const reference r{load_word(m.memory + offset)};
      is_early = is_early || (!r.is_address() && r.at() > m.image + m.size);
    });
    if (is_early)
      to_fill.push_back(o);
    else
      decode_references(*this, m, report, old);
  });
  for (const object o : to_fill) decode_references(*this, stored(*this, o), report, old);
}

// Binds names that the program has given first, then names of symbols. An anchor whose variable overlaps that of
// another anchor stays unbound.
void store::bind_statics() {
  for (const bool given : {true, false})
    for (const auto& v : statics.all()) {
      if (v->name.given != given) continue;
      std::byte* address = nullptr;
      if (!given)
        address = find_static(v->name, v->size);
      else if (const auto named = named_statics().find(v->name.symbol);
               named != named_statics().end() && named->second.size >= v->size)
        address = named->second.address;
      if (address != nullptr && statics.overlapping(address, v->size) != nullptr) address = nullptr;
      if (address != nullptr) statics.bind(*v, address, os::module_hold(address));
    }
}

void store::reconstruct() {
  scan();
  for (const auto& [name, t] : defined_types::all().by_name) types.compare(t);
  const visible_blocks kept(how.control, object_blocks.has_pool() ? 0 : report.objects);
  try {
    std::vector<position> old;
    make_objects(kept.data(), old);
    types.loaded();
    bind_statics();
    for (const auto& v : statics.all())
      types[v->type].for_each_reference(0, v->size, v->size, [&](std::uint64_t at) {
        if (!is_old_address(*this, {load_word(free.at(v->image() + at))})) return;
        old.push_back(v->image() + at);
        if (v->address != nullptr) ++report.null_unknown;
      });
    note_execution(old);
  } catch (...) {
    discard();
    throw;
  }
  // From here on nothing fails. The program's variables get their values.
  for (const auto& v : statics.all())
    if (v->address != nullptr) read_image(*this, {v->address, v->image(), v->size, types[v->type]}, &report);
}

}  // namespace tenure::pobj
