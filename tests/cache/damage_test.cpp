// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores that are damaged: an error names the page and the object, and everything else can be used. And what has no room, or
// cannot be in a cache.
#include <algorithm>
#include <cstring>
#include <optional>
#include <variant>
#include <vector>

#include <tenure/allocator.hpp>

#include "cache/cached_graph.hpp"
#include "os/system_error.hpp"
#include "segments/format.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace cache_damage_types {

struct item {
  std::uint64_t number;
  ref<item> next;
  char padding[200];
};
struct list {
  tenure::vector<ref<item>> items;
  item* plain;
};
struct wide {
  char bytes[64 << 10];
};
struct shelf {
  std::vector<ref<wide>, tenure::allocator<ref<wide>>> wides;
};
struct base {
  virtual ~base() = default;
  std::uint64_t value = 1;
  static constexpr auto persistent = tenure::members<&base::value>{};
};
struct choice {
  std::optional<ref<item>> maybe;
  std::variant<std::uint64_t, ref<item>> either;
  item* plain;
};
// Bit-fields: nobody knows where its pointer is.
struct unknown {
  std::uint64_t bits : 5;
  item* somewhere;
};

}  // namespace cache_damage_types
using namespace cache_damage_types;

namespace {

class cache_damage : public ::testing::Test {
 protected:
  cache_damage() {
    how.memory.disk = &disk;
    how.memory.background = false;
    store s("/store", how);
    auto& l = s.root<list>("list");
    s.transact([&] {
      for (std::uint64_t n = 0; n < 200; ++n) l.items.push_back(s.make<item>(item{n, {}, {}}));
      for (std::uint64_t n = 0; n + 1 < 200; ++n) l.items[n].change().next = l.items[n + 1];
      l.plain = const_cast<item*>(l.items[0].get());
    });
    home = s.default_database().home();
    items = reinterpret_cast<std::uintptr_t>(l.items.data());
    for (const auto& i : l.items) homes.push_back(i.home());
    s.close();
    rvm::segment_header h;
    std::memcpy(&h, disk.current_bytes(file).data(), sizeof h);
    data = h.data_offset;
  }
  void flip(std::uint64_t at) {
    const std::byte with = disk.current_bytes(file)[data + at] ^ std::byte{0x10};
    disk.poke(file, data + at, {&with, 1});
  }
  cache::store& open(std::uint64_t pages = 8) {
    opened.reset();
    opened = std::make_unique<cache::store>("/store", cache::options{.pool_pages = pages, .memory = how.memory});
    return *opened;
  }
  // A word of an object, changed with a right checksum.
  void set(std::uint64_t address, std::uint64_t value) {
    rvm::memory m("/store/log", how.memory);
    auto pages = m.open_pages(file);
    m.transact([&](rvm::transaction& tx) { tx.change(pages, address - home, std::as_bytes(std::span(&value, 1))); });
    pages.close();
    m.close();
  }

