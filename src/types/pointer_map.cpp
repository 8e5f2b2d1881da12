// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <tenure/type.hpp>

namespace tenure {
namespace {

constexpr std::uint64_t word_length = sizeof(void*);

// Walks over a type and the types nested in it.
class flattening {
 public:
  flattening(std::vector<pointer_map::word>& words, std::vector<field_guard>& guards)
      : words_(words), guards_(guards) {}

  void add(const type& t, std::uint64_t base) {
    for (const type_field& f : t.fields) {
      if (f.kind == field_kind::data) continue;
      if (f.only_if) {
        open_.push_back({base + f.only_if->offset, f.only_if->width, f.only_if->value});
        saved_ = false;
      }
      add(t, f, base + f.offset);
      if (f.only_if) {
        open_.pop_back();
        saved_ = false;
      }
    }
  }

 private:
  void add(const type& t, const type_field& f, std::uint64_t at) {
    const std::uint64_t step = f.size / f.count;
    switch (f.kind) {
      case field_kind::data: break;
      case field_kind::nested: {
        const type& inner = f.of();
        for (std::uint64_t i = 0; i < f.count; ++i) add(inner, at + i * step);
        break;
      }
      case field_kind::transient: push(at, f, f.size, nullptr); break;
      case field_kind::conservative:
        for (std::uint64_t i = (at + word_length - 1) / word_length * word_length; i + word_length <= at + f.size;
             i += word_length)
          push(i, f, word_length, nullptr);
        break;
      case field_kind::vtable: push(at, f, word_length, &t); break;
      case field_kind::reference:
      case field_kind::derived: {
        const type* const of = f.of ? &f.of() : nullptr;
        for (std::uint64_t i = 0; i < f.count; ++i) push(at + i * step, f, word_length, of);
        break;
      }
    }
  }

  void push(std::uint64_t at, const type_field& f, std::uint64_t length, const type* of) {
    if (!saved_) {
      first_open_ = static_cast<std::uint32_t>(guards_.size());
      guards_.insert(guards_.end(), open_.begin(), open_.end());
      saved_ = true;
    }
    words_.push_back({at, f.kind, length, f.subobject, of, open_.empty() ? 0 : first_open_,
                      static_cast<std::uint32_t>(open_.size()), f.is_checked});
  }

  std::vector<pointer_map::word>& words_;
  std::vector<field_guard>& guards_;
  std::vector<field_guard> open_;  // of the enclosing fields, the outermost first
  std::uint32_t first_open_ = 0;   // their place in guards_, if saved_
  bool saved_ = false;
};

std::uint64_t value_at(const std::byte* at, std::uint8_t width) {
  std::uint64_t value = 0;  // little-endian: the first bytes are the low ones
  std::memcpy(&value, at, width);
  return value;
}

}  // namespace

pointer_map::pointer_map(const type& of) {
  flattening(words_, guards_).add(of, 0);
  std::stable_sort(words_.begin(), words_.end(),
                   [](const word& one, const word& other) { return one.offset < other.offset; });
  for (const word& w : words_) {
    has_pointers_ |= w.kind == field_kind::reference || w.kind == field_kind::conservative;
    has_vtables_ |= w.kind == field_kind::vtable;
    has_transients_ |= w.kind == field_kind::transient;
    behind_ = std::max(behind_, w.length);
    for (const field_guard& guard : guards_of(w)) {
      if (guard.offset < w.offset) before_ = std::max(before_, w.offset - guard.offset);
      if (guard.offset + guard.width > w.offset) behind_ = std::max(behind_, guard.offset + guard.width - w.offset);
    }
  }
}

// An object may have a million words, and a page of it is looked at: a search for the first one, not a walk.
std::span<const pointer_map::word> pointer_map::words_near(std::uint64_t from, std::uint64_t to) const {
  constexpr std::size_t few = 8;
  if (words_.size() <= few) return words_;
  const std::uint64_t least = from < behind_ ? 0 : from - behind_;
  const std::uint64_t end = to > ~before_ ? ~std::uint64_t{0} : to + before_;
  const auto at = [&](std::uint64_t offset) { return std::ranges::lower_bound(words_, offset, {}, &word::offset); };
  return {at(least), at(end)};
}

bool pointer_map::depends_on(const word& w, std::uint64_t from, std::uint64_t to) const {
  if (w.offset < to && w.offset + w.length > from) return true;
  return std::ranges::any_of(
      guards_of(w), [&](const field_guard& guard) { return guard.offset < to && guard.offset + guard.width > from; });
}

bool pointer_map::holds(const word& w, const std::byte* object) const {
  return std::ranges::all_of(guards_of(w), [&](const field_guard& guard) {
    return value_at(object + guard.offset, guard.width) == guard.value;
  });
}

std::string pointer_map::path_of(const type& of, std::uint64_t offset) {
  for (const type_field& f : of.fields) {
    if (offset < f.offset || offset - f.offset >= f.size) continue;
    const std::uint64_t step = f.size / f.count, index = (offset - f.offset) / step;
    std::string path = f.name;
    if (f.count > 1) path += "[" + std::to_string(index) + "]";
    if (f.kind == field_kind::nested) {
      const std::string inner = path_of(f.of(), offset - f.offset - index * step);
      if (!path.empty() && !inner.empty() && inner.front() != '[') path += ".";
      path += inner;
    }
    return path;
  }
  return "";
}

}  // namespace tenure
