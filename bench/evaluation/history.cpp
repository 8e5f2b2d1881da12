// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// [RVM §6]: how long it takes to find out who changed a word, where a gigabyte of log has been archived.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "evaluation/options.hpp"
#include "harness/statistics.hpp"
#include "history_command.hpp"
#include "peers/tpca_contender.hpp"

namespace tenure::bench::evaluation {

bool run_history(const program_options& how) {
  using namespace tpca;
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  const std::uint64_t wanted = (how.quick ? 16 : 1024) * mib;
  setup with;
  with.directory = how.directory / "history";
  std::filesystem::create_directories(with.directory);
  with.bank = {261120, 1};
  with.lazy = true;
  with.whole_records = false;
  with.archive = true;
  with.log_size = 64 * mib;
  const auto who = make_tenure(with);
  who->create();
  who->open();
  auto session = who->start(0);
  generator from{with.bank, pattern::uniform, 1, 0, 1};
  while (who->count().log_bytes.value_or(0) < wanted)
    for (int i = 0; i < 10000; ++i) session->run(from.next());
  session.reset();
  who->close();
  std::uint64_t stored = 0;
  for (const auto& entry : std::filesystem::directory_iterator(with.directory))
    if (entry.path().filename().string().starts_with("bank.log.archive")) stored += entry.file_size();

  std::vector<double> seconds;
  // Words of accounts all over the bank: each was changed some twenty times.
  for (unsigned i = 0; i < std::max(how.repeat, 5u); ++i) {
    const std::string word =
        fmt::format("{}:{}+8", (with.directory / "bank.seg").string(), 8192 + 8 + (i * 7919 + 5) * sizeof(record));
    std::FILE* const nowhere = std::fopen("/dev/null", "w");
    const auto start = std::chrono::steady_clock::now();
    const int code = tools::show_history(os::real_disk(), {}, word, false, nowhere);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    std::fclose(nowhere);
    if (code != 0) throw std::runtime_error("the history is not whole");
  }
  const summary taken = summarize(seconds);
  fmt::print(
      "history: one word's, in an archive of {} MiB of log in {} MiB of files; page cache warm\n"
      "  {} s {}\n\n",
      wanted / mib, stored / mib, number(taken.median), range(taken));
  result line;
  line.bench = "rvm";
  line.contender = "tenure";
  line.case_name = how.quick ? "history-16MiB" : "history-1GiB";
  line.metric = "seconds";
  line.unit = "s";
  line.value = taken;
  line.extra = {{"archive_bytes", stored}, {"quick", how.quick}};
  how.json.add(line);
  std::filesystem::remove_all(with.directory);
  return true;
}

}  // namespace tenure::bench::evaluation
