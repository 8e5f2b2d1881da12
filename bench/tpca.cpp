// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_tpca: recoverable memory under the TPC-A variant of [RVM §7.1], against bare logs and other systems on the same
// data in the same run. Every answer is checked before its time is printed; a wrong one fails the program.
#include <chrono>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "command_line.hpp"
#include "harness/machine.hpp"
#include "tpca/options.hpp"

namespace {

using namespace tenure::bench;

int run(tpca::program_options& how) {
  // Every thread has a section of accounts in whole pages, and enough of them for the localized pattern.
  constexpr std::uint64_t step = 8 * 32 * 20;
  how.accounts = std::max<std::uint64_t>(1, (how.accounts + step / 2) / step) * step;
  const scratch_directory scratch{how.directory, "bench-tpca"};
  how.directory = std::filesystem::absolute(scratch.path());
  how.machine = describe_machine(how.directory);
  fmt::print("bench_tpca{}\n{}\n", how.quick ? " --quick" : "", to_text(how.machine));
  const auto start = std::chrono::steady_clock::now();
  bool good = tpca::run_throughput_cases(how);
  good = tpca::run_mapping_case(how) && good;
  good = tpca::run_recovery_cases(how) && good;
  fmt::print("{} after {:.0f} s, load {}\n", good ? "all answers right" : "FAILED",
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
             describe_machine(how.directory).load);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  tpca::program_options how;
  how.directory = ".";
  std::string child;
  std::uint64_t amount = 0;
  bool ordinary_priority = false;
  tenure::tools::command_line app{"TPC-A variant of the RVM paper, against bare logs and other systems"};
  app.option("--accounts", how.accounts, "accounts of 128 bytes; the trail takes as much again").shows_default();
  app.option("--transactions", how.transactions, "transactions a run, instead of each case's own number");
  app.option("--repeat", how.repeat, "runs of each contender (default 5, quick 3)");
  app.option("--seconds", how.seconds, "a run ends after so long (default 10, quick 0.2)");
  app.option("--log", how.log_mib, "MiB of log for durable commits").shows_default();
  app.option("--contenders", how.contenders, "only these").separated_by_commas();
  app.option("--cases", how.cases, "only these; the beginning of a name up to a dash will do").separated_by_commas();
  app.flag("--quick", how.quick, "everything in less than a minute, on little data");
  app.flag("--no-restore", how.no_restore, "tenure's transactions cannot be aborted");
  app.flag("--ordinary-priority", ordinary_priority, "do not ask for SCHED_RR");
  app.option("--dir", how.directory, "where to put scratch files: this file system is measured").shows_default();
  app.option("--json", how.json.path, "append results to this file, an object a line");
  app.option("--child", child, "").hidden();
  app.option("--amount", amount, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a case may take minutes, also for who reads a file
  if (how.quick) {
    if (!app.has("--accounts")) how.accounts = 16384;
    if (!app.has("--seconds")) how.seconds = 0.2;
  }
  how.raise_priority = !ordinary_priority;
  try {
    if (!child.empty()) {
      tpca::run_recovery_child(child, how.directory, amount);
      return 0;
    }
    return run(how);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_tpca: {}\n", e.what());
    return 1;
  }
}
