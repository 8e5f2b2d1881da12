// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/images.hpp"

#include <array>
#include <cstring>
#include <string>

namespace tenure::pobj {

namespace {

constexpr std::uint64_t step = 512;  // bytes that are compared and logged at a time

}  // namespace

reference encode(const store& in, std::uint64_t word, object* transient) {
  if (word == 0) return {};
  const auto address = reinterpret_cast<const std::byte*>(word);
  const object to = in.addresses.find(address);
  if (to && to.is_persistent()) {
    const position slot = to.header().slot;
    return reference::to_image(slot + 8 + static_cast<std::uint64_t>(address - to.handle),
                               in.free.word_at(slot).serial());
  }
  if (transient != nullptr) *transient = to;
  return reference::to_address(word, in.execution);
}

std::uint64_t decode(const store& in, reference r, pobj_report* report) {
  if (r.is_null()) return 0;
  if (r.is_address()) {
    // During reconstruction the address is from an earlier execution, even if its number is the current one.
    if (report == nullptr && r.execution() == (in.execution & 0x7fff)) return r.address();
    if (report != nullptr) ++report->null_unknown;
    return 0;
  }
  const position at = r.at();
  object to;
  if (at >= first_slot + 8) {
    to = in.slots.object_at(at - 8);
    if (!to) to = in.slots.find_last_object(at - 8);
  }
  // The address may be in the object or just behind it, because there is at least a slot's word between objects
  // [pobj.reference.interior].
  if (!to || at - (to.header().slot + 8) > to.header().size ||
      in.free.word_at(to.header().slot).serial() != r.serial()) {
    if (report != nullptr) ++report->null_dangling;
    return 0;
  }
  return to.address() + (at - (to.header().slot + 8));
}

void check_typed(const store& in, const stored_memory& m, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t at = round_to_8(from); at + 8 <= to; at += 8) {
    if (!in.addresses.is_handle(reinterpret_cast<const void*>(load_word(m.memory + at)))) continue;
    if (m.type.has_reference_at(at)) continue;
    bool is_transient = false;
    m.type.for_each_transient(at, at + 8, m.size, [&](std::uint64_t, std::uint64_t) { is_transient = true; });
    if (is_transient) continue;
    throw failure(POBJ_EUNTYPED, "the object " + hexadecimal(m.memory) + " has the handle " +
                                     hexadecimal(reinterpret_cast<const void*>(load_word(m.memory + at))) +
                                     " at offset " + std::to_string(at) + ", where its type has no reference (" +
                                     text_of(m.type) + "): flag it with pobj_ref_flag, or define the type so");
  }
}

namespace {

// Writes to `out` what [from, to) of the image must be.
void write_as_image(transaction& t, const stored_memory& m, std::uint64_t from, std::uint64_t to, std::byte* out) {
  std::memcpy(out, m.memory + from, to - from);
  m.type.for_each_transient(from, to, m.size, [&](std::uint64_t begin, std::uint64_t until) {
    std::memset(out + (begin - from), 0, until - begin);
  });
  m.type.for_each_reference(from, to, m.size, [&](std::uint64_t at) {
    object transient;
    std::byte* const word = out + (at - from);
    store_word(word, encode(t.get_store(), load_word(word), &transient).bits);
    if (transient) t.note_waiting(m.image + at, transient);
  });
}

}  // namespace

void write_image(transaction& t, const stored_memory& m, std::uint64_t from, std::uint64_t to) {
  store& in = t.get_store();
  if (from == to) return;
  // References are whole words.
  from = from / 8 * 8;
  to = std::min(round_to_8(to), m.size);
  // A new image has no old bytes to compare with, and needs no declaration.
  const bool is_new = t.is_made_in_level(m.image);
  if (is_new && m.type.references.empty()) return write_as_image(t, m, from, to, in.free.at(m.image + from));
  std::array<std::byte, step> block;
  const auto write = [&](bool declares, bool writes) {
    for (std::uint64_t at = from; at < to; at += step) {
      const std::uint64_t length = std::min(step, to - at);
      write_as_image(t, m, at, at + length, block.data());
      std::byte* const image = in.free.at(m.image + at);
      if (is_new) {
        if (writes) std::memcpy(image, block.data(), length);
        continue;
      }
      std::uint64_t first = 0, last = length;
      while (first < length && block[first] == image[first]) {
        if (first % 8 == 0 && first + 8 <= length && load_word(&block[first]) == load_word(image + first))
          first += 8;
        else
          ++first;
      }
      if (first == length) continue;
      while (block[last - 1] == image[last - 1]) --last;
      if (declares) t.declare(m.image + at + first, last - first);
      if (writes) std::memcpy(image + first, block.data() + first, last - first);
    }
  };
  // What fails for want of memory has changed nothing.
  if (to - from <= step) return write(true, true);
  write(true, false);
  write(false, true);
}

