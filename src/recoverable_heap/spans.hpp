// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The spans of a recoverable heap: what its stored bytes say (format.hpp), and what this process knows in
// addition.
//
// A slot has one of three states. It is free. Or it is *taken* but not stored: an open transaction has reserved it, or
// a commit that is under way frees it. Or it is taken and stored: it has a committed object. A stored slot is never
// free here [rvm.heap.no-alias].
//
// Not thread-safe: recoverable_heap's mutex guards it. It never writes to the stored bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <string>
#include <vector>

#include "recoverable_heap/format.hpp"
#include "recoverable_heap/node_pool.hpp"
#include "recoverable_heap/page_runs.hpp"

namespace tenure::rvm {

// The stored bytes, and their name for messages.
struct heap_image {
  std::byte* base;
  std::uint64_t length;
  std::string name;
  heap_layout layout;

  // Checks the header: errc::damaged, errc::wrong_version.
  heap_image(std::byte* at, std::uint64_t bytes, std::string called);

  [[nodiscard]] heap_header& header() const { return *reinterpret_cast<heap_header*>(base); }
  [[nodiscard]] page_entry& entry(std::uint32_t page) const {
    return reinterpret_cast<page_entry*>(base + heap_page)[page];
  }
  // The bitmap that begins with this page's bitmap.
  [[nodiscard]] std::uint64_t* bitmap(std::uint32_t page) const {
    return reinterpret_cast<std::uint64_t*>(base + layout.bitmaps + page * heap_bitmap_bytes);
  }
  [[nodiscard]] std::byte* address(std::uint32_t page) const { return base + layout.data + page * heap_page; }
  [[noreturn]] void damaged(const std::string& why) const;

  // Checks all entries up to the high water mark, then calls f(page, entry) for every span in the page table, in order.
  void for_each_entry(const std::function<void(std::uint32_t, page_entry)>& f) const;
};

struct heap_span {
  std::uint32_t first = 0, pages = 0;
  std::uint32_t slots = 1;        // 1 for a large object
  std::uint32_t taken_count = 0;  // meaningless until explored
  span_kind kind = span_kind::none;
  std::uint8_t size_class = 0;
  bool stored = false;               // described by the page table
  bool explored = false;             // `taken` is filled in
  bool closing = false;              // a commit that is under way removes its last object
  std::uint32_t first_room = 0;      // no word of `taken` before this one has a zero
  std::uint32_t ending = 0;          // used in prepare(): slots that its transaction gives up
  bool beginning = false;            // used in prepare()
  std::vector<std::uint64_t> taken;  // a bit a slot; empty for a large object

  [[nodiscard]] bool is_large() const { return kind == span_kind::large; }
  [[nodiscard]] bool is_taken(std::uint32_t slot) const {
    return is_large() ? taken_count != 0 : (taken[slot / 64] >> slot % 64 & 1) != 0;
  }
  [[nodiscard]] page_entry entry() const { return {kind, size_class, 0, pages}; }
  [[nodiscard]] std::uint64_t slot_bytes() const { return is_large() ? pages * heap_page : slot_size(size_class); }
};

struct heap_place {
  heap_span* in = nullptr;
  std::uint32_t slot = 0;
};

class heap_spans {
 public:
  // Reads the page table. May throw errc::damaged.
  explicit heap_spans(heap_image image);

  [[nodiscard]] const heap_image& image() const { return image_; }
  [[nodiscard]] std::byte* address(heap_place p) const {
    return image_.address(p.in->first) + p.slot * p.in->slot_bytes();
  }
  [[nodiscard]] bool is_stored(heap_place p) const {
    if (p.in->is_large()) return p.in->stored;
    return p.in->stored && (image_.bitmap(p.in->first)[p.slot / 64] >> p.slot % 64 & 1) != 0;
  }

  // Takes a place for an object. May throw errc::out_of_memory; nothing has changed then. What gives places and spans back needs
  // no memory.
  heap_place reserve(std::uint64_t bytes, std::uint64_t alignment);
  // Frees a place that is taken but not stored.
  void release(heap_place p);
  // The span is no longer stored and its slots are free: gives its pages back.
  void close(heap_span& s);
  // While a span is closing, nothing is reserved in it.
  void set_closing(heap_span& s, bool yes);

  // The taken place that begins at the address. If there is none, a null place, and `why` says what is wrong with the
  // address.
  heap_place find(const void* address, std::string& why);

  // Stored spans without a taken slot. The next commit of any transaction closes them.
  [[nodiscard]] const std::pmr::map<std::uint32_t, heap_span*>& idle() const { return idle_; }
  [[nodiscard]] std::map<std::uint32_t, heap_span>& all() { return spans_; }
  [[nodiscard]] const page_runs& free_pages() const { return free_; }
  // Reads the bitmap of a span, once.
  void explore(heap_span& s);
  void explore_all();
  [[nodiscard]] std::uint64_t largest_room() const;  // after explore_all(); bytes

  // Checks everything that can be checked without knowing the open transactions. May throw errc::damaged.
  void check();

 private:
  heap_span& add(std::uint32_t first, const page_entry& what);
  heap_span& begin_span(page_entry what, std::uint64_t bytes);
  void reserve_nodes(std::size_t spans) { nodes_.reserve(4 * spans + 2); }
  heap_place reserve_slot(unsigned size_class, std::uint64_t bytes);
  heap_place reserve_large(std::uint64_t bytes);
  heap_place take_slot(heap_span& s);
  std::uint32_t take_pages(std::uint32_t pages, std::uint64_t bytes);
  [[noreturn]] void no_room(std::uint64_t bytes) const;

  using span_list = std::pmr::map<std::uint32_t, heap_span*>;

  heap_image image_;
  // Of each span one in roomy_, one in idle_, and two in free_ for the pages behind it; and two for the pages before all.
  node_pool nodes_;
  std::map<std::uint32_t, heap_span> spans_;  // by first page
  page_runs free_{&nodes_};
  std::vector<span_list> roomy_;  // by size class: spans with a free slot, or not explored yet
  span_list idle_{&nodes_};
};

}  // namespace tenure::rvm
