// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Allocation in transactions. format.hpp has the stored bytes. spans.hpp has what is known about them in memory. This
// file has what each open transaction has done.
//
// Locks: prepare() and undo_prepare() run with the library's commit lock held, and take `mutex`. So nothing here may
// call the library (begin, commit, set_range, join) with `mutex` held, except for set_range in prepare()
// [rvm.heap.locks].
//
// A commit is: prepare() by one transaction at a time; its values are captured; the log is written; committed(). Other
// transactions may allocate, free, and run their own prepare() between the last three. So prepare() leaves everything
// in a state that they can build upon: stored flags change there, slots and pages become free in committed() only.
#include <tenure/recoverable_heap.hpp>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <tenure/rvm/participant.hpp>

#include "log/checksum.hpp"
#include "os/room_for_one.hpp"
#include "recoverable_heap/spans.hpp"
#include "segments/format.hpp"

namespace tenure::rvm {

static_assert(recoverable_heap::root_count == heap_root_count && recoverable_heap::max_alignment == heap_page);

struct recoverable_heap::state final : participant {
  enum class fate : std::uint8_t {
    allocated,  // taken, not stored; becomes an object at the commit
    freed,      // stored; goes at the commit
    cancelled,  // allocated and freed by the same transaction: never stored, but not given to others before its end, as
                // an abort puts old bytes back there
    kept,       // stored; an inner transaction that has freed it was aborted. As if it were not listed
  };
  struct item {
    heap_place place;
    fate what;
    std::size_t level;             // of the inner transaction that has allocated or freed it; 0: none
    std::size_t cancelled_at = 0;  // of the one that has freed what was allocated
  };
  [[nodiscard]] static bool is_changed(const item& i) { return i.what == fate::allocated || i.what == fate::freed; }
  // A transaction that is open.
  struct work {
    std::vector<item> items;
    // What prepare() did.
    bool prepared = false;
    std::vector<heap_span*> begun, ended;
    std::uint64_t old_high_water = 0, new_high_water = 0;
  };
  // A place in some transaction's hands. Owner 0: allocate() has not yet asked the transaction.
  struct flight {
    std::uint64_t owner;
    std::size_t index;  // of its item
  };

  explicit state(heap_image image) : spans(std::move(image)) {}

  void prepare(commit_scope& tx) override;
  void undo_prepare(commit_scope& tx) noexcept override;
  void committed(commit_scope& tx) noexcept override;
  void aborted(commit_scope& tx) noexcept override;
  void inner_committed(commit_scope& tx, std::size_t level) noexcept override;
  void inner_aborted(commit_scope& tx, std::size_t level) noexcept override;

  void plan(work& w);
  void declare(commit_scope& tx, const work& w);
  void undo(work& w) noexcept;
  void set_stored(const item& of, bool yes);
  void check();
  [[noreturn]] void bad_free(const void* object, const std::string& why) const;
  [[nodiscard]] const heap_image& image() const { return spans.image(); }
  [[nodiscard]] std::uint64_t& word_of(heap_place p) const { return image().bitmap(p.in->first)[p.slot / 64]; }

