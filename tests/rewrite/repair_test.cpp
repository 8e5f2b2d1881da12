// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Repairs of damaged stores [heap.rewrite.repair]: drawn pages are damaged in every way that a disk has, and what is found
// afterwards is compared with what was there before.
#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <tenure/rvm.hpp>

#include "objects/format.hpp"
#include "rewrite/damaged_store.hpp"
#include "support/model.hpp"

using namespace tenure;
using namespace tenure::support;

namespace {

constexpr std::uint64_t relic_count = 300;

enum class damage { zeros, noise, one_bit, unreadable };

class repairing : public ::testing::Test {
 protected:
  explicit repairing(std::uint64_t count = relic_count) {
    store s("/store", options(base));
    home = s.default_database().home();
    auto& root = s.root<relics>("all");
    fill(s, root, count);
    root_at = reinterpret_cast<std::uint64_t>(&root);
    for (relic* const t : root.all) were_at.push_back(reinterpret_cast<std::uint64_t>(t));
    for (relic* const t : root.all) names.push_back(reinterpret_cast<std::uint64_t>(t->name.data()));
    s.close();
    rvm::segment_header h;
    const auto bytes = base.current_bytes(file);
    std::memcpy(&h, bytes.data(), sizeof h);
    layout = rvm::segment_layout(h);
    pages = h.length / page;
    base_bytes = bytes;
  }
  store_options options(sim::disk& disk, rvm::open_mode mode = rvm::open_mode::open_or_create) const {
    store_options as = how;
    as.mode = mode;
    as.memory.disk = &disk;
    return as;
  }
  [[nodiscard]] std::uint64_t at_page(std::uint64_t number) const { return layout.find(number * page, page).at; }
  // Those on which there is something.
  [[nodiscard]] std::vector<std::uint64_t> used_pages() const {
    std::vector<std::uint64_t> found;
    for (std::uint64_t n = 0; n < pages; ++n) {
      const auto first = base_bytes.begin() + static_cast<std::ptrdiff_t>(at_page(n));
      if (std::any_of(first, first + page, [](std::byte b) { return b != std::byte{}; })) found.push_back(n);
    }
    return found;
  }
  void damage_page(sim::disk& disk, std::uint64_t number, damage how_damaged, std::mt19937_64& random) const {
    std::vector<std::byte> bytes(page);
    const std::uint64_t at = at_page(number);
    std::copy_n(base_bytes.begin() + static_cast<std::ptrdiff_t>(at), page, bytes.begin());
    switch (how_damaged) {
      case damage::zeros: std::ranges::fill(bytes, std::byte{}); break;
      case damage::noise: std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); }); break;
      case damage::one_bit: bytes[random() % page] ^= static_cast<std::byte>(1U << random() % 8); break;
      case damage::unreadable: break;
    }
    disk.poke(file, at, bytes);
  }
  // Of the database's bytes, before any damage.
  [[nodiscard]] std::uint64_t word_at(std::uint64_t offset) const {
    std::uint64_t word;
    std::memcpy(&word, base_bytes.data() + layout.find(offset, sizeof word).at, sizeof word);
    return word;
  }
  [[nodiscard]] bool is_on(std::uint64_t number, std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t from = home + number * page;
    return address < from + page && address + bytes > from;
  }
  [[nodiscard]] static bool is_bookkeeping(std::uint64_t number) { return number * page < heap::bookkeeping_size; }
  // Where a member of the root was.
  template <class T>
  [[nodiscard]] std::uint64_t was_at(const relics& root, const T& member) const {
    return root_at + (reinterpret_cast<std::uint64_t>(&member) - reinterpret_cast<std::uint64_t>(&root));
  }

  store_options how = [] {
    store_options made = small_store();
    made.memory.log.size = 1 << 20;
    made.memory.background = false;
    return made;
  }();
  sim::disk base;
  const std::string file = "/store/main.db";
  std::uint64_t home = 0, root_at = 0, pages = 0;
  rvm::segment_layout layout;
  std::vector<std::uint64_t> were_at, names;
  std::vector<std::byte> base_bytes;
  std::map<std::string, int> reached;  // branches
};

// Entries of a container: `is_right(entry)` for each; all of them, if nothing was said of the container.
class judge {
 public:
  judge(const findings& found, std::map<std::string, int>& reached) : found_(found), reached_(reached) {}

