// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/unfinished.hpp"

#include <memory>

#include <tenure/error.hpp>

namespace tenure::rvm {

namespace {

// A file, or a directory with all that is in it.
void remove_all(os::disk& disk, const std::string& path) {
  try {
    return disk.remove(path);
  } catch (const error&) {  // a directory, perhaps
  }
  for (const std::string& name : disk.names_in(path)) {
    std::string inside = path;
    inside.append("/").append(name);
    remove_all(disk, inside);
  }
  if (disk.exists(path)) disk.remove(path);
}

std::string mark_of(const std::string& log_path) { return log_path + ".unfinished"; }

}  // namespace

void mark_unfinished(os::disk& disk, const std::string& log_path) {
  const std::string mark = mark_of(log_path), directory = log_path.substr(0, log_path.rfind('/'));
  const auto refuse = [&] {
    throw error(std::make_error_code(std::errc::file_exists),
                directory + ": something else was put into this directory meanwhile; give another one");
  };
  std::unique_ptr<os::file> file;
  try {
    file = disk.create(mark, 0600);
  } catch (const error& e) {
    if (e.code() != std::errc::file_exists) throw;
    refuse();
  }
  try {
    // It was empty when it was looked at. What is there now is of somebody else, who may have finished meanwhile.
    if (disk.names_in(directory).size() != 1) refuse();
    file->sync();
    disk.sync_directory_of(mark);
  } catch (...) {
    try {
      disk.remove(mark);
    } catch (const error&) {  // it says what is there
    }
    throw;
  }
}

void mark_finished(os::disk& disk, const std::string& log_path) {
  disk.remove(mark_of(log_path));
  disk.sync_directory_of(mark_of(log_path));
}

void discard_unfinished(os::disk& disk, const std::string& log_path) noexcept {
  try {
    const std::string directory = log_path.substr(0, log_path.rfind('/'));
    if (disk.exists(log_path)) {
      disk.remove(log_path);
      disk.sync_directory_of(log_path);
    }
    for (const std::string& name : disk.names_in(directory)) {
      std::string path = directory;
      path.append("/").append(name);
      if (path != mark_of(log_path)) remove_all(disk, path);
    }
    mark_finished(disk, log_path);
  } catch (...) {  // the mark says what is there
  }
}

void require_not_unfinished(os::disk& disk, const std::string& log_path) {
  if (disk.exists(log_path) || !disk.exists(mark_of(log_path))) return;
  const std::string directory = log_path.substr(0, log_path.rfind('/'));
  throw error(errc::damaged, directory +
                                 ": a backup, a restore, a clone, a repair or an upgrade into this directory was "
                                 "interrupted or has failed; the original is as it was: remove this directory, and "
                                 "begin again with the original");
}

}  // namespace tenure::rvm
