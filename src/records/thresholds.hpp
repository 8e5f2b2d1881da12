// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Sizes and counts from which on the library works in another way. Programs need no other values. They are variables so
// that tests reach, with little memory and in little time, what otherwise takes much of both (options::limits).
#pragma once

#include <cstddef>
#include <cstdint>

#include "records/archive_format.hpp"
#include "records/format.hpp"

namespace tenure::rvm {

struct thresholds {
  // --- The log ---
  // Bytes of a batch that is written before any thread waits for it. Large enough that a sync's latency does not
  // matter, small enough that the next batch fills meanwhile.
  std::uint64_t largest_batch = 8 << 20;
  // Bytes of a group: at most max_group, and at least 16 KiB more than twice the length of a segment's path.
  std::uint32_t group = max_group;
  // Bytes of group buffers that are kept for later commits.
  std::size_t buffers_kept = 16 << 20;
  // Bytes of log in a frame of the archive; at most max_stretch.
  std::size_t archive_frame = max_stretch;

  // --- Truncation and recovery ---
  std::uint64_t least_recovery_memory = 8 << 20;  // the least value of options::recovery_memory
  std::size_t fewest_pages =
      64;  // the least number of pages that truncation takes at a time, however little memory it has
  // Pages that are compared and dropped at a time. Few, because transactions wait for them. Several, because a heavy
  // fence costs microseconds.
  std::size_t dropped_at_once = 64;

  // --- Memory ---
  std::size_t backing_unit = 2 << 20;         // bytes of anonymous memory that the file replaces at a time
  std::size_t read_ahead_step = 2 << 20;      // bytes that are read before the thread checks whether it must end
  std::size_t most_before_images = 16 << 10;  // number of before-images from which on truncation is requested

  std::uint64_t most_kept_pages =
      16 << 10;  // of a segment that is open for pages: from which on truncation is requested

  // --- Automatic tracking ---
  // A page that is written in one of a hundred transactions costs about the same whether it is open or closed.
  std::uint32_t hot_within = 64;      // transactions: a page that is written twice within so many is hot
  std::uint32_t hot_patience = 32;    // transactions that must leave a hot page alone until it is no longer hot
  std::uint32_t whole_patience = 32;  // transactions in a row that trapping would have served better
  std::uint64_t first_look = 4;       // traps after which the library considers opening the region as a whole
  std::uint64_t trap_cost = 10'000;   // ns: opening a page, and closing it again
  std::uint64_t longest_run = 64;     // pages that a trap opens at most
  // With barriers: commits that compare a page after it was opened although no store to it was announced; and one in so many
  // commits compares one of the other open pages.
  std::uint32_t audits_at_first = 2;
  std::uint64_t audit_every = 8;
};

}  // namespace tenure::rvm
