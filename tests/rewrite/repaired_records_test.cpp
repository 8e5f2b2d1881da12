// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Records of blocks and descriptions of types that make no sense on pages whose checksums are right, as after a recovery that wrote
// them: what repair leaves, verify finds sound.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "objects/block_map.hpp"
#include "objects/format.hpp"
#include "rewrite/damaged_store.hpp"
#include "store/store_state.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;

namespace {

TEST(repairing_records, leaves_nothing_that_verify_finds) {
  sim::disk base;
  store_options how = small_store();
  how.memory.disk = &base;
  how.memory.background = false;
  {
    store s("/store", how);
    fill(s, s.root<relics>("all"), 60);
  }
  how.create.home = 0;
  std::vector<std::uint64_t> of_descriptions,  // where headers of their arrays have the types' numbers
      of_names;                                // the last letters of fields' names
  {
    store_options reading = how;
    reading.mode = rvm::open_mode::read_only;
    const store_state opened("/store", reading);
    const database_state& d = *opened.databases->begin()->get();
    for (std::uint64_t n = 1; n < d.type_table().count; ++n)
      if (const heap::stored_type* const t = d.type_table().types[n]; t != nullptr && t->field_count != 0)
        if (const auto at = reinterpret_cast<heap::address>(t->fields);
            d.map->entry(d.map->block_of(at)).kind == heap::block_kind::small) {
          of_descriptions.push_back(at - sizeof(heap::object_header) - d.home);
          for (const heap::stored_field& f : std::span(t->fields, t->field_count))
            if (f.name.length != 0)
              of_names.push_back(reinterpret_cast<heap::address>(f.name.text) + f.name.length - 1 - d.home);
        }
  }
  ASSERT_FALSE(of_descriptions.empty());
  ASSERT_FALSE(of_names.empty());
  rvm::testing::random_source random(17);
  std::uint64_t repaired_ones = 0, refused = 0;
  for (std::uint64_t round = 0; round < rvm::testing::scaled(120); ++round) {
    const auto disk = base.crash(0, sim::policy::keep_all);
    how.memory.disk = disk.get();
    std::string changed;
    {
      rvm::options plain;
      plain.disk = disk.get();
      plain.background = false;
      rvm::memory m("/store/log", plain);
      const rvm::region r = m.map("/store/main.db");
      const std::uint64_t block = random.below(24),
                          offset = random.one_in(2) ? random.below(32) : random.below(sizeof(heap::block_record));
      m.transact([&](rvm::transaction& tx) {
        const std::uint64_t at = random.one_in(10)  ? offsetof(heap::database_header, blocks_end)
                                 : random.one_in(5) ? of_descriptions[random.below(of_descriptions.size())]
                                 : random.one_in(5) ? of_names[random.below(of_names.size())]
                                                    : heap::record_offset(block) + offset;
        auto& byte = r.at<std::uint8_t>(at);
        tx.set_range(byte);
        byte = static_cast<std::uint8_t>(random.one_in(2) ? byte ^ (1U << random.below(8)) : random.below(256));
      });
      m.truncate();
      changed = "block " + std::to_string(block) + ", byte " + std::to_string(offset);
    }
    SCOPED_TRACE(changed);
    try {
      (void)repaired(*disk);
    } catch (const error& e) {
      ASSERT_EQ(e.code(), errc::damaged) << e.what();
      ++refused;
      continue;
    }
    ++repaired_ones;
    const store s("/store", how);
    expect_sound(s);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(repaired_ones, refused);
}

}  // namespace
