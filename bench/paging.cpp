// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_paging: what making a store costs; stores with large databases: what opening them costs and reads, and walking a part
// of one that does not fit memory. What the first write to a page costs is in bench_tracking.
#include <cstdio>

#include <fmt/format.h>

#include "command_line.hpp"
#include "paging/options.hpp"

int main(int argc, char** argv) {
  using namespace tenure::bench;
  paging::program_options how;
  paging::child_options child;
  how.repeat = 7;
  how.sizes = {10, 1024, 10 * 1024};
  std::uint64_t memory_mib = 256;
  tenure::tools::command_line app{"Opening and large databases"};
  app.option("--sizes", how.sizes, "MiB of the databases that are opened").separated_by_commas().shows_default();
  app.option("--limit", memory_mib, "MiB of memory; the database that is walked has four times as many")
      .shows_default();
  app.option("--cases", how.only, "only those whose names contain this");
  add_common_options(app, how, "runs of each");
  app.option("--child", child.task, "").hidden();
  app.option("--group", child.group, "").hidden();
  app.option("--size", child.size, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) {
    how.repeat = 3;
    how.sizes = {10, 1024};
    memory_mib = 64;
  }
  how.memory = memory_mib << 20;
  return run_program("bench_paging", [&] {
    if (!child.task.empty()) {
      (child.task.starts_with("open") ? paging::run_opening_child : paging::run_resident_child)(child, how.directory);
      return true;
    }
    const benchmark_run running("bench_paging", how);
    bool good = paging::run_creating(how);
    good = paging::run_openings(how) && good;
    good = paging::run_backups(how) && good;
    return paging::run_resident(how) && good;
  });
}
