// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/type_table.hpp"

#include "pobj/errors.hpp"

namespace tenure::pobj {

bool type_description::has_reference_at(std::uint64_t offset) const {
  const std::uint64_t within = size == 0 ? offset : offset % size;
  return within % 8 == 0 && std::ranges::binary_search(references, within / 8);
}

bool type_description::makes_sense() const {
  const std::uint64_t end = size == 0 ? slot_word::largest_size : size;
  if (end > slot_word::largest_size || (size == 0) != name.empty()) return false;
  if (size == 0 ? !transients.empty() : size % 8 != 0 && !references.empty()) return false;
  std::uint64_t next = 0;
  for (const byte_range& r : transients) {
    if (r.offset < next || r.length == 0 || r.length > end || r.offset > end - r.length) return false;
    next = r.end();
  }
  next = 0;
  auto transient = transients.begin();
  for (const std::uint32_t word : references) {
    const std::uint64_t at = std::uint64_t{word} * 8;
    if (at < next || at + 8 > end) return false;
    next = at + 8;
    while (transient != transients.end() && transient->end() <= at) ++transient;
    if (transient != transients.end() && transient->offset < next) return false;
  }
  return true;
}

std::string text_of(const type_description& t) {
  std::string text = t.name.empty() ? "a type" : "type \"" + t.name + "\"";
  text += " (" + (t.size == 0 ? std::string() : std::to_string(t.size) + " bytes, ");
  text += t.references.empty() ? "no references" : "references at ";
  for (std::size_t i = 0; i < t.references.size() && i <= 8; ++i)
    text += i == 8 ? ", ..." : (i == 0 ? "" : ", ") + std::to_string(std::uint64_t{t.references[i]} * 8);
  if (!t.transients.empty()) text += "; transient";
  for (const byte_range& r : t.transients) text += " " + std::to_string(r.offset) + "+" + std::to_string(r.length);
  return text + ")";
}

std::vector<std::uint32_t> checked_references(const std::size_t* offsets, std::uint64_t size) {
  std::vector<std::uint32_t> words;
  for (; offsets != nullptr && *offsets != POBJ_END; ++offsets) {
    if (*offsets % 8 != 0)
      throw failure(POBJ_ETYPE, "a reference at offset " + std::to_string(*offsets) +
                                    ": references are 8 bytes, at multiples of 8");
    if (*offsets + 8 > size)
      throw failure(POBJ_ERANGE, "a reference at offset " + std::to_string(*offsets) + " does not lie in " +
                                     std::to_string(size) + " bytes; does the list end with POBJ_END?");
    words.push_back(static_cast<std::uint32_t>(*offsets / 8));
  }
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

type_description checked_description(const char* name, std::uint64_t size, const std::size_t* references,
                                     const std::size_t* transients) {
  if (name == nullptr || *name == '\0') throw failure(POBJ_ETYPE, "a type needs a name");
  if (size == 0 || size > slot_word::largest_size)
    throw failure(POBJ_ETYPE, std::string("type \"") + name + "\": " + std::to_string(size) + " bytes is no size");
  type_description t{name, size, checked_references(references, size), {}};
  if (!t.references.empty() && size % 8 != 0)
    throw failure(POBJ_ETYPE, std::string("type \"") + name + "\": with references, the size must be a multiple of 8");
  for (; transients != nullptr && *transients != POBJ_END; transients += 2) {
    const byte_range r{transients[0], transients[1]};
    if (r.length == POBJ_END || r.length > size || r.offset > size - r.length)
      throw failure(POBJ_ERANGE, std::string("type \"") + name + "\": a transient range of " +
                                     std::to_string(r.length) + " bytes at offset " + std::to_string(r.offset) +
                                     " does not lie in " + std::to_string(size));
    if (r.length != 0) t.transients.push_back(r);
  }
  std::ranges::sort(t.transients);
  for (std::size_t i = 1; i < t.transients.size(); ++i)
    if (t.transients[i].offset < t.transients[i - 1].end())
      throw failure(POBJ_ETYPE, std::string("type \"") + name + "\": transient ranges overlap");
  // A reference is transient as a whole or not at all.
  std::erase_if(t.references, [&](std::uint32_t word) {
    const std::uint64_t begin = std::uint64_t{word} * 8, end = begin + 8;
    for (const byte_range& r : t.transients) {
      if (r.offset <= begin && r.end() >= end) return true;
      if (r.offset < end && r.end() > begin)
        throw failure(POBJ_ETYPE, std::string("type \"") + name + "\": the reference at offset " +
                                      std::to_string(begin) + " is transient in part only");
    }
    return false;
  });
  return t;
}

type_table::type_table() {
  static const type_description none;
  all_.push_back({&none});
}

bool type_table::load(std::uint32_t number, type_description description, position slot) {
  if (number == 0) return false;
  if (number >= all_.size()) all_.resize(number + std::size_t{1});
  const auto [at, is_new] = numbers_.emplace(std::move(description), number);
  if (all_[number].what != nullptr || !is_new) return false;
  all_[number] = {&at->first, slot};
  return at->first.name.empty() || names_.emplace(at->first.name, number).second;
}

void type_table::loaded() {
  spares_.reserve(all_.size());
  for (std::size_t number = all_.size(); number-- > 1;)
    if (all_[number].users == 0) note_spare(number);
}

void type_table::note_spare(std::uint64_t number) noexcept {
  numbered& n = all_[number];
  if (n.is_spare || !n.what->name.empty()) return;
  n.is_spare = true;
  spares_.push_back(static_cast<std::uint32_t>(number));
}

std::uint32_t type_table::take_spare() noexcept {
  while (!spares_.empty()) {
    const std::uint32_t number = spares_.back();
    spares_.pop_back();
    all_[number].is_spare = false;
    if (all_[number].users == 0) return number;
  }
  return 0;
}

void type_table::drop(std::uint64_t number) noexcept {
  if (number != 0 && --all_[number].users == 0) note_spare(number);
}

void type_table::compare(const type_description& wanted) const {
  const auto named = names_.find(wanted.name);
  if (wanted.name.empty() || named == names_.end() || *all_[named->second].what == wanted) return;
  throw failure(POBJ_ETYPE, "the store has objects of " + text_of(*all_[named->second].what) +
                                ", and the program has " + text_of(wanted) +
                                ": give the changed type another name, and convert the objects that the store has");
}

std::uint32_t type_table::intern(const type_description& wanted) {
  if (wanted.name.empty() && wanted.references.empty()) return 0;
  if (wanted == *all_[last_].what) return last_;
  if (const auto at = numbers_.find(wanted); at != numbers_.end()) return last_ = at->second;
  compare(wanted);
  std::uint32_t number = take_spare();
  const bool is_new = number == 0;
  if (is_new) {
    if (all_.size() >= slot_word::first_special)
      throw failure(POBJ_ETOOBIG, "the store has " + std::to_string(all_.size()) +
                                      " types, and can have no more: define types for objects of many sizes");
    number = static_cast<std::uint32_t>(all_.size());
  }
  const auto at = numbers_.emplace(wanted, number).first;
  try {
    if (!wanted.name.empty()) names_.emplace(wanted.name, number);
    if (is_new) all_.emplace_back();
    spares_.reserve(all_.capacity());
    if (keep_) all_[number].slot = keep_(number, wanted, all_[number].slot);
  } catch (...) {
    if (const auto named = names_.find(wanted.name); named != names_.end()) names_.erase(named);
    if (is_new && all_.size() > number) all_.pop_back();
    numbers_.erase(at);
    if (!is_new) note_spare(number);
    throw;
  }
  if (!is_new) numbers_.erase(numbers_.find(*all_[number].what));
  all_[number].what = &at->first;
  note_spare(number);  // until it is used
  return last_ = number;
}

type_description& type_table::own(object o) {
  if (o.header().own_type == 0) {
    own_.insert_or_assign(~o.address(), type_description{*all_[o.header().type].what});
    o.header().own_type = 1;
  }
  return own_.at(~o.address());
}

void type_table::forget_own(object o) noexcept {
  if (o.header().own_type == 0) return;
  own_.erase(~o.address());
  o.header().own_type = 0;
}

defined_types& defined_types::all() {
  static auto* const only = new defined_types;
  return *only;
}

const type_description& defined_types::define(type_description wanted) {
  const auto [at, is_new] = by_name.try_emplace(wanted.name, wanted);
  if (!is_new && at->second != wanted)
    throw failure(POBJ_ETYPE, "the program has defined " + text_of(at->second) + " before, and now " + text_of(wanted));
  return at->second;
}

}  // namespace tenure::pobj
