// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A cache::map of a damaged store: what is left of it is in order, and a program can go on with it.
#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <tenure/cache.hpp>

#include "rewrite/damaged_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace repaired_maps_types {

struct maps {
  tenure::cache::map<std::uint64_t, std::uint64_t> numbers, more;
  tenure::cache::map<tenure::string, tenure::string> texts;
};

}  // namespace repaired_maps_types
using repaired_maps_types::maps;

namespace {

class repairing_cache_maps : public ::testing::Test {
 protected:
  static constexpr std::uint64_t count = 30'000, text_count = 400;
  repairing_cache_maps() {
    how.memory.log.size = 4 << 20;
    how.memory.background = false;
    how.memory.disk = &base;
    store s("/store", how);
    home = s.default_database().home();
    const auto& root = s.root<maps>("maps");
    s.transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) root.numbers.insert(n * 7919 % count, n * 7919 % count + 1);
      for (std::uint64_t n = 0; n < 1000; ++n) root.more.insert(n, n + 1);
      for (std::uint64_t n = 0; n < text_count; ++n)
        root.texts.insert(named_text<tenure::string>(n), named_text<tenure::string>(n + 1));
    });
    const auto page_of = [&](const void* at) { return (reinterpret_cast<std::uint64_t>(at) - home) / page; };
    const auto note = [&](const void* at) { pages.insert(page_of(at)); };
    // The first one of `numbers` lies among descriptions of types.
    first_page = page_of(&root.more.begin().key());
    for (const auto& [key, value] : root.numbers) note(&key);
    for (const auto& [key, value] : root.texts) note(&key), note(key.data());
    s.close();
  }

  sim::disk base;
  store_options how = small_store();
  std::uint64_t home = 0, first_page = 0;  // of the first leaf
  std::set<std::uint64_t> pages;           // of entries, and of texts
};

TEST_F(repairing_cache_maps, keep_what_is_not_lost_in_order) {
  // And what lies between: inner nodes.
  std::vector<std::uint64_t> all{first_page};
  for (std::uint64_t n = *pages.begin(); n <= *pages.rbegin(); n += 3) all.push_back(n);
  std::uint64_t lost = 0, whole = 0, partly = 0;
  for (const std::uint64_t damaged : all) {
    SCOPED_TRACE("page " + std::to_string(damaged));
    const auto disk = base.crash(0, sim::policy::keep_all);
    damage_byte(*disk, (damaged)*page + 100);
    try {
      (void)repaired(*disk);
    } catch (const error& e) {  // descriptions of types lie among them
      ASSERT_EQ(e.code(), errc::damaged) << e.what();
      continue;
    }
    store_options as = how;
    as.memory.disk = disk.get();
    as.mode = rvm::open_mode::open;
    {
      store s("/store", as);
      expect_sound(s);
      const auto& m = s.root<maps>("maps");
      ASSERT_NO_THROW(m.numbers.check());
      ASSERT_NO_THROW(m.more.check());
      ASSERT_NO_THROW(m.texts.check());
      std::uint64_t left = 0, texts = 0;
      for (const auto& [key, value] : m.numbers) {
        ASSERT_EQ(value, key + 1);
        ASSERT_EQ(m.numbers.find(key), &value);
        ++left;
      }
      for (const auto& [key, value] : m.texts) {
        ASSERT_EQ(m.texts.find(key), &value);
        ++texts;
      }
      EXPECT_GT(left, count * 9 / 10);
      EXPECT_GT(texts, text_count / 2);
      whole += left == count && texts == text_count ? 1 : 0;
      partly += left != count || texts != text_count ? 1 : 0;
      s.transact([&] {
        for (std::uint64_t k = 0; k < count; ++k) lost += m.numbers.insert(k, k + 1) ? 1 : 0;
        for (std::uint64_t k = 0; k < text_count; ++k) m.texts.insert(named_text<tenure::string>(k), {});
      });
      m.numbers.check();
      m.texts.check();
      EXPECT_EQ(m.numbers.size(), count);
      EXPECT_EQ(m.texts.size(), text_count);
      s.transact([&] {
        for (std::uint64_t k = 0; k < count; ++k) ASSERT_TRUE(m.numbers.erase(k));
        for (std::uint64_t k = 0; k < text_count; ++k) ASSERT_TRUE(m.texts.erase(named_text<tenure::string>(k)));
      });
      expect_sound(s);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(lost, 100u);
  EXPECT_GT(partly, 10u);
  RecordProperty("whole", static_cast<int>(whole));
}

}  // namespace
