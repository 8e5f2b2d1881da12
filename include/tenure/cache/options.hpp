// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How a store is opened in a cache, and what the cache has done.
#pragma once

#include <cstdint>

#include <tenure/rvm/options.hpp>

namespace tenure::cache {

// Which transactions of a store may be open at the same time.
enum class concurrency {
  // One that changes objects, or many that read: what is in memory is reached without locks.
  one_writer,
  // Any number. Each dereference gets a shared lock of the object, each change an exclusive one, until the transaction ends; with an
  // object also that to which it has plain pointers. errc::deadlock. Dereferences are fast in the first 48 threads that have
  // transactions at the same time.
  object_locks,
};

struct options {
  // open or read_only: stores are made by tenure::store.
  rvm::open_mode mode = rvm::open_mode::open;
  // Page buffers of 4 KiB, at least one: how much of the store is in memory as it is stored.
  std::uint64_t pool_pages = 4096;
  // Bytes of objects that are in memory, with some 250 bytes that are known of each. When a transaction begins, and after
  // release(), at least a quarter of it is free, unless more is pinned or changed.
  std::uint64_t object_bytes = std::uint64_t{256} << 20;
  concurrency transactions = concurrency::one_writer;
  // As store_tuning::typed_from. Tests choose other values.
  std::uint64_t typed_from = 4096;
  // Of the log, and of recoverable memory. Its `mode` does not count.
  rvm::options memory = {};
};

// Since the store was opened; objects and bytes: now.
struct statistics {
  std::uint64_t objects = 0, object_bytes = 0;  // in memory; bytes as options::object_bytes counts them
  std::uint64_t faults = 0;                     // dereferences that found no address, or no lock that was free
  std::uint64_t loaded = 0;                     // objects that were brought into memory
  std::uint64_t discovered = 0;                 // refs that became addresses when their object was loaded
  std::uint64_t evicted = 0, evictions = 0;     // objects; scans
  std::uint64_t page_hits = 0, page_reads = 0;  // of the page pool
  std::uint64_t lock_waits = 0, deadlocks = 0;  // with object locks
  std::uint64_t commits = 0, aborts = 0;
  std::uint64_t changed_objects = 0, made_objects = 0, destroyed_objects = 0;  // by commits
  std::uint64_t changed_ranges = 0, changed_bytes = 0;                         // that commits have logged
};

}  // namespace tenure::cache
