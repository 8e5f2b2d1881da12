// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds the object that an address belongs to. Persistent objects are in the stored bookkeeping (format.hpp), which
// only a commit changes. Transient objects are in tables of this process. Each object is in exactly one of the two
// [heap.object.once].
//
// Not thread-safe. It is changed under the lock of births or by the writer. It is read by the writer, or while nobody
// writes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>
#include <memory>
#include <vector>

#include "objects/format.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::heap {

using address = std::uintptr_t;

// A bit for each granule of a block.
class start_bits {
 public:
  static constexpr std::size_t words = granules_in_block / 64;

  [[nodiscard]] bool test(std::uint64_t at) const { return (bits_[at / 64] >> (at % 64) & 1) != 0; }
  void set(std::uint64_t at) { bits_[at / 64] |= std::uint64_t{1} << (at % 64); }
  void reset(std::uint64_t at) { bits_[at / 64] &= ~(std::uint64_t{1} << (at % 64)); }
  // The last set bit at or before `at`; `none` if there is none.
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  [[nodiscard]] std::uint64_t find_last(std::uint64_t at) const {
    std::uint64_t word = at / 64;
    std::uint64_t bits = bits_[word] & (~std::uint64_t{0} >> (63 - at % 64));
    while (bits == 0) {
      if (word == 0) return none;
      bits = bits_[--word];
    }
    return word * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(bits));
  }
  [[nodiscard]] bool empty() const {
    for (const auto bits : bits_)
      if (bits != 0) return false;
    return true;
  }
  // Whether no object starts in this one of the block's typed pages.
  [[nodiscard]] bool empty_in_page(std::size_t page) const { return count_in_page(page) == 0; }
  [[nodiscard]] std::uint64_t count_in_page(std::size_t page) const {
    constexpr std::size_t in_page = granules_in_block / pages_in_block;
    static_assert(in_page % 64 == 0);
    std::uint64_t set = 0;
    for (std::size_t n = page * in_page / 64; n < (page + 1) * in_page / 64; ++n)
      set += static_cast<std::uint64_t>(std::popcount(bits_[n]));
    return set;
  }
  [[nodiscard]] std::uint64_t count() const {
    std::uint64_t set = 0;
    for (const auto bits : bits_) set += static_cast<std::uint64_t>(std::popcount(bits));
    return set;
  }
  // Whether no granule is set in both.
  [[nodiscard]] bool is_disjoint_from(const start_bits& other) const {
    for (std::size_t n = 0; n < words; ++n)
      if ((bits_[n] & other.bits_[n]) != 0) return false;
    return true;
  }
  // Whether each granule that is set here is set there.
  [[nodiscard]] bool is_within(const start_bits& other) const {
    for (std::size_t n = 0; n < words; ++n)
      if ((bits_[n] & ~other.bits_[n]) != 0) return false;
    return true;
  }
  [[nodiscard]] std::uint64_t word(std::size_t n) const { return bits_[n]; }
  [[nodiscard]] std::uint64_t& word(std::size_t n) { return bits_[n]; }
  // Calls f(granule) for each set bit, in ascending order.
  template <class F>
  void for_each(F&& f) const {
    for_each_in_words(0, words, f);
  }
  // The same for one of the block's typed pages.
  template <class F>
  void for_each_in_page(std::size_t page, F&& f) const {
    constexpr std::size_t in_page = words / pages_in_block;
    for_each_in_words(page * in_page, (page + 1) * in_page, f);
  }

 private:
  template <class F>
  void for_each_in_words(std::size_t first, std::size_t end, F& f) const {
    for (std::size_t n = first; n < end; ++n)
      for (std::uint64_t bits = bits_[n]; bits != 0; bits &= bits - 1)
        f(n * 64 + static_cast<std::uint64_t>(std::countr_zero(bits)));
  }

  std::array<std::uint64_t, words> bits_{};
};
static_assert(sizeof(start_bits) == granules_in_block / 8);

// The typed pages of a block. All words are zero if it has none.
using page_words = std::array<page_word, pages_in_block>;

