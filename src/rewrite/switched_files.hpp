// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How a store's files are replaced by new ones at once. The new ones are made beside them, under names that end with
// ".rewritten". The log's manifest comes last, and gets its name first: from then on the store is the new one, since the
// manifest says which files belong to it. The others get their names after that, the default database the last one; whoever
// opens the store meanwhile goes on with it [heap.rewrite.switch].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "os/file.hpp"

namespace tenure::rewriting {

struct store_files {
  std::string log;
  std::string main;  // the default database
};

// The name of a new log or database before the switch.
[[nodiscard]] inline std::string unswitched(const std::string& path) { return path + ".rewritten"; }

// The name that it gets then: who may use the old file may use the new one from the beginning, as whoever opens the store after a
// crash looks at it. "": it is no such name.
[[nodiscard]] inline std::string switched(const std::string& path) {
  const std::string suffix = unswitched("");
  return path.ends_with(suffix) ? path.substr(0, path.size() - suffix.size()) : "";
}

// Completes a switch that was interrupted, or removes what an interrupted rewriting has left. To be called before the store
// is opened for writing. Throws errc::in_use if a rewriting goes on.
void settle(os::disk& disk, const store_files& of);
// The same for somebody who only reads: throws errc::read_only if there is a switch to complete, errc::in_use if it goes on.
void require_settled(os::disk& disk, const store_files& of);
// Removes the new files. The caller has the store.
void discard_new(os::disk& disk, const store_files& of) noexcept;
// The store is closed, and was not opened since: the log's manifest has this sequence number.
void switch_to_new(os::disk& disk, const store_files& of, std::uint64_t sequence);

}  // namespace tenure::rewriting
