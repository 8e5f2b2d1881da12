// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rvm/new_file.hpp"

#include <tenure/error.hpp>

namespace tenure::rvm {

new_file::new_file(os::disk& disk, const std::string& path, unsigned permissions)
    : disk_(disk), path_(path), making_(path + ".new") {
  const auto require_lock = [&](os::file& file) {
    if (!file.try_lock(os::lock_kind::exclusive))
      throw error(errc::in_use, making_ + ": another process is making this file; wait until it is done");
  };
  if (disk_.exists(making_)) {
    require_lock(*disk_.open(making_, os::access::read_write));
    disk_.remove(making_);
  }
  file_ = disk_.create(making_, permissions);
  require_lock(*file_);
}

new_file::~new_file() {
  try {
    if (!published_ && disk_.exists(making_)) disk_.remove(making_);
  } catch (...) {  // the next attempt replaces it
  }
}

void new_file::publish() {
  disk_.rename(making_, path_);
  published_ = true;
  disk_.sync_directory_of(path_);
}

}  // namespace tenure::rvm