  std::mutex mutex;  // guards everything below, and the stored bookkeeping
  heap_spans spans;
  std::unordered_map<std::uint64_t, work> open;  // by transaction id
  std::unordered_map<const void*, flight> in_flight;
  std::uint64_t allocations = 0, deallocations = 0;
};

// --- Taking part in a commit ---

// Finds out which spans this commit begins and ends, and changes nothing.
void recoverable_heap::state::plan(work& w) {
  w.begun.clear();
  w.ended.clear();
  std::vector<heap_span*> shrinking;
  w.new_high_water = 0;
  struct unmarking {  // also where there is no memory for a list
    const std::vector<heap_span*>&begun, &shrinking;
    ~unmarking() {
      for (heap_span* s : begun) s->beginning = false;
      for (heap_span* s : shrinking) s->ending = 0;
    }
  } unmark{w.begun, shrinking};
  for (const item& i : w.items) {
    if (i.what == fate::kept) continue;
    heap_span& s = *i.place.in;
    if (i.what == fate::allocated) {
      if (s.stored || s.beginning) continue;
      w.begun.push_back(&s);
      s.beginning = true;
      w.new_high_water = std::max<std::uint64_t>(w.new_high_water, s.first + s.pages);
    } else if (s.stored) {
      if (s.ending == 0) shrinking.push_back(&s);
      ++s.ending;
    }
  }
  for (heap_span* s : shrinking)
    if (s->ending == s->taken_count) w.ended.push_back(s);
  assert(w.new_high_water <= image().layout.pages);
  for (const auto& [first, s] : spans.idle()) w.ended.push_back(s);
}

// Declares the bytes that will change, neighbours together.
void recoverable_heap::state::declare(commit_scope& tx, const work& w) {
  std::vector<std::uint64_t*> words;
  for (const item& i : w.items)
    if (is_changed(i) && !i.place.in->is_large()) words.push_back(&word_of(i.place));
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  for (std::size_t begin = 0, end; begin < words.size(); begin = end) {
    for (end = begin + 1; end < words.size() && words[end] == words[begin] + (end - begin); ++end) {
    }
    tx.set_range(words[begin], (end - begin) * sizeof(std::uint64_t));
  }
  for (const auto* changed : {&w.begun, &w.ended})
    for (const heap_span* s : *changed) tx.set_range(image().entry(s->first));
  if (w.new_high_water > image().header().high_water) tx.set_range(image().header().high_water);
}

void recoverable_heap::state::set_stored(const item& of, bool yes) {
  if (of.place.in->is_large()) return;  // its page table entry says it
  const std::uint64_t bit = std::uint64_t{1} << of.place.slot % 64;
  std::uint64_t& word = word_of(of.place);
  assert(((word & bit) != 0) != yes);
  word = yes ? word | bit : word & ~bit;
}

void recoverable_heap::state::prepare(commit_scope& tx) {
  const std::scoped_lock lock(mutex);
  const auto at = open.find(tx.id());
  if (at == open.end()) return;
  work& w = at->second;
  plan(w);
  declare(tx, w);  // throws, if anything does
  w.prepared = true;
  for (const item& i : w.items) {
    if (!is_changed(i)) continue;
    assert(spans.is_stored(i.place) == (i.what == fate::freed));
    set_stored(i, i.what == fate::allocated);
  }
  for (heap_span* s : w.begun) {
    s->stored = true;
    image().entry(s->first) = s->entry();
  }
  for (heap_span* s : w.ended) {
    s->stored = false;
    spans.set_closing(*s, true);
    image().entry(s->first) = {};
  }
  std::uint64_t& high_water = image().header().high_water;
  w.old_high_water = high_water;
  if (w.new_high_water > high_water) high_water = w.new_high_water;
}

void recoverable_heap::state::undo(work& w) noexcept {
  if (!w.prepared) return;
  w.prepared = false;
  // Every bit and entry belongs to one transaction alone, whatever others have prepared meanwhile.
  for (const item& i : w.items)
    if (is_changed(i)) set_stored(i, i.what == fate::freed);
  for (heap_span* s : w.begun) {
    s->stored = false;
    image().entry(s->first) = {};
  }
  for (heap_span* s : w.ended) {
    s->stored = true;
    image().entry(s->first) = s->entry();
    spans.set_closing(*s, false);
  }
  if (image().header().high_water == w.new_high_water) image().header().high_water = w.old_high_water;
}

void recoverable_heap::state::undo_prepare(commit_scope& tx) noexcept {
  const std::scoped_lock lock(mutex);
  if (const auto at = open.find(tx.id()); at != open.end()) undo(at->second);
}

void recoverable_heap::state::committed(commit_scope& tx) noexcept {
  const std::scoped_lock lock(mutex);
  const auto at = open.find(tx.id());
  if (at == open.end()) return;
  for (const item& i : at->second.items) {
    if (i.what == fate::kept) continue;
    in_flight.erase(spans.address(i.place));
    assert(spans.is_stored(i.place) == (i.what == fate::allocated));
    if (i.what != fate::allocated) spans.release(i.place);
  }
  for (heap_span* s : at->second.ended) spans.close(*s);
  open.erase(at);
}

void recoverable_heap::state::aborted(commit_scope& tx) noexcept {
  const std::scoped_lock lock(mutex);
  const auto at = open.find(tx.id());
  if (at == open.end()) return;
  undo(at->second);
  for (const item& i : at->second.items) {
    if (i.what == fate::kept) continue;
    in_flight.erase(spans.address(i.place));
    assert(spans.is_stored(i.place) == (i.what == fate::freed));
    if (i.what != fate::freed) spans.release(i.place);
  }
  open.erase(at);
}

void recoverable_heap::state::inner_committed(commit_scope& tx, std::size_t level) noexcept {
  const std::scoped_lock lock(mutex);
  const auto at = open.find(tx.id());
  if (at == open.end()) return;
  for (item& i : at->second.items) {
    i.level = std::min(i.level, level - 1);
    i.cancelled_at = std::min(i.cancelled_at, level - 1);
  }
}

void recoverable_heap::state::inner_aborted(commit_scope& tx, std::size_t level) noexcept {
  const std::scoped_lock lock(mutex);
  const auto at = open.find(tx.id());
  if (at == open.end()) return;
  for (item& i : at->second.items) {
    if (i.what == fate::cancelled && i.level < level && i.cancelled_at >= level) {
      i.what = fate::allocated;
    } else if (i.level >= level) {
      if (i.what == fate::freed) {
        in_flight.erase(spans.address(i.place));
        i.what = fate::kept;
      } else if (i.what == fate::allocated) {
        i.what = fate::cancelled;
      }
    }
    i.level = std::min(i.level, level - 1);
    i.cancelled_at = std::min(i.cancelled_at, level - 1);
  }
}

// --- The interface ---

void recoverable_heap::format(transaction& tx, const region& where) {
  format(tx, where.data(), where.size(), where.segment_path() + " at offset " + std::to_string(where.offset()));
}

void recoverable_heap::format(transaction& tx, std::byte* bytes, std::size_t length, const std::string& name) {
  const heap_layout layout = layout_of_heap(length);
  if (length < 65536 || layout.pages == 0)
    throw error(errc::bad_option,
                "a heap needs a region of at least 65536 bytes; the one in " + name + " has " + std::to_string(length));
  if (std::any_of(bytes, bytes + heap_page, [](std::byte b) { return b != std::byte{0}; })) {
    std::uint64_t mark;
    std::memcpy(&mark, bytes, sizeof mark);
    throw error(errc::damaged, "the region in " + name + " is not zero: " +
                                   (mark == heap_magic ? "it has a heap already" : "something else is stored there") +
                                   "; a heap can only be made in a fresh region");
  }
  heap_header h{};
  h.magic = heap_magic;
  h.version = heap_version;
  h.endian = endian_mark;
  h.length = length;
  h.page = heap_page;
  h.pages = static_cast<std::uint32_t>(layout.pages);
  h.bitmaps = layout.bitmaps;
  h.data = layout.data;
  h.checksum = header_checksum(h, offsetof(heap_header, checksum));
  tx.modify(bytes, &h, sizeof h);
}

bool recoverable_heap::is_formatted(const region& where) noexcept {
  std::uint64_t mark = 0;
  if (where.size() < sizeof mark) return false;
  std::memcpy(&mark, where.data(), sizeof mark);
  return mark == heap_magic;
}

recoverable_heap::recoverable_heap(const region& where)
    : recoverable_heap(where.data(), where.size(),
                       where.segment_path() + " at offset " + std::to_string(where.offset())) {}

recoverable_heap::recoverable_heap(std::byte* bytes, std::size_t length, std::string name)
    : state_(std::make_unique<state>(heap_image{bytes, length, std::move(name)})) {}

recoverable_heap::~recoverable_heap() = default;
recoverable_heap::recoverable_heap(recoverable_heap&&) noexcept = default;
recoverable_heap& recoverable_heap::operator=(recoverable_heap&&) noexcept = default;

void* recoverable_heap::allocate(transaction& tx, std::size_t bytes, std::size_t alignment) {
  return take(tx, bytes, bytes, alignment);
}

void* recoverable_heap::allocate_undeclared(transaction& tx, std::size_t bytes, std::size_t alignment) {
  return take(tx, bytes, 0, alignment);
}

void* recoverable_heap::take(transaction& tx, std::size_t bytes, std::size_t declared, std::size_t alignment) {
  if (!std::has_single_bit(alignment) || alignment > max_alignment)
    throw error(errc::bad_option,
                "an alignment of " + std::to_string(alignment) + " bytes: must be a power of two up to 4096");
  const std::uint64_t id = tx.id();
  state& s = *state_;
  tx.set_range(s.image().base, 0);  // nothing; but it throws for a transaction of another memory
  tx.join(s);
  std::unique_lock lock(s.mutex);
  auto& items = s.open[id].items;
  os::reserve_one_more(items);
  const heap_place place = s.spans.reserve(bytes, alignment);
  std::byte* const object = s.spans.address(place);
  try {
    s.in_flight.emplace(object, state::flight{0, 0});
    lock.unlock();
    // Last: an abort puts back what is declared, and the place may belong to another transaction then.
    tx.set_range(object, declared);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    s.in_flight.erase(object);
    s.spans.release(place);
    throw;
  }
  lock.lock();
  items.push_back({place, state::fate::allocated, tx.inner_depth()});
  s.in_flight[object] = {id, items.size() - 1};
  ++s.allocations;
  return object;
}

void recoverable_heap::deallocate(transaction& tx, void* object) {
  if (object == nullptr) return;
  const std::uint64_t id = tx.id();
  state& s = *state_;
  tx.set_range(s.image().base, 0);  // nothing; but it throws for a transaction of another memory
  tx.join(s);
  const std::scoped_lock lock(s.mutex);
  std::string why;
  const heap_place place = s.spans.find(object, why);
  if (place.in == nullptr) s.bad_free(object, why);
  if (const auto at = s.in_flight.find(object); at != s.in_flight.end()) {
    const std::uint64_t owner = at->second.owner;
    if (owner == 0) s.bad_free(object, "it is being allocated by another transaction");
    state::item& i = s.open[owner].items[at->second.index];
    const std::string who =
        owner == id ? "this transaction" : "transaction " + std::to_string(owner) + ", which has not ended";
    if (i.what != state::fate::allocated) s.bad_free(object, "it was freed already by " + who);
    if (owner != id) s.bad_free(object, "it was allocated by " + who);
    i.what = state::fate::cancelled;
    i.cancelled_at = tx.inner_depth();
  } else {
    auto& items = s.open[id].items;
    os::reserve_one_more(items);
    s.in_flight.emplace(object, state::flight{id, items.size()});
    items.push_back({place, state::fate::freed, tx.inner_depth()});
  }
  ++s.deallocations;
}

void recoverable_heap::state::bad_free(const void* object, const std::string& why) const {
  std::string digits;
  for (auto value = reinterpret_cast<std::uintptr_t>(object); value != 0; value /= 16)
    digits.insert(digits.begin(), "0123456789abcdef"[value % 16]);
  throw error(errc::bad_free,
              "0x" + digits + " is no object of the heap in " + image().name + " that can be freed: " + why);
}

void* recoverable_heap::root(std::size_t index) const {
  if (index >= root_count)
    throw error(errc::bad_option,
                "root " + std::to_string(index) + ": a heap has roots 0 to " + std::to_string(root_count - 1));
  const std::uint64_t offset = state_->image().header().roots[index];
  if (offset == 0) return nullptr;
  std::byte* const object = offset < state_->image().length ? state_->image().base + offset : nullptr;
  if (!contains(object))
    state_->image().damaged("root " + std::to_string(index) + " (offset " + std::to_string(offset) +
                            ") does not lie among the objects");
  return object;
}

void recoverable_heap::set_root(transaction& tx, std::size_t index, const void* object) {
  if (index >= root_count)
    throw error(errc::bad_option,
                "root " + std::to_string(index) + ": a heap has roots 0 to " + std::to_string(root_count - 1));
  if (object != nullptr && !contains(object))
    throw error(errc::not_mapped,
                "root " + std::to_string(index) + " was to point outside of the heap in " + state_->image().name);
  const std::uint64_t offset =
      object == nullptr ? 0 : static_cast<std::uint64_t>(static_cast<const std::byte*>(object) - state_->image().base);
  tx.modify(state_->image().header().roots[index], offset);
}

bool recoverable_heap::contains(const void* address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address),
             data = reinterpret_cast<std::uintptr_t>(state_->image().address(0));
  return at >= data && at - data < state_->image().layout.pages * heap_page;
}

