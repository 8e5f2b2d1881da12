// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A line of /proc/locks: "1: FLOCK ADVISORY WRITE 71 fe:00:1835 0 EOF". It has the process that holds the lock, and the
// file's device (in hexadecimal) and number. A line with "->" behind the first word stands for a process that waits.
#include "os/lock_holders.hpp"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace tenure::os {
namespace {

struct lock_line {
  pid_t process = 0;
  std::string file;  // "fe:00:1835"
};

bool read_line(const std::string& text, lock_line& line) {
  std::istringstream words(text);
  std::string number, kind, advisory, access;
  return words >> number >> kind >> advisory >> access >> line.process >> line.file && kind == "FLOCK";
}

std::string name_of(pid_t process) {
  std::string name;
  std::ifstream in("/proc/" + std::to_string(process) + "/comm");
  std::getline(in, name);
  return name;
}

}  // namespace

std::string lock_holders(std::istream& locks, dev_t device, ino_t number, const std::string& object) {
  char of_device[32];
  std::snprintf(of_device, sizeof of_device, "%02x:%02x:", major(device), minor(device));
  const std::string file_number = std::to_string(number);
  std::vector<pid_t> exact, similar;
  lock_line line;
  for (std::string text; std::getline(locks, text);) {
    if (!read_line(text, line)) continue;
    if (line.file == of_device + file_number)
      exact.push_back(line.process);
    else if (line.file.ends_with(":" + file_number))
      similar.push_back(line.process);
  }
  // Some file systems without a device (btrfs, overlayfs) report a device number that differs from the one in this
  // table.
  std::vector<pid_t>& found = exact.empty() && major(device) == 0 ? similar : exact;
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (found.empty()) return "";
  if (std::ranges::find(found, ::getpid()) != found.end()) return "another " + object + " of this process";

  const std::string name = name_of(found.front());
  const std::string others = found.size() > 1 ? " and " + std::to_string(found.size() - 1) + " more," : "";
  // Children share the locks that their parent had when it forked. Such a lock ends when the last of these processes
  // ends.
  if (name.empty()) return "a child of process " + std::to_string(found.front()) + ", which has ended," + others;
  return "another process, " + std::to_string(found.front()) + " (" + name + ")," + others;
}

std::string lock_holders(dev_t device, ino_t number, const std::string& object) {
  std::ifstream locks("/proc/locks");
  return lock_holders(locks, device, number, object);
}

}  // namespace tenure::os
