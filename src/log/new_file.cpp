// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/new_file.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <tenure/error.hpp>

#include "log/format.hpp"

namespace tenure::rvm {

namespace {

error made_elsewhere(const std::string& path) {
  return {errc::in_use, path + ": another process is making this file; wait until it is done"};
}

// Whether a crash can have left this file while it was being made: it begins like a file of this library, or is still
// empty.
bool may_be_left_over(os::file& file) {
  std::uint64_t magic = 0;
  (void)file.read_at(0, std::as_writable_bytes(std::span{&magic, 1}));
  constexpr std::array<std::uint64_t, 6> known = {0,           log_magic, log_file_magic, segment_magic, archive_magic,
                                                  backup_magic};
  return std::ranges::find(known, magic) != known.end();
}

}  // namespace

new_file::new_file(os::disk& disk, const std::string& path, unsigned permissions)
    : disk_(disk), path_(disk.behind_links(path)), making_(name_while_made(path_)) {
  if (const std::string suffix = name_while_made(""); path_.ends_with(suffix))
    throw error(errc::bad_option,
                path_ + ": names that end in " + suffix + " are those of files being made; choose another");
  remove_left_over();
  try {
    file_ = disk_.create(making_, permissions);
  } catch (const error& e) {
    if (e.code() == std::errc::file_exists) throw made_elsewhere(making_);
    throw;
  }
  // Before this process locked the file, another one may have taken it for the remains of a crash.
  if (!file_->try_lock(os::lock_kind::exclusive) || !file_->is_current()) throw made_elsewhere(making_);
}

new_file::~new_file() {
  try {
    if (!has_name_ && disk_.exists(making_)) disk_.remove(making_);
  } catch (...) {  // the next attempt replaces it
  }
}

void new_file::remove_left_over() {
  std::unique_ptr<os::file> old;
  try {
    if (disk_.exists(making_)) old = disk_.open(making_, os::access::read_write);
  } catch (const error& e) {
    if (e.code() != std::errc::no_such_file_or_directory) throw;  // it has just got its name, or is gone
  }
  if (old == nullptr) return;
  const auto has = [&](const std::string& name) {
    old->renamed(name);
    return old->is_current();
  };
  if (!old->try_lock(os::lock_kind::exclusive)) {
    // If the name was given by a link, a crash may have left the file with both names. Then its user has the lock. In
    // this order of checks, a file that is being renamed never seems to have both names.
    if (!has(path_) || !has(making_)) throw made_elsewhere(making_);
  } else if (!has(making_)) {
    throw made_elsewhere(making_);
  } else if (!may_be_left_over(*old)) {
    throw error(std::make_error_code(std::errc::file_exists),
                making_ + ": " + path_ + " is made under this name first, but there is another file; move it away");
  }
  disk_.remove(making_);
}

void new_file::publish() {
  give_name();
  make_name_durable();
}

void new_file::give_name() {
  disk_.rename_to_new(making_, path_);
  has_name_ = true;
  file_->renamed(path_);
}

bool new_file::is_beside(const std::string& other) const {
  const std::string behind = disk_.behind_links(other);
  return path_.substr(0, path_.rfind('/')) == behind.substr(0, behind.rfind('/'));
}

std::string new_file::leave() {
  has_name_ = true;  // or will get it
  file_.reset();
  return making_;
}

void new_file::replace() {
  disk_.rename(making_, path_);
  has_name_ = true;
  file_->renamed(path_);
  make_name_durable();
}

}  // namespace tenure::rvm
