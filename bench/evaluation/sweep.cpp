// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// [RVM §7.1.2, Table 1, figures 8 and 9]: the TPC-A variant while recoverable memory outgrows memory. Each run is a process
// in a control group that has as much memory as the paper's machine had; the bank is made outside of it.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <sys/resource.h>

#include "evaluation/options.hpp"
#include "harness/child.hpp"
#include "harness/memory_limit.hpp"
#include "harness/meter.hpp"
#include "harness/statistics.hpp"
#include "peers/tpca_contender.hpp"

namespace tenure::bench::evaluation {
namespace {

using namespace tpca;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr pattern patterns[] = {pattern::sequential, pattern::uniform, pattern::localized};
// The paper's word for it.
const char* heading_of(pattern which) {
  return which == pattern::uniform ? "random" : which == pattern::localized ? "localized" : "sequential";
}

setup setup_for(const child_options& what, const std::filesystem::path& directory) {
  setup with;
  with.directory = directory;
  with.bank = {what.accounts, 1};
  with.log_size = what.memory / 8;  // 8 MiB: a truncation every 1000 transactions, several in a run
  with.memory = what.memory;
  return with;
}

std::unique_ptr<contender> make(const child_options& what, const std::filesystem::path& directory) {
  for (const auto& kind : all_contenders())
    if (kind.name == what.contender) {
      setup with = setup_for(what, directory);
      with.whole_records = kind.whole_records;
      return kind.make(with);
    }
  throw std::runtime_error("there is no contender named " + what.contender);
}

std::vector<std::string> arguments(const child_options& what, const std::filesystem::path& directory) {
  return {"--child",     what.task,
          "--contender", what.contender,
          "--accounts",  std::to_string(what.accounts),
          "--pattern",   what.pattern,
          "--memory",    std::to_string(what.memory),
          "--seconds",   std::to_string(what.seconds),
          "--group",     what.group,
          "--dir",       directory.string()};
}

// Accounts that make recoverable memory this part of `memory`; a multiple of what the localized pattern needs.
std::uint64_t accounts_for(std::uint64_t memory, double percent) {
  constexpr std::uint64_t step = 32 * 20;
  const double accounts = static_cast<double>(memory) * percent / 100 / (sizeof(record) + 2 * sizeof(history));
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(accounts) / step) * step;
}

// Durable writes a second of a transaction's log record, with all the memory that there is: what the disk allows.
double raw_rate(const program_options& how) {
  child_options what;
  what.contender = "raw";
  what.accounts = 640;
  const auto directory = how.directory / "raw";
  std::filesystem::create_directories(directory);
  const raised_priority priority;
  const auto who = make(what, directory);
  who->create();
  who->open();
  const auto session = who->start(0);
  generator from{who->how().bank, pattern::sequential, 1, 0, 1};
  std::uint64_t done = 0;
  const meter spent;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(how.seconds / 2);
  for (; std::chrono::steady_clock::now() < limit; ++done) session->run(from.next());
  const double rate = static_cast<double>(done) / spent.read().seconds;
  who->close();
  std::filesystem::remove_all(directory);
  return rate;
}

}  // namespace

void run_sweep_child(const child_options& what, const std::filesystem::path& directory) {
  const auto who = make(what, directory);
  if (who == nullptr) {
    fmt::print("{{\"missing\": true}}\n");
    return;
  }
  if (what.task == "sweep-create") {
    who->create();
    fmt::print("{{}}\n");
    return;
  }
  if (what.task == "sweep-audit") {  // in a process without the limit: what an audit needs is not the contender's
    who->open();
    auditor by{who->how().bank};
    who->audit(by);
    (void)by.agreed();
    who->close();
    fmt::print("{{}}\n");
    return;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) files.push_back(entry.path());
  for (const auto& file : files) drop_from_cache(file);
  enter_memory_limit(what.group);
  for (const auto& file : files) load_into_cache(file);
  const raised_priority priority;
  who->open();
  auto session = who->start(0);
  const pattern access = *std::ranges::find_if(patterns, [&](pattern p) { return what.pattern == name_of(p); });
  generator from{who->how().bank, access, 1, 0,
                 static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())};
  const auto run_for = [&](double seconds) {
    std::uint64_t done = 0;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (; std::chrono::steady_clock::now() < limit; ++done) session->run(from.next());
    return done;
  };
  // Into the steady state: all has been read once, and truncation has begun.
  run_for(what.seconds);
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const meter spent{directory};
  const std::uint64_t done = run_for(what.seconds);
  const cost price = spent.read();
  ::getrusage(RUSAGE_SELF, &after);
  session.reset();
  who->close();
  tell_parent({{"tx_per_s", static_cast<double>(done) / price.seconds},
               {"cpu_us_per_tx", price.cpu_seconds() * 1e6 / static_cast<double>(done)},
               {"faults_per_tx", static_cast<double>(after.ru_majflt - before.ru_majflt) / static_cast<double>(done)}});
}

