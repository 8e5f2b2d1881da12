// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_transactions: what a transaction over several stores costs beside a durable commit in one, and what a transaction in a
// transaction costs for each page that the outer one has written [RVM §8].
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tenure/tenure.hpp>
#include <tenure/transact_all.hpp>

#include "command_line.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "harness/rounds.hpp"
#include "peers/sqlite.hpp"

namespace transactions_bench {
struct tally {
  std::uint64_t number = 0;
};
struct page {
  std::uint64_t words[512];
};
struct pages {
  tenure::vector<page*> all;
};
}  // namespace transactions_bench

namespace {

using namespace tenure::bench;
using namespace transactions_bench;
using clock_type = std::chrono::steady_clock;

template <class F>
double microseconds(F&& work) {
  const auto start = clock_type::now();
  work();
  return std::chrono::duration<double, std::micro>(clock_type::now() - start).count();
}

double median_of(unsigned times, const std::function<double()>& measure) {
  std::vector<double> all;
  for (unsigned n = 0; n < times; ++n) all.push_back(measure());
  return summarize(all).median;
}

// --- Over several stores ---

class several_stores {
 public:
  several_stores(const std::filesystem::path& directory, unsigned transactions) : transactions_(transactions) {
    for (int n = 0; n < 5; ++n) {
      stores_.push_back(std::make_unique<tenure::store>((directory / std::to_string(n)).string()));
      tallies_.push_back(&stores_.back()->root<tally>("tally"));
    }
  }
  // Each commit is durable. What is committed lazily stays in memory until the next one of the same store.
  measurement run(std::size_t of) {
    const auto change = [&] {
      for (std::size_t n = 0; n < of; ++n) ++tallies_[n]->number;
    };
    const double took = median_of(transactions_, [&] {
      return microseconds([&] {
        auto& s = stores_;
        if (of == 1) s[0]->transact(change);
        if (of == 2) tenure::transact_all(*s[0], *s[1], change);
        if (of == 3) tenure::transact_all(*s[0], *s[1], *s[2], change);
        if (of == 5) tenure::transact_all(*s[0], *s[1], *s[2], *s[3], *s[4], change);
      });
    });
    return {{"transaction", took}};
  }

 private:
  unsigned transactions_;
  std::vector<std::unique_ptr<tenure::store>> stores_;
  std::vector<tally*> tallies_;
};

#ifdef TENURE_HAVE_SQLITE
// Databases that one connection has attached. Commits over several are atomic with rollback journals, and not with WAL.
class attached_databases {
 public:
  attached_databases(const std::filesystem::path& directory, unsigned transactions)
      : transactions_(transactions), first_(directory / "0.sqlite", 1 << 20) {
    first_.run("PRAGMA journal_mode=DELETE");
    for (int n = 0; n < 3; ++n) {
      const std::string name = n == 0 ? "main" : fmt::format("other{}", n);
      if (n != 0) first_.run(fmt::format("ATTACH '{}/{}.sqlite' AS {}", directory.string(), n, name).c_str());
      first_.run(
          fmt::format("CREATE TABLE {0}.tally (number INTEGER); INSERT INTO {0}.tally VALUES (0)", name).c_str());
      updates_.push_back(std::make_unique<sqlite_statement>(
          first_, fmt::format("UPDATE {}.tally SET number = number + 1", name).c_str()));
    }
  }
  measurement run(std::size_t of) {
    return {{"transaction", median_of(transactions_, [&] {
               return microseconds([&] {
                 first_.run("BEGIN");
                 for (std::size_t n = 0; n < of; ++n) updates_[n]->run();
                 first_.run("COMMIT");
               });
             })}};
  }

 private:
  unsigned transactions_;
  sqlite_database first_;
  std::vector<std::unique_ptr<sqlite_statement>> updates_;
};
#endif

// --- In a transaction ---

// A transaction has written to so many pages. Begins one in it, changes a tenth of these pages, and ends it.
class inner_transactions {
 public:
  inner_transactions(const std::filesystem::path& directory, std::size_t most)
      : store_((directory / "inner").string()), pages_(store_.root<pages>("pages")) {
    store_.transact([&] {
      for (std::size_t n = 0; n < most; ++n) pages_.all.push_back(store_.make<page>());
    });
  }
  measurement run(std::size_t dirty) {
    const std::size_t changed = std::max<std::size_t>(dirty / 10, 1);
    std::vector<double> begin, commit, abort;
    tenure::transaction outer = store_.begin();
    for (std::size_t n = 0; n < dirty; ++n) ++pages_.all[n]->words[n % 512];
    for (int round = 0; round < 20; ++round) {
      tenure::transaction inner;
      begin.push_back(microseconds([&] { inner = store_.begin(); }) / static_cast<double>(dirty));
      for (std::size_t n = 0; n < changed; ++n) ++pages_.all[n]->words[n % 512];
      const bool commits = round % 2 == 0;
      (commits ? commit : abort)
          .push_back(microseconds([&] { commits ? (void)inner.commit() : inner.abort(); }) /
                     static_cast<double>(changed));
    }
    outer.abort();
    return {
        {"begin", summarize(begin).median}, {"commit", summarize(commit).median}, {"abort", summarize(abort).median}};
  }

 private:
  tenure::store store_;
  pages& pages_;
};

// --- Tables ---

bool show(const common_options& how, const std::string& title, const std::string& case_name,
          const std::vector<std::string>& metrics, bool with_ratios, const std::vector<outcome>& outcomes) {
  bool good = true;
  for (const std::string& metric : metrics)
    good &= show_metric(
        {"transactions", case_name, fmt::format(fmt::runtime(title), fmt::arg("metric", metric)) + "; microseconds",
         metric, "us", with_ratios, describe(how.machine, how.quick)},
        outcomes, how.json);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  common_options how;
  tenure::tools::command_line app{"Transactions over several stores, and transactions in transactions"};
  how.repeat = 7;
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 3;
  return run_program("bench_transactions", [&] {
    const benchmark_run running("bench_transactions", how);
    const scratch_directory scratch{how.directory, "transactions"};
    const unsigned transactions = how.quick ? 20 : 100;
    several_stores stores(scratch.path(), transactions);
    std::vector<entrant> entrants;
    for (const std::size_t of : {1, 2, 3, 5})
      entrants.push_back(
          {of == 1 ? "one-store" : fmt::format("{}-stores", of), [&, of] { return stores.run(of); }, ""});
#ifdef TENURE_HAVE_SQLITE
    attached_databases sqlite(scratch.path(), transactions);
    for (const std::size_t of : {1, 2, 3})
      entrants.push_back({fmt::format("sqlite-{}-files", of), [&, of] { return sqlite.run(of); }, ""});
#endif
    bool good = show(how, "a durable {metric} that changes a number in each", "several", {"transaction"}, true,
                     run_rounds(entrants, {}, {.repeat = how.repeat, .compared = "transaction"}));
    const std::size_t most = how.quick ? 1000 : 10'000;
    inner_transactions inner(scratch.path(), most);
    entrants.clear();
    for (std::size_t dirty = 10; dirty <= most; dirty *= 10)
      entrants.push_back({fmt::format("{}-pages", dirty), [&, dirty] { return inner.run(dirty); }, ""});
    good &= show(how,
                 "{metric} of an inner transaction: begin for each page that the outer one has written, the others "
                 "for each of the tenth of these that the inner one has written, too",
                 "inner", {"begin", "commit", "abort"}, false,
                 run_rounds(entrants, {}, {.repeat = how.repeat, .compared = "begin"}));
    return good;
  });
}
