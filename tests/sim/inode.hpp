// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One simulated file without its name: current contents, durable contents, and the changes in between. Not thread-safe:
// the disk's mutex guards it. The rules are in sim/disk.hpp, [sim.disk.durable] and [sim.disk.crash].
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "segments/interval_set.hpp"
#include "sim/disk.hpp"
#include "sim/image.hpp"

namespace tenure::sim {

class inode {
 public:
  // `id` is the same in all copies of a disk: it makes the random choices of a file independent of its name.
  inode(std::uint64_t id, bool is_device, image durable);
  ~inode();
  inode(const inode&) = delete;
  inode& operator=(const inode&) = delete;

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] bool is_device() const { return is_device_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const image& durable() const { return durable_; }
  [[nodiscard]] std::size_t pending() const { return pending_.size(); }
  // The memfd with the current contents. It is made when first needed: most copies after a crash read few files.
  [[nodiscard]] int descriptor();

  void write(std::uint64_t offset, os::const_bytes from);
  // Returns the number of bytes that could not be made durable. `force`: initialised or not.
  std::uint64_t write_durably(std::uint64_t offset, os::const_bytes from, bool force);
  void resize(std::uint64_t size);
  void extend(std::uint64_t size);  // does nothing if the file is as long
  void sync();
  // The space of these bytes.
  void punch(std::uint64_t begin, std::uint64_t end);
  void fill_holes(std::uint64_t begin, std::uint64_t end) { holes_.remove(begin, end); }
  [[nodiscard]] bool has_hole(std::uint64_t begin, std::uint64_t end) const { return holes_.intersects(begin, end); }
  // The holes that are there after a crash.
  [[nodiscard]] const rvm::interval_set& durable_holes() const { return durable_holes_; }
  // Where there are bytes by now is space.
  void set_holes(const rvm::interval_set& holes);
  [[nodiscard]] std::uint64_t holes() const {
    std::uint64_t bytes = 0;
    holes_.for_each([&](std::uint64_t from, std::uint64_t to) { bytes += to - from; });
    return bytes;
  }
  // A sync that failed: pending writes will never be durable. `visible`: the current contents keep them.
  void lose_writes(bool visible);

  // Advisory locks, by the object that asks. Asking again converts the lock.
  [[nodiscard]] bool try_lock(const void* holder, os::lock_kind kind);
  void unlock(const void* holder);

  // What a crash leaves of the contents.
  [[nodiscard]] image after_crash(std::uint64_t seed, policy what) const;

 private:
  struct change {
    enum class kind { write, resize, extend };
    kind what;
    bool grows;            // a write beyond the end at the time: a change of metadata, too
    std::uint64_t offset;  // resize, extend: the size
    // Of a write. The parts that remain of an overwritten one share its bytes.
    std::shared_ptr<const std::vector<std::byte>> data;
    std::size_t begin;
    std::size_t length;

    [[nodiscard]] std::uint64_t end() const { return offset + length; }
    [[nodiscard]] os::const_bytes bytes() const { return os::const_bytes(*data).subspan(begin, length); }
  };

  void add_write(std::uint64_t offset, os::const_bytes from, bool grows);
  // Takes the range out of the pending writes.
  void supersede(std::uint64_t begin, std::uint64_t end);
  // Up to where neither a pending size nor the durable one stands against a durable write.
  [[nodiscard]] std::uint64_t settled_size() const;
  [[nodiscard]] image with_metadata_only() const;

  std::uint64_t id_;
  bool is_device_;
  std::uint64_t size_;  // current
  int descriptor_ = -1;
  image durable_;
  std::vector<change> pending_;  // in order, since the last sync
  rvm::interval_set holes_, durable_holes_;
  std::vector<std::pair<const void*, os::lock_kind>> locks_;
};

}  // namespace tenure::sim
