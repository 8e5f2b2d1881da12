// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_rvm: the evaluation of the RVM paper again [RVM §7]: Table 1 with figures 8 and 9, Table 2; searches through the
// history; and the classic C interface against the C++ one.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "command_line.hpp"
#include "evaluation/options.hpp"

namespace tenure::bench::evaluation {

bool program_options::wants(const std::string& exhibit) const {
  return exhibits.empty() || std::ranges::find(exhibits, exhibit) != exhibits.end();
}
bool program_options::wants_contender(const std::string& name) const {
  return contenders.empty() || std::ranges::find(contenders, name) != contenders.end();
}

}  // namespace tenure::bench::evaluation

int main(int argc, char** argv) {
  using namespace tenure::bench;
  evaluation::program_options how;
  evaluation::child_options child;
  how.repeat = 3;
  // The paper's, of which every second one is enough to see the curves.
  how.ratios = {12.5, 25, 50, 75, 100, 125, 150, 175};
  how.contenders = {"tenure", "lmdb", "sqlite-wal", "rocksdb", "wiredtiger"};
  std::uint64_t memory_mib = 64;
  tenure::tools::command_line app{"The evaluation of the RVM paper"};
  app.option("--seconds", how.seconds, "of each run, after as many to warm up").shows_default();
  app.option("--limit", memory_mib, "MiB of memory for each run").shows_default();
  app.option("--ratios", how.ratios, "of recoverable memory to it, per cent").separated_by_commas().shows_default();
  app.option("--contenders", how.contenders, "only these").separated_by_commas().shows_default();
  app.option("--exhibits", how.exhibits, "only these: table-1 (with both figures), table-2, history, interface")
      .separated_by_commas();
  add_common_options(app, how);
  app.option("--child", child.task, "").hidden();
  app.option("--contender", child.contender, "").hidden();
  app.option("--pattern", child.pattern, "").hidden();
  app.option("--group", child.group, "").hidden();
  app.option("--accounts", child.accounts, "").hidden();
  app.option("--memory", child.memory, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  how.memory = memory_mib << 20;
  child.seconds = how.seconds;
  if (how.quick) {
    how.repeat = 1;
    how.seconds = 0.2;
    how.ratios = {12.5, 100, 175};
    how.contenders = {"tenure", "lmdb"};
  }
  return run_program("bench_rvm", [&] {
    if (child.task == "interface") {
      evaluation::run_interface_child(child, how.directory);
      return true;
    }
    if (!child.task.empty()) {
      evaluation::run_sweep_child(child, how.directory);
      return true;
    }
    const benchmark_run running("bench_rvm", how);
    bool good = true;
    if (how.wants("table-1")) good = evaluation::run_sweep(how) && good;
    if (how.wants("table-2")) good = evaluation::run_savings(how) && good;
    if (how.wants("history")) good = evaluation::run_history(how) && good;
    if (how.wants("interface")) good = evaluation::run_interfaces(how) && good;
    return good;
  });
}
