// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// New objects in typed pages.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <utility>

#include "log/invariant.hpp"
#include "objects/birth.hpp"

namespace tenure::heap {

namespace {

[[nodiscard]] bool has_room(const auto& at, std::uint64_t stride) { return at.next + stride <= at.limit; }

}  // namespace

birth::object_class& birth::class_of(page_word word) {
  const std::uint64_t key = std::uint64_t{word.type()} << 12 | word.size();
  if (const auto known = classes_.find(key); known != classes_.end()) return *known->second;
  auto made = std::make_unique<object_class>();
  made->word = word;
  return *classes_.emplace(key, std::move(made)).first->second;
}

// nullptr: the object gets a header. A type with few objects would leave most of a page unused, so the first of each
// class have headers.
birth::object_class* birth::find_class(const new_object& what, bool inside) {
  if (!what.may_be_typed || !page_word::suits(what.size, what.alignment)) return nullptr;
  if (what.type >= last_class_.size()) last_class_.resize(what.type + 1);
  object_class*& of = last_class_[what.type];
  if (of == nullptr || of->word.size() != what.size)
    of = &class_of(page_word(what.type, what.size, what.is_pointer_free));
  if (of->with_headers >= tune_.typed_from) return of;
  // Pages that are there already are used.
  if (of->transaction.within != nullptr || of->others[0].within != nullptr || !of->sparse_pages.empty()) return of;
  if (inside) note_use(*of);
  of->with_headers += what.size;
  return nullptr;
}

void birth::note_use(object_class& of) {
  if (of.used != 0 && levels_.empty()) return;
  const std::uint32_t now = level();
  if (of.used == now) return;
  skip_taken(of, of.transaction);
  const cursor at = has_room(of.transaction, of.word.stride()) ? of.transaction : cursor();
  if (of.used == 0) {
    used_classes_.push_back(&of);
    of.at_begin = at;
    of.with_headers_at_begin = of.with_headers;
  } else {
    levels_.back().classes.try_emplace(&of, inner_level::class_state{at, of.with_headers, of.used});
  }
  of.used = now;
}

address birth::try_allocate_typed(area& in, object_class& of, cursor& at, bool inside) {
  if (inside) note_use(of);
  skip_taken(of, at);
  while (!has_room(at, of.word.stride())) {
    if (!next_page(in, of, at, inside)) return 0;
    skip_taken(of, at);
  }
  return take_slot(of, at, inside);
}

address birth::take_slot(const object_class& of, cursor& at, bool inside) {
  const std::uint64_t stride = of.word.stride();
  const address object = at.next;
  at.next += stride;
  if (!at.is_zeroed) std::memset(reinterpret_cast<void*>(object), 0, stride);
  transient_block& y = *at.within;
  if (inside)
    touch(y);
  else
    share(y);
  const std::uint64_t bit = (object - map_.start_of(y.first)) / granule;
  assert(y.kind == block_kind::typed && y.pages[bit * granule / typed_page_size] == of.word);
  assert(!y.starts.test(bit));  // [heap.object.once]
  y.starts.set(bit);
  y.moved.reset(bit);
  return object;
}

void birth::skip_taken(const object_class& of, cursor& at) const {
  if (!at.is_refilled) return;
  const std::uint64_t stride = of.word.stride();
  const transient_block& y = *at.within;
  const start_bits& stored = map_.starts(y.first);
  const auto held = held_.find(y.first);
  for (; has_room(at, stride); at.next += stride) {
    const std::uint64_t bit = (at.next - map_.start_of(y.first)) / granule;
    if (!y.starts.test(bit) && !stored.test(bit) && (held == held_.end() || !held->second.test(bit))) return;
  }
}

bool birth::next_page(area& in, object_class& of, cursor& at, bool inside) {
  leave(at);
  return (inside && take_sparse_page(of)) || take_page(in, of, at, inside);
}

bool birth::is_worth_filling(std::uint64_t block, const record_view& r, std::size_t page) const {
  const auto held = held_.find(block);
  const std::uint64_t slots = r.pages[page].slots(),
                      taken =
                          r.starts.count_in_page(page) + (held != held_.end() ? held->second.count_in_page(page) : 0);
  return r.pages[page].is_sound() && taken < slots && taken * 100 <= slots * tune_.refill;
}

// Another page of the class. In its block only transactions have made objects.
bool birth::take_sparse_page(object_class& of) {
  while (!of.sparse_pages.empty()) {
    const address page = *of.sparse_pages.rbegin();
    of.sparse_pages.erase(page);
    const std::uint64_t block = map_.block_of(page);
    const std::size_t n = (page - map_.start_of(block)) / typed_page_size;
    if (map_.kind_of_zone(block / blocks_in_zone) != zone_kind::ordinary || closed_.contains(block)) continue;
    const record_view r = map_.record(block);
    if (r.entry.kind != block_kind::typed || r.pages[n] != of.word || !is_worth_filling(block, r, n)) continue;
    transient_block* y = map_.find_transient_block(block);
    if (y == nullptr) {
      y = &make_transient_block(block, 1, block_kind::typed, memory::reused);
      y->pages = r.pages;
    } else if (y->is_shared || y->pages[n] != of.word) {
      continue;
    } else {
      note_reused(*y);
    }
    enter(of.transaction, {page, page + of.word.slots() * of.word.stride(), y, false, true});
    return true;
  }
  return false;
}

bool birth::is_headed_ahead(const area& in) const {
  const run& next = in.ahead.blocks != 0 ? in.ahead : in.spare;
  return next.blocks != 0 && map_.is_headed(next.first);
}

// The next page that has no type.
bool birth::take_page(area& in, object_class& of, cursor& at, bool inside) {
  for (;;) {
    while (in.typed != nullptr && in.next_page < pages_in_block) {
      const std::size_t n = in.next_page++;
      transient_block& y = *in.typed;
      if (y.pages[n].is_typed() || has_held_in_page(y.first, n)) continue;
      if (inside)
        touch(y);
      else
        share(y);
      y.pages[n] = of.word;
      const address page = map_.start_of(y.first) + n * typed_page_size;
      const address limit = page + of.word.slots() * of.word.stride();
      // A short rest is logged with the objects beside it.
      if (!in.typed_is_zeroed) std::memset(reinterpret_cast<void*>(limit), 0, page + typed_page_size - limit);
      enter(at, {page, limit, &y, in.typed_is_zeroed, false});
      return true;
    }
    close_typed(in, inside);
    if (inside && in.ahead.blocks == 0 && take_sparse_typed(in)) continue;
    run block;
    if (is_headed_ahead(in) || !take_ahead(in, block)) return false;
    in.typed = &make_block_ahead(in, block, block_kind::typed);
    in.typed->lane = in.lane;
    in.typed_is_zeroed = block.zeroed;
    in.next_page = 0;
    if (inside) touch(*in.typed);
  }
}

bool birth::take_sparse_typed(area& in) {
  scan_old_blocks();
  const std::optional<std::uint64_t> block = take_last(sparse_typed_, block_kind::typed);
  if (!block) return false;
  in.typed = &make_transient_block(*block, 1, block_kind::typed, memory::reused);
  in.typed->pages = map_.record(*block).pages;
  in.typed_is_zeroed = false;
  in.next_page = 0;
  touch(*in.typed);
  return true;
}

void birth::close_typed(area& in, bool inside) {
  transient_block* const last = std::exchange(in.typed, nullptr);
  in.next_page = 0;
  if (last == nullptr) return;
  if (inside)
    touch(*last);  // an abort comes back to it
  else
    release_if_empty(*last);
}

void birth::enter(cursor& at, const cursor& where) noexcept {
  assert(at.within == nullptr);
  at = where;
  if (at.within != nullptr) ++at.within->cursors;
}

void birth::leave(cursor& at) {
  transient_block* const last = std::exchange(at, {}).within;
  if (last == nullptr) return;
  --last->cursors;
  release_if_empty(*last);
}

// The blocks that are left are touched: the abort looks at them afterwards.
void birth::restore_cursors(std::size_t first_class) noexcept {
  for (std::size_t n = first_class; n < used_classes_.size(); ++n) {
    object_class& of = *used_classes_[n];
    return_to(of, std::exchange(of.at_begin, {}), of.with_headers_at_begin);
    of.used = 0;
  }
  used_classes_.resize(first_class);
}

void birth::return_to(object_class& of, const cursor& to, std::uint64_t with_headers) noexcept {
  if (transient_block* const last = std::exchange(of.transaction, {}).within) {
    assert(last->touched != 0);
    --last->cursors;
  }
  enter(of.transaction, to);
  of.transaction.is_zeroed = false;
  of.with_headers = with_headers;
}

void birth::keep_cursors() {
  for (object_class* of : std::exchange(used_classes_, {})) {
    of->at_begin = {};
    of->used = 0;
  }
}

void birth::check_classes() const {
  using rvm::require_invariant;
  std::unordered_map<const transient_block*, std::uint32_t> cursors;
  for (const auto& [key, of] : classes_) {
    require_invariant(key == (std::uint64_t{of->word.type()} << 12 | of->word.size()), "a class is found by its type");
    require_invariant(of->used <= (in_transaction_ ? level() : 0), "only an open transaction uses classes");
    std::vector<const cursor*> places{&of->transaction};
    for (const cursor& each : of->others) places.push_back(&each);
    for (const cursor* at : places) {
      if (at->within == nullptr) continue;
      ++cursors[at->within];
      const transient_block& y = *at->within;
      const address block = map_.start_of(y.first);
      require_invariant(
          all_.contains(at->within) && at->next >= block && at->next <= at->limit && at->limit <= block + block_size,
          "new objects of a class are made in a block of typed pages");
      if (at->next == at->limit) continue;
      require_invariant(y.pages[(at->next - block) / typed_page_size] == of->word,
                        "new objects of a class are made in a page of theirs");
      for (address slot = at->next; !at->is_refilled && slot < at->limit; slot += of->word.stride())
        require_invariant(!map_.find(slot), "a slot for a new object is free");
    }
  }
  for (const transient_block* y : all_)
    require_invariant(y->cursors == (cursors.contains(y) ? cursors.at(y) : 0), "the cursors in a block are counted");
}

transient_block& birth::make_transient_block(std::uint64_t block, std::uint64_t span, block_kind kind, memory where) {
  assert(kind == block_kind::large || span == 1);
  if (transient_block* const known = map_.find_transient_block(block)) {
    assert(kind != block_kind::large && known->kind == kind);
    if (where == memory::reused) note_reused(*known);
    return *known;
  }
  auto made = std::make_unique<transient_block>();
  made->first = block;
  made->span = static_cast<std::uint32_t>(span);
  made->kind = kind;
  all_.insert(made.get());
  try {
    if (where == memory::reused) note_reused(*made);
  } catch (const std::bad_alloc&) {
    all_.erase(made.get());
    throw;
  }
  map_.set_transient_block(block, span, made.get());
  return *made.release();
}

// Of take_ahead(). If it throws, the block is ahead as before.
transient_block& birth::make_block_ahead(area& in, const run& block, block_kind kind) {
  try {
    return make_transient_block(block.first, 1, kind, block.zeroed ? memory::never_used : memory::reused);
  } catch (const std::bad_alloc&) {
    --in.ahead.first;
    ++in.ahead.blocks;
    throw;
  }
}

void birth::note_reused(transient_block& y) {
  if (y.is_reused) return;
  reused_.insert(&y);
  y.is_reused = true;
}

}  // namespace tenure::heap
