// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_making: what it costs to make an object, by size and number of threads, beside `new`; a lazy transaction that makes one
// object; and the bytes that objects of twenty types take, on the disk and beside those of `new`.
#include <malloc.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tenure/tenure.hpp>

#include "command_line.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "harness/rounds.hpp"

#ifdef TENURE_HAVE_LMDB
#include <lmdb.h>
#endif

namespace making_bench {

template <std::size_t Size>
struct object {
  object* next = nullptr;
  std::array<std::uint64_t, Size / 8 - 1> words{};
};
// One of these types each, in turn.
struct objects_of_all_types {
  tenure::vector<void*> all;
};
struct chain {
  object<64>* newest = nullptr;
  std::uint64_t length = 0;
};

}  // namespace making_bench

namespace {

using namespace tenure::bench;
using namespace making_bench;
using clock_type = std::chrono::steady_clock;

double nanoseconds_since(clock_type::time_point start) {
  return std::chrono::duration<double, std::nano>(clock_type::now() - start).count();
}

// --- make ---

// Each of the threads makes its part of them, linked to each other. The first of each is returned.
template <std::size_t Size, class Make>
std::vector<object<Size>*> make_all(std::size_t count, unsigned threads, Make&& make) {
  std::vector<object<Size>*> first(threads);
  std::vector<std::jthread> running;
  for (unsigned t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      object<Size>* last = nullptr;
      for (std::size_t n = 0; n < count / threads; ++n) {
        object<Size>* const made = make();
        made->next = std::exchange(last, made);
        made->words[0] = n;
      }
      first[t] = last;
    });
  running.clear();
  return first;
}

template <std::size_t Size>
void require_all(const std::vector<object<Size>*>& first, std::size_t count) {
  for (const object<Size>* one : first)
    for (std::size_t n = count / first.size(); n-- != 0; one = one->next)
      if (one == nullptr || one->words[0] != n) throw std::runtime_error("an object is not as it was made");
}

// Objects of a store are reachable from nothing and go with it: what is measured is making them, and no commit.
template <std::size_t Size>
measurement make_in_store(const std::filesystem::path& at, std::size_t count, unsigned threads) {
  std::filesystem::remove_all(at);
  tenure::store store(at.string());
  const auto start = clock_type::now();
  const auto first = make_all<Size>(count, threads, [&] { return store.make<object<Size>>(); });
  const double took = nanoseconds_since(start);  // ns an object are ms a million
  require_all(first, count);
  return {{"ms_a_million", took / static_cast<double>(count)}};
}

template <std::size_t Size>
measurement make_with_new(std::size_t count, unsigned threads) {
  (void)malloc_trim(0);  // fresh memory, as a new store has
  const auto start = clock_type::now();
  const auto first = make_all<Size>(count, threads, [] { return new object<Size>(); });
  const double took = nanoseconds_since(start);  // ns an object are ms a million
  require_all(first, count);
  for (const object<Size>* one : first)
    while (one != nullptr) delete std::exchange(one, one->next);
  return {{"ms_a_million", took / static_cast<double>(count)}};
}

