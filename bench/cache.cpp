// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_cache: what a store in a cache costs beneath its programs: an object fault whose page is in the pool; a store four times the
// pool, read from the device; and eight writers at once.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <tenure/cache.hpp>
#include <tenure/rvm.hpp>
#include <tenure/tenure.hpp>

#include "command_line.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "harness/report.hpp"
#include "harness/rounds.hpp"

namespace cache_bench {

using tenure::cache::ref;

struct item {  // 64 bytes
  std::uint64_t number{};
  ref<item> next;
  std::uint64_t words[6]{};
};
struct items {
  tenure::vector<ref<item>> from;  // parts of the chain begin there
};

}  // namespace cache_bench

namespace {

using namespace tenure::bench;
using namespace cache_bench;
using clock_type = std::chrono::steady_clock;

template <class F>
double nanoseconds(F&& work) {
  const auto start = clock_type::now();
  work();
  return std::chrono::duration<double, std::nano>(clock_type::now() - start).count();
}

// A store with a chain of items, made mapped. `order` is that of the chain, by the order in which items are made; it begins anew
// `parts` times. Returns the address of each item, in the chain's order.
std::vector<std::uintptr_t> make_chain(const std::filesystem::path& store, const std::vector<std::size_t>& order,
                                       std::size_t parts) {
  tenure::store_options how;
  how.tune.typed_from = 1;
  tenure::store made(store.string(), how);
  std::vector<std::uintptr_t> at;
  made.transact([&] {
    auto& all = made.root<items>("items");
    std::vector<item*> each(order.size());
    for (item*& one : each) one = made.make<item>();
    for (std::size_t n = 0; n < order.size(); ++n) {
      item* const one = each[order[n]];
      one->number = n;
      if (n + 1 < order.size()) one->next = each[order[n + 1]];
      if (n % (order.size() / parts) == 0) all.from.push_back(one);
      at.push_back(reinterpret_cast<std::uintptr_t>(one));
    }
  });
  made.close();
  return at;
}

void require(bool right) {
  if (!right) throw std::runtime_error("wrong answer");
}

// --- A fault -----------------------------------------------------------------------------------------------------------

constexpr std::size_t fault_items = 20'000, fault_parts = 5;

// Walks the parts of the chain in turn: each walk evicts what another has brought. All pages are in the pool.
class faults {
 public:
  explicit faults(const std::filesystem::path& store) {
    std::vector<std::size_t> order(fault_items);
    std::iota(order.begin(), order.end(), 0U);
    (void)make_chain(store, order, fault_parts);
    opened_ = std::make_unique<tenure::cache::store>(store.string(), tenure::cache::options{.object_bytes = 2'900'000});
    for (std::size_t n = 0; n < 2 * fault_parts; ++n) walk(n % fault_parts);
  }
  measurement run() {
    const tenure::cache::statistics before = opened_->stats();
    std::vector<double> each;
    for (std::size_t n = 0; n < 20; ++n) {
      const std::uint64_t loaded = opened_->stats().loaded;
      const double took = nanoseconds([&] { walk(n % fault_parts); });
      each.push_back(took / static_cast<double>(opened_->stats().loaded - loaded));
    }
    require(opened_->stats().page_reads == before.page_reads && opened_->stats().evicted > before.evicted);
    return {{"nanoseconds", summarize(each).median}};
  }

