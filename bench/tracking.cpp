// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_tracking: what automatic tracking costs, beyond the sync: processor time of the thread that does it, the kernel's part
// included. Transactions commit no_flush, and the log has room for all.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <sys/mman.h>

#include <fmt/format.h>

#include <tenure/rvm.hpp>

#include "command_line.hpp"
#include "harness/machine.hpp"
#include "harness/report.hpp"
#include "harness/statistics.hpp"

namespace tenure::bench {
namespace {

constexpr std::size_t page = 4096;

// The processor time of this thread.
class clock {
 public:
  static double now() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
  }
};

double microseconds_since(double start) { return clock::now() - start; }

// Memory that a virtual machine's host has taken back costs ten times as much to get again as what was just in use: this
// program's pages are to come from the latter.
void recycle_memory() {
  constexpr std::size_t bytes = std::size_t{512} << 20;
  void* const memory = ::mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  for (std::size_t at = 0; at < 2 * bytes; at += page) *(static_cast<volatile char*>(memory) + at) = 1;
  ::munmap(memory, 2 * bytes);
}

// The same numbers in every run, and in an order that no prefetcher knows.
std::vector<std::size_t> scattered(std::size_t count, std::size_t below, std::uint64_t seed) {
  std::vector<std::size_t> all(below);
  std::iota(all.begin(), all.end(), 0);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(all[i], all[i + (state >> 33) % (below - i)]);
  }
  all.resize(count);
  return all;
}

class world {
 public:
  world(const std::string& directory, std::uint64_t length, rvm::tracking_mechanism mechanism)
      : memory_(directory + "/log", how()),
        region_(memory_.map(
            directory + "/segment",
            {.create_length = length, .tracking = rvm::tracking_mode::automatic, .force_mechanism = mechanism})) {
    for (std::size_t at = 0; at < region_.size(); at += page)
      sum_ = sum_ + static_cast<unsigned>(*(region_.data() + at));
  }
  [[nodiscard]] std::size_t pages() const { return region_.size() / page; }
  [[nodiscard]] std::byte* at(std::size_t number) const { return region_.data() + number * page; }
  rvm::memory& memory() { return memory_; }
  // Writes to these pages in one transaction.
  void transact(const std::vector<std::size_t>& numbers, bool announce = false, std::size_t bytes = 8) {
    (void)write(numbers, announce, bytes).commit(rvm::commit_mode::no_flush);
  }
  rvm::transaction write(const std::vector<std::size_t>& numbers, bool announce, std::size_t bytes) {
    ++value_;
    rvm::transaction tx = memory_.begin_automatic();
    for (const std::size_t number : numbers) {
      if (announce) tx.set_range(at(number), bytes);
      if (bytes == 8)
        std::memcpy(at(number) + 64, &value_, 8);
      else
        std::memset(at(number), static_cast<int>(value_ % 251), bytes);
    }
    return tx;
  }

 private:
  static rvm::options how() {
    rvm::options o;
    o.log.size = o.log.max_size = std::uint64_t{128} << 20;
    o.tune.truncation_threshold = 2;
    o.tune.spool_limit = std::uint64_t{2} << 30;
    return o;
  }
  rvm::memory memory_;
  rvm::region region_;
  std::uint64_t value_ = 0;
  volatile unsigned sum_ = 0;
};

struct program {
  std::string directory = ".", json, only;
  unsigned repeat = 5;
  std::uint64_t mib = 1024;
  bool quick = false;
};

struct measured {
  std::string name, unit;
  double aim;  // 0: none
  std::function<double(world&)> run;
  rvm::tracking_mechanism mechanism = rvm::tracking_mechanism::choose;
};

// Microseconds for each of `numbers`, in a transaction of its own.
double one_by_one(world& in, const std::vector<std::size_t>& numbers, bool announce = false) {
  recycle_memory();
  const auto start = clock::now();
  for (const std::size_t number : numbers) in.transact({number}, announce);
  return microseconds_since(start) / static_cast<double>(numbers.size());
}

