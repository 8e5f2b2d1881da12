// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A disk on which something happens in the middle of what the library does: before and after it creates a file, before it asks
// whether there is one, when it has opened one, or writes durably. Everything is passed on to another disk.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "os/file.hpp"

namespace tenure::support {

class watched_disk final : public os::disk {
 public:
  using event = std::function<void(const std::string& path)>;

  explicit watched_disk(os::disk& on) : on_(on) {}

  event before_create, after_create, before_exists, after_open;
  // Before a durable write becomes durable: it can be read already.
  event in_durable_write;

  std::unique_ptr<os::file> open(const std::string& path, os::access how) override {
    auto opened = std::make_unique<watched_file>(*this, on_.open(path, how));
    happen(after_open, path);
    return opened;
  }
  std::unique_ptr<os::file> create(const std::string& path, unsigned permissions) override {
    happen(before_create, path);
    auto created = std::make_unique<watched_file>(*this, on_.create(path, permissions));
    happen(after_create, path);
    return created;
  }
  bool exists(const std::string& path) override {
    happen(before_exists, path);
    return on_.exists(path);
  }
  std::string behind_links(const std::string& path) override { return on_.behind_links(path); }
  void rename(const std::string& from, const std::string& to) override { on_.rename(from, to); }
  void rename_to_new(const std::string& from, const std::string& to) override { on_.rename_to_new(from, to); }
  void remove(const std::string& path) override { on_.remove(path); }
  void make_directory(const std::string& path) override { on_.make_directory(path); }
  std::vector<std::string> names_in(const std::string& directory) override { return on_.names_in(directory); }
  void sync_directory_of(const std::string& path) override { on_.sync_directory_of(path); }

 private:
  // It may set another one, or none.
  static void happen(const event& what, const std::string& path) {
    if (const event now = what) now(path);
  }

  class watched_file final : public os::file {
   public:
    watched_file(watched_disk& of, std::unique_ptr<os::file> on) : of_(of), on_(std::move(on)) {}
    const std::string& path() const override { return on_->path(); }
    bool is_device() const override { return on_->is_device(); }
    os::file_id id() const override { return on_->id(); }
    std::uint64_t size() const override { return on_->size(); }
    std::uint32_t block_size() const override { return on_->block_size(); }
    std::size_t read_at(std::uint64_t offset, os::bytes into) override { return on_->read_at(offset, into); }
    void write_at(std::uint64_t offset, os::const_bytes from) override { on_->write_at(offset, from); }
    void write_all_at(std::uint64_t offset, std::span<const os::const_bytes> from) override {
      on_->write_all_at(offset, from);
    }
    void write_durably_at(std::uint64_t offset, std::span<const os::const_bytes> from) override {
      if (of_.in_durable_write) {
        on_->write_all_at(offset, from);
        happen(of_.in_durable_write, path());
      }
      on_->write_durably_at(offset, from);
    }
    void sync() override { on_->sync(); }
    void resize(std::uint64_t size) override { on_->resize(size); }
    void allocate(std::uint64_t offset, std::uint64_t length) override { on_->allocate(offset, length); }
    bool punch(std::uint64_t offset, std::uint64_t length) override { return on_->punch(offset, length); }
    bool try_lock(os::lock_kind kind) override { return on_->try_lock(kind); }
    bool is_current() const override { return on_->is_current(); }
    void renamed(const std::string& path) override { on_->renamed(path); }
    void sync_name() override { on_->sync_name(); }
    void* map_private(void* at, std::uint64_t offset, std::size_t length, os::access how) override {
      return on_->map_private(at, offset, length, how);
    }
    void map_private_over(void* at, std::uint64_t offset, std::size_t length, os::access how) override {
      on_->map_private_over(at, offset, length, how);
    }

   private:
    watched_disk& of_;
    std::unique_ptr<os::file> on_;
  };

  os::disk& on_;
};

}  // namespace tenure::support
