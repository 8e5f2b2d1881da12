// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A page that fails its checksum would have a right one in a new store: so the store is not written anew
// [heap.rewrite.damaged].
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/rewrite.hpp>
#include <tenure/string.hpp>
#include <tenure/tenure.hpp>

#include "segments/format.hpp"
#include "segments/segment_layout.hpp"
#include "sim/disk.hpp"
#include "support/test_store.hpp"

namespace damaged_source_types {

struct entry {
  tenure::string name;
  entry* next;
};

}  // namespace damaged_source_types

namespace {

using namespace tenure;
using damaged_source_types::entry;

TEST(damaged_source, is_not_written_anew) {
  constexpr std::uint64_t page = rvm::redo_page;
  const std::string file = "/store/main.db";
  sim::disk base;
  store_options how = support::small_store();
  how.memory.background = false;
  how.memory.disk = &base;
  {
    store s("/store", how);
    auto& first = s.root<entry*>("first");
    s.transact([&] {
      for (int n = 0; n < 2000; ++n) {
        first = s.make<entry>(entry{{}, first});
        first->name = "a name that does not fit into the object, number " + std::to_string(n);
      }
    });
    s.close();
  }
  const std::vector<std::byte> bytes = base.current_bytes(file);
  rvm::segment_header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const rvm::segment_layout layout(header);
  std::mt19937_64 random(11);
  int refused = 0;
  for (std::uint64_t number = random() % 3; number < header.length / page; number += 1 + random() % 5) {
    const std::uint64_t at = layout.find(number * page, page).at;
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::all_of(first, first + page, [](std::byte b) { return b == std::byte{}; })) continue;
    SCOPED_TRACE("page " + std::to_string(number));
    const auto disk = base.crash(0, sim::policy::keep_all);
    const std::uint64_t where = at + random() % page;
    const std::byte other = bytes[where] ^ static_cast<std::byte>(1U << random() % 8);
    disk->poke(file, where, {&other, 1});
    const auto before = disk->current_bytes(file);
    for (const bool copies : {false, true}) try {
        copies ? clone("/store", "/clone", {.disk = disk.get()}) : compact("/store", {.disk = disk.get()});
        ADD_FAILURE() << "a damaged page was written anew";
      } catch (const error& e) {  // of what is read when the store is opened, something else is said
        const std::string text = e.what();
        EXPECT_TRUE(e.code() == errc::damaged || e.code() == errc::wrong_version) << text;
        EXPECT_NE(text.find(file), std::string::npos) << text;
        const std::string says = "page is damaged, the first at offset " + std::to_string(number * page);
        refused += text.find(says) != std::string::npos;
      }
    EXPECT_FALSE(disk->exists("/clone/log"));
    EXPECT_TRUE(disk->current_bytes(file) == before);
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
