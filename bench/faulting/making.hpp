// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes the database of the faulting experiments: parts as OO1 plans them, and the methods in the interpreter's code.
#pragma once

#include <filesystem>

namespace tenure::bench::faulting {

// At least one part.
void make_database(const std::filesystem::path& store, int parts);

}  // namespace tenure::bench::faulting
