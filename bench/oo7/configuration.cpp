// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo7/configuration.hpp"

#include <stdexcept>

namespace tenure::bench::oo7 {
namespace {

std::string repeated(const char* format, int id, int size) {
  std::array<char, 80> sentence = {};
  std::snprintf(sentence.data(), sentence.size(), format, id);
  const std::string_view one{sentence.data()};
  std::string all;
  all.reserve(static_cast<std::size_t>(size) + one.size());
  while (all.size() + 1 < static_cast<std::size_t>(size)) all += one;
  all.resize(static_cast<std::size_t>(size - 1));
  return all;
}

struct golden_row {
  operation what;
  int tiny, small3, medium3;  // -1: not known
};
constexpr golden_row golden_rows[] = {
    {operation::t1, 135, 43740, 437400},
    {operation::t2a, 27, 2187, 2187},
    {operation::t3a, 27, 2187, 2187},
    {operation::t6, 27, 2187, 2187},
    {operation::t2b, 135, 43740, 437400},
    {operation::t3b, 135, 43740, 437400},
    {operation::t2c, 540, 174960, 1749600},
    {operation::t3c, 540, 174960, 1749600},
    {operation::t4, 108, 83106, 826686},
    {operation::t5do, 9, 495, 495},
    {operation::t5undo, 9, 495, 495},
    {operation::t7, 5, 19, 29},
    {operation::t8, 27, 2632, 26316},
    {operation::t9, -1, 0, 0},
    {operation::q1, 10, 10, 10},
    {operation::q2, 2, 101, 991},
    {operation::q3, 7, 1002, 9830},
    {operation::q4, 28, 45, 45},
    {operation::q5, 3, 233, 233},
    {operation::q6, 6, 490, 490},
    {operation::q7, 50, 10000, 100000},
    {operation::q8, 50, 10000, 100000},
};

}  // namespace

configuration configuration_of(std::string_view name) {
  configuration how;
  how.name = name;
  const std::string_view size = name.substr(0, name.find_first_of("0123456789"));
  if (name == "tiny") {
    how.atomic_per_composite = 5;
    how.document_size = 200;
    how.manual_size = 1000;
    how.composites_per_module = 10;
    how.assembly_levels = 3;
    return how;
  }
  const std::string_view connections = name.substr(size.size());
  if ((size != "small" && size != "medium" && size != "large") ||
      (connections != "3" && connections != "6" && connections != "9"))
    throw std::invalid_argument("no OO7 configuration is named " + std::string{name} +
                                ": tiny, small3, small6, small9, medium3 … large9");
  how.connections_per_atomic = connections[0] - '0';
  if (size != "small") {
    how.atomic_per_composite = 200;
    how.document_size = 20'000;
    how.manual_size = 1'000'000;
  }
  if (size == "large") how.modules = 10;
  return how;
}

std::span<const operation_name> all_operations() {
  static constexpr operation_name all[] = {
      {operation::t1, "T1"},         {operation::t2a, "T2A"},       {operation::t2b, "T2B"},
      {operation::t2c, "T2C"},       {operation::t3a, "T3A"},       {operation::t3b, "T3B"},
      {operation::t3c, "T3C"},       {operation::t4, "T4"},         {operation::t5do, "T5do"},
      {operation::t5undo, "T5undo"}, {operation::t6, "T6"},         {operation::t7, "T7"},
      {operation::t8, "T8"},         {operation::t9, "T9"},         {operation::q1, "Q1"},
      {operation::q2, "Q2"},         {operation::q3, "Q3"},         {operation::q4, "Q4"},
      {operation::q5, "Q5"},         {operation::q6, "Q6"},         {operation::q7, "Q7"},
      {operation::q8, "Q8"},         {operation::insert, "insert"}, {operation::remove, "delete"}};
  return all;
}

std::string_view name_of(operation what) {
  for (const auto& one : all_operations())
    if (one.what == what) return one.name;
  return "";
}

std::string to_text(const totals& of) {
  std::string text;
  const auto add = [&](const char* name, std::uint64_t value) {
    text += text.empty() ? "" : ", ";
    text += name + (" " + std::to_string(value));
  };
  add("atomic parts", of.atomics);
  add("connections", of.connections);
  add("documents", of.documents);
  add("composite parts", of.composites);
  add("dates", of.dates);
  add("x", of.x);
  add("y", of.y);
  add("lengths", of.lengths);
  return text;
}

golden_answers golden_of(const configuration& how) {
  golden_answers known;
  const bool tiny = how.name == "tiny", small = how.name == "small3", medium = how.name == "medium3";
  if (!tiny && !small && !medium) return known;
  for (const golden_row& row : golden_rows) {
    const int count = tiny ? row.tiny : small ? row.small3 : row.medium3;
    if (count >= 0) known.counts[row.what] = static_cast<std::uint64_t>(count);
  }
  if (tiny) return known;
  known.dates = small ? 14976484U : 149774315U;
  known.x = small ? 496246114U : 4998311129U;
  known.lengths = small ? 1493980235U : 14992056550U;
  known.t1_after_insert = small ? 43940U : 439400U;
  known.atomics_after_insert = small ? 10200U : 102000U;
  return known;
}

std::string document_text(int id, int size) {
  return repeated("I am the documentation for composite part #%08d.\n", id, size);
}
std::string manual_text(int id, int size) { return repeated("I am the manual for module #%08d.\n", id, size); }

}  // namespace tenure::bench::oo7
