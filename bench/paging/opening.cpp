// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the opening of a store costs, by the size of its database: each is a process of its own.
#include <chrono>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/child.hpp"
#include "paging/chain.hpp"
#include "paging/figures.hpp"

namespace tenure::bench::paging {
namespace {

using sheet = link<4000>;  // about a page, with what the heap adds
using book = chain<sheet>;

std::string name_of(std::uint64_t mib) {
  return mib % 1024 == 0 ? fmt::format("open-{}G", mib / 1024) : fmt::format("open-{}M", mib);
}

std::filesystem::path place(const program_options& how, std::uint64_t mib) { return how.directory / name_of(mib); }

nlohmann::json run(const program_options& how, const std::string& task, std::uint64_t mib) {
  return run_child({"--child", task, "--size", std::to_string(mib << 20), "--dir", place(how, mib).string()});
}

measurement open_warm(const program_options& how, std::uint64_t mib) {
  (void)run(how, "open", mib);  // what it looks at is in the page cache now
  const auto said = run(how, "open", mib);
  return {{"open_ms", said.at("open_ms")}, {"first_object_ms", said.at("first_object_ms")}};
}

measurement open_cold(const program_options& how, std::uint64_t mib) {
  std::uint64_t left = 0;
  for (const auto& file : files_in(place(how, mib))) {
    (void)drop_from_cache(file);
    left += pages_in_cache(file);
  }
  const auto said = run(how, "open", mib);
  return {{"cold_open_ms", said.at("open_ms")},
          {"cold_first_object_ms", said.at("first_object_ms")},
          {"cold_pages", said.at("pages").get<double>() - static_cast<double>(left)}};
}

std::vector<outcome> measure(const program_options& how, const std::vector<std::uint64_t>& sizes,
                             measurement (*opening)(const program_options&, std::uint64_t), const std::string& compared,
                             unsigned repeat) {
  std::vector<entrant> entrants;
  for (const std::uint64_t mib : sizes)
    entrants.push_back(
        {name_of(mib), [&how, opening, mib] { return opening(how, mib); }, mib == sizes[0] ? "" : name_of(sizes[0])});
  round_options rounds;
  rounds.repeat = repeat;
  rounds.compared = compared;
  auto all = run_rounds(entrants, {{name_of(sizes[0]), [&] { return opening(how, sizes[0]); }}}, rounds);
  all.resize(sizes.size());
  return all;
}

// The baseline first, whether it was asked for or not.
std::vector<std::uint64_t> wanted_sizes(const program_options& how) {
  std::vector<std::uint64_t> wanted;
  for (const std::uint64_t mib : how.sizes)
    if (how.wants(name_of(mib))) wanted.push_back(mib);
  if (!wanted.empty() && wanted[0] != how.sizes[0]) wanted.insert(wanted.begin(), how.sizes[0]);
  return wanted;
}

// Whether there is room for it.
bool build(const program_options& how, std::uint64_t mib) {
  if (std::filesystem::space(how.directory).available >> 20 < mib + mib / 4) {
    fmt::print("  {} not run: the disk has too little space\n", name_of(mib));
    return false;
  }
  std::filesystem::create_directories(place(how, mib));
  const outcome built{name_of(mib), "", {run(how, "open-build", mib).get<measurement>()}, {}, 0, ""};
  std::vector<std::string> row;
  report(how, {"tenure", built.name, "build_s", "s"}, built, row);
  fmt::print("  {}: built in {} s\n", built.name, row[0]);
  return true;
}

}  // namespace

void run_opening_child(const child_options& what, const std::filesystem::path& directory) {
  const raised_priority priority(what.task == "open");
  const std::uint64_t sheets = what.size / sizeof(sheet);
  nlohmann::json said;
  if (what.task == "open-build") {
    const auto start = std::chrono::steady_clock::now();
    store built{store_in(directory)};
    append(built, built.root<book>("book"), sheets);
    built.close();
    said["build_s"] = milliseconds_since(start) / 1e3;
  } else {
    auto start = std::chrono::steady_clock::now();
    store opened{store_in(directory)};
    const double opening = milliseconds_since(start);
    std::uint64_t pages = 0;
    for (const auto& file : files_in(directory)) pages += pages_in_cache(file);
    start = std::chrono::steady_clock::now();
    const book* const found = opened.find_root<book>("book");
    if (found == nullptr || found->length != sheets || found->first->number != 0)
      throw std::runtime_error("wrong answer: the beginning of the list is not what was saved");
    said = {{"open_ms", opening}, {"first_object_ms", opening + milliseconds_since(start)}, {"pages", pages}};
    if (found->last->number != sheets - 1 || found->last->next != nullptr)
      throw std::runtime_error("wrong answer: the end of the list is not what was saved");
    opened.close();
  }
  tell_parent(said);
}

bool run_openings(const program_options& how) {
  const auto wanted = wanted_sizes(how);
  if (wanted.empty()) return true;
  fmt::print("open: opening a store by the bytes of objects in its database, in a process of its own\n");
  fmt::print("  baseline: {}; aims: 1 ms warm, 1.2 of the baseline, 64 pages\n", name_of(wanted[0]));
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t mib : wanted)
    if (build(how, mib)) sizes.push_back(mib);
  if (sizes.empty()) return true;
  const auto warm = measure(how, sizes, open_warm, "open_ms", 5 * how.repeat);  // so short that much disturbs it
  const auto cold = measure(how, sizes, open_cold, "cold_open_ms", how.repeat);
  bool good = true;
  table rows{{"database", "warm ms", "[min .. max]", "ratio", "[min .. max]", "with an object", "[min .. max]",
              "cold ms", "[min .. max]", "with an object", "[min .. max]", "pages read", "[min .. max]"}};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = name_of(sizes[i]);
    if (const std::string failure = warm[i].failure + cold[i].failure; !failure.empty()) {
      fmt::print("  {} FAILED: {}\n", name, failure);
      good = false;
      continue;
    }
    std::vector<std::string> row{name};
    report(how, {"tenure", name, "open_ms", "ms", true}, warm[i], row);
    report(how, {"tenure", name, "first_object_ms", "ms"}, warm[i], row);
    report(how, {"tenure", name, "cold_open_ms", "ms"}, cold[i], row);
    report(how, {"tenure", name, "cold_first_object_ms", "ms"}, cold[i], row);
    report(how, {"tenure", name, "cold_pages", "pages"}, cold[i], row);
    rows.add(row);
  }
  rows.print();
  fmt::print("\n");
  for (const std::uint64_t mib : sizes) std::filesystem::remove_all(place(how, mib));
  return good;
}

}  // namespace tenure::bench::paging
