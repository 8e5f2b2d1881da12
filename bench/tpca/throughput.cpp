// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions a second, and what each costs. A case sets the bank up once for each contender; every run opens it, runs
// transactions, audits the bank against the ledger, and closes it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "harness/meter.hpp"
#include "peers/tpca_contender.hpp"
#include "tpca/options.hpp"

namespace tenure::bench::tpca {
namespace {

struct throughput_case {
  std::string name;
  bool lazy = false;
  unsigned threads = 1;
  pattern access = pattern::uniform;
  std::string baseline;  // "raw", "group-log", "memory-log"
  std::uint64_t transactions = 0;
  std::uint64_t log_size = 0, spool_limit = 0;  // bytes; 0 for the spool: tenure's default
  unsigned parts = 1;          // more than 1: a checkpoint after each part, and close(), are in the time
  bool until_durable = false;  // flush() is in the time
  bool peers = true;           // other systems take part
  std::string only = {};       // this contender alone
  std::string what;            // for people
};

// One contender in one case.
class runner {
 public:
  runner(const program_options& how, const throughput_case& of, std::unique_ptr<contender> who)
      : how_(how), case_(of), who_(std::move(who)) {
    std::filesystem::create_directories(who_->how().directory);
    who_->create();
  }
  // What the runs left on the disk still is what the ledger says. For the end of the case.
  void check_stored() {
    who_->open();
    audit();
    who_->close();
  }

  measurement run() {
    const raised_priority priority{how_.raise_priority};
    who_->open();
    const counters before = who_->count();
    std::vector<std::unique_ptr<session>> sessions;
    for (unsigned i = 0; i < case_.threads; ++i) sessions.push_back(who_->start(i));
    ++round_;
    ledger done;
    const meter spent{who_->how().directory};
    for (unsigned part = 0; part < case_.parts; ++part) {
      done.add(run_part(sessions, part));
      if (case_.parts > 1) who_->checkpoint();
    }
    if (case_.until_durable) who_->flush();
    counters after;
    cost price;
    if (case_.parts > 1) {
      after = who_->count();
      sessions.clear();
      who_->close();
      price = spent.read();
      who_->open();
    } else {
      price = spent.read();
      if (case_.lazy && !case_.until_durable) who_->flush();
      after = who_->count();
    }
    ledger_.add(done);
    audit();
    sessions.clear();
    who_->close();
    return measured(price, before, after, done.transactions);
  }

  [[nodiscard]] const contender& who() const { return *who_; }

 private:
  void audit() {
    auditor by{who_->how().bank};
    who_->audit(by);
    by.expect(ledger_);
  }

  ledger run_part(std::vector<std::unique_ptr<session>>& sessions, unsigned part) {
    const std::uint64_t each = case_.transactions / case_.parts / case_.threads;
    std::vector<ledger> done(case_.threads);
    std::vector<std::exception_ptr> errors(case_.threads);
    const auto work = [&](unsigned thread) {
      try {
        done[thread] = run_thread(*sessions[thread], thread, part, each);
      } catch (...) {
        errors[thread] = std::current_exception();
      }
    };
    if (case_.threads == 1) {
      work(0);
    } else {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < case_.threads; ++i) threads.emplace_back(work, i);
    }
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    ledger all;
    for (const auto& one : done) all.add(one);
    return all;
  }

  ledger run_thread(session& in, unsigned thread, unsigned part, std::uint64_t transactions) const {
    constexpr std::uint64_t between_looks = 32;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(how_.seconds / case_.parts);
    generator from{who_->how().bank, case_.access, case_.threads, thread, round_ * 100 + part};
    ledger done;
    for (std::uint64_t i = 0; i < transactions; ++i) {
      if (i % between_looks == 0 && std::chrono::steady_clock::now() > limit) break;
      const transfer one = from.next();
      in.run(one);
      done.add(one);
    }
    return done;
  }