// Stored for each block of a zone, those of the bookkeeping too.
struct block_record {
  block_entry entry;
  page_words pages;
  std::uint64_t freed_at;  // 0. For the LSN of the commit that has emptied the block
  std::uint64_t reserved;
  start_bits starts;
};
static_assert(sizeof(block_record) == record_size);

// What is stored of a block, wherever its zone has it. Blocks of headed zones have no typed pages, and these words must
// not be written.
struct record_view {
  block_entry& entry;
  page_words& pages;
  start_bits& starts;
};

// The transient objects of a block, or of the run of blocks of one large object.
struct transient_block {
  start_bits starts;           // transient objects
  start_bits starts_at_begin;  // their state when the open transaction made its first object here
  start_bits promoted;         // the objects of `starts` that the current commit has promoted
  start_bits moved;  // of `starts`: a commit has made them once more elsewhere, and nothing leads here [heap.copying]
  page_words pages;  // of transient and persistent objects
  page_words pages_at_begin;  // as starts_at_begin
  std::uint64_t first = 0;    // block number
  std::uint32_t span = 1;     // blocks
  block_kind kind = block_kind::small;
  std::uint32_t cursors = 0;  // typed: places where the next objects of some type will be made
  std::uint32_t touched = 0;  // by the open transaction: its last level that did, from 1 on; 0: not
  bool has_promoted = false;
  std::uint8_t lane = 0;   // whose lock is held, beside that of births, while `starts` is changed; 0: none
  bool is_shared = false;  // threads other than the writer have had objects here
  bool is_emptied = false;
  bool is_reused = false;  // persistent objects may have lain where its objects lie
  // Nothing was made here since a commit, after which all that was made here was persistent.
  bool is_quiet = false;

  // What the open transaction, which has touched the block, has made there.
  [[nodiscard]] start_bits made_now() const {
    start_bits made;
    for (std::size_t n = 0; n < start_bits::words; ++n) made.word(n) = starts.word(n) & ~starts_at_begin.word(n);
    return made;
  }
  [[nodiscard]] start_bits not_moved() const {
    start_bits left;
    for (std::size_t n = 0; n < start_bits::words; ++n) left.word(n) = starts.word(n) & ~moved.word(n);
    return left;
  }
};

struct found_object {
  address at = 0;  // 0: nothing there
  bool is_persistent = false;
  transient_block* within = nullptr;  // if transient
  [[nodiscard]] explicit operator bool() const { return at != 0; }
};

// What is known of an object without its type.
struct object_facts {
  address at = 0;
  std::uint32_t type = 0;  // index
  std::uint64_t size = 0;  // bytes
  // Everything that belongs to it: the header, or what is left of a slot.
  address begin = 0, end = 0;
};

// The number of bytes before an object with a header.
[[nodiscard]] constexpr std::uint64_t header_bytes(std::uint64_t size) { return size >= huge_size ? 16 : 8; }
// The number of granules that a small object takes, header included.
[[nodiscard]] constexpr std::uint64_t granules_of(std::uint64_t size) { return (size + 8 + granule - 1) / granule; }
[[nodiscard]] inline object_facts facts_of_headed(address object) {
  const object_header& h = *reinterpret_cast<const object_header*>(object - sizeof(object_header));
  std::uint64_t size = h.size;
  if (size == huge_size) [[unlikely]]
    std::memcpy(&size, reinterpret_cast<const void*>(object - 16), sizeof size);
  return {object, h.type & (most_types - 1), size, object - header_bytes(size), object + size};
}
[[nodiscard]] inline object_facts facts_of_typed(address object, page_word page) {
  return {object, page.type(), page.size(), object, object + page.stride()};
}
// The address of the object whose start bit is the granule's, in a block with these pages.
[[nodiscard]] inline address object_of_bit(address block, const page_words& pages, std::uint64_t at_granule) {
  const page_word page = pages[at_granule * granule / typed_page_size];
  if (!page.is_typed() || page.stride() % granule == 0) return block + at_granule * granule;
  const std::uint64_t in_page = at_granule * granule % typed_page_size, stride = page.stride();
  return block + at_granule * granule - in_page + (in_page + stride - 1) / stride * stride;
}

