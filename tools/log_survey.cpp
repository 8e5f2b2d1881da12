// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log_survey.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include <tenure/error.hpp>

#include "log/unfinished.hpp"
#include "os/process.hpp"
#include "records/log_reader.hpp"

namespace tenure::tools {

using namespace rvm;

std::vector<manifest_copy> read_manifest_copies(os::disk& disk, const std::string& path) {
  require_not_unfinished(disk, os::absolute_path(path));
  const auto file = disk.open(path, os::access::read_only);
  std::vector<manifest_copy> copies(2);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    std::vector<std::byte> bytes(manifest_copy_size);
    bytes.resize(file->read_at(i * manifest_copy_size, bytes));
    std::string flaw;
    if (auto found = decode(bytes, flaw)) copies[i] = {std::move(*found), true};
  }
  return copies;
}

namespace {

class surveyor {
 public:
  surveyor(os::disk& disk, const std::string& path, const group_visitor& visit)
      : disk_(disk), path_(path), visit_(visit), log_(open()) {}

  survey run() {
    const manifest& status = log_->status();
    found_.head = found_.tail = begin_ = at_ = batch_ = status.head;
    if (status.clean != 0) return std::move(found_);
    // Each turn ends at the end of the log, or at a hole that the log's growth since may have filled.
    while (!stopped_ && look_on()) {
    }
    if (!stopped_) compare_with_status();
    return std::move(found_);
  }

 private:
  std::unique_ptr<log_files> open() { return log_files::open_unlocked(disk_, path_); }

  // Walks on from at_. True if it is worth another look.
  bool look_on() {
    const lsn limit = log_->end();
    found_.torn_groups = found_.torn_bytes = 0;
    std::optional<group_header> next;    // the first one behind what is missing at at_
    std::optional<group_header> beyond;  // the first of a later batch: it proves that something is missing
    scan_groups(*log_, at_, limit, [&](const group_header& header, os::const_bytes bytes) {
      // In front of it are only commits that were truncated, where a transaction is prepared (find_tail).
      if (header.lsn == begin_ && begin_ < log_->status().tail) batch_ = header.batch;
      // All that is live was written since the log was opened last, but for what is prepared. The rest are left-overs of
      // torn batches.
      const manifest& status = log_->status();
      const bool is_older = header.generation != status.generation && header.lsn >= status.tail;
      if (is_older || header.batch < batch_) return true;
      if (!next && belongs(header)) return take(header, bytes);
      if (!next) next = header;
      if (header.batch > batch_ && header.synced_through > batch_) {
        beyond = header;
        return false;
      }
      count_torn(header);
      return true;
    });
    if (stopped_) return false;
    if (!beyond) {
      // The log's files may have become more since they were opened.
      if (auto later = open(); later->end() > limit) {
        log_ = std::move(later);
        restart(std::max(batch_, log_->status().head));
        return true;
      }
      for (const auto& [header, bytes] : pending_) count_torn(header);
      return false;
    }
    // Something is missing before a batch that was written later. In a live log it may have been truncated and
    // overwritten, or written, since it was looked for.
    log_ = open();
    if (const lsn head = log_->status().head; head > at_) {
      restart(head);
      return true;
    }
    bool is_there = false;
    scan_groups(*log_, at_, std::min(at_ + max_group, limit), [&](const group_header& header, os::const_bytes) {
      is_there = header.lsn == at_ && belongs(header);
      return false;
    });
    if (is_there) return true;
    show_pending();
    found_.damaged.push_back({at_, next->lsn,
                              "a later group, at LSN " + std::to_string(beyond->lsn) +
                                  ", was written when the log was durable up to LSN " +
                                  std::to_string(beyond->synced_through)});
    restart(next->lsn);
    batch_ = next->batch;
    return !stopped_;
  }

  // Whether the group is the one that must follow.
  [[nodiscard]] bool belongs(const group_header& header) const { return header.lsn == at_ && header.batch == batch_; }

  // Groups are shown when their batch is whole. False to stop.
  bool take(const group_header& header, os::const_bytes bytes) {
    pending_.emplace_back(header, std::vector(bytes.begin(), bytes.end()));
    at_ += padded_length(header, log_->block());
    if ((header.flags & group_last) == 0) return true;
    show_pending();
    ++found_.batches;
    found_.last_group = header.lsn;
    found_.tail = batch_ = at_;
    return !stopped_;
  }

  void show_pending() {
    for (const auto& [header, bytes] : pending_) {
      if (stopped_) break;
      ++found_.groups;
      try {
        stopped_ = !visit_(group_view(bytes, header, place_of(*log_, header.lsn)), bytes);
      } catch (const error& e) {
        if (e.code() != errc::damaged) throw;
        found_.damaged.push_back({header.lsn, header.lsn + padded_length(header, log_->block()), e.what()});
      }
    }
    pending_.clear();
  }

  void count_torn(const group_header& header) {
    ++found_.torn_groups;
    found_.torn_bytes += header.length;
  }

  // Goes on with the group at `at`, which begins a batch.
  void restart(lsn at) {
    found_.tail = begin_ = at_ = batch_ = at;
    pending_.clear();
  }

  // The manifest gives a lower bound of the tail.
  void compare_with_status() {
    const manifest& status = log_->status();
    if (status.tail <= found_.tail) return;
    found_.damaged.push_back({found_.tail, status.tail,
                              "the manifest says that the log was durable up to LSN " + std::to_string(status.tail)});
  }

  os::disk& disk_;
  const std::string& path_;
  const group_visitor& visit_;
  std::unique_ptr<log_files> log_;
  survey found_;
  lsn begin_ = 0, at_ = 0, batch_ = 0;
  std::vector<std::pair<group_header, std::vector<std::byte>>> pending_;
  bool stopped_ = false;
};

}  // namespace

survey survey_log(os::disk& disk, const std::string& path, const group_visitor& visit) {
  return surveyor(disk, path, visit).run();
}

}  // namespace tenure::tools
