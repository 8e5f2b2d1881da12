// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/memory_limit.hpp"

#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

namespace tenure::bench {
namespace {

bool write(const std::filesystem::path& to, const std::string& what) {
  std::ofstream out{to};
  out << what << std::flush;
  return out.good();
}

}  // namespace

memory_limit::memory_limit(std::uint64_t bytes) {
  struct kind {
    const char *root, *limit;
  };
  // Version 1, and version 2 where the controller is handed down to groups of the root.
  for (const kind& one :
       {kind{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, kind{"/sys/fs/cgroup", "memory.max"}}) {
    const auto group = std::filesystem::path(one.root) / fmt::format("tenure-bench-{}", ::getpid());
    std::error_code failed;
    if (!std::filesystem::create_directory(group, failed)) continue;
    if (std::filesystem::exists(group / one.limit) && write(group / one.limit, std::to_string(bytes))) {
      group_ = group.string();
      return;
    }
    ::rmdir(group.c_str());
  }
  throw std::runtime_error(
      "the memory of a process cannot be limited here: no control group with a memory controller "
      "can be made (root is needed)");
}

memory_limit::~memory_limit() { ::rmdir(group_.c_str()); }

void enter_memory_limit(const std::string& group) {
  if (!write(std::filesystem::path(group) / "cgroup.procs", std::to_string(::getpid())))
    throw std::runtime_error("cannot enter the control group " + group);
}

}  // namespace tenure::bench
