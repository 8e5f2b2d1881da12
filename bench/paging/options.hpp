// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What bench_paging was asked to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/program.hpp"

namespace tenure::bench::paging {

struct program_options : common_options {
  std::vector<std::uint64_t>
      sizes;                 // of the databases that are opened, MiB; the first is what others are compared with
  std::uint64_t memory = 0;  // bytes: the limit; the database that is walked has four times as many
  std::string only;          // cases whose names contain this

  [[nodiscard]] bool wants(const std::string& name) const { return name.find(only) != std::string::npos; }
};

// A process of its own.
struct child_options {
  std::string task, group;
  std::uint64_t size = 0;  // bytes of objects
};

// backup: a full backup of a store in use.
bool run_backups(const program_options& how);
// create: making a store.
bool run_creating(const program_options& how);
// open-…: opening databases of several sizes.
bool run_openings(const program_options& how);
// resident-tenth: walking a part that fits the memory of a database that does not.
bool run_resident(const program_options& how);

// What children do; each prints one JSON object.
void run_opening_child(const child_options& what, const std::filesystem::path& directory);
void run_resident_child(const child_options& what, const std::filesystem::path& directory);

}  // namespace tenure::bench::paging
