// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers of objects in a cache, and containers of the program beside them.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cache/made_library.hpp"

using namespace tenure;
using namespace tenure::support;
using namespace cache_making_types;
using tenure::cache::ref;

namespace {

class cache_making_containers : public making_in_cache {};

TEST_F(cache_making_containers, containers_of_the_program_may_be_moved_into_objects) {
  make_library();
  open();
  tenure::vector<std::uint32_t> outlives;
  opened->transact([&] {
    library& all = shelves().change();
    tenure::vector<std::uint32_t> row;
    for (std::uint32_t n = 0; n < 1000; ++n) row.push_back(n);
    outlives = row;
    all.rows.push_back(std::move(row));
  });
  {
    auto tx = opened->begin();
    shelves().change().rows.push_back(outlives);
    tx.abort();
  }
  for (std::uint32_t n = 0; n < 1000; ++n) ASSERT_EQ(outlives[n], n);
  opened->check();
  opened->transact([&] { shelves().change().rows.push_back(std::move(outlives)); });
  // Outside of a transaction, memory is the program's own.
  tenure::string mine(std::string(100, 'm'));
  {
    auto tx = opened->begin();
    auto& names = shelves().change().names;
    names.emplace(1, std::move(mine));
    expect_error(errc::cannot_persist, {"no object of the store"}, [&] { tx.commit(); });
    mine = std::move(names.find(1)->second);  // an abort would not give it back
    tx.abort();
  }
  EXPECT_EQ(mine, tenure::string(std::string(100, 'm')));
  close();
  look([&](store& mapped) {
    const library& all = mapped.root<library>("library");
    ASSERT_EQ(all.rows.size(), 2u);
    for (std::uint32_t n = 0; n < 1000; ++n) ASSERT_EQ(all.rows[0][n] + all.rows[1][n], 2 * n);
    EXPECT_EQ(garbage_in(mapped), 0u);
  });
}

// The group of the root is never evicted, and each change of the map takes a member out of it.
TEST_F(cache_making_containers, what_is_gone_leaves_groups_that_stay) {
  make_library();
  open({.object_bytes = 100 << 10});
  const auto pinned = opened->read([&] { return std::make_unique<cache::pin<library>>(shelves()); });
  for (std::uint64_t n = 0; n < 2000; ++n)
    opened->transact(
        [&] {
          library& all = shelves().change();
          all.names.emplace(n, tenure::string(std::string(60, 'n')));
          if (n >= 10) all.names.erase(n - 10);
        },
        cache::commit_mode::lazy);
  EXPECT_LT(opened->stats().objects, 40u);
  EXPECT_EQ((*pinned)->names.size(), 10u);
  opened->check();
  opened->read([&] { EXPECT_EQ(shelves()->names.size(), 10u); });
}

TEST_F(cache_making_containers, prototypes_of_classes_have_memory_of_the_program) {
  make_library();
  open();
  opened->transact([&] { EXPECT_EQ(opened->make<eager>()->name.size(), 39u); });
  close();
}

TEST_F(cache_making_containers, containers_in_objects_grow_while_a_mapped_store_is_changed) {
  make_library();
  open();
  store_options other = small_store();
  store mapped(dir / "mapped", other);
  mapped.transact([&] {
    opened->transact([&] {
      shelves().change().rows.emplace_back();
      shelves().change().rows.back().resize(100);
    });
    (void)mapped.root<leaf>("leaf");
  });
  opened->check();
  mapped.close();
  close();
  look([&](store& again) { EXPECT_EQ(again.root<library>("library").rows[0].size(), 100u); });
}

TEST_F(cache_making_containers, another_thread_ends_a_container_that_was_moved_to_it) {
  make_library();
  open();
  opened->transact([&] {
    const ref<leaf> made = opened->make<leaf>();
    shelves().change().first = made;
    made.change().text.assign(std::string(100, 'a'));
    std::thread([text = std::move(made.change().text)] { EXPECT_EQ(text.size(), 100u); }).join();
  });
  opened->check();
  EXPECT_EQ(opened->stats().made_objects, 1u);
  close();
  look([&](store& mapped) { EXPECT_TRUE(mapped.root<library>("library").first->text.empty()); });
}

TEST_F(cache_making_containers, standard_containers_do_not_grow) {
  make([](store& s) {
    auto& all = s.root<standard_rows>("rows");
    s.transact([&] {
      all.numbers.assign(2, 1);
      all.numbers.shrink_to_fit();
      all.texts.emplace_back("one");
    });
  });
  open();
  {
    auto tx = opened->begin();
    auto& all = opened->root<standard_rows>("rows").change();
    std::vector<std::uint64_t, tenure::allocator<std::uint64_t>> before = std::move(all.numbers);
    all.numbers = std::vector<std::uint64_t, tenure::allocator<std::uint64_t>>(5, 7);
    expect_error(errc::cannot_persist, {"no object of the store"}, [&] { tx.commit(); });
    std::swap(all.numbers, before);
    tx.abort();
  }
  {  // nor do their elements
    auto tx = opened->begin();
    const auto all = opened->root<standard_rows>("rows");
    auto& text = cache::change(all->texts[0]);
    const auto before = text;
    text = tenure_text(100, 'x');
    expect_error(errc::cannot_persist, {"no object of the store"}, [&] { tx.commit(); });
    text = tenure_text();
    text.shrink_to_fit();
    tx.abort();
  }
  close();
  look([&](store& mapped) {
    const auto& all = mapped.root<standard_rows>("rows");
    EXPECT_EQ(all.numbers.size(), 2u);
    EXPECT_EQ(all.texts[0], "one");
  });
}

}  // namespace
