// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/opening.hpp"

#include <utility>

#include "os/process.hpp"

namespace tenure::rvm {

namespace {

std::atomic<std::uint64_t> last_opening{0};

}  // namespace

opening::opening(std::string log_path, opened_for purpose)
    : number_(++last_opening),
      path_(std::move(log_path)),
      read_only_(purpose == opened_for::reading),
      fork_generation_(os::fork_generation()) {}

bool opening::is_of_this_process() const { return os::fork_generation() == fork_generation_; }

void opening::require_own_process() const {
  if (!is_of_this_process())
    throw error(errc::forked,
                path_ +
                    ": this process is the child of a fork and has no part in its parent's recoverable memory; "
                    "open the log here after the parent has closed it");
}

error opening::closed_error() const { return {errc::closed, path_ + ": this memory has been closed"}; }

void opening::require_usable() const {
  require_own_process();
  if (closed_) throw closed_error();
}

void opening::require_writable() const {
  require_usable();
  if (read_only_)
    throw error(errc::read_only,
                path_ + ": the log was opened for reading only; open it with another open_mode to change anything");
}

}  // namespace tenure::rvm
