// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A file that is being made: it gets its name when it is whole, so a crash leaves either nothing or all of it.
#pragma once

#include <memory>
#include <string>

#include "os/file.hpp"

namespace tenure::rvm {

class new_file {
 public:
  // Makes PATH.new and locks it; one that a crash has left is replaced. errc::in_use while another process makes one.
  new_file(os::disk& disk, const std::string& path, unsigned permissions);
  // Removes the file unless it was published.
  ~new_file();
  new_file(const new_file&) = delete;
  new_file& operator=(const new_file&) = delete;

  [[nodiscard]] os::file& file() { return *file_; }
  // Gives the file its name, replacing what had it, and makes that durable. Its contents must have been synced. The lock
  // stays with the file. If this throws, the name may have been given or not.
  void publish();
  // The file, published.
  [[nodiscard]] std::unique_ptr<os::file> take() { return std::move(file_); }

 private:
  os::disk& disk_;
  std::string path_, making_;
  std::unique_ptr<os::file> file_;
  bool published_ = false;
};

}  // namespace tenure::rvm
