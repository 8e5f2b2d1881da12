// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The database of the EPVM experiments: parts with connections to others, in a store [EPVM §5.1]. What takes the place of the
// index, an array of object identifiers, is a file of its own beside the store.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <tenure/tenure.hpp>

#include "oo1/graph.hpp"

namespace tenure::bench::epvm {

// `numbers`: integers besides, of which updates may change a share.
template <int Numbers>
struct part {
  int id{}, x{}, y{}, build{};
  std::array<part*, 3> to{};
  std::array<int, 4> length{};  // of three connections
  std::array<int, Numbers> numbers{};
};
using small_part = part<2>;
using wide_part = part<114>;
static_assert(sizeof(small_part) == 64 && sizeof(wide_part) == 512);  // none lies in two pages

template <class Part>
struct all_parts {
  tenure::vector<Part*> by_id;  // part `id` at id - 1
};

// What the part is, as OO1 plans it; `part_of(id)` is where others are.
template <class Part, class F>
void fill(Part& one, int id, int parts, F&& part_of) {
  const oo1::planned_part plan = oo1::plan_part(id, parts);
  one.id = id;
  one.x = plan.x;
  one.y = plan.y;
  one.build = plan.build;
  for (std::size_t n = 0; n < one.to.size(); ++n) {
    one.to[n] = part_of(plan.out[n].to);
    one.length[n] = plan.out[n].length;
  }
}

// The store, and the home addresses of its parts.
template <class Part>
void make_parts(const std::filesystem::path& directory, int parts);
[[nodiscard]] std::vector<std::uint64_t> read_homes(const std::filesystem::path& directory);

}  // namespace tenure::bench::epvm