  static measurement measured(const cost& price, const counters& before, const counters& after,
                              std::uint64_t transactions) {
    const auto count = static_cast<double>(transactions);
    measurement m;
    m["transactions"] = count;
    m["tx_per_s"] = count / price.seconds;
    m["cpu_us_per_tx"] = price.cpu_seconds() * 1e6 / count;
    if (price.device_flushes) m["device_flushes_per_tx"] = static_cast<double>(*price.device_flushes) / count;
    if (price.device_bytes_written) m["device_bytes_per_tx"] = static_cast<double>(*price.device_bytes_written) / count;
    const auto difference = [&](std::optional<std::uint64_t> counters::*of) {
      return static_cast<double>((after.*of).value_or(0) - (before.*of).value_or(0));
    };
    if (after.log_bytes) m["log_bytes_per_tx"] = difference(&counters::log_bytes) / count;
    if (after.syncs) m["flushes_per_tx"] = difference(&counters::syncs) / count;
    if (after.truncations) m["truncations"] = difference(&counters::truncations);
    if (after.logged) {
      // Table 2 of the paper: parts of what the log would have been.
      const double intra = difference(&counters::intra_saved), inter = difference(&counters::inter_saved);
      const double original = difference(&counters::logged) + intra + inter;
      m["intra_saved_percent"] = original > 0 ? 100 * intra / original : 0;
      m["inter_saved_percent"] = original > 0 ? 100 * inter / original : 0;
    }
    return m;
  }

  const program_options& how_;
  const throughput_case& case_;
  std::unique_ptr<contender> who_;
  ledger ledger_;
  unsigned round_ = 0;
};

setup setup_for(const program_options& how, const throughput_case& of, bool whole_records) {
  setup with;
  with.bank = {how.accounts, of.threads};
  with.threads = of.threads;
  with.lazy = of.lazy;
  with.whole_records = whole_records;
  with.log_size = of.log_size;
  with.spool_limit = of.spool_limit;
  with.no_restore = how.no_restore;
  return with;
}

// Bytes that tenure's log takes for a transaction of this case: what the bare logs write. Durable transactions take
// whole blocks; how much lazy ones take depends on what the spool saves, so all of them are run.
std::uint64_t calibrate(const program_options& how, const throughput_case& of, bool whole_records) {
  throughput_case trial = of;
  trial.parts = 1;
  if (!of.lazy) trial.transactions = 100 * of.threads;
  setup with = setup_for(how, trial, whole_records);
  if (!of.lazy) with.bank.accounts = 1280 * of.threads;
  with.directory = how.directory / "calibrate";
  runner one{how, trial, make_tenure(with)};
  const double bytes = one.run().at("log_bytes_per_tx");
  std::filesystem::remove_all(with.directory);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(bytes)));
}

// All runners of a case: contenders, and baselines by name.
class case_run {
 public:
  case_run(const program_options& how, const throughput_case& of) : how_(how), case_(of) {
    bytes_[true] = calibrate(how, of, true);
    bytes_[false] = calibrate(how, of, false);
    if (case_.parts > 1)  // each part fills the log once
      case_.transactions = case_.parts * (case_.log_size / bytes_[true]);
  }

  bool run() {
    fmt::print("{}: {}\n", case_.name, case_.what);
    fmt::print(
        "  {} accounts ({} MiB recoverable), {} thread(s), {} transactions or {} s a run; log {} MiB{};"
        " declared bytes {} (whole records) / {} (fields); log bytes of the bare logs {} / {}; huge pages {};"
        " priority {}\n",
        how_.accounts, setup_for(how_, case_, true).bank.bytes() / mib, case_.threads, case_.transactions, how_.seconds,
        case_.log_size / mib, case_.spool_limit != 0 ? fmt::format(", spool {} MiB", case_.spool_limit / mib) : "",
        declared_whole, declared_fields, bytes_[true], bytes_[false], how_.machine.huge_pages,
        raised_priority{how_.raise_priority}.means());
    for (const auto& kind : all_contenders()) {
      if (takes_part(kind)) enter(kind);
    }
    std::map<std::string, std::function<measurement()>> baselines;
    for (auto& [name, runner] : baselines_) baselines[name] = [&runner = *runner] { return runner.run(); };
    round_options rounds;
    rounds.repeat = how_.repeat != 0 ? how_.repeat : how_.quick ? 3 : 5;
    rounds.share_baseline = how_.quick;
    rounds.compared = "tx_per_s";
    auto outcomes = run_rounds(entrants_, baselines, rounds);
    check_stored(outcomes);
    const bool good = report(outcomes);
    runners_.clear();
    baselines_.clear();
    std::filesystem::remove_all(directory());
    return good;
  }

