// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A small store, for the commands that look at one.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include <tenure/rvm.hpp>
#include <tenure/tenure.hpp>

#include "store_command.hpp"
#include "support/test_store.hpp"
#include "tools/shown.hpp"

namespace store_command_types {

enum class colour { red, green, blue };
struct point {
  double x, y;
};
struct part {
  std::int32_t number;
  bool is_new;
  colour painted;
  point at;
  char code[8];
  std::uint8_t levels[3];
  std::optional<part*> twin;
  std::variant<std::int64_t, float> price;
  tenure::string name;
  part* next;
};

}  // namespace store_command_types

namespace tenure::tools {

using namespace support;
using namespace store_command_types;

class store_command : public ::testing::Test {
 protected:
  // A list of three, of which the first and the third know each other, and nine numbers.
  void make() {
    store s(path, small_store());
    s.create_database("more", {.reservation = 1 << 28, .home = next_home(1 << 28)});
    s.transact([&] {
      part& first = s.root<part>("first");
      first.number = -7;
      first.is_new = true;
      first.painted = colour::blue;
      first.at = {1.5, -2};
      std::memcpy(first.code, "a\"b\\\n", 5);
      first.levels[1] = 200;
      first.price = std::int64_t{-12};
      first.name = "short";
      first.next = s.make<part>();
      first.next->price = 0.5F;
      first.next->name = "a name that does not fit into the string itself";
      first.next->next = s.make<part>();
      first.next->next->twin = &first;
      first.twin = first.next->next;
      s.find_database("more")->root<tenure::vector<int>>("num bers").assign({1, 2, 3, 4, 5, 6, 7, 8, 9});
    });
    at = reinterpret_cast<std::uintptr_t>(s.find_root<part>("first"));
    home = s.default_database().home();
    s.close();
  }
  shown show(const std::function<int(std::FILE*)>& f) { return tools::show(f); }
  shown dump(const dump_selection& which = {}, dump_form form = dump_form::text) {
    return show([&](std::FILE* out) { return dump_objects(path, which, form, out); });
  }
  shown verify(bool as_json = false) {
    return show([&](std::FILE* out) { return verify_store(path, as_json, out, nullptr); });
  }
  // Changes a byte of the database's file: `offset` is in the mapped segment.
  void damage(std::uint64_t offset, unsigned char with = 0x5a) {
    const auto file = path + "/main.db";
    const std::uint64_t header = std::filesystem::file_size(file) - data_length(file);
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(header + offset));
    const int was = f.get();
    f.seekp(static_cast<std::streamoff>(header + offset));
    f.put(static_cast<char>(was ^ with));
  }
  std::uint64_t data_length(const std::string& file) {
    rvm::options how;
    how.mode = rvm::open_mode::read_only;
    how.background = false;
    rvm::memory m(path + "/log", how);
    return m.segment_length(file);
  }
  [[nodiscard]] std::string address_of_first() const {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(at));
    return text;
  }

  temp_dir dir;
  std::string path = dir / "store";
  std::uintptr_t at = 0, home = 0;
};

}  // namespace tenure::tools
