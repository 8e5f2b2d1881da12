// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The storage manager beneath all versions but the mapped heap: pages of the store in a bounded pool, pinned while somebody uses
// them, and transactions that log what they are told. It takes the place of the client of the EXODUS storage manager, with the page
// cache of the kernel in the place of the server.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <tenure/rvm.hpp>

#include "cache/databases.hpp"
#include "cache/page_pool.hpp"

namespace tenure::bench::epvm {

class client {
 public:
  static constexpr std::size_t page_length = rvm::paged_segment::page_length;

  client(const std::filesystem::path& directory, std::size_t pool_pages);
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  [[nodiscard]] std::uint64_t page_of(std::uint64_t home) const { return (home - home_) / page_length; }
  [[nodiscard]] std::size_t place_of(std::uint64_t home) const { return (home - home_) % page_length; }
  [[nodiscard]] std::uint64_t home_of(std::uint64_t page) const { return home_ + page * page_length; }

  // The page's buffer, which stays until unpin(). Throws if all buffers are pinned.
  [[nodiscard]] std::byte* pin(std::uint64_t page);
  void unpin(std::uint64_t page);

  // Of the open transaction: these bytes of the page, which is pinned, have changed in its buffer. The log gets a record of them,
  // and the page stays until the transaction ends.
  void log_update(std::uint64_t page, std::size_t from, std::size_t length);

  void begin();
  void commit();  // durable
  [[nodiscard]] std::uint64_t page_reads() const { return reads_; }
  [[nodiscard]] std::uint64_t log_bytes() const { return log_bytes_; }

 private:
  struct frame {
    std::uint64_t page = ~std::uint64_t{0};
    unsigned pins = 0;
    bool was_used = false, is_dirty = false;
  };
  [[nodiscard]] std::size_t find_victim();
  [[nodiscard]] std::byte* bytes_of(std::size_t n) { return bytes_.get() + n * page_length; }

  cache::page_pool bookkeeping_{64};  // to open the database
  rvm::memory memory_;
  cache::open_database database_;
  std::uint64_t home_;
  std::vector<frame> frames_;
  std::unique_ptr<std::byte[]> bytes_;
  std::unordered_map<std::uint64_t, std::size_t> found_;
  std::size_t hand_ = 0;
  rvm::transaction open_;
  std::deque<std::vector<std::byte>> logged_;  // must stay until the commit
  std::vector<std::size_t> dirty_;
  std::uint64_t reads_ = 0, log_bytes_ = 0;
};

}  // namespace tenure::bench::epvm
