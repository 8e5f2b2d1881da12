// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Holds: somebody reads the log from a position on, a backup or a replica, in this process or in another one. As long as
// that lasts, the files with the bytes from there on are not used again, and nothing is written in bulk, past the log.
//
// A hold is a file beside the log's files, PATH.hold.1 to PATH.hold.16, which says where; its holder has it locked, so that
// a process that dies lets go [rvm.log.hold].
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tenure/rvm/log_options.hpp>

#include "os/file.hpp"

namespace tenure::rvm {

inline constexpr std::uint32_t most_holds = 16;

// One user at a time.
class log_hold {
 public:
  // Holds the log from its head on. `purpose`: for people. The log may be in use. Throws errc::in_use if there are too
  // many holds.
  static log_hold take(os::disk& disk, const std::string& log_path, const std::string& purpose);
  log_hold(log_hold&&) noexcept = default;
  log_hold& operator=(log_hold&&) = delete;
  // Lets go.
  ~log_hold();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] lsn position() const { return position_; }
  // Lets go of what lies before this position.
  void move(lsn position);

 private:
  log_hold(os::disk& disk, std::string path, std::unique_ptr<os::file> file)
      : disk_(disk), path_(std::move(path)), file_(std::move(file)) {}
  void write(lsn position);

  os::disk& disk_;
  std::string path_, purpose_;
  std::unique_ptr<os::file> file_;
  lsn position_ = 0;
};

struct found_hold {
  std::string path;
  lsn position;         // 0: its holder is about to say
  std::string purpose;  // ""
  std::string holder;   // as os::file::lock_holders
};
// The holds that somebody has. What a holder left that has died is no hold.
[[nodiscard]] std::vector<found_hold> find_holds(os::disk& disk, const std::string& log_path);
// The lowest position that is held; the largest number if there is no hold.
[[nodiscard]] lsn held_from(os::disk& disk, const std::string& log_path);
// Removes the files of holders that have died.
void remove_dead_holds(os::disk& disk, const std::string& log_path) noexcept;

}  // namespace tenure::rvm
