// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A file that is being made. It gets its name when it is whole, so a crash leaves either nothing or all of it.
//
// Until then its name is PATH.tenure-new. If PATH is a symbolic link, that file is in the directory of the link's
// target. A process may remove or rename the file only while it holds the file's lock, and after it has checked that
// the name still belongs to the locked file [rvm.file.making].
#pragma once

#include <memory>
#include <string>

#include "os/file.hpp"

namespace tenure::rvm {

// The name that the file has until then.
[[nodiscard]] inline std::string name_while_made(const std::string& path) { return path + ".tenure-new"; }

class new_file {
 public:
  // Makes the file and locks it. It replaces a file that a crash has left. Throws errc::in_use while another process
  // makes one, and std::errc::file_exists if a file of that name was not left by this library.
  new_file(os::disk& disk, const std::string& path, unsigned permissions);
  // Removes the file, unless it has got its name.
  ~new_file();
  new_file(const new_file&) = delete;
  new_file& operator=(const new_file&) = delete;

  [[nodiscard]] os::file& file() { return *file_; }
  [[nodiscard]] const os::file& file() const { return *file_; }
  // Both give the file its name and make the name durable. The contents must have been synced. The file stays locked.
  // If they throw, the file may have its name or not.
  // publish(): no file may have the name; otherwise it throws std::errc::file_exists, and the name is not given.
  // replace(): the file that had the name is replaced atomically.
  void publish();
  void replace();
  // In the same directory, where one sync makes the names of both durable.
  [[nodiscard]] bool is_beside(const std::string& other) const;
  // The two steps of publish().
  void give_name();
  void make_name_durable() { file_->sync_name(); }
  // Leaves it as it is, for whoever goes on with it. Returns its name while it is made.
  [[nodiscard]] std::string leave();
  // The file, which has its name now.
  [[nodiscard]] std::unique_ptr<os::file> take() { return std::move(file_); }

 private:
  void remove_left_over();

  os::disk& disk_;
  std::string path_, making_;
  std::unique_ptr<os::file> file_;
  bool has_name_ = false;
};

}  // namespace tenure::rvm
