// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A segment that is read and changed page by page. What is committed and not in the file yet is kept here, by page, until
// truncation has written it. So a page is what the file has, and over it what is kept [rvm.pages.committed].
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "records/page_queue.hpp"
#include "replay/redo.hpp"
#include "segments/page_bytes.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

class region_mapper;

// Thread-safe, but for the constructor and note_closed().
class paged_state {
 public:
  // `when_quiet` runs a function while no truncation is in progress.
  using quiet_runner = std::function<void(const std::function<void()>&)>;
  paged_state(region_mapper* owner, segment& in, std::uint64_t most_kept, quiet_runner when_quiet)
      : owner_(owner), in_(&in), path_(in.path()), most_kept_(most_kept), when_quiet_(std::move(when_quiet)) {}

  [[nodiscard]] segment& in() const noexcept { return *in_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] region_mapper* owner() const noexcept { return owner_; }  // nullptr once closed
  void note_closed() noexcept { owner_ = nullptr; }
  [[nodiscard]] std::uint64_t size() const { return round_down(in_->length(), redo_page); }
  // Throws if these bytes are not in the segment.
  void require(std::uint64_t offset, std::uint64_t length) const;

  void read(std::uint64_t page, os::bytes into) const;

  // Transactions that have changed it, and are open.
  [[nodiscard]] bool enter() noexcept;
  void leave() noexcept { users_.fetch_sub(1); }
  // No transaction enters any more, if none has.
  [[nodiscard]] bool end_use() noexcept;
  void allow_use() noexcept { ending_ = false; }

  // A commit makes room for what it changes in a page before its values are captured, and gives it back if they are not.
  // With the commit lock.
  void prepare(std::uint64_t page);  // [rvm.pages.room]
  void cancel(std::uint64_t page) noexcept;
  // All values of a commit in a page, which readers see at once.
  void capture(std::uint64_t page, std::span<const new_value> values) noexcept;
  // These changes wait in a log that is only read.
  void add(const redo& values);
  // Truncation has written the page: nothing is kept of it, unless it was changed since.
  void written(std::uint64_t page, const page_queue& queue) noexcept;
  // Throws if an invariant does not hold. While nobody commits or truncates.
  void check(const page_queue& queue) const;
  // Whether so much is kept that truncation should write it.
  [[nodiscard]] bool keeps_too_many() const noexcept { return kept_.load(std::memory_order_relaxed) > most_kept_; }

 private:
  struct kept_page {
    std::array<std::byte, redo_page> bytes;
    page_bytes changed;           // the bytes that count
    std::uint32_t preparing = 0;  // commits that have made room
    bool is_written = false;      // by truncation, after the last commit and while another one has made room
    bool needs_no_proof = false;  // recovery will write the page anew, whatever the file has

    void set(std::uint64_t offset, os::const_bytes value) noexcept;
  };
  // Readers hold a shard for the time of a read, so that truncation cannot write the page, and forget it here, meanwhile.
  struct shard {
    mutable std::mutex mutex;
    std::unordered_map<std::uint64_t, std::unique_ptr<kept_page>> pages;
  };
  static constexpr std::size_t shards = 64;
  [[nodiscard]] shard& shard_of(std::uint64_t page) { return shards_[page % shards]; }
  [[nodiscard]] const shard& shard_of(std::uint64_t page) const { return shards_[page % shards]; }
  kept_page& keep(shard& in, std::uint64_t page);
  void forget(shard& in, std::uint64_t page) noexcept;
  // Returns false if the page does not match its checksum.
  template <class Check>
  [[nodiscard]] bool read_page(std::uint64_t page, os::bytes into, Check&& is_sound) const;

  region_mapper* owner_;
  segment* const in_;
  const std::string path_;
  const std::uint64_t most_kept_;  // pages
  const quiet_runner when_quiet_;
  std::array<shard, shards> shards_;
  std::atomic<std::uint64_t> kept_{0};
  std::atomic<std::uint32_t> users_{0};
  std::atomic<bool> ending_{false};
};

}  // namespace tenure::rvm