 private:
  void walk(std::size_t part) {
    std::uint64_t sum = 0;
    opened_->read([&] {
      ref<item> at = opened_->root<items>("items")->from[part];
      for (std::size_t n = 0; n < fault_items / fault_parts; ++n, at = at->next) sum += at->number;
    });
    constexpr std::uint64_t length = fault_items / fault_parts;
    require(sum == length * (length * part) + length * (length - 1) / 2);
  }
  std::unique_ptr<tenure::cache::store> opened_;
};

// The least that a fault could be: a copy of 64 bytes gets memory, and is found by address.
measurement copy_by_hand() {
  std::vector<item> stored(fault_items);
  std::vector<double> each;
  for (int n = 0; n < 20; ++n) {
    std::unordered_map<const item*, std::unique_ptr<item>> copies;
    each.push_back(nanoseconds([&] {
                     for (std::size_t i = 0; i < fault_items / fault_parts; ++i)
                       copies.emplace(&stored[i], std::make_unique<item>(stored[i]));
                     copies.clear();
                   }) /
                   static_cast<double>(fault_items / fault_parts));
  }
  return {{"nanoseconds", summarize(each).median}};
}

// --- Larger than the pool ------------------------------------------------------------------------------------------------

constexpr std::size_t page = 4096, items_in_page = page / sizeof(item);

// The chain goes through all items of a page, and then to another page, in random order.
class larger_than_the_pool {
 public:
  larger_than_the_pool(const std::filesystem::path& directory, std::size_t pages)
      : directory_(directory), pages_(pages) {
    std::vector<std::size_t> places(pages);
    std::iota(places.begin(), places.end(), 0U);
    std::shuffle(places.begin(), places.end(), std::mt19937_64{1});
    std::vector<std::size_t> order;
    for (const std::size_t place : places)
      for (std::size_t n = 0; n < items_in_page; ++n) order.push_back(place * items_in_page + n);
    const auto at = make_chain(directory / "large", order, 1);
    const std::uintptr_t first = *std::ranges::min_element(at) / page * page;
    for (std::size_t n = 0; n < at.size(); n += items_in_page) offsets_.push_back(at[n] / page * page - first);
  }
  measurement cached() {
    drop();
    tenure::cache::options how;
    how.pool_pages = pages_ / 4;
    how.object_bytes = pages_ / 4 * items_in_page * 320;
    tenure::cache::store opened((directory_ / "large").string(), how);
    std::uint64_t sum = 0, count = 0;
    const double took = nanoseconds([&] {
      auto next = opened.read([&] { return tenure::cache::identity<item>(opened.root<items>("items")->from[0]); });
      for (bool more = true; more;)
        opened.read([&] {
          ref<item> at = next.get();
          for (std::size_t n = 0; n < 4 * items_in_page && at; ++n, ++count, at = at->next) sum += at->number;
          more = static_cast<bool>(at);
          next = tenure::cache::identity<item>(at);
        });
    });
    check(sum, count);
    return {{"microseconds", took / 1000 / static_cast<double>(pages_)}};
  }
  // The file's pages, in this order.
  measurement pages() {
    drop();
    const int file = ::open((directory_ / "large" / "main.db").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::runtime_error("cannot open the database");
    std::uint64_t sum = 0, count = 0;
    const double took = nanoseconds([&] {
      alignas(page) std::byte bytes[page];
      for (const std::uint64_t offset : offsets_) {
        if (::pread(file, bytes, page, static_cast<off_t>(offset)) != static_cast<ssize_t>(page)) break;
        for (std::size_t n = 0; n < items_in_page; ++n, ++count) {
          std::uint64_t number;
          std::memcpy(&number, bytes + n * sizeof(item), sizeof number);
          sum += number;
        }
      }
    });
    ::close(file);
    require(count == pages_ * items_in_page && sum != 0);
    return {{"microseconds", took / 1000 / static_cast<double>(pages_)}};
  }

 private:
  void drop() const { (void)drop_directory_from_cache(directory_ / "large"); }
  void check(std::uint64_t sum, std::uint64_t count) const {
    const std::uint64_t all = pages_ * items_in_page;
    require(count == all && sum == all * (all - 1) / 2);
  }
  const std::filesystem::path directory_;
  const std::size_t pages_;
  std::vector<std::uint64_t> offsets_;  // of the pages in the database, in the chain's order
};

// --- Writers -----------------------------------------------------------------------------------------------------------

constexpr unsigned writers = 8;
constexpr std::size_t writer_items = 4'096, changed = 4;

// Each writer changes items of its own, four in a transaction.
double microseconds_each(std::size_t transactions,
                         const std::function<void(unsigned writer, std::size_t n)>& transact) {
  return nanoseconds([&] {
           std::vector<std::thread> all;
           for (unsigned w = 0; w < writers; ++w)
             all.emplace_back([&, w] {
               for (std::size_t n = 0; n < transactions / writers; ++n) transact(w, n);
             });
           for (std::thread& each : all) each.join();
         }) /
         1000 / static_cast<double>(transactions / writers * writers);
}
std::size_t item_of(unsigned writer, std::size_t n, std::size_t i) {
  return writer + writers * ((n * changed + i) * 7 % (writer_items / writers));
}

class explicit_writers {
 public:
  explicit explicit_writers(const std::filesystem::path& directory) {
    std::filesystem::create_directory(directory);
    memory_ = std::make_unique<tenure::rvm::memory>((directory / "log").string());
    region_ = memory_->map((directory / "segment").string(), {.create_length = writer_items * sizeof(item)});
  }
  measurement run(bool durable, std::size_t transactions) {
    auto* const all = reinterpret_cast<item*>(region_.data());
    return {{"microseconds", microseconds_each(transactions, [&](unsigned w, std::size_t n) {
               tenure::rvm::transaction tx = memory_->begin();
               for (std::size_t i = 0; i < changed; ++i) {
                 item& one = all[item_of(w, n, i)];
                 tx.set_range(one.words[0]);
                 ++one.words[0];
               }
               tx.commit(durable ? tenure::rvm::commit_mode::flush : tenure::rvm::commit_mode::no_flush);
             })}};
  }

