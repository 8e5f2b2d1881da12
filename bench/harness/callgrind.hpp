// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Another run of this very program under valgrind's callgrind, which counts where time varies. Caches are simulated: 32 KiB for
// instructions and for data each, and 32 MiB behind them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/rounds.hpp"

namespace tenure::bench {

[[nodiscard]] bool has_valgrind();

// "instructions", "instruction_misses", "data_misses" and "memory_misses", misses of the first caches and of the last one, of
// what the program does between start_instrumentation() and stop_instrumentation(), divided by `units`. Files of its own go
// to the directory. Nothing if valgrind cannot run it.
[[nodiscard]] std::optional<measurement> count_instructions(const std::vector<std::string>& arguments,
                                                            const std::filesystem::path& directory, double units);

}  // namespace tenure::bench
