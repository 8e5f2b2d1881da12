// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a prepared transaction would change, as it lies in the log: groups of its own, at the end of a batch. They count as long
// as nothing follows them. Whatever a memory appends next is their outcome: the transaction's commit, which has all values
// once more, or the record of an abort [rvm.prepared.log].
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <tenure/rvm/prepared.hpp>

#include "records/log_reader.hpp"

namespace tenure::rvm {

inline constexpr std::size_t longest_global_id = 255;

// errc::bad_option: the id is too long, or cannot be printed.
void require_global_id(std::string_view id);

struct prepared_contents {
  prepared_transaction what;
  lsn from;                                   // of the first group
  std::vector<std::vector<std::byte>> bytes;  // of each group
  std::vector<group_view> groups;
};

// What is prepared at the end of this part of a log. Throws errc::damaged.
[[nodiscard]] std::optional<prepared_contents> find_prepared(const readable_log& log, const log_part& live);
// The same as one batch of another log, at its tail, where nothing else is.
[[nodiscard]] std::vector<std::vector<std::byte>> moved_to(const log_stamp& log, lsn tail,
                                                           const prepared_contents& what);

}  // namespace tenure::rvm