  template <class C, class F>
  void look_at(const char* name, const C& container, std::uint64_t was_at, std::uint64_t count, F&& is_right) {
    SCOPED_TRACE(name);
    std::uint64_t size = 0;
    for (const auto& each : container) {
      ++size;
      ASSERT_LE(size, count);
      if (!is_right(each)) ADD_FAILURE() << name << ": entry " << size - 1 << " is wrong";
    }
    if constexpr (requires { container.size(); }) {
      EXPECT_EQ(container.size(), size);
    }
    if (const auto told = found_.containers.find(was_at); told != found_.containers.end()) {
      EXPECT_EQ(size == count, told->second.find("has lost") == std::string::npos) << told->second;
      ++reached_[std::string(name) + (size == 0 ? " emptied" : size == count ? " put in order" : " salvaged")];
    } else {
      EXPECT_EQ(size, count);
    }
  }

 private:
  const findings& found_;
  std::map<std::string, int>& reached_;
};

class repairing_pages : public repairing {
 protected:
  // Of relic n, or null if it was on the page.
  bool is_relic(const relic* t, std::uint64_t n, std::uint64_t number) const {
    // Behind damaged bookkeeping, only what is found again is known to be there.
    const bool is_lost = is_on(number, were_at[n], sizeof(relic));
    return t == nullptr ? is_lost || is_bookkeeping(number) : !is_lost && t->number == n;
  }
  void expect_salvaged(const relics& root, std::uint64_t number, const findings& found) {
    judge all(found, reached);
    const auto at = [&](const auto& member) { return was_at(root, member); };
    std::uint64_t n = 0;
    all.look_at("vector", root.all, at(root.all), relic_count, [&](relic* t) { return is_relic(t, n++, number); });
    n = 0;
    std::uint64_t reset = 0;
    all.look_at("numbers", root.numbers, at(root.numbers), number_count, [&](std::uint64_t each) {
      const std::uint64_t right = n * n + 1;
      ++n;
      reset += each == 0 ? 1 : 0;
      return each == right || (each == 0 && found.report.lost_elements != 0);
    });
    EXPECT_LE(reset, page / 8);
    if (reset != 0) ++reached["elements reset"];
    const auto keyed = [&](const auto& entry) { return is_relic(entry.second, entry.first, number); };
    const auto named = [&](const auto& entry) {
      return std::string(entry.first.begin(), entry.first.end()) == name_of(entry.second);
    };
    const auto present = [&](const relic* t) { return t != nullptr && t->number < relic_count; };
    all.look_at("tree", root.tree, at(root.tree), relic_count, keyed);
    all.look_at("by name", root.by_name, at(root.by_name), relic_count, named);
    all.look_at("pointers", root.pointers, at(root.pointers), relic_count, present);
    all.look_at("index", root.index, at(root.index), relic_count,
                [&](const auto& entry) { return present(entry.second) && entry.second->number / 3 == entry.first; });
    all.look_at("table", root.table, at(root.table), relic_count, keyed);
    all.look_at("named", root.named, at(root.named), relic_count, named);
    all.look_at("hashed pointers", root.hashed_pointers, at(root.hashed_pointers), relic_count, present);
    n = 0;
    all.look_at("words", root.words, at(root.words), relic_count, [&](const std_string& word) {
      const std::string right = name_of(n++);
      return word == right.c_str() || word.empty();
    });
    all.look_at("list", root.list, at(root.list), relic_count,
                [&](const relic* t) { return t == nullptr || t->number < relic_count; });
    all.look_at("forward list", root.forward, at(root.forward), relic_count,
                [&](std::uint64_t each) { return each < relic_count; });
    all.look_at("deque", root.queue, at(root.queue), relic_count,
                [&](std::uint64_t each) { return each < relic_count; });
    EXPECT_TRUE(std::ranges::is_sorted(root.queue));
    all.look_at("sorted", root.sorted, at(root.sorted), relic_count, keyed);
    all.look_at("standard names", root.standard_names, at(root.standard_names), relic_count, named);
    all.look_at("standard set", root.standard_set, at(root.standard_set), relic_count, present);
    all.look_at("hashed", root.hashed, at(root.hashed), relic_count, keyed);
    all.look_at("standard hashed", root.standard_hashed, at(root.standard_hashed), relic_count, named);
    root.tree.check();
    root.by_name.check();
    root.pointers.check();
    root.index.check();
    root.table.check();
    root.named.check();
    root.hashed_pointers.check();
    for (const auto& [key, value] : root.named) EXPECT_EQ(root.named.at(key), value);
    for (const auto& [key, value] : root.by_name) EXPECT_EQ(root.by_name.at(key), value);
    for (const auto& [key, value] : root.sorted) EXPECT_EQ(root.sorted.at(key), value);
    for (const auto& [key, value] : root.hashed) EXPECT_EQ(root.hashed.at(key), value);
    for (const auto& [key, value] : root.standard_names) EXPECT_EQ(root.standard_names.at(key), value);
    for (const auto& [key, value] : root.standard_hashed) EXPECT_EQ(root.standard_hashed.at(key), value);
    for (relic* const t : root.hashed_pointers) EXPECT_TRUE(root.hashed_pointers.contains(t));
    for (relic* const t : root.standard_set) EXPECT_TRUE(root.standard_set.contains(t));
    expect_relics(root, number, found);
  }
  // Objects that are there have what they had, but for references that were cut, which are in the report.
  void expect_relics(const relics& root, std::uint64_t number, const findings& found) {
    for (relic* const t : root.all) {
      if (t == nullptr) continue;
      const std::uint64_t n = t->number, was = were_at[n];
      const auto member_was = [&](const auto& member) {
        return was + (reinterpret_cast<std::uint64_t>(&member) - reinterpret_cast<std::uint64_t>(t));
      };
      if (n != 0) {
        EXPECT_TRUE(is_relic(t->other, n - 1, number));
        EXPECT_EQ(t->other == nullptr, found.cut.contains(member_was(t->other)));
        EXPECT_EQ(t->weakly.lock(), found.cut.contains(member_was(t->weakly)) ? nullptr : t->other);
      }
      if (t->other == nullptr && n != 0) ++reached["cut"];
      EXPECT_EQ(t->perhaps.has_value(), n % 2 == 0);
      EXPECT_EQ(t->perhaps.value_or(t->other), t->other);
      const bool has_lost_name = is_bookkeeping(number) || is_on(number, names[n], name_of(n).size() + 1 + 8);
      if (t->name.empty()) ++reached["name lost"];
      EXPECT_EQ(t->name.empty(), found.containers.contains(member_was(t->name)));
      EXPECT_TRUE(t->name.empty() ? has_lost_name : t->name == name_of(n).c_str());
      EXPECT_EQ(t->standard.empty(), found.containers.contains(member_was(t->standard)));
      EXPECT_TRUE(t->standard.empty() || t->standard == name_of(n).c_str());
      EXPECT_EQ(t->near.empty(), found.containers.contains(member_was(t->near)));
      for (relic* const each : t->near) EXPECT_EQ(each, t);
    }
  }
  // A program goes on.
  static void use(store& s, relics& root, bool keys_are_right = true) {
    s.transact([&] {
      for (std::uint64_t n = 1000; n < 1100; ++n) {
        auto* const t = s.make<relic>();
        t->number = n;
        t->name = named_text<tenure::string>(n);
        t->standard = named_text<std_string>(n);
        root.all.push_back(t);
        root.numbers.push_back(n);
        root.tree[n] = t;
        root.by_name[t->name] = n;
        root.pointers.insert(t);
        root.index.insert(n / 3, t);
        root.table[n] = t;
        root.named[t->name] = n;
        root.hashed_pointers.insert(t);
        root.words.push_back(t->standard);
        root.list.push_back(t);
        root.list.push_front(t);
        root.forward.push_front(n);
        root.queue.push_back(n);
        root.queue.push_front(n);
        root.sorted[n] = t;
        root.standard_names[t->standard] = n;
        root.standard_set.insert(t);
        root.hashed[n] = t;
        root.standard_hashed[t->standard] = n;
        root.watched.watch(t);
      }
    });
    expect_sound(s);
    if (keys_are_right) root.tree.check(), root.by_name.check(), root.pointers.check();
    for (std::uint64_t n = 1000; keys_are_right && n < 1100; ++n) {
      ASSERT_EQ(root.tree.at(n)->number, n);
      ASSERT_EQ(root.hashed.at(n)->number, n);
      ASSERT_EQ(root.standard_hashed.at(named_text<std_string>(n)), n);
    }
    s.transact([&] {
      const auto clear = [](auto& container) {
        while (!container.empty()) container.erase(container.begin());
      };
      clear(root.tree), clear(root.by_name), clear(root.pointers), clear(root.index), clear(root.table);
      clear(root.named), clear(root.hashed_pointers), clear(root.words), clear(root.list), clear(root.queue);
      clear(root.sorted), clear(root.standard_names), clear(root.standard_set), clear(root.hashed);
      clear(root.standard_hashed);
      root.forward.clear();
      root.all.clear();
    });
    expect_sound(s);
    (void)s.collect({.roots = program_roots::handles});
    expect_sound(s);
    s.transact([&] {
      while (relic* const t = root.watched.take()) (void)t;
    });
    expect_sound(s);
  }
};