std::vector<measured> cases(const program& how) {
  const std::size_t few = how.quick ? 200 : 5000, many = how.quick ? 20'000 : 100'000;
  const auto warm = [](world& in) {
    for (int i = 0; i < 3; ++i) in.transact({7});
  };
  const auto twice = [=](world& in, bool announce) {
    const auto numbers = scattered(few, in.pages(), 3);
    (void)one_by_one(in, numbers);
    in.memory().flush();
    return one_by_one(in, numbers, announce);
  };
  const auto bulk = [=](world& in, bool is_private) {
    const auto numbers = scattered(many, in.pages(), 5);
    if (is_private) in.transact(numbers);
    in.memory().flush();
    recycle_memory();
    const double start = clock::now();
    in.transact(numbers);
    return microseconds_since(start) / static_cast<double>(many);
  };
  const auto commits = [=](world& in, std::size_t count, std::size_t bytes) {
    std::vector<std::size_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 100);
    for (int i = 0; i < 3; ++i) in.transact(numbers, false, bytes);
    in.memory().flush();
    double sum = 0;
    constexpr int times = 20;
    for (int i = 0; i < times; ++i) {
      rvm::transaction tx = in.write(numbers, false, bytes);
      const double start = clock::now();
      tx.commit(rvm::commit_mode::no_flush);
      sum += microseconds_since(start);
    }
    return sum / times / static_cast<double>(count);
  };
  using enum rvm::tracking_mechanism;
  return {
      {"no change", "us/tx", 0,
       [=](world& in) {
         const auto start = clock::now();
         for (std::size_t i = 0; i < 10 * few; ++i) in.transact({});
         return microseconds_since(start) / static_cast<double>(10 * few);
       }},
      {"one page, hot", "us/tx", 1,
       [=](world& in) {
         warm(in);
         return one_by_one(in, std::vector<std::size_t>(10 * few, 7));
       }},
      {"one page, hot and announced", "us/tx", 1,
       [=](world& in) {
         warm(in);
         return one_by_one(in, std::vector<std::size_t>(10 * few, 7), true);
       }},
      {"one page, private, announced", "us/tx", 0, [=](world& in) { return twice(in, true); }, announced},
      {"one page, private, trapped", "us/tx", 15, [=](world& in) { return twice(in, false); }, traps},
      {"one page, clean, trapped", "us/tx", 25,
       [=](world& in) { return one_by_one(in, scattered(few, in.pages(), 3)); }, traps},
      {"many scattered pages, private", "us/page", 2, [=](world& in) { return bulk(in, true); }},
      {"many scattered pages, clean", "us/page", 4.5, [=](world& in) { return bulk(in, false); }},
      {"commit of 1000 hot pages, 8 bytes each", "us/page", 0.4, [=](world& in) { return commits(in, 1000, 8); }},
      {"commit of 1000 hot pages, 2048 bytes each", "us/page", 2.4, [=](world& in) { return commits(in, 1000, 2048); }},
  };
}

int run(const program& how) {
  const scratch_directory scratch{how.directory, "bench-tracking"};
  const std::string directory = std::filesystem::absolute(scratch.path());
  fmt::print("bench_tracking{}\n{}\n", how.quick ? " --quick" : "", to_text(describe_machine(directory)));
  const json_lines lines{how.json};
  table text({"case, region of " + std::to_string(how.mib) + " MiB", "unit", "median", "range", "aim"});
  for (const measured& each : cases(how)) {
    if (each.name.find(how.only) == std::string::npos) continue;
    std::vector<double> values;
    for (unsigned i = 0; i < how.repeat; ++i) {
      const scratch_directory fresh{directory, "run"};
      world in(fresh.path(), how.mib << 20, each.mechanism);
      values.push_back(each.run(in));
    }
    const summary s = summarize(values);
    text.add({each.name, each.unit, number(s.median), range(s), each.aim == 0 ? "" : number(each.aim)});
    lines.add({"tracking", "tenure", each.name, "cpu", each.unit, s, "", 0, {{"mib", how.mib}}});
    fmt::print(stderr, ".");
  }
  fmt::print(stderr, "\n");
  text.print();
  return 0;
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  tenure::bench::program how;
  tenure::tools::command_line app{"What automatic tracking costs"};
  app.option("--repeat", how.repeat, "runs of each case").shows_default();
  app.option("--mib", how.mib, "size of the region").shows_default();
  app.option("--cases", how.only, "only those whose names contain this");
  app.flag("--quick", how.quick, "less than a minute");
  app.option("--dir", how.directory, "where to put scratch files").shows_default();
  app.option("--json", how.json, "append results to this file, an object a line");
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 1, how.mib = std::min<std::uint64_t>(how.mib, 256);
  try {
    return tenure::bench::run(how);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_tracking: {}\n", e.what());
    return 1;
  }
}
