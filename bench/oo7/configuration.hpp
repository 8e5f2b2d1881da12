// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// OO7 (Carey, DeWitt, Naughton, SIGMOD 1993): sizes, operations, and the answers that are known.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenure::bench::oo7 {

struct configuration {
  std::string name;
  int atomic_per_composite = 20;
  int connections_per_atomic = 3;
  int document_size = 2000, manual_size = 100'000;  // with the final NUL that is not stored
  int composites_per_module = 500;
  int assemblies_per_assembly = 3, assembly_levels = 7;
  int private_per_base = 3, shared_per_base = 3;
  int modules = 1;

  [[nodiscard]] int composites() const { return modules * composites_per_module; }
  [[nodiscard]] int atomics() const { return composites() * atomic_per_composite; }
  // A rough bound of all objects with their indexes, for systems that must know it before.
  [[nodiscard]] std::uint64_t bytes() const {
    const auto per_atomic = static_cast<std::uint64_t>(600 + connections_per_atomic * 300);
    return (std::uint64_t{32} << 20) + static_cast<std::uint64_t>(atomics()) * per_atomic +
           static_cast<std::uint64_t>(composites()) * static_cast<std::uint64_t>(document_size * 2 + 4000) +
           static_cast<std::uint64_t>(modules) * static_cast<std::uint64_t>(manual_size * 2 + 2'000'000);
  }
};
// "tiny", "small3", "small6", … "medium9", "large3", …; throws for others.
[[nodiscard]] configuration configuration_of(std::string_view name);

enum class operation {
  t1,
  t2a,
  t2b,
  t2c,
  t3a,
  t3b,
  t3c,
  t4,
  t5do,
  t5undo,
  t6,
  t7,
  t8,
  t9,
  q1,
  q2,
  q3,
  q4,
  q5,
  q6,
  q7,
  q8,
  insert,
  remove
};
struct operation_name {
  operation what;
  std::string_view name;
};
[[nodiscard]] std::span<const operation_name> all_operations();
[[nodiscard]] std::string_view name_of(operation what);

// Sums over the whole database, which tell whether it is what was generated.
struct totals {
  std::uint64_t atomics = 0, connections = 0, documents = 0, composites = 0;
  std::uint64_t dates = 0, x = 0, y = 0, lengths = 0;  // of atomic parts, and of connections
  bool operator==(const totals&) const = default;
};
[[nodiscard]] std::string to_text(const totals& of);

// What is known from the original program; nothing where it is not.
struct golden_answers {
  std::map<operation, std::uint64_t> counts;
  std::optional<std::uint64_t> dates, x, lengths;
  std::optional<std::uint64_t> t1_after_insert, atomics_after_insert;
};
[[nodiscard]] golden_answers golden_of(const configuration& how);

// --- Random choices: glibc's generator with seed 1, in the order of the original program ---

inline void restart_random() { ::srandom(1); }
// 0 … n-1
inline int draw(int n) { return static_cast<int>(::random() % n); }

// --- Texts ---

using type_name = std::array<char, 10>;  // "type000"
using title = std::array<char, 40>;

template <class Text, class Number>
Text format_text(const char* format, Number number) {
  Text text = {};
  std::snprintf(text.data(), text.size(), format, number);
  return text;
}
inline type_name draw_type() { return format_text<type_name>("type%03d", draw(10)); }
inline title composite_title(int id) { return format_text<title>("Composite Part %08d", id); }
inline title module_title(int id) { return format_text<title>("Module %08d", id); }
// A sentence again and again, `size` - 1 characters.
[[nodiscard]] std::string document_text(int id, int size);
[[nodiscard]] std::string manual_text(int id, int size);

}  // namespace tenure::bench::oo7
