// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collect/moved.hpp"

#include <chrono>
#include <stdexcept>

#include <tenure/tenure.hpp>

namespace tenure::bench::collect {

template <std::size_t Size>
struct moved_object {
  std::uint64_t id = 0;
  moved_object *a = nullptr, *b = nullptr;
  std::uint64_t numbers[Size / 8 - 3] = {};
};

namespace {

using clock = std::chrono::steady_clock;
constexpr std::uint64_t kept_of = 4;  // every fourth object stays

template <std::size_t Size>
using left_objects = tenure::vector<moved_object<Size>*>;

template <std::size_t Size>
void make_some(tenure::store& store, left_objects<Size>& all, std::uint64_t first, std::uint64_t end,
               neighbours where) {
  std::uint64_t draw = first * 2 + 1;
  for (std::uint64_t n = first; n < end; ++n) {
    auto* const made = store.make<moved_object<Size>>();  // three of four are garbage at once
    made->id = n;
    if (n % kept_of != 0) continue;
    for (moved_object<Size>** each : {&made->a, &made->b}) {
      draw = draw * 6364136223846793005u + 1442695040888963407u;
      if (!all.empty()) *each = where == neighbours::near ? all[all.size() - 1] : all[(draw >> 33) % all.size()];
    }
    all.push_back(made);
  }
}

}  // namespace

template <std::size_t Size>
measurement move_together(const std::filesystem::path& directory, std::uint64_t objects, neighbours where) {
  const std::filesystem::path place = directory / "moved";
  std::filesystem::remove_all(place);
  tenure::store store(place.string());
  auto& all = store.root<left_objects<Size>>("all");
  constexpr std::uint64_t at_once = 10'000;
  for (std::uint64_t n = 0; n < objects; n += at_once)
    store.transact([&] { make_some<Size>(store, all, n, n + at_once, where); }, tenure::commit_mode::lazy);
  // Transient garbage goes first.
  (void)store.collect({.roots = program_roots::handles, .quarantine = quarantine::none});
  store.flush();
  const auto began = clock::now();
  const collect_report done = store.collect({.roots = program_roots::handles,
                                             .quarantine = quarantine::none,
                                             .evacuation = {.enabled = true, .sparse_percent = 60}});
  const double seconds = std::chrono::duration<double>(clock::now() - began).count();
  if (done.moved < objects / kept_of / 2) throw std::runtime_error("fewer than half of the objects were moved");
  for (std::uint64_t n = 0; n < all.size(); ++n)
    if (all[n]->id != n * kept_of) throw std::runtime_error("an object is not where it should be");
  const double mib = static_cast<double>(done.moved_bytes) / (1 << 20);
  store.close();
  std::filesystem::remove_all(place);
  return {{"ms_per_mib", seconds * 1e3 / mib},
          {"us_per_object", seconds * 1e6 / static_cast<double>(done.moved)},
          {"longest_move_ms", done.longest_move * 1e3}};
}

template measurement move_together<64>(const std::filesystem::path&, std::uint64_t, neighbours);
template measurement move_together<1024>(const std::filesystem::path&, std::uint64_t, neighbours);

}  // namespace tenure::bench::collect
