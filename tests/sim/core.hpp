// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the simulated disk and its open files share. Everything below `mutex` is guarded by it; functions that need the
// lock take it as an argument. Only for tests/sim/*.cpp.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "sim/disk.hpp"
#include "sim/inode.hpp"

namespace tenure::sim {

using guard = std::lock_guard<std::mutex>;
using name_table = std::map<std::string, std::shared_ptr<inode>>;

// A directory operation that no directory sync has followed.
struct name_change {
  operation kind;  // create, rename or remove
  std::string path;
  std::string from;  // of a rename, else empty
  std::shared_ptr<inode> node;

  // All earlier changes of the same names must have been applied, or be lost together with this one.
  void apply_to(name_table& names) const;
};

// How an operation that has begun is to go on.
struct beginning {
  trace_entry entry;
  bool power_fails = false;
  std::optional<fault> hit;

  [[nodiscard]] bool has(effect what) const { return hit && hit->what == what; }
};

class core {
 public:
  explicit core(std::uint32_t block_bytes) : block_size(block_bytes) {}

  // Counts, records, and decides on power and faults. Throws power_failure if the power is gone already.
  [[nodiscard]] beginning begin(const guard& lock, operation kind, const std::string& path, std::uint64_t offset = 0,
                                std::uint64_t length = 0, const std::string& from = {});
  // Throws if the power fails in this operation, it is to fail, or is a change of a read-only disk.
  void throw_if_failed(const guard& lock, const beginning& started) const;
  // Does what changes the disk only as pending: also if the power fails in it, when a refusal has no say any more.
  template <class Action>
  void perform(const guard& lock, const beginning& started, Action act) const {
    if (!started.power_fails) {
      throw_if_failed(lock, started);
      act();
      return;
    }
    try {
      if (!read_only) act();
    } catch (const std::system_error&) {
    }
    throw_if_failed(lock, started);
  }
  // To be called without the lock, after the operation.
  void finish(const beginning& started) const {
    if (hook && changes_disk(started.entry.kind)) hook(started.entry);
  }

  [[nodiscard]] std::shared_ptr<inode> find(const guard& lock, const name_table& names, const std::string& path) const;
  // `id`: its number; 0: a new one.
  [[nodiscard]] std::shared_ptr<inode> make_inode(const guard& lock, bool is_device, image contents,
                                                  std::uint64_t id = 0);
  void change_names(const guard& lock, name_change change);
  // Makes the pending changes durable that `chosen` picks, and the earlier ones they build upon.
  void settle_names(const guard& lock, const std::function<bool(const name_change&)>& chosen);
  // Makes those durable that concern the directory of `path`.
  [[nodiscard]] beginning sync_directory_of(const guard& lock, const std::string& path);
  // The directory entries that a crash leaves.
  [[nodiscard]] name_table names_after_crash(const guard& lock, std::uint64_t seed, policy what) const;

  const std::uint32_t block_size;
  std::function<void(const trace_entry&)> hook;  // set before the disk is shared

  mutable std::mutex mutex;
  name_table current;
  name_table durable;
  std::vector<name_change> pending_names;  // in order
  std::uint64_t next_inode = 1;
  std::uint64_t operations = 0;
  std::uint64_t reads = 0;
  std::uint64_t weak_writes = 0;
  bool off = false;
  std::uint64_t off_index = 0;
  std::uint64_t off_at = for_ever;
  std::uint64_t cut_sectors = for_ever;
  bool read_only = false;
  bool full = false;
  bool tracing = false;
  std::vector<trace_entry> trace;

  struct injected {
    fault what;
    std::uint64_t seen = 0;
    std::uint64_t hits = 0;
  };
  std::vector<injected> faults;
  struct lost_bytes {
    std::string path;
    std::uint64_t from, to;
  };
  std::vector<lost_bytes> lost;
};

// "a/./b/../c" and "a/c" name the same file.
[[nodiscard]] std::string normal(const std::string& path);

[[noreturn]] void throw_errno(int number, const std::string& what);

[[nodiscard]] std::unique_ptr<os::file> make_file(std::shared_ptr<core> shared, std::shared_ptr<inode> node,
                                                  std::string path, os::access how);

}  // namespace tenure::sim