std::size_t recoverable_heap::usable_size(const void* object) const {
  const std::scoped_lock lock(state_->mutex);
  std::string why;
  const heap_place place = state_->spans.find(object, why);
  if (place.in == nullptr) state_->bad_free(object, why);
  return place.in->slot_bytes();
}

void recoverable_heap::for_each_object(const std::function<void(void*, std::size_t)>& f) const {
  state& s = *state_;
  std::vector<void*> objects;
  std::size_t size = 0;
  std::unique_lock lock(s.mutex);
  for (auto at = s.spans.all().begin(); at != s.spans.all().end();) {
    heap_span& in = at->second;
    objects.clear();
    size = in.slot_bytes();
    for (std::uint32_t slot = 0; slot < in.slots; ++slot)
      if (s.spans.is_stored({&in, slot})) objects.push_back(s.spans.address({&in, slot}));
    const std::uint32_t first = in.first;
    lock.unlock();
    for (void* object : objects) f(object, size);
    lock.lock();
    at = s.spans.all().upper_bound(first);
  }
}

heap_statistics recoverable_heap::stats() const {
  state& s = *state_;
  const std::scoped_lock lock(s.mutex);
  s.spans.explore_all();
  heap_statistics all;
  all.length = s.image().length;
  all.data_bytes = s.image().layout.pages * heap_page;
  all.free_bytes = s.spans.free_pages().total() * heap_page;
  all.largest_free = s.spans.largest_room();
  for (const auto& [first, span] : s.spans.all()) {
    ++all.spans;
    std::uint64_t objects = span.is_large() && span.stored ? 1 : 0;
    if (!span.is_large())
      for (std::uint32_t word = 0; word < (span.slots + 63) / 64; ++word)
        objects += static_cast<std::uint64_t>(std::popcount(s.image().bitmap(first)[word]));
    all.objects += objects;
    all.object_bytes += objects * span.slot_bytes();
    if (span.is_large()) all.large_objects += objects, all.large_bytes += objects * span.slot_bytes();
  }
  for (const auto& [id, w] : s.open)
    for (const state::item& i : w.items) {
      if (i.what == state::fate::freed) ++all.being_freed;
      if (i.what == state::fate::allocated) ++all.reserved, all.reserved_bytes += i.place.in->slot_bytes();
    }
  all.allocations = s.allocations;
  all.deallocations = s.deallocations;
  return all;
}