class block_map {
 public:
  block_map(std::byte* home, std::uint64_t capacity)
      : home_(reinterpret_cast<address>(home)),
        capacity_(capacity),
        blocks_(capacity / block_size),
        table_length_(static_cast<std::size_t>((blocks_ * sizeof(std::uintptr_t) + os::page_size() - 1) /
                                               os::page_size() * os::page_size())),
        transient_blocks_(static_cast<std::uintptr_t*>(os::map_anonymous(nullptr, table_length_))) {}
  ~block_map() { os::unmap(transient_blocks_, table_length_); }
  block_map(const block_map&) = delete;
  block_map& operator=(const block_map&) = delete;

  [[nodiscard]] bool contains(address at) const { return at - home_ < capacity_; }
  [[nodiscard]] address home() const { return home_; }
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks_; }
  // The last zone may be shorter than others.
  [[nodiscard]] std::uint64_t end_of_zone(std::uint64_t zone) const {
    return std::min((zone + 1) * blocks_in_zone, blocks_);
  }
  [[nodiscard]] database_header& header() const { return *reinterpret_cast<database_header*>(home_); }

  [[nodiscard]] std::uint64_t block_of(address at) const { return (at - home_) / block_size; }
  [[nodiscard]] address start_of(std::uint64_t block) const { return home_ + block * block_size; }
  [[nodiscard]] address zone_start(std::uint64_t zone) const { return home_ + zone * zone_size; }

  // Stored bookkeeping. It can be read only below header().blocks_end, or for zones that have been set up.
  [[nodiscard]] zone_kind& kind_of_zone(std::uint64_t zone) const {
    return *reinterpret_cast<zone_kind*>(home_ + zone_kinds_at + zone);
  }
  [[nodiscard]] record_view record(std::uint64_t block) const {
    assert(block < blocks_);
    const std::uint64_t zone = block / blocks_in_zone;
    if (kind_of_zone(zone) == zone_kind::headed) [[unlikely]]
      return headed_record(zone_start(zone), block % blocks_in_zone);
    auto& stored = *reinterpret_cast<block_record*>(zone_start(zone) + record_offset(block % blocks_in_zone));
    return {stored.entry, stored.pages, stored.starts};
  }
  [[nodiscard]] block_entry& entry(std::uint64_t block) const { return record(block).entry; }
  [[nodiscard]] start_bits& starts(std::uint64_t block) const { return record(block).starts; }
  [[nodiscard]] bool is_headed(std::uint64_t block) const {
    return kind_of_zone(block / blocks_in_zone) == zone_kind::headed;
  }
  // Not for blocks of zones that belong to a large object.
  [[nodiscard]] bool is_bookkeeping(std::uint64_t block) const {
    return block % blocks_in_zone < bookkeeping_blocks_of(kind_of_zone(block / blocks_in_zone));
  }

  // Other threads may be setting the entry. Only the thread with the lock of births may use what the entry refers to.
  [[nodiscard]] transient_block* find_transient_block(std::uint64_t block) const {
    assert(block < blocks_);
    const auto entry = std::atomic_ref(transient_blocks_[block]).load(std::memory_order_relaxed);
    return reinterpret_cast<transient_block*>(entry & ~quiet);
  }
  // Whether the block may have transient objects, or bytes that such have left. Thread-safe.
  [[nodiscard]] bool may_have_transients(std::uint64_t block) const {
    assert(block < blocks_);
    const auto entry = std::atomic_ref(transient_blocks_[block]).load(std::memory_order_relaxed);
    return entry != 0 && (entry & quiet) == 0;
  }
  void set_quiet(transient_block& y, bool yes) {
    y.is_quiet = yes;
    for (std::uint64_t b = y.first; b < y.first + y.span; ++b)
      std::atomic_ref(transient_blocks_[b])
          .store(reinterpret_cast<std::uintptr_t>(&y) | (yes ? quiet : 0), std::memory_order_relaxed);
  }
  void set_transient_block(std::uint64_t first, std::uint64_t span, transient_block* to) {
    assert(span != 0 && first + span <= blocks_);
    for (std::uint64_t b = first; b < first + span; ++b)
      std::atomic_ref(transient_blocks_[b]).store(reinterpret_cast<std::uintptr_t>(to), std::memory_order_relaxed);
  }
  // Behind the last block below `end` that its record, or its zone, says is in use, whatever the header says.
  [[nodiscard]] std::uint64_t end_of_used_blocks(std::uint64_t end) const;
  // Whether no block of a zone with blocks has objects.
  [[nodiscard]] bool is_unused(std::uint64_t zone) const;
  // Whether a persistent object, or a part of one, may lie in the block. Not for blocks of bookkeeping.
  [[nodiscard]] bool holds_persistent(std::uint64_t block) const {
    const zone_kind kind = kind_of_zone(block / blocks_in_zone);
    return kind == zone_kind::continued || (has_blocks(kind) && entry(block).kind != block_kind::unused);
  }

  // The object in which the address lies. An address in an object's header is in no object.
  [[nodiscard]] found_object find(address at) const {
    if (!contains(at)) return {};
    const std::uint64_t block = block_of(at);
    transient_block* const y = find_transient_block(block);
    // Mostly a commit looks for new objects of typed pages, by their own addresses.
    if (y != nullptr && y->kind == block_kind::typed && is_typed_start(*y, at - start_of(block))) return {at, false, y};
    return find_in(block, y, at);
  }
  // The same, but only if it is persistent. Looks at nothing but the stored bookkeeping. 0: there is none.
  [[nodiscard]] address find_persistent(address at) const {
    return contains(at) ? find_in(block_of(at), nullptr, at).at : 0;
  }
  // The caller is about to ask for the object there.
  void prefetch(address at) const {
    const std::uint64_t block = block_of(at);
    if (block >= blocks_) return;
    const record_view r = record(block);
    __builtin_prefetch(&r.entry);
    __builtin_prefetch(&r.starts.word((at - start_of(block)) / granule / 64));
  }
  // The object that starts exactly at the address.
  [[nodiscard]] found_object find_start(address at) const;
  // Of an object that starts at the address. Nothing is checked: the store may be damaged.
  [[nodiscard]] object_facts facts(const found_object& found) const {
    return found.is_persistent ? facts(found.at) : transient_facts(*found.within, found.at);
  }
  [[nodiscard]] object_facts facts(address persistent) const {
    const std::uint64_t block = block_of(persistent);
    return facts_in(record(block).pages, start_of(block), persistent);
  }
  [[nodiscard]] object_facts transient_facts(const transient_block& y, address object) const {
    return facts_in(y.pages, start_of(y.first), object);
  }

  // Calls f(address) for each persistent object from block `first` to before block `end`, in the order of addresses.
  template <class F>
  void for_each_persistent(std::uint64_t first, std::uint64_t end, F&& f) const {
    for (std::uint64_t b = first; b < end; ++b) {
      if (!has_blocks(kind_of_zone(b / blocks_in_zone))) {
        b = (b / blocks_in_zone + 1) * blocks_in_zone - 1;
        continue;
      }
      const record_view r = record(b);
      if (has_objects(r.entry.kind))
        r.starts.for_each([&](std::uint64_t g) { f(object_of_bit(start_of(b), r.pages, g)); });
    }
  }

  // Calls f(address) for each persistent object that has a byte in [from, to), in ascending order. The range lies in
  // one page.
  template <class F>
  void for_each_persistent_in(address from, address to, F&& f) const;

  // Calls f(begin, end) for stretches of persistent objects, one behind the other, in the typed pages of the block that
  // have a byte in [from, to).
  template <class F>
  void for_each_typed_run(std::uint64_t block, address from, address to, F&& f) const;

  // Whether a commit has made the object once more elsewhere [heap.copying]. Of a persistent one: no.
  [[nodiscard]] bool was_moved(const found_object& found) const {
    return found.within != nullptr && found.within->moved.test((found.at - start_of(found.within->first)) / granule);
  }

  // Throws if an invariant of the bookkeeping does not hold. Looks at no object. Not during a commit.
  void check() const;

  // The object in whose slot the address lies; 0: none.
  [[nodiscard]] static address find_typed(const page_words& pages, const start_bits& starts, address block,
                                          address at) {
    const page_word page = pages[(at - block) / typed_page_size];
    if (!page.is_typed()) return 0;
    const std::uint32_t stride = page.stride(), in_page = static_cast<std::uint32_t>((at - block) % typed_page_size);
    const bool may_be_start = (stride | in_page) % granule == 0;
    const std::uint32_t within = may_be_start && starts.test((at - block) / granule) ? 0 : in_page % stride;
    const address object = at - within;
    if (in_page - within + stride > typed_page_size || !starts.test((object - block) / granule)) return 0;
    return object;
  }
  // Whether objects start in blocks of this kind.
  [[nodiscard]] static constexpr bool has_objects(block_kind kind) {
    return kind == block_kind::small || kind == block_kind::typed || kind == block_kind::large;
  }

 private:
  [[nodiscard]] static object_facts facts_in(const page_words& pages, address block, address object) {
    const page_word page = pages[(object - block) / typed_page_size];
    return page.is_typed() ? facts_of_typed(object, page) : facts_of_headed(object);
  }
  [[nodiscard]] found_object find_in(std::uint64_t block, transient_block* y, address at) const;
  // Whether an object starts exactly there, which can be said without a division: a commit of 1 M nodes takes 46 ms
  // instead of 49. If not, there may be one nevertheless.
  [[nodiscard]] static bool is_typed_start(const transient_block& y, std::uint64_t in_block) {
    const page_word page = y.pages[in_block / typed_page_size];
    return page.is_typed() && (page.stride() | in_block) % granule == 0 && y.starts.test(in_block / granule) &&
           in_block % typed_page_size + page.stride() <= typed_page_size;
  }
  // Return the block to go on with.
  [[nodiscard]] std::uint64_t check_block(std::uint64_t block) const;
  [[nodiscard]] std::uint64_t check_large(std::uint64_t first) const;
  static void check_typed_starts(const page_words& pages, const start_bits& starts);
  template <class F>
  static void for_each_typed_in(const record_view& r, address block, address from, address to, F&& f);
  [[nodiscard]] static record_view headed_record(address zone, std::uint64_t block_in_zone) {
    // In memory that is only read. It is the same for all.
    static constexpr page_words untyped{};
    return {reinterpret_cast<block_entry*>(zone + headed_entries_at)[block_in_zone], const_cast<page_words&>(untyped),
            reinterpret_cast<start_bits*>(zone + headed_starts_at)[block_in_zone]};
  }
  // A byte of this block may belong to an object that begins in another block. Returns that block: this one, or the
  // first of a run.
  [[nodiscard]] std::uint64_t head_of(std::uint64_t block) const;

  address home_;
  std::uint64_t capacity_, blocks_;
  std::size_t table_length_;
  static constexpr std::uintptr_t quiet = 1;
  std::uintptr_t* transient_blocks_;  // addresses, with a bit for those that are quiet
};

