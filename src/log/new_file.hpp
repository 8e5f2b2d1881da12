// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A file that is being made: it gets its name when it is whole, so a crash leaves either nothing or all of it.
//
// Until then it is PATH.tenure-new, in the directory of the file itself if PATH is a symbolic link. Who has the lock of the
// file of that name, and has looked that it still has it, may remove or rename it; nobody else does [rvm.file.making].
#pragma once

#include <memory>
#include <string>

#include "os/file.hpp"

namespace tenure::rvm {

class new_file {
 public:
  // Makes the file and locks it; one that a crash has left is replaced. errc::in_use while another process makes one;
  // std::errc::file_exists if what has its name was not left by this library.
  new_file(os::disk& disk, const std::string& path, unsigned permissions);
  // Removes the file unless it has got its name.
  ~new_file();
  new_file(const new_file&) = delete;
  new_file& operator=(const new_file&) = delete;

  [[nodiscard]] os::file& file() { return *file_; }
  // Gives the file its name and makes that durable. Its contents must have been synced. The lock stays with the file. If this
  // throws, the name may have been given or not.
  // publish(): nothing may have the name (std::errc::file_exists; then it is not given).
  // replace(): what had the name is gone in that moment.
  void publish();
  void replace();
  // The file, which has its name.
  [[nodiscard]] std::unique_ptr<os::file> take() { return std::move(file_); }

 private:
  void remove_left_over();
  void has_name();

  os::disk& disk_;
  std::string path_, making_;
  std::unique_ptr<os::file> file_;
  bool has_name_ = false;
};

}  // namespace tenure::rvm