 private:
  std::unique_ptr<tenure::rvm::memory> memory_;
  tenure::rvm::region region_;
};

class cached_writers {
 public:
  explicit cached_writers(const std::filesystem::path& store) {
    std::vector<std::size_t> order(writer_items);
    std::iota(order.begin(), order.end(), 0U);
    (void)make_chain(store, order, writer_items);
    opened_ = std::make_unique<tenure::cache::store>(
        store.string(), tenure::cache::options{.transactions = tenure::cache::concurrency::object_locks});
    opened_->read([&] {
      for (const ref<item>& each : opened_->root<items>("items")->from)
        at_.push_back(tenure::cache::identity<item>(each));
    });
  }
  measurement run(bool durable, std::size_t transactions) {
    return {{"microseconds", microseconds_each(transactions, [&](unsigned w, std::size_t n) {
               opened_->transact(
                   [&] {
                     for (std::size_t i = 0; i < changed; ++i) ++at_[item_of(w, n, i)].get().change().words[0];
                   },
                   durable ? tenure::cache::commit_mode::durable : tenure::cache::commit_mode::lazy);
             })}};
  }

 private:
  std::unique_ptr<tenure::cache::store> opened_;
  std::vector<tenure::cache::identity<item>> at_;
};

// --- Tables --------------------------------------------------------------------------------------------------------------

bool show(const common_options& how, const std::string& name, const std::string& what, const std::string& metric,
          const std::string& unit, const std::vector<outcome>& outcomes) {
  return show_metric({"cache", name, what, metric, unit, true, describe(how.machine, how.quick)}, outcomes, how.json);
}

bool run(const common_options& how) {
  const scratch_directory scratch{how.directory, "cache"};
  round_options rounds;
  rounds.repeat = how.repeat;
  bool good = true;
  {
    faults with(scratch.path() / "faults");
    good = show(
        how, "fault", "an object of 64 bytes comes into memory whose page is in the pool, and another one goes; each",
        "nanoseconds", "ns",
        run_rounds({{"copy-by-hand", copy_by_hand, ""}, {"tenure-cache", [&] { return with.run(); }, ""}}, {}, rounds));
  }
  {
    larger_than_the_pool with(scratch.path(), how.quick ? 4096 : 16'384);
    good &= show(how, "larger", "a store four times the pool, from the device, pages in random order; each page",
                 "microseconds", "us",
                 run_rounds({{"pages-in-that-order", [&] { return with.pages(); }, ""},
                             {"tenure-cache", [&] { return with.cached(); }, ""}},
                            {}, rounds));
  }
  explicit_writers by_ranges(scratch.path() / "explicit");
  cached_writers by_locks(scratch.path() / "locks");
  for (const bool durable : {false, true}) {
    const std::size_t transactions = (durable ? 4'000U : 200'000U) / (how.quick ? 4 : 1);
    good &= show(how, durable ? "writers-durable" : "writers-lazy",
                 fmt::format("eight threads change four objects of their own in {} transaction; each",
                             durable ? "a durable" : "a lazy"),
                 "microseconds", "us",
                 run_rounds({{"recoverable-memory", [&] { return by_ranges.run(durable, transactions); }, ""},
                             {"tenure-cache-locks", [&] { return by_locks.run(durable, transactions); }, ""}},
                            {}, rounds));
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  common_options how;
  tenure::tools::command_line app{"Stores in a cache: faults, stores larger than the pool, and writers at once"};
  how.repeat = 7;
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 3;
  return run_program("bench_cache", [&] {
    const benchmark_run running("bench_cache", how);
    return run(how);
  });
}