TEST_F(repairing_pages, keep_what_is_not_lost) {
  std::mt19937_64 random(2026);
  const std::vector<std::uint64_t> used = used_pages();
  for (std::size_t which = 0; which < used.size(); which += rvm::testing::scaled_stride()) {
    const std::uint64_t number = used[which];
    constexpr std::array kinds{damage::zeros, damage::noise, damage::one_bit, damage::unreadable};
    const std::size_t first = random() % kinds.size();
    for (std::size_t n = 0; n < (is_bookkeeping(number) ? kinds.size() : 1); ++n) {
      const damage each = kinds[(first + n) % kinds.size()];
      SCOPED_TRACE("page " + std::to_string(number) + ", damage " + std::to_string(static_cast<int>(each)));
      const auto disk = base.crash(0, sim::policy::keep_all);
      damage_page(*disk, number, each, random);
      if (each == damage::unreadable) disk->lose(file, at_page(number), at_page(number) + page);
      findings found;
      try {
        found = repaired(*disk);
      } catch (const error& e) {
        ASSERT_EQ(e.code(), errc::damaged) << e.what();
        EXPECT_NE(std::string(e.what()).find("backup"), std::string::npos) << e.what();
        ++reached["refused"];
        continue;
      }
      ASSERT_TRUE(found.report.is_damaged());
      // All is found by what refers to it, and is what that says.
      if (is_bookkeeping(number)) {
        EXPECT_EQ(found.containers.size() + found.cut.size(), 0U);
      }
      disk->clear_faults();
      store s("/store", options(*disk, rvm::open_mode::open));
      expect_sound(s);
      auto* const root = s.find_root<relics>("all");
      if (root == nullptr) {
        EXPECT_TRUE(found.report.lost_roots != 0);
        ++reached["root lost"];
        continue;
      }
      ++reached["repaired"];
      ASSERT_NO_THROW(expect_salvaged(*root, number, found));
      ASSERT_NO_THROW(use(s, *root));
      if (HasFailure()) {
        for (const std::string& text : found.texts) std::printf("  %s\n", text.c_str());
        return;
      }
    }
  }
  for (const char* const branch : {"by name salvaged",
                                   "cut",
                                   "deque salvaged",
                                   "elements reset",
                                   "forward list salvaged",
                                   "hashed pointers emptied",
                                   "hashed pointers salvaged",
                                   "hashed put in order",
                                   "hashed salvaged",
                                   "index salvaged",
                                   "list salvaged",
                                   "name lost",
                                   "named emptied",
                                   "named salvaged",
                                   "numbers emptied",
                                   "pointers salvaged",
                                   "refused",
                                   "repaired",
                                   "sorted salvaged",
                                   "standard hashed salvaged",
                                   "standard names salvaged",
                                   "standard set salvaged",
                                   "table emptied",
                                   "tree salvaged",
                                   "vector emptied",
                                   "words emptied"})
    EXPECT_TRUE(reached[branch] != 0 || rvm::testing::test_scale() < 1) << branch;
  for (const auto& [what, times] : reached) RecordProperty(what, times);
}

