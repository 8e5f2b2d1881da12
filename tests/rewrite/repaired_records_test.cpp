// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Records of blocks and descriptions of types that make no sense on pages whose checksums are right, as after a recovery that wrote
// them: what repair leaves, verify finds sound.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

namespace drawn_types {

struct figure {
  virtual ~figure() = default;
  [[nodiscard]] virtual std::uint64_t area() const = 0;
  static constexpr auto persistent = members<>{};
};
struct disc final : figure {
  std::uint64_t size = 0, more[3] = {};
  [[nodiscard]] std::uint64_t area() const override { return 3 * size; }
  static constexpr auto persistent = bases<figure>{} + members<&disc::size, &disc::more>{};
};
struct plate final : figure {
  std::uint64_t size = 0;
  figure* below = nullptr;
  [[nodiscard]] std::uint64_t area() const override { return size; }
  static constexpr auto persistent = bases<figure>{} + members<&plate::size, &plate::below>{};
};
struct drawing {
  tenure::vector<figure*> all;
};

}  // namespace drawn_types

namespace {

// Where the records of blocks are lost, objects in pages without headers are what pointers, containers and vtables say.
TEST(repairing_records, finds_objects_with_virtual_functions) {
  using namespace drawn_types;
  sim::disk base;
  store_options how = small_store();
  how.memory.disk = &base;
  how.memory.background = false;
  {
    store s("/store", how);
    s.transact([&] {
      auto& all = s.root<drawing>("drawing").all;
      for (std::uint64_t n = 0; n < 500; ++n) {
        auto* const disc = s.make<drawn_types::disc>();
        auto* const plate = s.make<drawn_types::plate>();
        disc->size = n;
        plate->size = n;
        plate->below = disc;
        all.push_back(plate);
      }
    });
  }
  how.create.home = 0;
  rvm::segment_header h;
  const auto bytes = base.current_bytes("/store/main.db");
  std::memcpy(&h, bytes.data(), sizeof h);
  const rvm::segment_layout layout(h);
  constexpr std::uint64_t page = rvm::redo_page;
  const std::vector<std::byte> zeros(page);
  std::uint64_t repaired_ones = 0;
  for (std::uint64_t number = heap::record_offset(heap::bookkeeping_blocks) / page + 1;
       number < heap::bookkeeping_size / page; ++number) {
    const std::uint64_t at = layout.find(number * page, page).at;
    if (std::equal(zeros.begin(), zeros.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at))) continue;
    SCOPED_TRACE("page " + std::to_string(number));
    const auto disk = base.crash(0, sim::policy::keep_all);
    disk->poke("/store/main.db", at, zeros);
    how.memory.disk = disk.get();
    const findings found = repaired(*disk);
    EXPECT_EQ(found.cut.size() + found.containers.size(), 0U);
    store s("/store", how);
    expect_sound(s);
    const auto& all = s.root<drawing>("drawing").all;
    ASSERT_EQ(all.size(), 500U);
    for (std::uint64_t n = 0; n < all.size(); ++n) {
      ASSERT_EQ(all[n]->area(), n);
      ASSERT_EQ(static_cast<plate*>(all[n])->below->area(), 3 * n);
    }
    ++repaired_ones;
  }
  EXPECT_GT(repaired_ones, 0U);
}

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
