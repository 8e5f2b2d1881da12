// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collect/pauses.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tenure::bench::collect {

struct young {
  std::uint64_t numbers[8] = {};
};

namespace {

using clock = std::chrono::steady_clock;
double us_since(clock::time_point began) {
  return std::chrono::duration<double, std::micro>(clock::now() - began).count();
}

std::uint64_t next_draw(std::uint64_t& draw) {
  draw = draw * 6364136223846793005u + 1442695040888963407u;
  return draw >> 33;
}

double percentile(const std::vector<double>& sorted, double part) {
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(static_cast<double>(sorted.size()) * part))];
}

}  // namespace

replaced_graph::replaced_graph(const std::filesystem::path& directory, std::uint64_t objects,
                               rvm::write_barriers barriers)
    : store_(directory.string(), {.barriers = barriers}), all_(store_.root<vector<replaced*>>("all")) {
  for (std::uint64_t done = 0; done < objects;)
    store_.transact(
        [&] {
          for (std::uint64_t n = 0; n < 10'000 && done < objects; ++n, ++done) {
            auto* const made = store_.make<replaced>();
            all_.push_back(made);
            made->a = all_[next_draw(draw_) % all_.size()];
          }
        },
        commit_mode::lazy);
  store_.flush();
}

void replaced_graph::replace_four() {
  store_.transact(
      [&] {
        for (int n = 0; n < 4; ++n) {
          auto* const made = store_.make<replaced>();
          made->a = all_[next_draw(draw_) % all_.size()];
          change(all_[next_draw(draw_) % all_.size()]) = made;
        }
      },
      commit_mode::lazy);
}

measurement replaced_graph::replace(beside what) {
  std::atomic<bool> is_over{false};
  std::vector<double> took;
  took.reserve(1 << 20);
  std::thread collector;
  if (what != beside::nothing)
    collector = std::thread([&] {
      for (int n = 0; n < 3; ++n) (void)store_.collect({.dry_run = what == beside::marking});
      is_over = true;
    });
  const auto began = clock::now();
  for (auto last = began; !is_over && (collector.joinable() || last - began < std::chrono::seconds(1));) {
    replace_four();
    const auto now = clock::now();
    took.push_back(std::chrono::duration<double, std::micro>(now - last).count());
    last = now;
  }
  const double seconds = us_since(began) * 1e-6;
  if (collector.joinable()) collector.join();
  std::ranges::sort(took);
  return {{"p50_us", percentile(took, 0.5)},
          {"p99_us", percentile(took, 0.99)},
          {"p999_us", percentile(took, 0.999)},
          {"longest_us", took.back()},
          {"tx_per_s", static_cast<double>(took.size()) / seconds}};
}

measurement stop_with(const std::filesystem::path& directory, std::uint64_t bytes, memory_kind kind) {
  const std::filesystem::path place = directory / "stop";
  std::filesystem::remove_all(place);
  const int sharing = kind == memory_kind::shared ? MAP_SHARED : MAP_PRIVATE;
  void* const memory = bytes == 0 ? nullptr
                                  : ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                                           sharing | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("there is not so much memory");
  if (memory != nullptr) std::memset(memory, 1, static_cast<std::size_t>(bytes));
  collect_report done;
  {
    store of(place.string());
    of.transact([&] { of.root<replaced>("one").numbers[0] = 1; });
    done = of.collect({.dry_run = true});
  }
  if (memory != nullptr) ::munmap(memory, static_cast<std::size_t>(bytes));
  std::filesystem::remove_all(place);
  if (done.scanned_bytes < bytes) throw std::runtime_error("the memory was not scanned");
  return {{"stop_ms", done.stopped_seconds * 1e3}, {"was_copied", done.was_copied ? 1.0 : 0.0}};
}

measurement reclaim_young(const std::filesystem::path& directory) {
  const std::filesystem::path place = directory / "young";
  std::filesystem::remove_all(place);
  constexpr std::uint64_t megabyte = 1'000'000;
  store_options how;
  how.collection.roots = program_roots::handles;
  how.collection.young_bytes = megabyte / 2;
  store of(place.string(), how);
  auto& changed = of.root<replaced>("changed");
  const auto commit_after = [&](std::uint64_t bytes) {
    transaction tx = of.begin();
    for (std::uint64_t made = 0; made < bytes; made += sizeof(young)) (void)of.make<young>();
    ++change(changed).numbers[0];
    const auto began = clock::now();
    (void)tx.commit(commit_mode::lazy);
    return us_since(began);
  };
  std::vector<double> with, without;
  for (int n = 0; n < 200; ++n) {
    without.push_back(commit_after(0));
    with.push_back(commit_after(megabyte));
  }
  std::ranges::sort(with);
  std::ranges::sort(without);
  of.close();
  std::filesystem::remove_all(place);
  return {{"us_per_mb", percentile(with, 0.5) - percentile(without, 0.5)}};
}

}  // namespace tenure::bench::collect
