// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_paging: stores with large databases: what opening them costs and reads, and walking a part of one that does not fit
// memory. What the first write to a page costs is in bench_tracking.
#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "paging/options.hpp"

int main(int argc, char** argv) {
  using namespace tenure::bench;
  paging::program_options how;
  paging::child_options child;
  how.directory = ".";
  how.sizes = {10, 1024, 10 * 1024};
  std::uint64_t memory_mib = 256;
  std::string json;
  CLI::App app{"Opening and large databases"};
  app.add_option("--repeat", how.repeat, "runs of each")->capture_default_str();
  app.add_option("--sizes", how.sizes, "MiB of the databases that are opened")->delimiter(',')->capture_default_str();
  app.add_option("--limit", memory_mib, "MiB of memory; the database that is walked has four times as many")
      ->capture_default_str();
  app.add_option("--cases", how.only, "only those whose names contain this");
  app.add_flag("--quick", how.quick, "less than a minute");
  app.add_option("--dir", how.directory, "where to put scratch files: this file system is measured")
      ->capture_default_str();
  app.add_option("--json", json, "append results to this file, an object a line");
  app.add_option("--child", child.task, "")->group("");
  app.add_option("--group", child.group, "")->group("");
  app.add_option("--size", child.size, "")->group("");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (how.quick) {
    how.repeat = 3;
    how.sizes = {10, 1024};
    memory_mib = 64;
  }
  how.memory = memory_mib << 20;
  how.json = json_lines{json};
  try {
    if (!child.task.empty()) {
      (child.task.starts_with("open") ? paging::run_opening_child : paging::run_resident_child)(child, how.directory);
      return 0;
    }
    const scratch_directory scratch{how.directory, "bench-paging"};
    how.directory = std::filesystem::absolute(scratch.path());
    how.machine = describe_machine(how.directory);
    fmt::print("bench_paging{}\n{}\n", how.quick ? " --quick" : "", to_text(how.machine));
    bool good = paging::run_openings(how);
    good = paging::run_resident(how) && good;
    return good ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_paging: {}\n", e.what());
    return 1;
  }
}
