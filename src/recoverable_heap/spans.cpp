// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "recoverable_heap/spans.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>
#include <utility>

#include <tenure/error.hpp>

#include "log/checksum.hpp"
#include "os/system_error.hpp"
#include "segments/format.hpp"

namespace tenure::rvm {

namespace {

std::uint32_t words_of(const heap_span& s) { return (s.slots + 63) / 64; }

// The bits of the last word that belong to slots.
std::uint64_t tail_mask(const heap_span& s) {
  return s.slots % 64 == 0 ? ~std::uint64_t{0} : (std::uint64_t{1} << s.slots % 64) - 1;
}

}  // namespace

// --- The stored bytes ---

heap_image::heap_image(std::byte* at, std::uint64_t bytes, std::string called)
    : base(at), length(bytes), name(std::move(called)), layout(layout_of_heap(bytes)) {
  if (layout.pages == 0) damaged("it would have " + std::to_string(length) + " bytes, too few for a heap");
  const heap_header& h = header();
  if (h.magic != heap_magic) damaged("the region does not begin with the mark of a heap; was it ever formatted?");
  if (h.endian != endian_mark)
    throw error(errc::wrong_version, "the heap in " + name + " was written on a machine of the other byte order");
  if (h.version != heap_version)
    throw error(errc::wrong_version, "the heap in " + name + " has format version " + std::to_string(h.version) +
                                         ", this library has " + std::to_string(heap_version));
  if (h.checksum != header_checksum(h, offsetof(heap_header, checksum)))
    damaged("the checksum of its header does not match");
  if (h.incompatible != 0)
    throw error(errc::wrong_version,
                "the heap in " + name + " uses features that this version of the library does not know");
  if (h.length != length)
    damaged("it was formatted in a region of " + std::to_string(h.length) + " bytes, this one has " +
            std::to_string(length) + "; map the same part of the segment as then");
  if (h.page != heap_page || h.pages != layout.pages || h.bitmaps != layout.bitmaps || h.data != layout.data)
    damaged("its header makes no sense");
  if (h.high_water > layout.pages)
    damaged("its high water mark is " + std::to_string(h.high_water) + ", but it has only " +
            std::to_string(layout.pages) + " pages");
}

void heap_image::damaged(const std::string& why) const {
  throw error(errc::damaged, "the heap in " + name + " is damaged: " + why);
}

void heap_image::for_each_entry(const std::function<void(std::uint32_t, page_entry)>& f) const {
  const auto end = static_cast<std::uint32_t>(header().high_water);
  const auto place = [&](std::uint32_t page) {
    return "page table entry " + std::to_string(page) + " (offset " +
           std::to_string(heap_page + page * sizeof(page_entry)) + ") ";
  };
  for (std::uint32_t page = 0; page < end;) {
    const page_entry e = entry(page);
    if (e == page_entry{}) {
      ++page;
      continue;
    }
    if (e.kind != span_kind::slots && e.kind != span_kind::large)
      damaged(place(page) + "has the unknown kind " + std::to_string(static_cast<unsigned>(e.kind)));
    if (e.reserved != 0) damaged(place(page) + "has reserved bits set");
    if (e.kind == span_kind::large ? e.size_class != 0 : e.size_class >= size_class_count)
      damaged(place(page) + "has size class " + std::to_string(e.size_class));
    if (e.kind == span_kind::large ? e.pages == 0 : e.pages != span_pages(e.size_class))
      damaged(place(page) + "is of " + std::to_string(e.pages) + " pages, which its kind cannot have");
    if (e.pages > end - page) damaged(place(page) + "reaches beyond the high water mark " + std::to_string(end));
    for (std::uint32_t inside = page + 1; inside < page + e.pages; ++inside)
      if (entry(inside) != page_entry{})
        damaged(place(inside) + "begins a span inside the one that page " + std::to_string(page) + " begins");
    f(page, e);
    page += e.pages;
  }
}

// --- What is known about them ---

heap_spans::heap_spans(heap_image image) : image_(std::move(image)) {
  for (unsigned c = 0; c < size_class_count; ++c) roomy_.emplace_back(&nodes_);
  std::uint32_t end = 0;
  image_.for_each_entry([&](std::uint32_t page, page_entry e) {
    if (page > end) free_.give(end, page - end);
    heap_span& s = add(page, e);
    s.stored = true;
    if (s.is_large()) {
      s.explored = true;
      s.taken_count = 1;
    } else {
      roomy_[s.size_class].emplace_hint(roomy_[s.size_class].end(), page, &s);
    }
    end = page + e.pages;
  });
  const auto pages = static_cast<std::uint32_t>(image_.layout.pages);
  if (end < pages) free_.give(end, pages - end);
  reserve_nodes(spans_.size());
}

heap_span& heap_spans::add(std::uint32_t first, const page_entry& what) {
  assert(what.pages != 0 && first + what.pages <= image_.layout.pages && !spans_.contains(first));
  // The hint suits attaching, where spans come in order.
  heap_span& s = spans_.emplace_hint(spans_.end(), first, heap_span{})->second;
  s.first = first;
  s.pages = what.pages;
  s.kind = what.kind;
  s.size_class = what.size_class;
  if (!s.is_large()) s.slots = span_slots(what.size_class);
  return s;
}

void heap_spans::explore(heap_span& s) {
  if (s.explored) return;
  const std::uint64_t* stored = image_.bitmap(s.first);
  const std::uint32_t words = words_of(s);
  if ((stored[words - 1] & ~tail_mask(s)) != 0)
    image_.damaged("the bitmap of the span at page " + std::to_string(s.first) + " has bits beyond its " +
                   std::to_string(s.slots) + " slots");
  s.taken.assign(stored, stored + words);
  s.taken_count = 0;
  for (const std::uint64_t word : s.taken) s.taken_count += static_cast<std::uint32_t>(std::popcount(word));
  s.explored = true;
  if (s.taken_count == s.slots) roomy_[s.size_class].erase(s.first);
  if (s.taken_count == 0) idle_.emplace(s.first, &s);
}

void heap_spans::explore_all() {
  for (auto& [first, s] : spans_) explore(s);
}

heap_place heap_spans::reserve(std::uint64_t bytes, std::uint64_t alignment) {
  if (bytes > image_.length) no_room(bytes);
  bytes = std::max<std::uint64_t>(bytes, 1);
  if (bytes > max_slot) return reserve_large(bytes);
  // Slots of a size that is a multiple of the alignment are aligned, as spans begin with a page.
  for (unsigned c = size_class_of(bytes); c < size_class_count; ++c)
    if (slot_size(c) % alignment == 0) return reserve_slot(c, bytes);
  return reserve_large(bytes);
}

heap_place heap_spans::reserve_slot(unsigned size_class, std::uint64_t bytes) {
  auto& roomy = roomy_[size_class];
  while (!roomy.empty()) {
    heap_span& s = *roomy.begin()->second;
    explore(s);  // takes it out if it is full
    if (s.taken_count < s.slots) return take_slot(s);
  }
  heap_span& s =
      begin_span({span_kind::slots, static_cast<std::uint8_t>(size_class), 0, span_pages(size_class)}, bytes);
  roomy.emplace(s.first, &s);
  return take_slot(s);
}

heap_place heap_spans::take_slot(heap_span& s) {
  assert(s.explored && !s.closing && s.taken_count < s.slots);
  while (s.taken[s.first_room] == ~std::uint64_t{0}) ++s.first_room;
  const std::uint32_t slot = s.first_room * 64 + static_cast<std::uint32_t>(std::countr_one(s.taken[s.first_room]));
  assert(slot < s.slots);
  s.taken[slot / 64] |= std::uint64_t{1} << slot % 64;
  if (++s.taken_count == 1) idle_.erase(s.first);
  if (s.taken_count == s.slots) roomy_[s.size_class].erase(s.first);
  return {&s, slot};
}

heap_place heap_spans::reserve_large(std::uint64_t bytes) {
  const std::uint64_t pages = (bytes + heap_page - 1) / heap_page;
  if (pages > max_heap_pages) no_room(bytes);
  heap_span& s = begin_span({span_kind::large, 0, 0, static_cast<std::uint32_t>(pages)}, bytes);
  s.taken_count = 1;
  return {&s, 0};
}

heap_span& heap_spans::begin_span(page_entry what, std::uint64_t bytes) {
  reserve_nodes(spans_.size() + 1);
  const std::uint32_t first = take_pages(what.pages, bytes);
  try {
    heap_span& s = add(first, what);
    if (!s.is_large()) s.taken.assign(words_of(s), 0);
    s.explored = true;
    return s;
  } catch (...) {
    spans_.erase(first);
    free_.give(first, what.pages);
    throw;
  }
}

std::uint32_t heap_spans::take_pages(std::uint32_t pages, std::uint64_t bytes) {
  const auto first = free_.take(pages);
  if (!first) no_room(bytes);
  // Attaching does not check entries beyond the high water mark, and bitmaps.
  const std::uint32_t end = *first + pages;
  const bool clean =
      std::all_of(&image_.entry(*first), &image_.entry(end), [](auto& e) { return e == page_entry{}; }) &&
      std::all_of(image_.bitmap(*first), image_.bitmap(end), [](auto word) { return word == 0; });
  if (!clean) {
    free_.give(*first, pages);
    image_.damaged("the bookkeeping of pages " + std::to_string(*first) + " to " + std::to_string(end) +
                   ", which are free, is not zero");
  }
  return *first;
}

void heap_spans::no_room(std::uint64_t bytes) const {
  throw error(errc::out_of_memory, "the heap in " + image_.name + " has no room for an object of " +
                                       std::to_string(bytes) + " bytes: " + std::to_string(free_.total() * heap_page) +
                                       " of its " + std::to_string(image_.layout.pages * heap_page) +
                                       " bytes are in free pages, at most " +
                                       std::to_string(free_.longest() * heap_page) + " of them in a row");
}

void heap_spans::release(heap_place p) {
  heap_span& s = *p.in;
  assert(s.explored && s.is_taken(p.slot));
  --s.taken_count;
  if (!s.is_large()) {
    s.taken[p.slot / 64] &= ~(std::uint64_t{1} << p.slot % 64);
    s.first_room = std::min(s.first_room, p.slot / 64);
  }
  if (s.closing) return;
  if (s.taken_count == 0 && !s.stored) return close(s);
  if (!s.is_large()) roomy_[s.size_class].emplace(s.first, &s);
  if (s.taken_count == 0) idle_.emplace(s.first, &s);
}

void heap_spans::close(heap_span& s) {
  assert(s.taken_count == 0 && !s.stored);
  if (!s.is_large()) roomy_[s.size_class].erase(s.first);
  idle_.erase(s.first);
  free_.give(s.first, s.pages);
  spans_.erase(s.first);
}

void heap_spans::set_closing(heap_span& s, bool yes) {
  assert(s.closing != yes);
  s.closing = yes;
  if (yes) {
    if (!s.is_large()) roomy_[s.size_class].erase(s.first);
    idle_.erase(s.first);
  } else {
    if (!s.is_large() && s.taken_count < s.slots) roomy_[s.size_class].emplace(s.first, &s);
    if (s.taken_count == 0) idle_.emplace(s.first, &s);
  }
}

heap_place heap_spans::find(const void* address, std::string& why) {
  const auto at = reinterpret_cast<std::uintptr_t>(address), begin = reinterpret_cast<std::uintptr_t>(image_.base);
  if (at < begin || at - begin >= image_.length) return why = "it lies outside of the heap's region", heap_place{};
  const std::uint64_t offset = at - begin;
  if (offset < image_.layout.data) return why = "it lies in the heap's bookkeeping", heap_place{};
  const std::uint64_t in_data = offset - image_.layout.data;
  auto after = spans_.upper_bound(static_cast<std::uint32_t>(std::min(in_data / heap_page, image_.layout.pages)));
  if (after == spans_.begin()) return why = "its page is free", heap_place{};
  heap_span& s = std::prev(after)->second;
  const std::uint64_t in_span = in_data - s.first * heap_page;
  if (in_span >= s.pages * heap_page) return why = "its page is free", heap_place{};
  explore(s);
  const heap_place p{&s, static_cast<std::uint32_t>(in_span / s.slot_bytes())};
  if (p.slot >= s.slots || !s.is_taken(p.slot)) return why = "there is no object (was it freed before?)", heap_place{};
  if (const std::uint64_t inside = in_span % s.slot_bytes())
    return why = "it points " + std::to_string(inside) + " bytes into the object at " + os::hexadecimal(at - inside),
           heap_place{};
  return p;
}

std::uint64_t heap_spans::largest_room() const {
  std::uint64_t largest = free_.longest() * heap_page;
  for (unsigned c = 0; c < size_class_count; ++c)
    if (!roomy_[c].empty()) largest = std::max(largest, slot_size(c));
  return largest;
}

// --- Invariants ---

void heap_spans::check() {
  static_cast<void>(heap_image(image_.base, image_.length, image_.name));  // checks the header
  free_.check();
  const auto pages = static_cast<std::uint32_t>(image_.layout.pages);
  const auto span_name = [](std::uint32_t first) { return "the span at page " + std::to_string(first); };

  // [rvm.heap.table]: entries are sane up to the high water mark, zero from there on, and as remembered here.
  std::uint32_t stored = 0;
  image_.for_each_entry([&](std::uint32_t page, page_entry e) {
    ++stored;
    const auto known = spans_.find(page);
    if (known == spans_.end() || !known->second.stored || known->second.entry() != e)
      image_.damaged(span_name(page) + " is in the page table, but is not what this process knows of that page");
  });
  for (auto page = static_cast<std::uint32_t>(image_.header().high_water); page < pages; ++page)
    if (image_.entry(page) != page_entry{})
      image_.damaged("page table entry " + std::to_string(page) + " lies beyond the high water mark, but is not zero");

  // Spans and free runs tile the data pages.
  std::uint32_t at = 0;
  auto run = free_.runs().begin();
  const auto skip_free = [&] {
    if (run != free_.runs().end() && run->first == at) {
      for (std::uint32_t page = at; page < at + run->second; ++page)
        for (std::size_t word = 0; word < heap_bitmap_bytes / 8; ++word)
          if (image_.bitmap(page)[word] != 0)
            image_.damaged("page " + std::to_string(page) + " is free, but its bitmap is not zero");
      at += run->second;
      ++run;
    }
  };
  for (auto& [first, s] : spans_) {
    skip_free();
    if (at != first)
      image_.damaged("pages " + std::to_string(at) + " to " + std::to_string(first) +
                     " are neither free nor in a span");
    at += s.pages;
    if (s.stored) --stored;

    // [rvm.heap.bitmap], [rvm.heap.no-alias]
    const std::uint64_t* bits = image_.bitmap(first);
    explore(s);  // checks the last word
    std::uint32_t taken = s.is_large() ? s.taken_count : 0;
    const std::size_t used = s.is_large() ? 0 : words_of(s);
    for (std::size_t word = 0; word < s.pages * heap_bitmap_bytes / 8; ++word) {
      const std::uint64_t known = word < used ? s.taken[word] : 0;
      if ((bits[word] & ~known) != 0)
        image_.damaged("the bitmap of " + span_name(first) +
                       (word < used ? " has objects where slots are free" : " has bits beyond its last slot"));
      taken += static_cast<std::uint32_t>(std::popcount(known));
      if (!s.stored && bits[word] != 0)
        image_.damaged(span_name(first) + " is not in the page table, but its bitmap is not zero");
    }
    if (taken != s.taken_count)
      image_.damaged(span_name(first) + " counts " + std::to_string(s.taken_count) + " objects, but has " +
                     std::to_string(taken));
    if (s.closing) continue;
    if (!s.stored && s.taken_count == 0) image_.damaged(span_name(first) + " is neither stored nor used");
    if (!s.is_large() && roomy_[s.size_class].contains(first) != (s.taken_count < s.slots))
      image_.damaged(span_name(first) + " is not listed as it should be");
    if (idle_.contains(first) != (s.taken_count == 0))
      image_.damaged(span_name(first) + " is empty, but not listed as such");
  }
  skip_free();
  if (at != pages || run != free_.runs().end())
    image_.damaged("pages from " + std::to_string(at) + " on are neither free nor in a span");
  if (stored != 0) image_.damaged("a span of this process is not in the page table");

  for (std::size_t i = 0; i < heap_root_count; ++i) {
    const std::uint64_t root = image_.header().roots[i];
    if (root != 0 && (root < image_.layout.data || root - image_.layout.data >= image_.layout.pages * heap_page))
      image_.damaged("root " + std::to_string(i) + " (offset " + std::to_string(root) +
                     ") does not lie among the objects");
  }
}

}  // namespace tenure::rvm
