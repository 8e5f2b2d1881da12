// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure resolve: to end a transaction that a process has left prepared.
#pragma once

#include <cstdio>
#include <string>

#include <tenure/rvm/prepared.hpp>

namespace tenure::tools {

// What the operator wants. At most one of them; with none, what is in doubt is only shown.
struct wanted_outcome {
  bool commit = false, abort = false;
  std::string coordinator = {};  // directory of a store, which knows
};

// Says the outcome of the transaction that was seen. Returns false if it has got one meanwhile. Throws errc::in_doubt if another one
// is prepared by now.
[[nodiscard]] bool end_prepared(const std::string& log, const rvm::prepared_transaction& seen, rvm::outcome said);

// `path`: the store's directory, or a log. Nobody may have it open.
int resolve_prepared(const std::string& path, const wanted_outcome& wanted, bool as_json, std::FILE* out);

}  // namespace tenure::tools