 private:
  [[nodiscard]] std::filesystem::path directory() const { return how_.directory / case_.name; }

  bool takes_part(const contender_kind& kind) const {
    if (kind.name == case_.baseline) return false;  // it does anyway
    if (!how_.wants_contender(kind.name)) return false;
    if (!kind.only_case.empty() || !case_.only.empty()) return kind.only_case == case_.name && case_.only == kind.name;
    if (kind.bare) return kind.name == "group-log" && !case_.lazy && case_.peers && case_.parts == 1;
    if (case_.lazy && !kind.can_be_lazy) {
      notes_.push_back(kind.name + ": has no lazy transactions");
      return false;
    }
    return case_.peers || kind.make == make_tenure;
  }

  std::unique_ptr<runner> make(const contender_kind& kind, const std::string& name, bool whole_records) {
    setup with = setup_for(how_, case_, whole_records);
    with.archive = kind.archive;
    with.transaction_bytes = bytes_.at(whole_records);
    with.directory = directory() / name;
    auto who = kind.make(with);
    return who == nullptr ? nullptr : std::make_unique<runner>(how_, case_, std::move(who));
  }

  void enter(const contender_kind& kind) {
    entrant one{kind.name, {}, baseline_for(kind.whole_records)};
    try {
      auto made = make(kind, kind.name, kind.whole_records);
      if (made == nullptr) {
        not_built_.push_back(kind.name);
        return;
      }
      one.run = [&runner = *made] { return runner.run(); };
      runners_[kind.name] = std::move(made);
    } catch (const std::exception& e) {
      one.run = [message = fmt::format("making the bank: {}", e.what())]() -> measurement {
        throw std::runtime_error(message);
      };
    }
    entrants_.push_back(std::move(one));
  }

  // The baseline that logs as many bytes, made when it is first asked for.
  std::string baseline_for(bool whole_records) {
    const bool same =
        whole_records || !case_.only.empty() || (case_.baseline == "raw" && bytes_[true] == bytes_[false]);
    std::string name = case_.baseline + (same ? "" : "-fields");
    if (baselines_.contains(name)) return name;
    for (const auto& kind : all_contenders()) {
      if (kind.name == case_.baseline) baselines_[name] = make(kind, name, same && kind.whole_records);
    }
    return name;
  }

  void check_stored(std::vector<outcome>& outcomes) {
    for (auto& one : outcomes) {
      const auto found = runners_.find(one.name);
      if (found == runners_.end() || !one.failure.empty()) continue;
      try {
        found->second->check_stored();
      } catch (const std::exception& e) {
        one.failure = fmt::format("opened again: {}", e.what());
      }
    }
  }

  bool report(const std::vector<outcome>& outcomes) {
    nlohmann::json context{{"accounts", how_.accounts},
                           {"threads", case_.threads},
                           {"log_size", case_.log_size},
                           {"huge_pages", how_.machine.huge_pages},
                           {"kernel", how_.machine.kernel},
                           {"file_system", how_.machine.file_system},
                           {"quick", how_.quick}};
    for (auto* group : {&runners_, &baselines_}) {
      for (const auto& [name, one] : *group)
        context["settings"][name] = {
            {"setting", one->who().setting()},
            {"declared_bytes", one->who().how().whole_records ? declared_whole : declared_fields}};
    }
    const std::vector<metric> metrics{{"tx_per_s", "1/s", "tx/s"},
                                      {"cpu_us_per_tx", "us", "CPU us/tx"},
                                      {"log_bytes_per_tx", "bytes", "log B/tx"},
                                      {"device_bytes_per_tx", "bytes", "dev B/tx"},
                                      {"flushes_per_tx", "1", "syncs/tx"},
                                      {"device_flushes_per_tx", "1", "dev flush/tx"},
                                      {"intra_saved_percent", "%", ""},
                                      {"inter_saved_percent", "%", ""},
                                      {"truncations", "1", "truncations"},
                                      {"transactions", "1", ""}};
    const bool good = report_case(how_, case_.name, outcomes, metrics, not_built_, context);
    for (const auto& note : notes_) fmt::print("  {}\n", note);
    for (const auto& one : outcomes) print_details(one);
    fmt::print("\n");
    return good;
  }