inline std::uint64_t block_map::head_of(std::uint64_t block) const {
  std::uint64_t zone = block / blocks_in_zone;
  if (kind_of_zone(zone) == zone_kind::continued) [[unlikely]] {
    while (kind_of_zone(zone) == zone_kind::continued && zone != 0) --zone;
    block = (zone + 1) * blocks_in_zone - 1;  // the last block of the zone in which the object begins
  }
  if (!has_blocks(kind_of_zone(zone))) return start_bits::none;
  const block_entry& e = entry(block);
  switch (e.kind) {
    case block_kind::small:
    case block_kind::typed:
    case block_kind::large: return block;
    case block_kind::continued: return e.span <= block % blocks_in_zone ? block - e.span : start_bits::none;
    default: return start_bits::none;
  }
}

inline found_object block_map::find_in(std::uint64_t block, transient_block* y, address at) const {
  if (y != nullptr) [[unlikely]] {
    if (y->kind == block_kind::typed) {
      if (const address object = find_typed(y->pages, y->starts, start_of(block), at); object != 0)
        return {object, false, y};
    } else {
      const std::uint64_t in = y->kind == block_kind::large ? granules_in_block - 1 : (at - start_of(block)) / granule;
      if (const std::uint64_t start = y->starts.find_last(in); start != start_bits::none) {
        const address object = start_of(y->first) + start * granule;
        if (at >= object && at < facts_of_headed(object).end) return {object, false, y};
      }
    }
  }
  const std::uint64_t head = head_of(block);
  if (head == start_bits::none) return {};
  const record_view r = record(head);
  if (r.entry.kind == block_kind::typed) {
    const address object = find_typed(r.pages, r.starts, start_of(block), at);
    return object != 0 ? found_object{object, true, nullptr} : found_object{};
  }
  const std::uint64_t in = head == block ? (at - start_of(block)) / granule : granules_in_block - 1;
  const std::uint64_t start = r.starts.find_last(in);
  if (start == start_bits::none) return {};
  const address object = start_of(head) + start * granule;
  if (at < object || at >= facts_of_headed(object).end) return {};
  return {object, true, nullptr};
}

