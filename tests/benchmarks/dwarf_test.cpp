// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The types of OO7 and of the package graph, with the nodes of their containers: known exactly, as the compiler laid them out.
// So no object of theirs is conservative.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "oo7/schema.hpp"
#include "support/dwarf_layout.hpp"
#include "worlds/heap_world.hpp"

#if __has_include(<CLI/CLI.hpp>) && __has_include(<fmt/format.h>)
#define FMT_HEADER_ONLY
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string_view>
#include <thread>
#include <unordered_map>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wreturn-type"  // of a main() that is none
namespace package_graph {                       // its headers are above
#include "../examples/packages.cpp"
}
#pragma GCC diagnostic pop
#endif

namespace {

using tenure::support::agreement;
using tenure::support::exact_disagreements;

template <class... T>
void expect_all_exact() {
  const auto expect_exact = [](const std::vector<std::string>& found) { EXPECT_EQ(found, agreement); };
  (expect_exact(exact_disagreements<T>()), ...);
}

template <class K, class V>
void expect_exact_map() {
  using tenure::detail::tree_inner;
  using tenure::detail::tree_leaf;
  expect_all_exact<tenure::map<K, V>, tenure::multimap<K, V>, tree_leaf<std::pair<const K, V>>, tree_inner<K>>();
}

}  // namespace

TEST(dwarf, agrees_exactly_with_oo7) {
  using namespace tenure::bench;
  using s = oo7::schema<heap_world>;
  expect_all_exact<s::manual, s::module, s::complex_assembly, s::base_assembly, s::document, s::connection,
                   s::atomic_part, s::composite_part, s::database>();
  expect_exact_map<oo7::title, s::module*>();
  expect_exact_map<oo7::title, s::document*>();
  expect_exact_map<int, s::base_assembly*>();
  expect_exact_map<int, s::composite_part*>();
  expect_exact_map<int, s::document*>();
  expect_exact_map<int, s::atomic_part*>();
}

#if defined(FMT_HEADER_ONLY)
TEST(dwarf, agrees_exactly_with_the_package_graph) {
  using namespace package_graph;
  expect_all_exact<package, receipt, catalog>();
  expect_exact_map<tenure::string, package*>();
}
#endif
