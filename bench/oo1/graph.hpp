// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The parts of OO1 (Cattell & Skeen, TODS 17(1), 1992) and their connections. What a part is and where it leads is a
// function of its id and of the number of parts alone, so that nobody has to keep the graph to check an answer.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace tenure::bench::oo1 {

using type_name = std::array<char, 10>;  // "part-type0", not terminated, or "conn-type0"
constexpr int connections_per_part = 3;
constexpr int hops = 7;                           // of a traversal
constexpr std::uint64_t traversal_visits = 3280;  // 1 + 3 + … + 3^7

[[nodiscard]] type_name part_type(int number);
[[nodiscard]] type_name connection_type(int number);

// A sequence of numbers that depends on its seed only (splitmix64).
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  // 1 … n
  int up_to(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)) + 1; }

 private:
  std::uint64_t state_;
};

struct planned_connection {
  int to;
  int type;  // 0 … 9
  int length;
};
struct planned_part {
  int type;  // 0 … 9
  int x, y;
  int build;  // days since the first day of the ten years
  std::array<planned_connection, connections_per_part> out;
};
constexpr int build_days = 3650;

// The part `id` of `parts`, whose connections lead to nearby ones with a probability of 0.9.
[[nodiscard]] planned_part plan_part(int id, int parts);

// Whether the traversal that updates parts with this probability changes the part that was built that day: always the same
// parts.
[[nodiscard]] inline bool is_updated(int build, int percent) {
  return random_numbers{static_cast<std::uint64_t>(build)}.up_to(100) <= percent;
}

// --- What operations answer: every contender's answer is compared with the plan's ---

// Order does not matter in it.
struct answer {
  std::uint64_t visited = 0;
  std::uint64_t checksum = 0;  // of builds and types of what was visited
  std::uint64_t updated = 0;   // parts, each as often as it was
  bool operator==(const answer&) const = default;
  answer& operator+=(const answer& other) {
    visited += other.visited;
    checksum += other.checksum;
    updated += other.updated;
    return *this;
  }
};
[[nodiscard]] inline std::uint64_t checksum_of(int build, const type_name& type) {
  return static_cast<std::uint64_t>(build) * 11 + static_cast<std::uint64_t>(type[9]);
}
[[nodiscard]] answer planned_lookup(std::span<const int> ids, int parts);
[[nodiscard]] answer planned_traversal(int from, int parts, int percent);

// Connections that lead to each part, for reverse traversals.
class planned_reverse {
 public:
  explicit planned_reverse(int parts);
  [[nodiscard]] answer traversal(int from) const;

 private:
  answer visit(int id, int hops_left) const;
  int parts_;
  std::vector<std::vector<int>> from_;  // by id
};

// What is called for each part: the compiler must not know that it does nothing.
[[gnu::noinline]] inline void null_procedure(int x, int y, const type_name& type) {
  asm volatile("" : : "r"(x), "r"(y), "r"(&type) : "memory");
}

}  // namespace tenure::bench::oo1
