// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where the new objects of a database will be stored. A new object gets its home address when it is made, so that it has one
// identity from then on; a commit stores it there.
//
// New objects go into blocks that nothing stored uses, and into places of objects that this cache has destroyed. As in the object
// heap, those of one type and size get pages of their own when there are enough of them, and large ones get blocks of their own.
// The free space in blocks that the object heap has filled is left to it.
//
// [cache.making] A place is given out once, until it is free again.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cache/stored_database.hpp"
#include "objects/birth.hpp"
#include "objects/free_runs.hpp"

namespace tenure::cache {

class places {
 public:
  // `typed_from`: see cache::options.
  places(stored_database& of, std::uint64_t typed_from) : of_(of), typed_from_(typed_from) {}
  places(const places&) = delete;
  places& operator=(const places&) = delete;

  // A place for an object: its home address. Throws errc::out_of_memory if the database is full, or the object too large.
  [[nodiscard]] std::uint64_t take(const heap::new_object& what);
  // What is stored of the block or blocks of a place that was taken.
  struct use {
    heap::block_kind kind;
    heap::page_words pages{};  // typed: of the block
    std::uint64_t blocks = 1;
  };
  [[nodiscard]] const use& use_of(std::uint64_t home) const;

  // Nothing was stored there. If memory is too short to remember it, it is not used before the store was opened again.
  void give_back(std::uint64_t home, std::uint64_t size) noexcept;
  // Looks at the end of what is stored: before a commit destroys something there, whose place would be counted twice.
  void begin();
  // A commit has destroyed the object that was stored there. `was`: what was stored of its block before.
  struct freed {
    std::uint64_t home, size;
    use was;
  };
  // The same.
  void add(const freed& what) noexcept;

 private:
  void remember(std::uint64_t home, std::uint64_t size);
  static constexpr std::uint64_t blocks_at_once = 256;  // of what is stored, looked at when a block is needed
  // Places of one kind: those that were given back, and a stretch that has had none.
  struct stretch {
    std::vector<std::uint64_t> free;
    std::uint64_t next = 0, end = 0;
    std::uint64_t with_headers = 0;  // bytes; of objects that may lie in typed pages
  };
  [[nodiscard]] std::uint64_t take_typed(heap::page_word word);
  void begin_headed(std::uint64_t block);
  [[nodiscard]] std::uint64_t take_headed(std::uint64_t size, std::uint64_t alignment);
  [[nodiscard]] std::uint64_t take_large(std::uint64_t size, std::uint64_t alignment);
  // Blocks of one zone, or of several if they are too many for one, with space on the disk: the first of them. If
  // begin_use(first) throws, they are free again.
  template <class F>
  std::uint64_t take_blocks(std::uint64_t count, F&& begin_use);
  [[nodiscard]] std::optional<std::uint64_t> take_zones(std::uint64_t count);
  void free(std::uint64_t first, std::uint64_t count);
  [[nodiscard]] std::uint64_t take_never_used(std::uint64_t count);
  void continue_last_block(std::uint64_t block);
  void search();
  [[nodiscard]] bool is_taken(std::uint64_t block) const;
  [[nodiscard]] std::uint64_t block_of(std::uint64_t home) const { return (home - of_.home()) / heap::block_size; }
  [[nodiscard]] std::uint64_t home_of(std::uint64_t block) const { return of_.home() + block * heap::block_size; }

  stored_database& of_;
  const std::uint64_t typed_from_;
  std::map<std::uint64_t, use> uses_;       // by the first block
  std::map<std::uint64_t, stretch> typed_;  // by type and size
  // What was given back behind headers: by granules, and by the number of zeros at the end of the address.
  std::map<std::pair<std::uint64_t, int>, std::vector<std::uint64_t>> headed_;
  stretch headed_last_;
  bool is_in_headed_zone_ = false;  // headed_last_: one of format 1, which has no typed pages
  std::uint64_t typed_block_ = 0, typed_pages_ = heap::pages_in_block;  // the last block of typed pages; pages in use
  std::optional<heap::free_runs> free_;                                 // nothing before begin() is done
  // Blocks from searched_ to search_end_ were not looked at yet; nothing was ever stored in those from never_used_ on.
  std::uint64_t searched_ = 0, search_end_ = 0, never_used_ = 0;
  bool may_lack_space_ = false;  // unused blocks, on the disk
};

}  // namespace tenure::cache