// Pointers and numbers of containers that make no sense, on pages whose checksums are right. Keys and other values stay: nobody
// can tell what they were.
TEST_F(repairing_pages, find_nonsense_with_right_checksums) {
  std::vector<std::uint64_t> pointers;
  for (const std::uint64_t number : used_pages())
    for (std::uint64_t at = 0; at < page && !is_bookkeeping(number); at += 8) {
      const std::uint64_t word = word_at(number * page + at);
      if (word > home && word < home + pages * page) pointers.push_back(number * page + at);
    }
  const std::uint64_t root_offset = root_at - home;
  std::vector<std::uint64_t> hash_tables;
  {
    const auto disk = base.crash(0, sim::policy::keep_all);
    const store s("/store", options(*disk, rvm::open_mode::read_only));
    const auto* const root = s.find_root<relics>("all");
    for (const void* const table : {static_cast<const void*>(&root->table), static_cast<const void*>(&root->named),
                                    static_cast<const void*>(&root->hashed_pointers)})
      hash_tables.push_back(reinterpret_cast<std::uint64_t>(table) - home);
  }
  std::uint64_t found_any = 0, sound = 0, refused = 0;
  const std::uint64_t seeds = rvm::testing::scaled(120);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto disk = base.crash(0, sim::policy::keep_all);
    for (std::uint64_t n = 0; n <= random() % 4; ++n) {
      const std::uint64_t at =
          random() % 2 == 0 ? pointers[random() % pointers.size()] : root_offset + random() % (sizeof(relics) / 8) * 8;
      const bool is_of_hashes = std::ranges::any_of(hash_tables, [&](std::uint64_t table) {
        return at >= table + 24 && at < table + 40;  // how entries were placed: a program says so
      });
      if (is_of_hashes) continue;
      const std::uint64_t was = word_at(at);
      const std::array nonsense{std::uint64_t{0},
                                std::uint64_t{1} << random() % 63,
                                ~std::uint64_t{0},
                                home + random() % (pages * page),
                                word_at(pointers[random() % pointers.size()]),
                                was + 8,
                                was ^ std::uint64_t{1} << random() % 20,
                                was - 1};
      overwrite(*disk, at, nonsense[random() % nonsense.size()]);
    }
    findings found;
    try {
      found = repaired(*disk);
    } catch (const error& e) {
      ASSERT_EQ(e.code(), errc::damaged) << e.what();
      ASSERT_NE(std::string(e.what()).find("backup"), std::string::npos) << e.what();
      ++refused;
      continue;
    }
    ++(found.report.is_damaged() ? found_any : sound);
    store s("/store", options(*disk, rvm::open_mode::open));
    expect_sound(s);
    auto* const root = s.find_root<relics>("all");
    ASSERT_NE(root, nullptr);
    ASSERT_NO_THROW(use(s, *root, false));
    if (HasFailure()) {
      for (const std::string& text : found.texts) std::printf("  %s\n", text.c_str());
      return;
    }
  }
  EXPECT_GT(found_any, seeds / 2);
  EXPECT_LT(refused, std::max<std::uint64_t>(seeds / 10, 4));
  if (rvm::testing::test_scale() >= 1) {
    EXPECT_GT(sound, 2U);
  }
}