namespace {

template <class F>
void read_image_with(const store& in, const stored_memory& m, F&& decoded) {
  std::array<std::byte, step> block;
  for (std::uint64_t from = 0; from < m.size; from += step) {
    const std::uint64_t length = std::min(step, m.size - from), end = from + length;
    std::memcpy(block.data(), in.free.at(m.image + from), length);
    m.type.for_each_reference(from, end, m.size, [&](std::uint64_t at) {
      std::byte* const word = block.data() + (at - from);
      store_word(word, decoded(reference{load_word(word)}));
    });
    m.type.for_each_transient(from, end, m.size, [&](std::uint64_t begin, std::uint64_t until) {
      std::memcpy(block.data() + (begin - from), m.memory + begin, until - begin);
    });
    std::memcpy(m.memory + from, block.data(), length);
  }
}

// 0: it means none of them.
std::uint64_t decode_taken(const store& in, reference r, std::span<const transaction::placed> taken) {
  if (r.is_null() || r.is_address()) return 0;
  for (const auto& [what, slot] : taken)
    if (r.at() >= slot + 8 && in.addresses.is_handle(what.handle) && r.at() - (slot + 8) <= what.header().size &&
        in.free.word_at(slot).serial() == r.serial())
      return what.address() + (r.at() - (slot + 8));
  return 0;
}

}  // namespace

void read_image(const store& in, const stored_memory& m, pobj_report* report) {
  read_image_with(in, m, [&](reference r) { return decode(in, r, report); });
}

void read_image(const store& in, const stored_memory& m, std::span<const transaction::placed> taken) {
  read_image_with(in, m, [&](reference r) {
    const std::uint64_t pointer = decode(in, r);
    return pointer != 0 ? pointer : decode_taken(in, r, taken);
  });
}

void convert_words(transaction& t, const stored_memory& m, const type_description& to) {
  store& in = t.get_store();
  // First everything is declared, then written: what fails for want of memory has changed nothing.
  for (const bool writes : {false, true}) {
    const auto set = [&](std::uint64_t at, std::uint64_t word) {
      if (writes)
        store_word(in.free.at(m.image + at), word);
      else
        t.declare(m.image + at, 8);
    };
    m.type.for_each_reference(0, m.size, m.size, [&](std::uint64_t at) {
      const std::uint64_t word = load_word(in.free.at(m.image + at));
      if (word != 0 && !to.has_reference_at(at)) set(at, decode(in, {word}));
    });
    to.for_each_reference(0, m.size, m.size, [&](std::uint64_t at) {
      const std::uint64_t word = load_word(in.free.at(m.image + at));
      if (word == 0 || m.type.has_reference_at(at)) return;
      object transient;
      set(at, encode(in, word, &transient).bits);
      if (transient && !writes) t.note_waiting(m.image + at, transient);
    });
    to.for_each_transient(0, m.size, m.size, [&](std::uint64_t begin, std::uint64_t end) {
      if (writes)
        std::memset(in.free.at(m.image + begin), 0, end - begin);
      else
        t.declare(m.image + begin, end - begin);
    });
  }
}

void update(transaction& t, object o, std::uint64_t from, std::uint64_t to) {
  if (!o.is_persistent()) return;
  const stored_memory m = stored(t.get_store(), o);
  if (t.get_store().is_strict()) check_typed(t.get_store(), m, from, to);
  t.note_updated(o);
  write_image(t, m, from, to);
}

}  // namespace tenure::pobj