inline found_object block_map::find_start(address at) const {
  if (at % 8 != 0) return {};
  const found_object there = find(at);
  return there.at == at ? there : found_object{};
}

template <class F>
void block_map::for_each_persistent_in(address from, address to, F&& f) const {
  const std::uint64_t head = head_of(block_of(from));
  if (head == start_bits::none) return;
  const record_view r = record(head);
  const start_bits& bits = r.starts;
  if (r.entry.kind == block_kind::typed) return for_each_typed_in(r, start_of(head), from, to, f);
  if (head != block_of(from) || r.entry.kind == block_kind::large) {
    const std::uint64_t start = bits.find_last(granules_in_block - 1);
    if (start == start_bits::none) return;
    const object_facts object = facts_of_headed(start_of(head) + start * granule);
    if (object.begin < to && object.end > from) f(object.at);
    return;
  }
  // The header of the next object may lie in the range although the object begins behind it.
  const address base = start_of(head);
  const std::uint64_t last = std::min<std::uint64_t>((to - base) / granule, granules_in_block - 1);
  std::uint64_t g = (from - base) / granule;
  if (const std::uint64_t before = bits.find_last(g); before != start_bits::none) g = before;
  for (std::size_t word = g / 64; word <= last / 64; ++word) {
    std::uint64_t mask = bits.word(word);
    if (word == g / 64) mask &= ~std::uint64_t{0} << (g % 64);
    for (; mask != 0; mask &= mask - 1) {
      const std::uint64_t at = word * 64 + static_cast<std::uint64_t>(std::countr_zero(mask));
      if (at > last) return;
      const object_facts object = facts_of_headed(base + at * granule);
      if (object.end > from && object.begin < to) f(object.at);
    }
  }
}

