// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where the objects of a database will be in the new one [heap.rewrite.places]. The table has eight bytes for each object, and may be larger than
// memory.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <string>
#include <vector>

#include "objects/block_map.hpp"
#include "os/scratch_memory.hpp"

namespace tenure::rewriting {

using heap::address;

class forwarding_table {
 public:
  forwarding_table(const heap::block_map& of, const std::string& scratch_directory) : of_(of) {
    const std::uint64_t end = of.header().blocks_end;
    blocks_.resize(end);
    std::uint64_t objects = 0;
    for (std::uint64_t block = 0; block < end; ++block) {
      blocks_[block].first = objects;
      if (!heap::has_blocks(of.kind_of_zone(block / heap::blocks_in_zone))) continue;
      const heap::record_view r = of.record(block);
      if (!heap::block_map::has_objects(r.entry.kind)) continue;
      std::uint64_t before = 0;
      for (std::size_t n = 0; n < heap::start_bits::words; ++n) {
        blocks_[block].before[n] = static_cast<std::uint16_t>(before);
        before += count_of(r.starts.word(n));
      }
      objects += before;
    }
    objects_ = objects;
    table_ = os::scratch_memory(scratch_directory, objects * sizeof(address));
  }

  // What is known of the object that starts there. 0 at first.
  [[nodiscard]] address& operator[](address object) const {
    const std::uint64_t block = of_.block_of(object), bit = (object - of_.start_of(block)) / heap::granule;
    const heap::start_bits& starts = of_.starts(block);
    assert(starts.test(bit));
    const std::uint64_t rank = blocks_[block].first + blocks_[block].before[bit / 64] +
                               count_of(starts.word(bit / 64) & ((std::uint64_t{1} << (bit % 64)) - 1));
    return reinterpret_cast<address*>(table_.data())[rank];
  }
  // The number of objects that the database has.
  [[nodiscard]] std::uint64_t objects() const { return objects_; }

 private:
  const heap::block_map& of_;
  // Counting all start bits of a block before an object's took a third of the time of a rewriting.
  struct block_ranks {
    std::uint64_t first = 0;                                    // number of the first object
    std::array<std::uint16_t, heap::start_bits::words> before;  // in the block, those before each word of start bits
  };
  // Processors that are not asked for it have no instruction for that, and a call takes longer than this.
  [[nodiscard]] static std::uint64_t count_of(std::uint64_t bits) {
    bits -= bits >> 1U & 0x5555555555555555;
    bits = (bits & 0x3333333333333333) + (bits >> 2U & 0x3333333333333333);
    bits = (bits + (bits >> 4U)) & 0x0f0f0f0f0f0f0f0f;
    return bits * 0x0101010101010101 >> 56U;
  }
  std::vector<block_ranks> blocks_;
  std::uint64_t objects_ = 0;
  os::scratch_memory table_;
};

}  // namespace tenure::rewriting
