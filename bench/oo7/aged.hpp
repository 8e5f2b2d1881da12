// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// OO7 databases that have grown old: after so many rounds in which composite parts were replaced (generation.hpp), each round
// committed durably.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include <tenure/rewrite.hpp>

#include "oo7/contender.hpp"
#include "oo7/run.hpp"

namespace tenure::bench::oo7 {

// What becomes of the parts that were taken out.
enum class old_parts {
  destroyed,
  collected,       // by the store itself, in the background
  collected_last,  // all at once, when the last round is over
  left,
};
struct age {
  std::string name;  // "new", "destroyed", …
  bool is_plain = false;
  bool is_new = false;  // no rounds
  old_parts become = old_parts::destroyed;
  std::string setting;
  std::optional<object_order> order = {};  // in which the store is written anew in the end
};
// Those of plain objects first; the first is new.
[[nodiscard]] std::span<const age> all_ages();
[[nodiscard]] const age& age_named(const std::string& name);

// create() makes the database and lets it grow old.
[[nodiscard]] std::unique_ptr<contender> make_aged(const age& one, std::uint64_t rounds,
                                                   const std::filesystem::path& directory, const configuration& how);

// Makes a store's database: {"round_ms", "cycles", "objects_mib" (garbage too), "file_mib"}, and "rewrite_s" and
// "rewrite_mib_s", of the new file, if it is written anew.
[[nodiscard]] nlohmann::json make_aged_store(const age& one, std::uint64_t rounds,
                                             const std::filesystem::path& directory, const configuration& how);

// What T1 and T6 of it must answer, by plain objects: {"T1", "T6", "sums"}.
[[nodiscard]] nlohmann::json find_answers_of_aged(const age& one, std::uint64_t rounds,
                                                  const std::filesystem::path& directory, const configuration& how);

}  // namespace tenure::bench::oo7
