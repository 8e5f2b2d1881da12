// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo1/graph.hpp"

#include <algorithm>

namespace tenure::bench::oo1 {
namespace {

type_name numbered(const char (&name)[10], int number) {
  type_name all = {};
  std::copy_n(name, 9, all.begin());
  all[9] = static_cast<char>('0' + number);
  return all;
}

// [Cattell & Skeen, the locality of reference]
int draw_target(random_numbers& random, int from, int parts) {
  const int zone = std::max(parts / 100, 1);
  if (random.up_to(10) == 10) return random.up_to(parts);
  int to = from + random.up_to(zone) - 1 - zone / 2;
  if (to < zone / 2) to += zone / 2;
  if (to > parts - zone / 2) to -= zone / 2;
  return std::clamp(to, 1, parts);  // rounding at the ends
}

answer answer_of(const planned_part& part) { return {1, checksum_of(part.build, part_type(part.type)), 0}; }

answer visit(int id, int parts, int percent, int hops_left) {
  const planned_part part = plan_part(id, parts);
  answer all = answer_of(part);
  all.updated = is_updated(part.build, percent) ? 1 : 0;
  if (hops_left == 0) return all;
  for (const auto& out : part.out) all += visit(out.to, parts, percent, hops_left - 1);
  return all;
}

}  // namespace

type_name part_type(int number) { return numbered("part-type", number); }
type_name connection_type(int number) { return numbered("conn-type", number); }

planned_part plan_part(int id, int parts) {
  random_numbers random{static_cast<std::uint64_t>(id) * 0x2545F4914F6CDD1DU + static_cast<std::uint64_t>(parts)};
  planned_part part = {};
  part.type = random.up_to(10) - 1;
  part.x = random.up_to(100'000) - 1;
  part.y = random.up_to(100'000) - 1;
  part.build = random.up_to(build_days) - 1;
  for (auto& out : part.out) {
    out.to = draw_target(random, id, parts);
    out.type = random.up_to(10) - 1;
    out.length = random.up_to(100'000) - 1;
  }
  return part;
}

answer planned_lookup(std::span<const int> ids, int parts) {
  answer all;
  for (const int id : ids) all += answer_of(plan_part(id, parts));
  return all;
}

answer planned_traversal(int from, int parts, int percent) { return visit(from, parts, percent, hops); }

planned_reverse::planned_reverse(int parts) : parts_(parts), from_(static_cast<std::size_t>(parts) + 1) {
  for (int id = 1; id <= parts; ++id)
    for (const auto& out : plan_part(id, parts).out) from_[static_cast<std::size_t>(out.to)].push_back(id);
}
answer planned_reverse::traversal(int from) const { return visit(from, hops); }
answer planned_reverse::visit(int id, int hops_left) const {
  answer all = answer_of(plan_part(id, parts_));
  if (hops_left == 0) return all;
  for (const int from : from_[static_cast<std::size_t>(id)]) all += visit(from, hops_left - 1);
  return all;
}

}  // namespace tenure::bench::oo1