template <class F>
void block_map::for_each_typed_run(std::uint64_t block, address from, address to, F&& f) const {
  const record_view r = record(block);
  const address start = start_of(block);
  for (std::uint64_t n = (from - start) / typed_page_size; n <= (to - 1 - start) / typed_page_size; ++n) {
    if (!r.pages[n].is_typed()) continue;
    const std::uint64_t stride = r.pages[n].stride();
    const address page = start + n * typed_page_size, limit = page + typed_page_size;
    for (address at = page; at + stride <= limit;) {
      const address begin = at;
      while (at + stride <= limit && r.starts.test((at - start) / granule)) at += stride;
      if (at != begin)
        f(begin, at);
      else
        at += stride;
    }
  }
}

template <class F>
void block_map::for_each_typed_in(const record_view& r, address block, address from, address to, F&& f) {
  for (std::uint64_t n = (from - block) / typed_page_size; n < pages_in_block; ++n) {
    const address page = block + n * typed_page_size;
    if (page >= to) return;
    if (!r.pages[n].is_typed()) continue;
    const std::uint64_t stride = r.pages[n].stride();
    address object = from > page ? from - (from - page) % stride : page;
    for (; object < to && object + stride <= page + typed_page_size; object += stride)
      if (r.starts.test((object - block) / granule)) f(object);
  }
}

}  // namespace tenure::heap
