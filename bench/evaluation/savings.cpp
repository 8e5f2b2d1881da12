// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// [RVM §7.3, Table 2]: what the two optimizations keep out of the log, for recorded traces.
#include <cstring>

#include <fmt/format.h>
#include <tenure/rvm.hpp>

#include "evaluation/options.hpp"
#include "evaluation/trace.hpp"
#include "harness/statistics.hpp"

namespace tenure::bench::evaluation {
namespace {

rvm::statistics replay(const trace& of, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  rvm::options how;
  how.log.size = std::uint64_t{256} << 20;
  rvm::memory memory{(directory / "log").string(), how};
  auto region = memory.map((directory / "seg").string(), {.create_length = (of.length() + 4095) / 4096 * 4096});
  std::uint64_t number = 0;
  rvm::transaction tx = memory.begin();
  for (const step& s : of.steps) {
    switch (s.what) {
      case step::kind::range:
        tx.set_range(region.data() + s.offset, s.length);
        std::memset(region.data() + s.offset, static_cast<int>(++number), s.length);
        continue;
      case step::kind::flush: memory.flush(); continue;
      case step::kind::commit_flush: tx.commit(rvm::commit_mode::flush); break;
      case step::kind::commit_no_flush: tx.commit(rvm::commit_mode::no_flush); break;
      case step::kind::abort: tx.abort(); break;
    }
    tx = memory.begin();
  }
  tx.abort();
  memory.flush();
  const rvm::statistics counted = memory.stats();
  region.unmap();
  memory.close();
  std::filesystem::remove_all(directory);
  return counted;
}

}  // namespace

bool run_savings(const program_options& how) {
  fmt::print("table-2: parts of the log that the optimizations save\n");
  std::vector<trace> traces;
  traces.push_back(read_trace(std::filesystem::path{TENURE_TRACES} / "packages.trace.zst"));
  traces.back().name = "packages";
  traces.back().what = "updates of the demo: installing packages, each commit durable";
  traces.push_back(file_system_trace(1));
  table rows{{"trace", "transactions", "bytes to the log", "intra-transaction", "inter-transaction", "together"}};
  for (const trace& one : traces) {
    const auto s = replay(one, how.directory / "savings");
    const auto intra = static_cast<double>(s.intra_bytes_saved), inter = static_cast<double>(s.inter_bytes_saved);
    const double original = static_cast<double>(s.bytes_logged) + intra + inter;
    const std::uint64_t transactions = s.flush_commits + s.no_flush_commits;
    rows.add({one.name, fmt::format("{}", transactions), fmt::format("{}", s.bytes_logged),
              fmt::format("{:.1f} %", 100 * intra / original), fmt::format("{:.1f} %", 100 * inter / original),
              fmt::format("{:.1f} %", 100 * (intra + inter) / original)});
    for (const auto& [metric, value] :
         {std::pair<const char*, double>{"transactions", static_cast<double>(transactions)},
          {"bytes_logged", static_cast<double>(s.bytes_logged)},
          {"intra_saved_percent", 100 * intra / original},
          {"inter_saved_percent", 100 * inter / original}}) {
      result line;
      line.bench = "rvm";
      line.contender = one.name;
      line.case_name = "table-2";
      line.metric = metric;
      line.value = summarize({value});
      line.extra = {{"what", one.what}, {"quick", how.quick}};
      how.json.add(line);
    }
  }
  rows.print();
  for (const trace& one : traces) fmt::print("  {}: {}\n", one.name, one.what);
  fmt::print("\n");
  return true;
}

}  // namespace tenure::bench::evaluation
