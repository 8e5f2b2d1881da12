// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes new databases of those of an open store, and a log for them: first all objects get their places, then each is copied,
// with its references as they will be.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include <tenure/rewrite.hpp>

#include "objects/database_set.hpp"
#include "types/evolution.hpp"

namespace tenure::rewriting {

struct new_database {
  std::string name;
  std::string file;  // where it is made
  std::uint64_t home = 0;
  std::uint64_t reservation = 0;
  std::array<std::uint8_t, 16> id{};
};

struct new_store {
  std::string directory;  // where it is made, and tables that need a file are
  std::string log;
  std::vector<new_database> databases;  // in the order of the old ones
};

// The store is not changed meanwhile. `plan`: what becomes of its types; nullptr: they stay. Durable on return; the log comes
// last, and nothing opens before. Throws as compact(), and errc::schema_mismatch if the plan cannot be followed.
rewrite_report rewrite(const database_set& store, const new_store& as, const rewrite_options& how,
                       const types::evolution* plan = nullptr);

}  // namespace tenure::rewriting