  void print_details(const outcome& one) const {
    const auto transactions = summarize(one.values("transactions"));
    if (transactions.n != 0 && transactions.min < 0.99 * static_cast<double>(case_.transactions))
      fmt::print("  {}: stopped by the clock, after {} transactions or more\n", one.name, number(transactions.min));
    const auto intra = summarize(one.values("intra_saved_percent")),
               inter = summarize(one.values("inter_saved_percent"));
    if (intra.n != 0)
      fmt::print("  {}: kept out of the log (Table 2): {:.1f} % within transactions, {:.1f} % between them\n", one.name,
                 intra.median, inter.median);
  }

  const program_options& how_;
  throughput_case case_;
  std::map<bool, std::uint64_t> bytes_;  // log bytes a transaction, by whether whole records are declared
  std::map<std::string, std::unique_ptr<runner>> runners_, baselines_;
  std::vector<entrant> entrants_;
  std::vector<std::string> not_built_;
  mutable std::vector<std::string> notes_;
};

std::vector<throughput_case> cases_for(const program_options& how) {
  const std::uint64_t log = how.log_mib * mib;
  const std::uint64_t durable = how.transactions != 0 ? how.transactions : how.quick ? 1000 : 20000;
  const std::uint64_t lazy = how.transactions != 0 ? how.transactions : how.quick ? 100000 : 1000000;
  const std::uint64_t lazy_log = std::max<std::uint64_t>(64 * mib, lazy * 1024 / mib * mib);
  // Truncation, which begins when half of the log is used, is a case of its own: 4 KiB a transaction, two threads' worth.
  const std::uint64_t ample_log = std::max(log, 5 * durable * 4096 / mib * mib);
  throughput_case plain{.name = "durable-1t-uniform",
                        .baseline = "raw",
                        .transactions = durable,
                        .log_size = ample_log,
                        .what = "one thread, each commit durable; baseline: write and sync of the same bytes"};
  auto sequential = plain, localized = plain, parallel = plain, burst = plain, sustained = plain, truncated = plain;
  sequential.name = "durable-1t-sequential";
  sequential.access = pattern::sequential;
  sequential.peers = false;
  localized.name = "durable-1t-localized";
  localized.access = pattern::localized;
  localized.peers = false;
  parallel.name = "durable-8t-uniform";
  parallel.threads = 8;
  parallel.baseline = "group-log";
  parallel.transactions = 2 * durable;
  parallel.what = "eight threads, each commit durable; baseline: a bare log with group commit";
  burst.name = "lazy-1t-uniform";
  burst.lazy = true;
  burst.baseline = "memory-log";
  burst.transactions = lazy;
  burst.log_size = burst.spool_limit = lazy_log;
  burst.what =
      "a burst of lazy commits that fits into the spool, until the last returns; baseline: memcpy and checksum";
  sustained.name = "lazy-1t-sustained";
  sustained.lazy = sustained.until_durable = true;
  sustained.transactions = lazy;
  sustained.log_size = lazy_log;
  sustained.spool_limit = how.quick ? 4 * mib : 0;
  sustained.what =
      "many times the spool of lazy commits, until all are durable; baseline: the same bytes in large writes,"
      " and one sync";
  truncated.name = "durable-1t-sustained";
  truncated.parts = 3;
  truncated.log_size = how.quick ? 2 * mib : log;
  truncated.what =
      "three times the log, each followed by a full truncation (others: checkpoint, compaction), and closing;"
      " baseline: write and sync of the log bytes alone";
  throughput_case archive = sustained;
  archive.name = "lazy-1t-archive";
  archive.baseline = "tenure-fields";
  archive.only = "tenure-archive";
  archive.log_size = how.quick ? 4 * mib : log;
  archive.what =
      "lazy commits through several logs' lengths until durable, what is truncated archived; baseline: the same, "
      "forgotten";
  return {plain, parallel, sequential, localized, burst, sustained, truncated, archive};
}

}  // namespace

bool run_throughput_cases(const program_options& how) {
  bool good = true;
  for (const auto& one : cases_for(how)) {
    if (how.wants_case(one.name)) good = case_run{how, one}.run() && good;
  }
  return good;
}

}  // namespace tenure::bench::tpca
