// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Moves changes from the log to the segments. Recovery, epoch truncation, incremental truncation and read-only opening
// all use it [RVM §5.1.2]. The log is read from tail to head. The first value seen for a byte is the newest, and wins.
// Then each page is written once, in order. Repeating it changes nothing [rvm.redo.idempotent].
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <tenure/rvm/statistics.hpp>

#include "os/virtual_memory.hpp"
#include "records/group.hpp"
#include "records/log_reader.hpp"
#include "records/page_queue.hpp"
#include "segments/interval_set.hpp"
#include "segments/page_bytes.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

// Returns the segment that a log record names; nullptr: its changes are not wanted.
using segment_resolver = std::function<segment*(const segment_name&)>;

// The findings about pages that were overwritten in part. The rest of such a page was read and compared with the page's
// checksum.
struct page_findings {
  std::vector<page_ref> damaged;    // found now, and marked
  std::uint64_t known_damaged = 0;  // marked before
  std::uint64_t unproven =
      0;  // a truncation that a crash interrupted may have been writing them; their checksums are new
};

// The newest values of a stretch of log, by page.
class redo {
 public:
  explicit redo(segment_resolver resolve) : resolve_(std::move(resolve)) {}
  // Forgets all values. The memory is used again.
  void clear();

  // These pages were written straight to the segment. The log's values for them are older and are ignored. Called
  // before all other functions.
  void mask(segment& in, std::uint64_t page, std::uint64_t pages) { masked_[&in].add(page, page + pages); }
  // From now on only the pages that restrict_to names are wanted.
  void restrict() { restricted_ = true; }
  void restrict_to(segment& in, std::uint64_t page);
  // Takes a group's changes. Groups must come newest first. A bulk run hides what older records say of its pages, as if
  // it contained their bytes, which are in the segment [rvm.bulk.masked].
  void add(const group_view& group);
  // The bulk runs that were added. Not available if restricted.
  [[nodiscard]] const std::vector<page_run>& runs() const { return bulk_runs_; }
  // The pages of bulk runs that no newer record changes and that do not match their checksum. Reads the segments.
  [[nodiscard]] std::vector<page_ref> damaged_pages() const;
  // The changes will be written after a crash. Pages that a truncation may have been writing at the crash need not
  // match their checksums. Not available if restricted.
  void expect_torn_pages() { after_crash_ = true; }
  // Sets the LSN up to which segments may have changes. Segments note it durably before they get any.
  void set_through(lsn end) { through_ = end; }
  [[nodiscard]] const page_findings& findings() const { return findings_; }
  // Whether applying the changes makes the page sound, whatever the page has now.
  [[nodiscard]] bool makes_sound(segment& in, std::uint64_t page) const;
  // Whether the added groups say anything about the page.
  [[nodiscard]] bool knows(segment& in, std::uint64_t page) const;

  // Writes every page to its segment and makes it durable. Adds what was written to the report.
  void apply(std::vector<recovery_report::segment>& report);
  // Writes every page like apply(), but the pages are durable only after finish_writes() of the segments, which are
  // added to `written`.
  void write(std::vector<recovery_report::segment>& report, std::set<segment*>& written);
  // Calls f(segment, offset, bytes) for each newest value.
  void for_each(const std::function<void(segment&, std::uint64_t, os::const_bytes)>& f) const;

  [[nodiscard]] std::size_t memory_used() const;
  [[nodiscard]] std::uint64_t transactions() const { return transactions_; }
  [[nodiscard]] std::uint64_t ranges() const { return ranges_; }
  [[nodiscard]] std::uint64_t pages() const { return nodes_.size(); }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  // Up to this many pieces are searched one by one. A page with more pieces gets a bitmap.
  static constexpr std::uint16_t few_pieces = 8;
  struct piece {  // bytes of a page, disjoint from all other pieces
    const std::byte* value;
    std::uint16_t from, length;
    std::uint32_t next;
  };
  struct node {
    page_key key;
    std::uint32_t first = none, bitmap = none;
    std::uint16_t covered = 0, pieces = 0;
    bool masked = false;  // by a bulk run: all other bytes are in the segment
    bool early = false;   // a truncation that was writing the page may have been interrupted
  };
  struct check {
    std::uint32_t node, checksum;
  };

  std::uint32_t number_of(segment& in);
  // Returns `none` if the page is not wanted.
  std::uint32_t node_of(page_key key);
  void require_in_segment(std::uint32_t in, std::uint64_t offset, std::uint64_t length) const;
  void add_bulk_run(std::uint32_t in, const bulk_run_view& run);
  void add_range(std::uint32_t in, std::uint64_t offset, os::const_bytes value, bool early);
  void add_piece(node& page, std::uint32_t from, std::uint32_t to, const std::byte* value);
  // Marks and returns those pages that are damaged and only overwritten in part. `bytes`: the contents of the pages in
  // the segment.
  [[nodiscard]] std::vector<std::uint64_t> mark_damaged_pages(std::span<const node* const> pages, os::bytes bytes);
  const std::byte* keep(const std::byte* value, std::size_t length);
  [[nodiscard]] std::vector<const node*> in_order() const;

  segment_resolver resolve_;
  bool restricted_ = false, after_crash_ = false;
  lsn through_ = 0;
  page_findings findings_;
  std::vector<segment*> segments_;
  page_index index_;
  std::vector<node> nodes_;
  std::vector<piece> pieces_;
  std::vector<check> checks_;
  std::vector<page_run> bulk_runs_;
  std::map<segment*, interval_set> masked_;
  std::vector<page_bytes> bitmaps_;
  // Values lie in blocks: first a small one, then huge pages. Recovery of a log of 1 GiB spent a fifth of its time on
  // page faults without them.
  struct unmap {
    std::size_t length = 0;
    void operator()(std::byte* block) const { os::unmap(block, length); }
  };
  static constexpr std::size_t first_block = 256 << 10, next_block = 8 << 20;
  std::vector<std::unique_ptr<std::byte, unmap>> arena_;
  std::size_t blocks_used_ = 0, block_at_ = 0;  // block_at_: offset in the last block in use
  std::uint64_t transactions_ = 0, ranges_ = 0;
};

// How replay() works.
struct replay_settings {
  segment_resolver resolve;
  std::uint64_t memory;   // bytes for collected values
  bool may_have_extents;  // the log's part may have records of bulk runs
  progress_callback progress = {};
  // Called with pages of bulk runs that do not match the log. It throws to end the replay.
  std::function<void(const std::vector<page_ref>&)> damaged;
};

// Applies this part of the log to the segments. A long part is cut, and the pieces are written oldest first. Adds to
// the report. The log does not change; the caller frees its space after this has returned.
void replay(const readable_log& log, const log_part& all, const replay_settings& how, recovery_report& report);

}  // namespace tenure::rvm