bool run_sweep(const program_options& how) {
  fmt::print("table-1: the TPC-A variant in {} MiB of memory (control group), one thread, each commit durable\n",
             how.memory / mib);
  std::unique_ptr<memory_limit> limit;
  try {
    limit = std::make_unique<memory_limit>(how.memory);
  } catch (const std::exception& e) {
    fmt::print("  left out: {}\n\n", e.what());
    return true;
  }
  using key = std::tuple<std::string, std::string, double>;  // contender, pattern, ratio
  std::map<key, std::map<std::string, std::vector<double>>> found;
  std::map<std::string, std::string> failures;
  bool good = true;
  for (const double ratio : how.ratios) {
    for (const auto& kind : all_contenders()) {
      if (kind.bare || !kind.only_case.empty() || !how.wants_contender(kind.name)) continue;
      child_options what;
      what.contender = kind.name;
      what.accounts = accounts_for(how.memory, ratio);
      what.memory = how.memory;
      what.seconds = how.seconds;
      what.group = limit->group();
      const auto directory = how.directory / kind.name;
      std::filesystem::create_directories(directory);
      try {
        what.task = "sweep-create";
        if (run_child(arguments(what, directory)).contains("missing")) continue;
        what.task = "sweep-run";
        for (unsigned trial = 0; trial < how.repeat; ++trial)
          for (const pattern access : patterns) {
            const double raw = raw_rate(how);
            what.pattern = name_of(access);
            const auto said = run_child(arguments(what, directory));
            auto& of = found[{kind.name, heading_of(access), ratio}];
            for (const auto& [metric, value] : said.items()) of[metric].push_back(value.get<double>());
            of["of_raw"].push_back(said.at("tx_per_s").get<double>() / raw);
          }
        what.task = "sweep-audit";
        (void)run_child(arguments(what, directory));
      } catch (const std::exception& e) {
        failures[fmt::format("{} at {} %", kind.name, ratio)] = e.what();
        good = good && !kind.name.starts_with("tenure");
      }
      std::filesystem::remove_all(directory);
    }
    fmt::print("  {} % done\n", ratio);
  }
  for (const pattern access : patterns) {
    fmt::print(
        "\n  {} access: transactions/s (ratio to write and sync of the same bytes) | CPU us a transaction | major"
        " faults\n",
        heading_of(access));
    std::vector<std::string> heads{"contender"};
    for (const double ratio : how.ratios) heads.push_back(fmt::format("{} %", ratio));
    table rows{heads};
    for (const auto& kind : all_contenders()) {
      std::vector<std::string> row{kind.name};
      for (const double ratio : how.ratios) {
        const auto of = found.find({kind.name, heading_of(access), ratio});
        if (of == found.end()) {
          row.emplace_back("-");
          continue;
        }
        auto median = [&](const char* metric) { return summarize(of->second.at(metric)).median; };
        row.push_back(fmt::format("{} ({:.2f}) | {:.0f} | {:.2f}", number(median("tx_per_s")), median("of_raw"),
                                  median("cpu_us_per_tx"), median("faults_per_tx")));
        for (const auto& [metric, unit] :
             {std::pair{"tx_per_s", "1/s"}, {"of_raw", "1"}, {"cpu_us_per_tx", "us"}, {"faults_per_tx", "1"}}) {
          result line;
          line.bench = "rvm";
          line.contender = kind.name;
          line.case_name = fmt::format("table-1-{}", heading_of(access));
          line.metric = metric;
          line.unit = unit;
          line.value = summarize(of->second.at(metric));
          line.extra = {{"rmem_pmem", ratio},
                        {"memory", how.memory},
                        {"kernel", how.machine.kernel},
                        {"file_system", how.machine.file_system},
                        {"huge_pages", how.machine.huge_pages},
                        {"quick", how.quick}};
          how.json.add(line);
        }
      }
      if (std::ranges::any_of(row.begin() + 1, row.end(), [](const auto& cell) { return cell != "-"; })) rows.add(row);
    }
    rows.print();
  }
  for (const auto& [who, why] : failures) fmt::print("  {} FAILED: {}\n", who, why);
  fmt::print("\n");
  return good;
}

}  // namespace tenure::bench::evaluation