void recoverable_heap::state::check() {
  spans.check();
  // What is taken but not stored is in some transaction's hands, and nothing else [rvm.heap.no-leak].
  std::uint64_t taken = 0, stored = 0;
  for (const auto& [first, s] : spans.all()) {
    taken += s.taken_count;
    for (std::uint32_t slot = 0; slot < s.slots; ++slot)
      stored += spans.is_stored({const_cast<heap_span*>(&s), slot}) ? 1 : 0;
  }
  std::uint64_t expected = 0;
  for (const auto& [object, f] : in_flight) {
    if (f.owner == 0) {
      ++expected;
      continue;
    }
    const auto owner = open.find(f.owner);
    if (owner == open.end() || f.index >= owner->second.items.size() ||
        spans.address(owner->second.items[f.index].place) != object)
      image().damaged("an object that a transaction is to have allocated or freed is not in its list");
    const item& i = owner->second.items[f.index];
    const bool should_be_stored = i.what == (owner->second.prepared ? fate::allocated : fate::freed);
    if (!i.place.in->is_taken(i.place.slot))
      image().damaged("the slot of an object of transaction " + std::to_string(f.owner) + " counts as free");
    if (spans.is_stored(i.place) != should_be_stored)
      image().damaged("an object of transaction " + std::to_string(f.owner) +
                      (should_be_stored ? " is not stored" : " is stored already"));
    if (!should_be_stored) ++expected;
  }
  if (taken - stored != expected)
    image().damaged(std::to_string(taken - stored) +
                    " slots are neither free nor objects, but transactions hold only " + std::to_string(expected));
}

void recoverable_heap::check() const {
  const std::scoped_lock lock(state_->mutex);
  state_->check();
}

}  // namespace tenure::rvm