template <std::size_t Size>
bool run_making(const common_options& how, unsigned threads) {
  const std::size_t count = (how.quick ? 200'000 : 4'000'000) * std::size_t{16} / std::max<std::size_t>(Size, 32);
  const std::vector<entrant> entrants{
      {"tenure", [&] { return make_in_store<Size>(how.directory / "made", count, threads); }, "plain"}};
  return show_case({"making",
                    fmt::format("make-{}-{}t", Size, threads),
                    fmt::format("a million objects of {} bytes, made by {}, first touch included", Size,
                                threads == 1 ? "one thread" : fmt::format("{} threads", threads)),
                    "ms_a_million",
                    true,
                    describe(how.machine, how.quick),
                    {}},
                   run_rounds(entrants, {{"plain", [&] { return make_with_new<Size>(count, threads); }}},
                              {.repeat = how.repeat, .compared = "ms_a_million"}),
                   how.json);
}

// --- A transaction that makes one object ---

measurement one_each(const std::filesystem::path& at, std::size_t count, bool makes) {
  std::filesystem::remove_all(at);
  tenure::store store(at.string());
  chain& all = store.root<chain>("chain");
  const auto run = [&](std::size_t transactions) {
    for (std::size_t n = 0; n < transactions; ++n)
      store.transact(
          [&] {
            if (makes) {
              object<64>* const made = store.make<object<64>>();
              made->next = std::exchange(all.newest, made);
            }
            ++all.length;
          },
          tenure::commit_mode::lazy);
  };
  run(count / 10);
  const auto start = clock_type::now();
  run(count);
  const double took = nanoseconds_since(start);
  return {{"transaction_ns", took / static_cast<double>(count)}};
}

#ifdef TENURE_HAVE_LMDB
void check(int code) {
  if (code != 0) throw std::runtime_error(mdb_strerror(code));
}

// A record of 64 bytes behind the others, without a sync.
measurement one_record_each(const std::filesystem::path& at, std::size_t count) {
  std::filesystem::remove_all(at);
  std::filesystem::create_directories(at);
  MDB_env* environment = nullptr;
  check(mdb_env_create(&environment));
  const std::unique_ptr<MDB_env, void (*)(MDB_env*)> closing(environment, mdb_env_close);
  check(mdb_env_set_mapsize(environment, std::size_t{1} << 30));
  check(mdb_env_open(environment, at.c_str(), MDB_NOSYNC | MDB_WRITEMAP, 0600));
  std::uint64_t key = 0;
  const auto run = [&](std::size_t transactions) {
    for (std::size_t n = 0; n < transactions; ++n, ++key) {
      MDB_txn* transaction = nullptr;
      MDB_dbi table = 0;
      check(mdb_txn_begin(environment, nullptr, 0, &transaction));
      check(mdb_dbi_open(transaction, nullptr, MDB_INTEGERKEY, &table));
      object<64> record;
      MDB_val k{sizeof key, &key}, v{sizeof record, &record};
      check(mdb_put(transaction, table, &k, &v, MDB_APPEND));
      check(mdb_txn_commit(transaction));
    }
  };
  run(count / 10);
  const auto start = clock_type::now();
  run(count);
  return {{"transaction_ns", nanoseconds_since(start) / static_cast<double>(count)}};
}
#endif

bool run_single(const common_options& how) {
  const std::size_t count = how.quick ? 5'000 : 100'000;
  std::vector<entrant> entrants{{"tenure-make", [&] { return one_each(how.directory / "one", count, true); }, ""},
                                {"tenure-change", [&] { return one_each(how.directory / "one", count, false); }, ""}};
#ifdef TENURE_HAVE_LMDB
  entrants.push_back({"lmdb-append", [&] { return one_record_each(how.directory / "lmdb", count); }, ""});
#else
  fmt::print("  lmdb-append: not built\n");
#endif
  return show_metric(
      {"making", "single", "a lazy transaction that makes one object of 64 bytes, or only changes a word; ns",
       "transaction_ns", "ns", false, describe(how.machine, how.quick)},
      run_rounds(entrants, {}, {.repeat = how.repeat, .compared = "transaction_ns"}), how.json);
}

// --- Bytes ---

constexpr std::size_t types = 20;
constexpr std::size_t size_of(std::size_t type) { return 16 + 8 * type; }

// Calls make.operator()<object<16>>() to make.operator()<object<168>>() in turn, so many times in all.
template <class Make, std::size_t... Type>
void make_in_turn(std::size_t count, Make&& make, std::index_sequence<Type...>) {
  for (std::size_t made = 0; made < count;)
    ((made++ < count ? make.template operator()<object<size_of(Type)>>() : void()), ...);
}

std::uint64_t payload_of(std::size_t count) {
  std::uint64_t bytes = 0;
  for (std::size_t n = 0; n < count; ++n) bytes += size_of(n % types);
  return bytes;
}

std::uint64_t allocated(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) throw std::runtime_error(file.string() + " cannot be looked at");
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

// What leads to them is counted, too: 8 bytes an object in an array.
measurement bytes_in_store(const std::filesystem::path& at, std::size_t count) {
  std::filesystem::remove_all(at);
  {
    tenure::store store(at.string());
    store.transact([&] {
      auto& all = store.root<objects_of_all_types>("objects").all;
      all.reserve(count);
      make_in_turn(
          count, [&]<class T>() { all.push_back(store.make<T>()); }, std::make_index_sequence<types>());
    });
    store.trim();
    store.close();
  }
  std::uint64_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(at))
    if (file.path().filename().string().rfind("log", 0) != 0) files += allocated(file.path());
  const auto payload = static_cast<double>(payload_of(count) + 8 * count);
  return {{"bytes_by_payload", static_cast<double>(files) / payload}};
}

// By what malloc has taken for them, its own words included, and not by the pages that it has from the system.
measurement bytes_of_new(std::size_t count) {
  std::vector<std::pair<void*, void (*)(void*)>> all;
  const auto before = mallinfo2();
  all.reserve(count);
  make_in_turn(
      count, [&]<class T>() { all.emplace_back(new T(), [](void* made) { delete static_cast<T*>(made); }); },
      std::make_index_sequence<types>());
  const auto after = mallinfo2();
  for (const auto& [made, destroy] : all) destroy(made);
  const std::uint64_t taken = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd - 8 * count;  // destroy
  const auto payload = static_cast<double>(payload_of(count) + 8 * count);
  return {{"bytes_by_payload", static_cast<double>(taken) / payload}};
}

bool run_bytes(const common_options& how, std::size_t count) {
  const std::vector<entrant> entrants{
      {"tenure", [&] { return bytes_in_store(how.directory / "bytes", count); }, "plain"}};
  return show_metric({"making", fmt::format("bytes-{}", count),
                      fmt::format("{} objects of 20 types, 16 to 168 bytes: allocated bytes by their own", count),
                      "bytes_by_payload", "", true, describe(how.machine, how.quick)},
                     run_rounds(entrants, {{"plain", [&] { return bytes_of_new(count); }}},
                                {.repeat = 1, .compared = "bytes_by_payload"}),
                     how.json);
}

}  // namespace

int main(int argc, char** argv) {
  common_options how;
  tenure::tools::command_line app{"Making objects: time, and bytes on the disk"};
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 3;
  return run_program("bench_making", [&] {
    const benchmark_run running("bench_making", how);
    bool good = true;
    for (const unsigned threads : {1u, 8u}) {
      good &= run_making<16>(how, threads);
      good &= run_making<32>(how, threads);
      good &= run_making<64>(how, threads);
      good &= run_making<128>(how, threads);
      good &= run_making<256>(how, threads);
    }
    good &= run_single(how);
    for (std::size_t count = 1000; count <= (how.quick ? 100'000U : 1'000'000U); count *= 10)
      good &= run_bytes(how, count);
    return good;
  });
}
