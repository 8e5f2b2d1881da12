// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Commits on their way to the log. When a transaction commits, its new values are copied into groups in their final
// form, so memory is never read again [rvm.commit.captured]. A batch of groups then reaches the log with one write and
// one sync.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "log/durable_log.hpp"
#include "records/format.hpp"
#include "records/group_pool.hpp"

namespace tenure::rvm {

class segment;

// A declared range that will be logged.
struct new_value {
  segment* in;
  std::uint64_t offset;  // in the segment's data
  const std::byte* from;
  std::uint64_t length;  // not 0
};

// Consecutive pages that were written in bulk, straight to their segment.
struct bulk_run {
  segment* in;
  std::uint64_t page, pages;
  std::vector<std::uint32_t> checksums;  // CRC32C of each; none: they were cleared
  [[nodiscard]] bool is_cleared() const { return checksums.empty(); }
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

struct batch_savings {
  std::uint64_t transactions = 0, bytes = 0;
};

class batch {
 public:
  batch(std::uint64_t number, group_pool& pool) : number_(number), pool_(pool) {}
  ~batch() { recycle(); }
  batch(const batch&) = delete;
  batch& operator=(const batch&) = delete;

  // The most bytes of log that the transaction can need when it is alone in a batch.
  static std::uint64_t bound(const commit_image& commit, std::uint32_t block, std::uint32_t group_length = max_group);

  // What a global id adds to that.
  static std::uint64_t bound_of_id(std::string_view global_id, std::uint32_t block);

  // `pages`: all pages that the values touch. A page may occur several times.
  void append(const commit_image& commit, std::span<const page_ref> pages);

  // As append(), in groups of its own that only say what the transaction would change [rvm.prepared.log]. Nothing is appended
  // afterwards.
  void append_prepared(const commit_image& commit, std::string_view global_id);
  // The outcome of what is prepared in an earlier batch is an abort.
  void append_abort();
  // The batch has the outcome of what is prepared in an earlier one.
  void note_outcome() { has_outcome_ = true; }

  // Inter-transaction optimization [RVM §5.2]: removes no_flush commits whose bytes are all changed again by later
  // commits of this batch. Nobody can see the difference, because a batch becomes durable whole or not at all.
  batch_savings drop_overwritten();

  // The bytes of log that the batch takes as it is now.
  [[nodiscard]] std::uint64_t length(std::uint32_t block) const;
  // Completes headers and checksums for this place in the log. Returns what must be written; it is valid until the
  // batch changes.
  std::vector<os::const_bytes> finish(const log_stamp& log, lsn at, std::uint32_t previous_group);

  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] bool empty() const { return commits_.empty(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  // of records
  [[nodiscard]] std::uint64_t lazy_commits() const { return lazy_; }
  [[nodiscard]] std::size_t commits() const { return commits_.size(); }
  [[nodiscard]] const std::vector<page_ref>& pages() const { return pages_; }  // each once
  [[nodiscard]] const std::vector<segment*>& segments() const { return segments_; }
  // The length of the last group on disk.
  [[nodiscard]] std::uint32_t last_group_length(std::uint32_t block) const;
  [[nodiscard]] bool has_outcome() const { return has_outcome_; }
  // Where the groups of append_prepared() begin, in bytes behind the beginning of the batch.
  [[nodiscard]] std::optional<std::uint64_t> prepared_at(std::uint32_t block) const;
  // Ranges and payload bytes in the batch.
  [[nodiscard]] std::uint64_t ranges() const { return ranges_; }
  [[nodiscard]] std::uint64_t payload() const { return payload_; }
  // Gives the buffers back to the pool.
  void recycle();
  // Throws if an invariant does not hold. Before drop_overwritten() and finish().
  void check() const;

 private:
  // The place of a commit's record. The length is 0 if the commit has several records, or bulk runs; then it takes no
  // part in the inter-transaction optimization.
  struct commit_place {
    std::uint32_t group, offset, length, ranges;
    std::uint64_t payload;
    bool lazy;
  };
  class appender;
  // What the batch was before something was appended.
  struct mark {
    std::size_t groups, segments, names;
    std::uint32_t used, records, last_record;
    std::uint64_t ranges, payload;
  };
  [[nodiscard]] mark now() const;
  void go_back_to(const mark& before) noexcept;
  group_buffer& add_group();
  // A record without a transaction in the last group, which has room for it.
  void put_record(record_type type, std::string_view text);
  void count_bytes();
  // Segments may have grown since they were named.
  static void note_lengths(group_buffer& in);
  void remove_commits(const std::vector<bool>& dead);

  std::uint64_t number_;
  group_pool& pool_;
  std::vector<std::unique_ptr<group_buffer>> groups_;
  std::vector<commit_place> commits_;
  std::vector<page_ref> pages_;
  std::vector<segment*> segments_;
  bool has_all_ = true;  // nothing was dropped
  bool is_prepared_ = false, has_outcome_ = false;
  std::uint64_t bytes_ = 0, lazy_ = 0, ranges_ = 0, payload_ = 0;
};

}  // namespace tenure::rvm
