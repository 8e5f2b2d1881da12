// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Commits on their way to the log. New values are copied into groups in their final form when a transaction commits, so
// memory is never read again [rvm.commit.captured]; a batch of groups then reaches the log with one write and one sync.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "log/durable_log.hpp"
#include "records/format.hpp"

namespace tenure::rvm {

class segment;

// A declared range that is to be logged.
struct new_value {
  segment* in;
  std::uint64_t offset;  // in the segment's data
  const std::byte* from;
  std::uint64_t length;  // not 0
};

// Pages that were written straight to their segment.
struct bulk_run {
  segment* in;
  std::uint64_t page;
  std::vector<std::uint32_t> checksums;  // CRC32C of each
};

struct commit_image {
  std::uint64_t id;
  std::int64_t time;
  std::string_view label;
  bool lazy;
  std::span<const new_value> values;
  std::span<const bulk_run> runs = {};
  [[nodiscard]] bool is_empty() const { return values.empty() && runs.empty(); }
};

// A page that a batch changes.
struct page_ref {
  segment* in;
  std::uint64_t page;
};

struct group_slab;

// One group being filled.
struct group_buffer {
  group_buffer(group_slab* slab, std::byte* memory) : of(slab), bytes(memory) { clear(); }
  void clear();

  group_slab* of;
  std::byte* bytes;    // as many as a group may have
  std::uint32_t used;  // header included
  std::uint32_t records;
  std::uint32_t last_record;  // length of the last record, 0 if none
  std::vector<segment*> dictionary;
};

// Buffers to be used again, so that a steady flow of commits touches no new memory. They lie in slabs of a few huge pages;
// what a large transaction has needed beyond `kept` bytes goes back to the kernel when the whole slab is free. Thread-safe.
class group_pool {
 public:
  explicit group_pool(std::uint32_t group_length = max_group, std::size_t kept = 16 << 20);
  ~group_pool();
  group_pool(const group_pool&) = delete;
  group_pool& operator=(const group_pool&) = delete;
  std::unique_ptr<group_buffer> take();
  void give_back(std::unique_ptr<group_buffer> buffer) noexcept;

  // Bytes that a group may have, header included.
  [[nodiscard]] std::uint32_t group_length() const { return group_length_; }
  // Bytes of memory that it has.
  [[nodiscard]] std::size_t memory_used() const;

 private:
  const std::uint32_t group_length_;
  const std::size_t slab_length_, kept_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<group_slab>> slabs_;
  std::vector<group_slab*> with_free_;  // capacity: slabs_
  std::size_t all_free_ = 0;            // slabs of which no buffer is used
};

struct batch_savings {
  std::uint64_t transactions = 0, bytes = 0;
};

class batch {
 public:
  batch(std::uint64_t number, group_pool& pool) : number_(number), pool_(pool) {}
  ~batch() { recycle(); }
  batch(const batch&) = delete;
  batch& operator=(const batch&) = delete;

  // Bytes of log that the transaction needs at most, were it alone in a batch.
  static std::uint64_t bound(const commit_image& commit, std::uint32_t block, std::uint32_t group_length = max_group);

  // `pages`: all that the values touch, some perhaps several times.
  void append(const commit_image& commit, std::span<const page_ref> pages);

  // Inter-transaction optimization [RVM §5.2]: discards no_flush commits all of whose bytes are changed again by later
  // commits of this batch. (A batch is all or nothing, so nobody can see the difference.)
  batch_savings drop_overwritten();

  // Bytes of log that the batch takes as it is.
  [[nodiscard]] std::uint64_t length(std::uint32_t block) const;
  // Completes headers and checksums for a place in the log. Returns what to write; valid until the batch changes.
  std::vector<os::const_bytes> finish(const log_stamp& log, lsn at, std::uint32_t previous_group);

  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] bool empty() const { return commits_.empty(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  // of records
  [[nodiscard]] std::uint64_t lazy_commits() const { return lazy_; }
  [[nodiscard]] std::size_t commits() const { return commits_.size(); }
  [[nodiscard]] const std::vector<page_ref>& pages() const { return pages_; }  // each once
  [[nodiscard]] const std::vector<segment*>& segments() const { return segments_; }
  // Length on disk of the last group.
  [[nodiscard]] std::uint32_t last_group_length(std::uint32_t block) const;
  // Ranges and payload bytes in it.
  [[nodiscard]] std::uint64_t ranges() const { return ranges_; }
  [[nodiscard]] std::uint64_t payload() const { return payload_; }
  // Gives the buffers back.
  void recycle();

 private:
  // Where a commit's record is; length 0 if it has several, or extents, and then it takes no part in the optimization.
  struct commit_place {
    std::uint32_t group, offset, length, ranges;
    std::uint64_t payload;
    bool lazy;
  };
  class appender;
  group_buffer& add_group();
  void remove_commits(const std::vector<bool>& dead);

  std::uint64_t number_;
  group_pool& pool_;
  std::vector<std::unique_ptr<group_buffer>> groups_;
  std::vector<commit_place> commits_;
  std::vector<page_ref> pages_;
  std::vector<segment*> segments_;
  std::uint64_t bytes_ = 0, lazy_ = 0, ranges_ = 0, payload_ = 0;
};

}  // namespace tenure::rvm
