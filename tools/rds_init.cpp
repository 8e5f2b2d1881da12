// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rds_init.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include <rvm/rds.h>

namespace tenure::tools {

namespace {

struct layout {
  unsigned long data_length, address, heap_length, static_length, lists, chunk;
};

constexpr std::array<const char*, 6> questions = {
    "length of the data segment, bytes",  "address of the heap",  "length of the heap, bytes",
    "length of the static region, bytes", "number of free lists", "chunk size, bytes"};

std::optional<std::string> answer(std::FILE* in, std::FILE* out, const std::string& question) {
  fmt::print(out, "{}: ", question);
  std::fflush(out);
  std::string line;
  for (int c; (c = std::fgetc(in)) != EOF && c != '\n';) line += static_cast<char>(c);
  if (line.empty()) return std::nullopt;
  return line;
}

std::optional<unsigned long> number_in(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const unsigned long value = std::strtoul(text.c_str(), &end, 0);
  if (errno != 0 || end == text.c_str() || *end != '\0' || text.find('-') != std::string::npos) return std::nullopt;
  return value;
}

// Why no heap can be made like this, or "".
std::string flaw(const layout& l) {
  const unsigned long page = rvm_page_size();
  if (l.address == 0 || l.address % page != 0) return "the address is not a multiple of the page size";
  if (l.heap_length == 0 || l.heap_length % page != 0) return "the heap's length is no multiple of the page size";
  if (l.static_length == 0 || l.static_length % page != 0)
    return "the static region's length is no multiple of the page size";
  if (l.heap_length > l.data_length || l.static_length > l.data_length - l.heap_length ||
      page > l.data_length - l.heap_length - l.static_length)
    return fmt::format("heap, static region and a page of {} bytes do not fit into the data segment", page);
  if (l.chunk < RDS_MIN_CHUNK_SIZE || l.chunk % sizeof(void*) != 0)
    return fmt::format("the chunk size must be a multiple of {}, at least {}", sizeof(void*), RDS_MIN_CHUNK_SIZE);
  if (l.lists == 0) return "there must be a free list";
  return "";
}

int failed(std::FILE* out, const std::string& what) {
  fmt::print(out, "rdsinit: {}\n", what);
  return 1;
}

int make(const rds_init_arguments& given, const layout& l, std::FILE* out) {
  // The log first: what it still has for an older segment of this name must not come over the new one.
  std::string log = given.log, data = given.data;
  rvm_options_t options;
  rvm_init_options(&options);
  options.log_dev = log.data();
  if (const int bad = RVM_INIT(&options); bad != RVM_SUCCESS)
    return failed(out, fmt::format("cannot open the log {}: {}", log, rvm_return(bad)));
  if (!std::ofstream(data, std::ios::trunc)) return failed(out, "cannot write " + data);
  std::error_code no_room;
  std::filesystem::resize_file(data, l.data_length, no_room);
  if (no_room) return failed(out, data + ": " + no_room.message());
  int err;
  rds_zap_heap(data.data(), RVM_MK_OFFSET(0, 0), reinterpret_cast<char*>(l.address), l.static_length, l.heap_length,
               l.lists, l.chunk, &err);
  if (err != SUCCESS)
    return failed(out, fmt::format("cannot make the heap: {}", err > 0 ? rvm_return(err) : std::to_string(err)));
  if (const int bad = rvm_terminate(); bad != RVM_SUCCESS) return failed(out, rvm_return(bad));
  fmt::print(out, "{}: heap of {} bytes at {:#x}, static region of {} bytes behind it\n", data, l.heap_length,
             l.address, l.static_length);
  return 0;
}

}  // namespace

int rds_init(const rds_init_arguments& arguments, std::FILE* in, std::FILE* out) {
  std::array<unsigned long, questions.size()> numbers{};
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const auto text =
        i < arguments.numbers.size() ? std::optional(arguments.numbers[i]) : answer(in, out, questions[i]);
    const auto value = text ? number_in(*text) : std::nullopt;
    if (!value) return failed(out, std::string("no number: ") + questions[i]);
    numbers[i] = *value;
  }
  const layout l{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
  if (const std::string why = flaw(l); !why.empty()) return failed(out, why);
  if (!arguments.force) {
    const auto yes = answer(in, out, fmt::format("all data in {} will be lost; go on (y or n)?", arguments.data));
    if (!yes || (*yes)[0] != 'y') return failed(out, "nothing was changed");
  }
  return make(arguments, l, out);
}

}  // namespace tenure::tools
