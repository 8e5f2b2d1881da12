// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Open files of the simulated disk.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sim/core.hpp"
#include "tenure/error.hpp"

namespace tenure::sim {
namespace {

using buffers = std::span<const os::const_bytes>;

std::vector<std::byte> gather(buffers from) {
  std::vector<std::byte> all;
  std::size_t total = 0;
  for (const os::const_bytes each : from) total += each.size();
  all.reserve(total);
  for (const os::const_bytes each : from) all.insert(all.end(), each.begin(), each.end());
  return all;
}

// The length of the part of a write that lies in its first `sectors` sectors.
std::uint64_t cut_length(std::uint64_t sectors, std::uint64_t offset, std::uint64_t length) {
  if (sectors == 0) return 0;
  if (sectors > length / sector_size + 1) return length;
  return std::min(length, sectors * sector_size - offset % sector_size);
}

class open_file final : public os::file {
 public:
  open_file(std::shared_ptr<core> shared, std::shared_ptr<inode> node, std::string path, os::access how)
      : core_(std::move(shared)), node_(std::move(node)), path_(std::move(path)), how_(how) {}

  ~open_file() override {
    const guard lock(core_->mutex);
    node_->unlock(this);
  }

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] bool is_device() const override { return node_->is_device(); }
  [[nodiscard]] os::file_id id() const override { return {1, node_->id()}; }
  [[nodiscard]] std::uint32_t block_size() const override { return core_->block_size; }

  [[nodiscard]] std::uint64_t size() const override {
    const guard lock(core_->mutex);
    return node_->size();
  }