// --- What a repair writes ---------------------------------------------------------------------------------------------------

class repairing_in_place : public repairing {
 protected:
  repairing_in_place() : repairing(12) {
    // Of the name of the last one, on whose page other objects are, too.
    damaged = (names.back() - home) / page;
  }
  [[nodiscard]] std::unique_ptr<sim::disk> damaged_disk() const {
    std::mt19937_64 random(1);
    auto disk = base.crash(0, sim::policy::keep_all);
    damage_page(*disk, damaged, damage::one_bit, random);
    return disk;
  }
  static bool has_new_files(const sim::disk& disk) {
    return std::ranges::any_of(disk.names(),
                               [](const std::string& n) { return n.find(".rewritten") != std::string::npos; });
  }
  std::uint64_t damaged = 0;
};

// The damaged store, or the repaired one: whichever it is, a repair makes it sound.
TEST_F(repairing_in_place, survives_a_crash_at_every_operation) {
  std::uint64_t operations = 0;
  {
    const auto disk = damaged_disk();
    ASSERT_TRUE(repaired(*disk).report.is_damaged());
    operations = disk->operations();
  }
  ASSERT_GT(operations, 30u);
  int old = 0, repaired_ones = 0;
  for (std::uint64_t at = 1; at <= operations; ++at) {
    const auto disk = damaged_disk();
    disk->crash_at(at);
    try {
      (void)repaired(*disk);
    } catch (const sim::power_failure&) {
    }
    for (const sim::policy policy : {sim::policy::drop_all, sim::policy::keep_all, sim::policy::random}) {
      SCOPED_TRACE("crash at operation " + std::to_string(at) + " of " + std::to_string(operations));
      const auto left = disk->crash(at, policy);
      findings again;
      ASSERT_NO_THROW(again = repaired(*left));
      ++(again.report.is_damaged() ? old : repaired_ones);
      const store s("/store", options(*left, rvm::open_mode::open));
      expect_sound(s);
      EXPECT_FALSE(has_new_files(*left));
      ASSERT_EQ(s.find_root<relics>("all")->all.size(), 12u);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(old, 30);
  EXPECT_GT(repaired_ones, 5);
}

TEST_F(repairing_in_place, writes_nothing_if_nothing_is_damaged_or_it_only_looks) {
  const auto sound = base.crash(0, sim::policy::keep_all);
  const findings nothing = repaired(*sound), nowhere = repaired(*sound, "/copy");
  EXPECT_FALSE(nothing.report.is_damaged());
  EXPECT_FALSE(nowhere.report.is_damaged());
  EXPECT_EQ(nothing.report.rewritten.objects, 0u);
  EXPECT_FALSE(sound->exists("/copy/main.db"));
  EXPECT_EQ(sound->current_bytes(file).size(), base_bytes.size());
  const auto disk = damaged_disk();
  const std::uint64_t before = disk->operations();
  repair_report report = repair("/store", {.dry_run = true, .disk = disk.get()});
  EXPECT_TRUE(report.is_damaged());
  EXPECT_EQ(report.pages, 1u);
  EXPECT_EQ(report.first.size(), report.pages + report.bookkeeping + report.lost_objects + report.lost_elements +
                                     report.lost_roots + report.cut_references + report.containers);
  EXPECT_EQ(disk->operations(), before);
}

TEST_F(repairing_in_place, makes_a_copy_that_takes_the_place_of_the_store) {
  const auto disk = damaged_disk();
  const auto before = disk->current_bytes(file);
  EXPECT_TRUE(repaired(*disk, "/copy").report.is_damaged());
  EXPECT_EQ(disk->current_bytes(file), before);
  expect_error(errc::bad_option, {"outside"}, [&] { (void)repaired(*disk, "/store/inside"); });
  const store s("/copy", options(*disk, rvm::open_mode::open));
  EXPECT_EQ(s.default_database().home(), home);
  expect_sound(s);
  EXPECT_EQ(s.find_root<relics>("all")->all.size(), 12u);
}

// The first record of a large object says where it lies, whatever has become of the records of its other blocks.
TEST_F(repairing_in_place, what_is_lost_of_a_large_array_is_found_without_the_records_of_its_blocks) {
  constexpr std::uint64_t count = 400'000, block = 40;
  sim::disk disk;
  std::uint64_t array = 0;
  {
    store s("/store", options(disk));
    auto& numbers = s.root<tenure::vector<std::uint64_t>>("numbers");
    s.transact([&] { numbers.assign(count, 7); });
    array = reinterpret_cast<std::uint64_t>(numbers.data()) - home;
  }
  rvm::segment_header h;
  std::memcpy(&h, disk.current_bytes(file).data(), sizeof h);
  const rvm::segment_layout parts(h);
  const std::uint64_t damaged = array / heap::block_size + block;
  ASSERT_EQ(damaged / heap::blocks_in_zone, 0u);
  const std::vector<std::byte> noise(page, std::byte{0xee});
  for (const std::uint64_t at : {heap::record_offset(damaged), damaged * heap::block_size + page})
    disk.poke(file, parts.find(at / page * page, page).at, noise);
  const findings found = repaired(disk);
  EXPECT_TRUE(std::ranges::any_of(found.texts, [](const std::string& t) { return t.starts_with("elements "); }));
  const store s("/store", options(disk, rvm::open_mode::open));
  expect_sound(s);
  const auto& numbers = *s.find_root<tenure::vector<std::uint64_t>>("numbers");
  ASSERT_EQ(numbers.size(), count);
  EXPECT_EQ(std::ranges::count(numbers, 0u), static_cast<std::ptrdiff_t>(page / 8));
  EXPECT_EQ(std::ranges::count(numbers, 7u), static_cast<std::ptrdiff_t>(count - page / 8));
}

// What a repair into a new directory can do, one in place can do.
TEST_F(repairing_in_place, repairs_what_a_copy_could) {
  int repaired_ones = 0;
  std::mt19937_64 random(3);
  for (const std::uint64_t number : used_pages()) {
    if (!is_bookkeeping(number)) continue;
    for (const damage each : {damage::zeros, damage::noise}) {
      SCOPED_TRACE("page " + std::to_string(number));
      const auto disk = base.crash(0, sim::policy::keep_all);
      damage_page(*disk, number, each, random);
      try {
        (void)repaired(*disk, "/copy");
      } catch (const error&) {
        continue;
      }
      ASSERT_NO_THROW((void)repaired(*disk));
      ++repaired_ones;
      const store s("/store", options(*disk, rvm::open_mode::open));
      expect_sound(s);
    }
  }
  EXPECT_GT(repaired_ones, 2);
}

// The header, tables of roots and types, and records of blocks, are read where they are mapped [heap.rewrite.unreadable].
TEST_F(repairing_in_place, a_page_that_cannot_be_read_is_an_error_with_file_and_offset) {
  int opened = 0, refused = 0;
  for (const std::uint64_t number : used_pages()) {
    SCOPED_TRACE("page " + std::to_string(number));
    for (const rvm::open_mode mode : {rvm::open_mode::open, rvm::open_mode::read_only}) {
      const auto disk = base.crash(0, sim::policy::keep_all);
      disk->lose(file, at_page(number), at_page(number) + page);
      try {
        const store s("/store", options(*disk, mode));
        ++opened;
        if (mode != rvm::open_mode::read_only) continue;
        const std::vector<std::string> wrong = s.verify();
        EXPECT_TRUE(std::ranges::any_of(wrong, [&](const std::string& each) {
          return each.find(file + ": the page at offset " + std::to_string(number * page)) != std::string::npos;
        }));
      } catch (const error& e) {
        ++refused;
        EXPECT_EQ(e.code(), std::errc::io_error) << e.what();
        EXPECT_NE(std::string(e.what()).find(file + ": the page at offset " + std::to_string(number * page) +
                                             " cannot be read"),
                  std::string::npos)
            << e.what();
      }
      for (const bool copies : {false, true}) try {
          copies ? clone("/store", "/clone", {.disk = disk.get()}) : compact("/store", {.disk = disk.get()});
          FAIL() << "zeros were written for what cannot be read";
        } catch (const error& e) {
          EXPECT_EQ(e.code(), std::errc::io_error) << e.what();
        }
    }
  }
  EXPECT_GT(opened, 10);
  EXPECT_GT(refused, 4);
}

// What the log has of a page makes it whole: recovery writes it anew.
TEST_F(repairing_in_place, first_lets_recovery_repair_pages) {
  std::unique_ptr<sim::disk> crashed;
  {
    store s("/store", options(base));
    auto* const root = s.find_root<relics>("all");
    s.transact([&] {
      for (std::uint64_t& n : root->numbers) n += 1;
    });
    crashed = base.crash(0, sim::policy::drop_all);
  }
  std::mt19937_64 random(7);
  std::uint64_t first = 0;
  {
    const auto looked_at = base.crash(0, sim::policy::keep_all);
    const store s("/store", options(*looked_at, rvm::open_mode::read_only));
    first = reinterpret_cast<std::uint64_t>(s.find_root<relics>("all")->numbers.data());
  }
  damage_page(*crashed, (first - home) / page + 3, damage::noise, random);
  EXPECT_FALSE(repaired(*crashed).report.is_damaged());
  const store s("/store", options(*crashed, rvm::open_mode::open));
  expect_sound(s);
  const auto& numbers = s.find_root<relics>("all")->numbers;
  for (std::uint64_t n = 0; n < number_count; ++n) ASSERT_EQ(numbers[n], n * n + 2);
}

}  // namespace
