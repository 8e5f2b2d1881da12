// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The classic C interface against the C++ one: the same transactions on the same memory. The C library has one life in a
// process, so each run is a process.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>
#include <tenure/rvm.hpp>

#include "evaluation/options.hpp"
#include "harness/child.hpp"
#include "harness/rounds.hpp"
#include "tpca/workload.hpp"

// Last: it has enumerators named flush and restore.
#include <rvm/rvm.h>

namespace tenure::bench::evaluation {
namespace {

constexpr std::size_t accounts = 1024, record_bytes = 128, length = accounts * record_bytes;
constexpr std::size_t ranges = 4, range_bytes = 16;
constexpr std::uint64_t spool = 48 << 20;  // transactions that fit into it: nothing is written while they run

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Calls one(i, places) for so many transactions; returns what each took, in ns, in the best of several parts: what the
// machine does besides is not of interest here.
template <class F>
double time_of(std::uint64_t transactions, std::byte* base, F&& one) {
  constexpr std::uint64_t parts = 50;
  tpca::random_source random{1};
  double best = std::numeric_limits<double>::infinity();
  for (std::uint64_t part = 0; part < parts; ++part) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < transactions / parts; ++i) {
      std::byte* at[ranges];
      for (auto& place : at) place = base + random.below(accounts) * record_bytes;
      one(i, at);
    }
    best = std::min(best, seconds_since(start) * 1e9 / static_cast<double>(transactions / parts));
  }
  return best;
}

std::uint64_t transactions_for(bool lazy) { return lazy ? spool / 256 : 3000; }

double run_cxx(const std::filesystem::path& directory, bool lazy) {
  rvm::options how;
  how.log.size = std::uint64_t{64} << 20;
  how.tune.truncation_threshold = 2;
  rvm::memory memory{(directory / "log").string(), how};
  auto region = memory.map((directory / "seg").string(), {.raw = true});
  return time_of(transactions_for(lazy), region.data(), [&](std::uint64_t i, std::byte** at) {
    auto tx = memory.begin();
    for (std::size_t r = 0; r < ranges; ++r) {
      tx.set_range(at[r], range_bytes);
      std::memcpy(at[r], &i, sizeof i);
    }
    tx.commit(lazy ? rvm::commit_mode::no_flush : rvm::commit_mode::flush);
  });
}

void check(rvm_return_t code) {
  if (code != RVM_SUCCESS) throw std::runtime_error(rvm_return(code));
}

double run_c(const std::filesystem::path& directory, bool lazy) {
  std::string log = (directory / "log").string(), segment = (directory / "seg").string();
  rvm_options_t options;
  rvm_init_options(&options);
  options.log_dev = log.data();
  options.create_log_file = rvm_true;
  options.create_log_size = {0, std::uint64_t{64} << 20};
  options.create_log_mode = 0600;
  options.truncate = 0;
  check(RVM_INIT(&options));
  rvm_region_t region;
  rvm_init_region(&region);
  region.data_dev = segment.data();
  region.no_copy = rvm_true;
  check(rvm_map(&region, nullptr));
  auto* const base = reinterpret_cast<std::byte*>(region.vmaddr);
  rvm_tid_t tid;
  rvm_init_tid(&tid);
  return time_of(transactions_for(lazy), base, [&](std::uint64_t i, std::byte** at) {
    check(rvm_begin_transaction(&tid, restore));
    for (std::size_t r = 0; r < ranges; ++r) {
      check(rvm_set_range(&tid, at[r], range_bytes));
      std::memcpy(at[r], &i, sizeof i);
    }
    check(rvm_end_transaction(&tid, lazy ? no_flush : ::flush));
  });
}

}  // namespace

void run_interface_child(const child_options& what, const std::filesystem::path& directory) {
  const raised_priority priority;
  const bool lazy = what.pattern == "lazy";
  const double ns = what.contender == "c" ? run_c(directory, lazy) : run_cxx(directory, lazy);
  tell_parent({{"ns_per_tx", ns}});
  std::fflush(stdout);
  std::_Exit(0);  // without truncating what is in the log
}

bool run_interfaces(const program_options& how) {
  bool good = true;
  for (const std::string mode : {"durable", "lazy"}) {
    fmt::print("interface-{}: the C interface against the C++ one; four ranges a transaction\n", mode);
    const auto run = [&](const std::string& which) -> measurement {
      const auto directory = how.directory / "interface";
      std::filesystem::create_directories(directory);
      std::FILE* segment = std::fopen((directory / "seg").c_str(), "w");
      for (std::size_t i = 0; i < length; ++i) std::fputc(0, segment);
      std::fclose(segment);
      const auto said =
          run_child({"--child", "interface", "--contender", which, "--pattern", mode, "--dir", directory.string()});
      std::filesystem::remove_all(directory);
      return {{"ns_per_tx", said.at("ns_per_tx")}};
    };
    round_options rounds;
    rounds.repeat = how.quick ? 3 : 11;
    rounds.compared = "ns_per_tx";
    const auto outcomes =
        run_rounds({{"c", [&] { return run("c"); }, "c++"}}, {{"c++", [&] { return run("c++"); }}}, rounds);
    // The best of all runs: what disturbs the machine, and the disk's moods, are larger than the difference.
    double best_of_cxx = 0;
    for (const outcome& one : outcomes)
      if (one.name == "c++" && one.failure.empty()) best_of_cxx = summarize(one.values("ns_per_tx")).min;
    table rows{{"interface", "ns a transaction", "[min .. max]", "ratio of the best"}};
    for (const outcome& one : outcomes) {
      if (!one.failure.empty()) {
        fmt::print("  {} FAILED: {}\n", one.name, one.failure);
        good = false;
        continue;
      }
      const auto value = summarize(one.values("ns_per_tx"));
      const double ratio = value.min / best_of_cxx;
      rows.add({one.name, number(value.median), range(value), one.name == "c" ? number(ratio) : ""});
      result line;
      line.bench = "rvm";
      line.contender = one.name;
      line.case_name = "interface-" + mode;
      line.metric = "ns_per_tx";
      line.unit = "ns";
      line.value = value;
      if (one.name == "c") {
        line.of = "c++";
        line.ratio = line.extra["ratio_min"] = line.extra["ratio_max"] = ratio;
      }
      line.extra["quick"] = how.quick;
      how.json.add(line);
    }
    rows.print();
    fmt::print("\n");
  }
  return good;
}

}  // namespace tenure::bench::evaluation