  std::size_t read_at(std::uint64_t offset, os::bytes into) override {
    const guard lock(core_->mutex);
    const beginning started = core_->begin(lock, operation::read, path_, offset, into.size());
    core_->throw_if_failed(lock, started);
    if (offset >= node_->size()) return 0;
    std::uint64_t length = std::min<std::uint64_t>(into.size(), node_->size() - offset);
    if (started.has(effect::short_read)) length = std::min(length, started.hit->bytes);
    read_fully(node_->descriptor(), offset, into.first(length));
    if (started.has(effect::flip_bit) && length > 0) {
      const std::uint64_t bit = started.hit->bytes % (length * 8);
      into[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    }
    return length;
  }

  void write_at(std::uint64_t offset, os::const_bytes from) override { write(operation::write, offset, {&from, 1}); }

  void write_all_at(std::uint64_t offset, buffers from) override { write(operation::write, offset, from); }

  void write_durably_at(std::uint64_t offset, buffers from) override { write(operation::durable_write, offset, from); }

  void sync() override {
    const beginning started = [&] {
      const guard lock(core_->mutex);
      const beginning begun = core_->begin(lock, operation::sync, path_);
      if (begun.has(effect::lose_writes)) node_->lose_writes(false);
      if (begun.has(effect::keep_unsynced)) node_->lose_writes(true);
      core_->throw_if_failed(lock, begun);
      node_->sync();
      return begun;
    }();
    core_->finish(started);
  }

  void resize(std::uint64_t size) override {
    change(operation::resize, size, 0, [&](inode& node) {
      if (node.is_device()) throw_errno(EINVAL, "resize of device " + path_);
      node.resize(size);
    });
  }

  void allocate(std::uint64_t offset, std::uint64_t length) override {
    change(operation::allocate, offset, length, [&](inode& node) {
      if (node.is_device()) return;
      refuse_if_full(offset, length);
      node.extend(offset + length);
      node.fill_holes(offset, offset + length);
    });
  }

  [[nodiscard]] bool punch(std::uint64_t offset, std::uint64_t length) override {
    if (node_->is_device()) return false;
    change(operation::punch, offset, length, [&](inode& node) {
      const std::vector<std::byte> zeros(static_cast<std::size_t>(length));
      node.write(offset, zeros);
      node.punch(offset, offset + length);
    });
    return true;
  }

  [[nodiscard]] bool try_lock(os::lock_kind kind) override {
    const guard lock(core_->mutex);
    core_->throw_if_failed(lock, core_->begin(lock, operation::lock, path_));
    return node_->try_lock(this, kind);
  }

  [[nodiscard]] bool is_current() const override {
    const guard lock(core_->mutex);
    core_->throw_if_failed(lock, core_->begin(lock, operation::exists, path_));
    const auto found = core_->current.find(normal(path_));
    return found != core_->current.end() && found->second == node_;
  }

  void renamed(const std::string& path) override {
    const guard lock(core_->mutex);
    path_ = path;
  }

  void sync_name() override {
    const beginning started = [&] {
      const guard lock(core_->mutex);
      return core_->sync_directory_of(lock, path_);
    }();
    core_->finish(started);
  }

  void* map_private(void* at, std::uint64_t offset, std::size_t length, os::access how) override {
    const guard lock(core_->mutex);
    core_->throw_if_failed(lock, core_->begin(lock, operation::map, path_, offset, length));
    const int protection = PROT_READ | (how == os::access::read_write ? PROT_WRITE : 0);
    const int flags = MAP_PRIVATE | MAP_NORESERVE | (at != nullptr ? MAP_FIXED_NOREPLACE : 0);
    void* const mapped = ::mmap(at, length, protection, flags, node_->descriptor(), static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) {
      if (errno == EEXIST) throw error(errc::address_taken, "the address to map " + path_ + " at is taken");
      throw_errno(errno, "map of " + path_);
    }
    lose_pages(lock, mapped, offset, length, protection);
    return mapped;
  }

  void map_private_over(void* at, std::uint64_t offset, std::size_t length, os::access how) override {
    const guard lock(core_->mutex);
    core_->throw_if_failed(lock, core_->begin(lock, operation::map, path_, offset, length));
    const int protection = PROT_READ | (how == os::access::read_write ? PROT_WRITE : 0);
    if (::mmap(at, length, protection, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, node_->descriptor(),
               static_cast<off_t>(offset)) == MAP_FAILED)
      throw_errno(errno, "map of " + path_);
    lose_pages(lock, at, offset, length, protection);
  }

 private:
  // Puts pages of an empty file, which give SIGBUS, where the mapping has lost bytes.
  void lose_pages(const guard&, void* at, std::uint64_t offset, std::size_t length, int protection) {
    constexpr std::uint64_t page = 4096;
    for (const core::lost_bytes& lost : core_->lost) {
      if (lost.path != normal(path_)) continue;
      for (std::uint64_t from = offset; from < offset + length; from += page) {
        if (from >= lost.to || from + page <= lost.from) continue;
        const int empty = ::memfd_create("lost", MFD_CLOEXEC);
        void* const made = ::mmap(static_cast<char*>(at) + (from - offset), page, protection,
                                  MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, empty, 0);
        const int number = errno;
        ::close(empty);
        if (made == MAP_FAILED) throw_errno(number, "map of lost bytes of " + path_);
      }
    }
  }
  void write(operation kind, std::uint64_t offset, buffers from) {
    const std::vector<std::byte> all = gather(from);
    const beginning started = [&] {
      const guard lock(core_->mutex);
      const beginning begun = core_->begin(lock, kind, path_, offset, all.size());
      if (!begun.power_fails) refuse_unless_writable();
      write(lock, begun, all);
      return begun;
    }();
    core_->finish(started);
  }

  void write(const guard& lock, const beginning& started, os::const_bytes all) {
    const std::uint64_t offset = started.entry.offset;
    const auto up_to = [&](std::uint64_t length) {
      if (node_->is_device()) length = std::min(length, node_->size() - std::min(offset, node_->size()));
      return all.first(std::min<std::uint64_t>(all.size(), length));
    };
    if (how_ == os::access::read_write && !core_->read_only) {
      if (started.power_fails) node_->write(offset, up_to(cut_length(core_->cut_sectors, offset, all.size())));
      if (started.has(effect::fail)) node_->write(offset, up_to(started.hit->bytes));
    }
    core_->throw_if_failed(lock, started);
    if (up_to(all.size()).size() < all.size()) throw_errno(ENOSPC, "write beyond the end of device " + path_);
    refuse_if_full(offset, all.size());
    node_->fill_holes(offset, offset + all.size());
    if (started.entry.kind == operation::write) {
      node_->write(offset, all);
    } else if (node_->write_durably(offset, all, false) > 0) {
      ++core_->weak_writes;
    }
  }

  void refuse_if_full(std::uint64_t offset, std::uint64_t length) const {
    if (core_->full && (offset + length > node_->size() || node_->has_hole(offset, offset + length)))
      throw_errno(ENOSPC, "no space for " + std::to_string(length) + " bytes at offset " + std::to_string(offset) +
                              " of " + path_);
  }

  // For resize, allocate and punch.
  template <class Action>
  void change(operation kind, std::uint64_t offset, std::uint64_t length, Action act) {
    const beginning started = [&] {
      const guard lock(core_->mutex);
      const beginning begun = core_->begin(lock, kind, path_, offset, length);
      core_->perform(lock, begun, [&] {
        refuse_unless_writable();
        act(*node_);
      });
      return begun;
    }();
    core_->finish(started);
  }

  void refuse_unless_writable() const {
    if (how_ != os::access::read_write) throw_errno(EBADF, "change of " + path_ + ", which was opened for reading");
  }

  const std::shared_ptr<core> core_;
  const std::shared_ptr<inode> node_;
  std::string path_;
  const os::access how_;
};

}  // namespace

std::unique_ptr<os::file> make_file(std::shared_ptr<core> shared, std::shared_ptr<inode> node, std::string path,
                                    os::access how) {
  return std::make_unique<open_file>(std::move(shared), std::move(node), std::move(path), how);
}

}  // namespace tenure::sim
