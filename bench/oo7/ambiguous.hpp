// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What ambiguous roots keep in an OO7 database [PM3 §7.4, figures 7 and 8]: what a collection with all words of the program's
// memory as roots leaves, and one with handles only would not. PM3 promotes whole pages of 8 KiB to which such words lead; so the
// same is counted as if pages were kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "oo7/configuration.hpp"

namespace tenure::bench::oo7 {

struct ambiguity_plan {
  bool inserts = false;        // figure 8: parts are inserted and taken out; else figure 7, generation
  std::uint64_t rounds = 100;  // of Insert and Delete, which destroys nothing
  std::uint64_t words = 0;     // pointers to objects that were taken out, drawn at random, which the program still has
};

// In a process of its own, which has the database made and drops it. By name, a number each:
//   stabilized-objects/TYPE, stabilized-bytes/TYPE   what became persistent by generating, or by one Insert
//   ambiguous-objects/TYPE, ambiguous-bytes/TYPE     what only ambiguous roots keep; and ambiguous-objects, -bytes: of all types
//   ambiguous-transient        the same of objects that never became persistent
//   kept-bytes, kept-pages     what handles and named roots keep, and how many pages of 8 KiB that is, packed
// After Insert and Delete also:
//   dropped-objects, dropped-bytes    what was taken out
//   touched-pages                     that have at least one of the objects that only ambiguous roots keep
//   word-pages                        to which the program's words lead
//   by-pages-objects, by-pages-bytes  of what was taken out, what would stay if these pages were kept as a whole (word-pages; without
//                                     words, touched-pages), and what their objects refer to
[[nodiscard]] nlohmann::json find_ambiguous(const std::filesystem::path& directory, const configuration& how,
                                            const ambiguity_plan& plan);

}  // namespace tenure::bench::oo7
