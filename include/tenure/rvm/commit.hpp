// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How transactions begin and end.
#pragma once

#include <compare>
#include <cstdint>

namespace tenure::rvm {

enum class restore_mode {
  restore,     // set_range saves the old bytes: the transaction can abort
  no_restore,  // it promises never to abort, and saves time and space [RVM §4.2]
};
enum class commit_mode {
  flush,     // durable when commit returns
  no_flush,  // atomic, but durable only after a later flush ("lazy": bounded persistence) [RVM §4.2]
};

// Promises about a commit: everything up to it is durable once memory::wait(ticket) returns.
struct ticket {
  std::uint64_t batch = 0;
  friend auto operator<=>(const ticket&, const ticket&) = default;
};

}  // namespace tenure::rvm