  const std::string file = "/store/main.db";
  sim::disk disk;
  store_options how = small_store();
  std::uint64_t home = 0, data = 0, items = 0;
  std::vector<std::uint64_t> homes;
  std::unique_ptr<cache::store> opened;
};

TEST_F(cache_damage, a_damaged_page_is_named_with_the_object) {
  const std::uint64_t bad = homes[150];
  flip(bad - home + 30);
  auto& s = open();
  s.read([&] {
    const auto l = s.root<list>("list");
    std::size_t good = 0, refused = 0;
    for (const auto& i : l->items) {
      if (i.home() / 4096 == bad / 4096) {
        if (refused++ == 0)
          expect_error(errc::damaged, {"the object at " + os::hexadecimal(i.home()), "item", file, "page"},
                       [&] { (void)i->number; });
        else
          EXPECT_THROW((void)i->number, error);
        EXPECT_FALSE(i.is_swizzled());
      } else {
        EXPECT_EQ(i->number, good + refused);
        ++good;
      }
    }
    EXPECT_GT(refused, 0u);
    EXPECT_GT(good, 100u);
  });
}

// The program would take any of them for yes.
TEST_F(cache_damage, flags_of_optionals_are_0_or_1) {
  std::uint64_t at = 0;
  {
    store mapped("/store", how);
    auto& c = mapped.root<choice>("choice");
    mapped.transact([&] { c.maybe = mapped.root<list>("list").items[0]; });
    at = reinterpret_cast<std::uintptr_t>(&c.maybe);
    mapped.close();
  }
  set(at + sizeof(ref<item>), 2);
  auto& s = open();
  s.read([&] {
    expect_error(errc::damaged, {"choice", "has 2 in maybe.has_value", "bool"},
                 [&] { (void)s.root<choice>("choice")->maybe; });
  });
}

TEST_F(cache_damage, references_to_nothing_are_refused_and_named) {
  const auto to_next = [&](std::uint64_t item) { return item + 8; };
  set(to_next(homes[3]), home + (std::uint64_t{1} << 20) * 200);  // behind the segment's end
  set(to_next(homes[4]), home + 64);                              // bookkeeping
  set(to_next(homes[5]), std::uint64_t{0x1234567890});            // no store's
  set(to_next(homes[6]), homes[7] + 1);                           // odd
  set(to_next(homes[8]), items);                                  // an array, not an item
  set(to_next(homes[9]), homes[10] + 8);                          // a member that is none
  auto& s = open();
  s.read([&] {
    const auto l = s.root<list>("list");
    expect_error(errc::damaged, {"no object is"}, [&] { (void)l->items[3]->next->number; });
    expect_error(errc::damaged, {"no object is"}, [&] { (void)l->items[4]->next->number; });
    expect_error(errc::bad_transaction, {"in no store"}, [&] { (void)l->items[5]->next->number; });
    expect_error(errc::bad_type, {"odd address", os::hexadecimal(homes[6])}, [&] { (void)l->items[6]->next; });
    expect_error(errc::wrong_type, {os::hexadecimal(items), "no cache_damage_types::item"},
                 [&] { (void)l->items[8]->next->number; });
    expect_error(errc::wrong_type, {os::hexadecimal(homes[10]), "offset 8"}, [&] { (void)l->items[9]->next->number; });
    EXPECT_EQ(l->items[1]->next->number, 2u);
  });
  s.check();
}

TEST_F(cache_damage, plain_pointers_to_nothing_are_refused_with_all_that_they_belong_to) {
  store mapped("/store", how);
  const std::uint64_t plain = reinterpret_cast<std::uintptr_t>(&mapped.root<list>("list").plain);
  mapped.close();
  set(plain, home + (std::uint64_t{1} << 20) * 200);
  auto& s = open();
  s.read([&] {
    expect_error(errc::damaged, {"cache_damage_types::list", "no object is"},
                 [&] { (void)s.root<list>("list")->plain; });
    EXPECT_EQ(s.stats().objects, 0u);  // [cache.fault.whole]
  });
  s.check();
}

// Any bit of the file, with the page's checksum and without: an error, or the right answer; never a crash.
TEST_F(cache_damage, bits_anywhere_never_crash) {
  std::mt19937_64 random(5);
  const auto whole = disk.crash(1, sim::policy::keep_all);
  const std::uint64_t end = homes.back() - home + 4096;
  std::size_t refused = 0;
  for (std::uint64_t round = 0; round < rvm::testing::scaled(300); ++round) {
    const auto copy = whole->crash(1, sim::policy::keep_all);
    how.memory.disk = copy.get();
    const bool right_checksum = round % 2 == 0;
    std::uint64_t at = random() % end;
    if (round % 4 < 2) at = homes[random() % 200] - home - 16 + random() % 220;  // where objects are
    if (round % 8 == 5) at = random() % 8192;
    std::byte with = copy->current_bytes(file)[data + at] ^ std::byte{static_cast<unsigned char>(1U << (random() % 8))};
    try {
      if (right_checksum) {
        rvm::memory m("/store/log", how.memory);
        auto pages = m.open_pages(file);
        m.transact([&](rvm::transaction& tx) { tx.change(pages, at, {&with, 1}); });
        pages.close();
        m.close();
      } else {
        copy->poke(file, data + at, {&with, 1});
      }
      cache::store s("/store", {.pool_pages = 1 + random() % 8, .memory = how.memory});
      s.read([&] {
        for (const auto& i : s.root<list>("list")->items) {
          try {
            (void)i->next.get();
          } catch (const error&) {
            ++refused;
          }
        }
      });
      s.check();
    } catch (const error&) {
      ++refused;
    }
    how.memory.disk = &disk;
  }
  EXPECT_GT(refused, 20u);
}

class cache_limits : public cached_store {};

TEST_F(cache_limits, pins_beyond_the_budget_are_an_error) {
  make([](store& s) {
    auto& all = s.root<shelf>("shelf");
    s.transact([&] {
      for (std::size_t n = 0; n < 10; ++n) {
        all.wides.emplace_back(s.make<wide>());
        std::ranges::fill(all.wides.back().change().bytes, static_cast<char>(n));
      }
    });
  });
  auto& s = open({.pool_pages = 2, .object_bytes = 300 << 10});
  std::vector<cache::pin<wide>> pins;
  const auto pin_one = [&](std::size_t n) { s.read([&] { pins.emplace_back(s.root<shelf>("shelf")->wides[n]); }); };
  for (std::size_t n = 0; n < 4; ++n) pin_one(n);
  for (int again = 0; again < 3; ++again) expect_error(errc::cache_full, {"object_bytes", "pin"}, [&] { pin_one(4); });
  for (std::size_t n = 0; n < 4; ++n)
    EXPECT_TRUE(std::ranges::all_of(pins[n]->bytes, [&](char c) { return c == static_cast<char>(n); }));
  s.check();
  expect_error(errc::transactions_open, {"pinned"}, [&] { s.close(); });
  pins.erase(pins.begin());
  pin_one(4);
  EXPECT_EQ(pins.back()->bytes[77], 4);
  // Within one transaction everything stays, unless it is released.
  pins.clear();
  expect_error(errc::cache_full, {"release"}, [&] {
    s.read([&] {
      for (const auto& w : s.root<shelf>("shelf")->wides) (void)w->bytes[0];
    });
  });
  auto reading = s.begin_read();
  for (std::size_t n = 0; n < 10; ++n) {
    EXPECT_EQ(s.root<shelf>("shelf")->wides[n]->bytes[5], static_cast<char>(n));
    reading.release();
  }
  // What has changed stays, with what it was.
  { const auto ended = std::move(reading); }
  auto tx = s.begin();
  tx.release();
  s.root<shelf>("shelf")->wides[0].change().bytes[0] = 1;
  tx.release();
  (void)s.root<shelf>("shelf")->wides[2]->bytes[0];
  (void)s.root<shelf>("shelf")->wides[3]->bytes[0];
  expect_error(errc::cache_full, {"before its change"},
               [&] { s.root<shelf>("shelf")->wides[3].change().bytes[0] = 3; });
  tx.release();
  s.root<shelf>("shelf")->wides[1].change().bytes[0] = 2;
  expect_error(errc::cache_full, {"object_bytes"}, [&] { (void)s.root<shelf>("shelf")->wides[2]->bytes[0]; });
  tx.release();
  expect_error(errc::cache_full, {"object_bytes"}, [&] { (void)s.root<shelf>("shelf")->wides[2]->bytes[0]; });
  tx.commit();
  s.read([&] {
    EXPECT_EQ(s.root<shelf>("shelf")->wides[1]->bytes[0], 2);
    EXPECT_EQ(s.root<shelf>("shelf")->wides[3]->bytes[0], 3);
  });
  EXPECT_GT(s.stats().evicted, 10u);
  close();
}

TEST_F(cache_limits, guarded_references) {
  make([](store& s) {
    auto& c = s.root<choice>("choice");
    s.transact([&] {
      c.plain = s.make<item>(item{1, {}, {}});
      c.maybe = ref<item>(c.plain);
      c.either = std::uint64_t{0x300000000001};  // no reference, though it looks like one
    });
  });
  auto& s = open();
  s.transact([&] {
    const auto c = s.root<choice>("choice");
    EXPECT_EQ((*c->maybe)->number, 1u);
    EXPECT_EQ(std::get<0>(c->either), 0x300000000001u);
    c.change().maybe.reset();
    c.change().either = ref<item>(c->plain);
  });
  s.read([&] { EXPECT_EQ(std::get<1>(s.root<choice>("choice")->either)->number, 1u); });
  close();
  look([](store& mapped) {
    const auto& c = mapped.root<choice>("choice");
    EXPECT_FALSE(c.maybe.has_value());
    EXPECT_EQ(std::get<1>(c.either).get(), c.plain);
  });
}

TEST_F(cache_limits, what_no_cache_can_have_is_refused) {
  make([](store& s) {
    (void)s.root<unknown>("unknown");
    auto& c = s.root<choice>("choice");
    s.transact([&] { c.plain = s.make<item>(); });
  });
  auto& s = open();
  expect_error(errc::bad_type, {"unknown", "not known exactly"}, [&] { (void)s.root<unknown>("unknown"); });
  // A plain pointer out of the store.
  item elsewhere{};
  auto tx = s.begin();
  s.root<choice>("choice").change().plain = &elsewhere;
  expect_error(errc::cannot_persist, {"choice", "plain"}, [&] { tx.commit(); });
  EXPECT_TRUE(tx.is_open());
  s.root<choice>("choice").change().plain = nullptr;
  tx.commit();
  tx = s.begin();
  s.root<choice>("choice").change().maybe = ref<item>(&elsewhere);
  expect_error(errc::cannot_persist, {"choice", "maybe"}, [&] { tx.commit(); });
  tx.abort();
  s.read([&] { EXPECT_FALSE(s.root<choice>("choice")->maybe.has_value()); });
  // More bytes than the object has.
  tx = s.begin();
  const auto* const text = reinterpret_cast<const wide*>(&s.root<choice>("choice")->plain);
  expect_error(errc::wrong_type, {"choice", "65536"}, [&] { (void)cache::change(*text); });
  tx.abort();
  close();
}

}  // namespace
