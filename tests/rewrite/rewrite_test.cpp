// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores that are written anew, in place and as clones: that nothing differs but addresses.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tenure/collect.hpp>
#include <tenure/finalization_queue.hpp>

#include "log/log_files.hpp"
#include "log/log_hold.hpp"
#include "log/unfinished.hpp"
#include "os/scratch_memory.hpp"
#include "records/archive_reader.hpp"
#include "records/log_reader.hpp"
#include "rewrite/key_orders.hpp"
#include "rewrite/page_writer.hpp"
#include "segments/segment.hpp"
#include "support/child_process.hpp"
#include "support/rewritten_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace rewrite_test_types {

union opaque {
  void* pointer;
  std::uint64_t number;
};
struct opaque_root {
  opaque* of;
  item* to;
};
struct large {
  std::uint64_t words[20000];
};
struct enormous {
  std::uint64_t words[std::size_t{1} << 20];
};
struct large_root {
  tenure::vector<large*> all;
  tenure::vector<item*> many;
};
struct watching {
  finalization_queue<item> queue;
  weak<item> gone;
  item* kept;
};

}  // namespace rewrite_test_types
using namespace rewrite_test_types;

namespace {

constexpr object_order orders[] = {object_order::breadth_first, object_order::depth_first, object_order::by_address,
                                   object_order::by_type};

class rewriting_stores : public ::testing::Test {
 protected:
  std::unique_ptr<store> made(std::uint64_t count, bool with_far = false) {
    auto s = std::make_unique<store>(path, how);
    if (with_far)
      s->create_database("far", {.reservation = std::uint64_t{1} << 28, .home = next_home(std::uint64_t{1} << 28)});
    auto& root = s->root<everything>("all");
    fill(*s, root, count);
    return s;
  }
  store opened(const std::string& where) const {
    store_options as = how;
    as.mode = rvm::open_mode::open;
    return store(where, as);
  }
  void expect_whole(const std::string& where, std::uint64_t count) {
    const store s = opened(where);
    expect_sound(s);
    expect_filled(*s.find_root<everything>("all"), count);
  }
  [[nodiscard]] std::uint64_t size_of(const std::string& where) const {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(where)) bytes += entry.file_size();
    return bytes;
  }

  temp_dir dir;
  std::string path = dir / "store";
  store_options how = small_store();
};

TEST_F(rewriting_stores, clones_have_the_same_in_every_order) {
  constexpr std::uint64_t count = 300;
  const auto s = made(count, true);
  const auto home = s->default_database().home();
  s->close();
  for (const object_order order : orders) {
    const std::string to = dir / ("clone-" + std::to_string(static_cast<int>(order)));
    const std::uint64_t first = next_home(std::uint64_t{1} << 28), second = next_home(std::uint64_t{1} << 28);
    const rewrite_report report = clone(path, to, {.order = order, .homes = {{"main", first}, {"far", second}}});
    EXPECT_GT(report.objects, 4 * count);
    EXPECT_EQ(report.left_out, 0u);
    EXPECT_EQ(report.weak_cleared, 0u);
    // Both are open at once: they have other addresses and identities.
    const store original = opened(path), copy = opened(to);
    EXPECT_NE(copy.default_database().home(), home);
    expect_sound(copy);
    expect_filled(*copy.find_root<everything>("all"), count);
  }
  expect_whole(path, count);
}

TEST_F(rewriting_stores, compacting_keeps_addresses_of_databases_and_drops_garbage) {
  constexpr std::uint64_t count = 300;
  auto s = made(count, true);
  const auto home = s->default_database().home();
  auto& root = *s->find_root<everything>("all");
  // Half of it becomes garbage that nobody destroys.
  s->transact([&] {
    for (std::uint64_t n = 0; n < 400; ++n) {
      auto* const spare = s->make<item>();
      spare->number = n;
      spare->name = long_name(n);
      root.all.push_back(spare);
    }
  });
  s->transact([&] { root.all.resize(count); });
  s->close();
  std::ofstream(path + "/my.rewritten.notes") << "not the library's";
  const std::uint64_t before = size_of(path);
  const rewrite_report report = compact(path);
  EXPECT_TRUE(std::filesystem::remove(path + "/my.rewritten.notes"));
  EXPECT_GE(report.left_out, 400u);
  EXPECT_LT(size_of(path), before);
  const store again = opened(path);
  EXPECT_EQ(again.default_database().home(), home);
  expect_sound(again);
  expect_filled(*again.find_root<everything>("all"), count);
  const auto files = std::filesystem::directory_iterator(path);
  EXPECT_TRUE(std::none_of(begin(files), end(files), [](const auto& entry) {
    return entry.path().string().find("rewritten") != std::string::npos;
  }));
}

TEST_F(rewriting_stores, go_on_afterwards) {
  made(50)->close();
  for (const object_order order : orders) {
    (void)compact(path, {.order = order});
    store s = opened(path);
    auto& root = *s.find_root<everything>("all");
    s.transact([&] {
      for (int n = 0; n < 500; ++n) root.places[1000 + n] = {n, n};
      auto* const i = s.make<item>();
      i->name = long_name(7);
      root.by_name["one more"] = i;
    });
    s.transact([&] {
      root.by_name.erase("one more");
      for (int n = 0; n < 500; ++n) root.places.erase(1000 + n);
    });
    expect_sound(s);
    (void)s.collect();
    expect_sound(s);
    expect_filled(root, 50);
  }
}

TEST_F(rewriting_stores, large_objects_and_many) {
  {
    store s(path, how);
    auto& root = s.root<large_root>("large");
    s.transact([&] {
      for (std::uint64_t n = 0; n < 20; ++n) {
        auto* const l = s.make<large>();
        for (std::uint64_t k = 0; k < std::size(l->words); ++k) l->words[k] = n * k;
        root.all.push_back(l);
      }
      root.many.resize(300000);  // an array of several pieces
      auto* const one = s.make<item>();
      for (item*& each : root.many) each = one;
    });
  }
  os::scratch_memory::use_file_from(0);
  (void)compact(path);
  os::scratch_memory::use_file_from(std::size_t{32} << 20);
  const store s = opened(path);
  expect_sound(s);
  const auto& root = *s.find_root<large_root>("large");
  for (std::uint64_t n = 0; n < 20; ++n)
    for (std::uint64_t k = 0; k < std::size(root.all[n]->words); ++k) ASSERT_EQ(root.all[n]->words[k], n * k);
  ASSERT_EQ(root.many.size(), 300000u);
  for (item* const each : root.many) ASSERT_EQ(each, root.many[0]);
}

// Its description stays.
TEST_F(rewriting_stores, a_class_without_objects_may_be_larger_than_the_database) {
  {
    store s(path, how);
    auto& only = s.root<enormous*>("only");
    s.transact([&] { only = s.make<enormous>(); });
    s.transact([&] { only = nullptr; });
  }
  (void)compact(path);
  EXPECT_LT(std::filesystem::file_size(path + "/main.db"), sizeof(enormous));
  {
    store s(path, how);
    expect_sound(s);
    auto& only = s.root<enormous*>("only");
    s.transact([&] { only = s.make<enormous>(); });
    s.transact([&] { only->words[7] = 8; });
  }
  const store s = opened(path);
  expect_sound(s);
  EXPECT_EQ((*s.find_root<enormous*>("only"))->words[7], 8u);
}

TEST_F(rewriting_stores, weak_references_and_queues) {
  {
    store s(path, how);
    auto& root = s.root<watching>("watching");
    s.transact([&] {
      auto* const lost = s.make<item>();
      lost->number = 1;
      root.kept = lost;
      root.gone = weak(lost);
    });
    s.transact([&] {
      auto* const watched = s.make<item>();
      watched->number = 2;
      root.queue.watch(watched);
      root.kept = watched;
    });
    s.transact([&] { root.kept = nullptr; });
  }
  const rewrite_report report = compact(path);
  EXPECT_EQ(report.weak_cleared, 1u);
  store s = opened(path);
  expect_sound(s);
  auto& root = *s.find_root<watching>("watching");
  EXPECT_EQ(root.gone.lock(), nullptr);
  // What the queue watches was kept: a collection makes the message.
  (void)s.collect({.roots = program_roots::handles});
  s.transact([&] {
    item* const message = root.queue.take();
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->number, 2u);
  });
}

TEST_F(rewriting_stores, a_word_of_unknown_layout_that_may_be_a_pointer_is_refused) {
  {
    store s(path, how);
    auto& root = s.root<opaque_root>("opaque");
    s.transact([&] {
      root.of = s.make<opaque>();
      root.of->number = 12345;
      root.to = s.make<item>();
    });
  }
  (void)compact(path);  // it may be none
  {
    store s = opened(path);
    auto& root = *s.find_root<opaque_root>("opaque");
    EXPECT_EQ(root.of->number, 12345u);
    s.transact([&] { root.of->pointer = root.to; });
  }
  expect_error(errc::bad_type, {"rewrite_test_types::opaque"}, [&] { (void)compact(path); });
  expect_error(errc::bad_type, {"may refer to"}, [&] { (void)clone(path, dir / "clone"); });
  const store s = opened(path);
  expect_sound(s);
  EXPECT_EQ(s.find_root<opaque_root>("opaque")->of->pointer, s.find_root<opaque_root>("opaque")->to);
}

// [rvm.archive.beside]
TEST_F(rewriting_stores, recover_into_the_archive) {
  how.memory.archive.emplace();
  const std::string log = path + "/log";
  made(10)->close();
  for (const auto& rewrite : std::vector<std::function<void()>>{
           [&] { (void)collect(path); }, [&] { (void)repair(path); }, [&] { (void)compact(path); }}) {
    run_and_die([&] {
      store s = opened(path);
      for (int n = 0; n < 3; ++n) s.transact([&] { ++s.root<std::uint64_t>("number"); });
      die();
    });
    const auto files = rvm::log_files::open_unlocked(os::real_disk(), log);
    const rvm::lsn end = rvm::find_tail(*files, files->status()).tail;
    ASSERT_GT(end, files->status().head);
    rewrite();
    const rvm::archive_reader archive(os::real_disk(), log + ".archive", files->status().log_id);
    EXPECT_GE(archive.end(), end);
    EXPECT_TRUE(archive.gaps().empty());
  }
}

TEST_F(rewriting_stores, what_is_in_doubt_is_not_left_out) {
  {
    const auto s = made(10);
    transaction tx = s->begin();
    s->root<std::uint64_t>("prepared") = 1;
    tx.prepare("somebody else's");
    tx.leave_in_doubt();
  }
  expect_error(errc::in_doubt, {"somebody else's", "resolve"}, [&] { (void)clone(path, dir / "clone"); });
  EXPECT_FALSE(std::filesystem::exists(dir / "clone"));
}

TEST_F(rewriting_stores, misuse_is_refused) {
  const auto s = made(10, true);
  expect_error(errc::in_use, {}, [&] { (void)compact(path); });
  expect_error(errc::in_use, {}, [&] { (void)clone(path, dir / "clone"); });
  s->close();
  expect_error(std::errc::no_such_file_or_directory, {"there is no store"}, [&] { (void)compact(dir / "none"); });
  expect_error(errc::bad_option, {"in the directory of the store", "outside of it"},
               [&] { (void)clone(path, path + "/inside"); });
  expect_error(std::errc::file_exists, {"is not empty"}, [&] { (void)clone(path, dir.path()); });
  expect_error(errc::bad_option, {"no database \"other\""}, [&] { (void)compact(path, {.homes = {{"other", 0}}}); });
  expect_error(errc::misaligned, {"is not a multiple"}, [&] { (void)compact(path, {.homes = {{"main", 4096}}}); });
  expect_error(errc::bad_option, {"power of two"}, [&] { (void)compact(path, {.reservation = 4096}); });
  const std::uint64_t home = next_home(std::uint64_t{1} << 28);
  expect_error(errc::address_taken, {}, [&] { (void)compact(path, {.homes = {{"main", home}, {"far", home}}}); });
  {
    const auto hold = rvm::log_hold::take(os::real_disk(), path + "/log", "a test");
    expect_error(errc::in_use, {"a test"}, [&] { (void)compact(path); });
  }
  std::filesystem::rename(path + "/far.db", dir / "far.db");
  std::filesystem::create_symlink(dir / "far.db", path + "/far.db");
  expect_error(errc::bad_option, {"is a link"}, [&] { (void)compact(path); });
  std::filesystem::remove(path + "/far.db");
  std::filesystem::rename(dir / "far.db", path + "/far.db");
  expect_whole(path, 10);
}

// There are some 60 places for reservations of this size. Twelve that are drawn without looking at each other meet in
// two of three cases.
TEST_F(rewriting_stores, homes_that_are_chosen_at_random_are_those_of_no_other_database) {
  constexpr std::uint64_t reservation = std::uint64_t{1} << 28, large = std::uint64_t{1} << 40;
  constexpr int databases = 12, clones = 4;
  rewrite_options anywhere{.homes = {{"main", 0}}, .reservation = large};
  {
    store s(path, how);
    for (int n = 1; n < databases; ++n) {
      (void)s.create_database(std::to_string(n), {.reservation = reservation, .home = next_home(reservation)});
      anywhere.homes.push_back({std::to_string(n), 0});
    }
  }
  for (int n = 0; n < clones; ++n) {
    const std::string to = dir / ("clone-" + std::to_string(n));
    EXPECT_NO_THROW((void)clone(path, to, {.reservation = large}));
    std::filesystem::remove_all(to);
  }
  EXPECT_NO_THROW((void)compact(path, anywhere));
}

TEST_F(rewriting_stores, a_clone_that_has_failed_leaves_nothing_and_one_that_was_interrupted_says_what_it_is) {
  made(10)->close();
  const std::string to = dir / "clone";
  expect_error(std::errc::no_such_file_or_directory, {"nowhere"},
               [&] { (void)clone(path, to, {.order = object_order::by_access, .accesses = dir / "nowhere"}); });
  EXPECT_TRUE(std::filesystem::is_empty(to));
  rvm::mark_unfinished(os::real_disk(), to + "/log");
  expect_error(errc::damaged, {to, "a clone, a repair or an upgrade", "remove this directory"},
               [&] { (void)opened(to); });
}

TEST_F(rewriting_stores, get_other_addresses_and_more_room) {
  made(10, true)->close();
  const std::uint64_t reservation = std::uint64_t{1} << 29, home = next_home(reservation), far = next_home(reservation);
  (void)compact(path, {.homes = {{"main", home}, {"far", far}}, .reservation = reservation});
  const store s = opened(path);
  EXPECT_EQ(s.default_database().home(), home + (16 << 20));
  expect_sound(s);
  expect_filled(*s.find_root<everything>("all"), 10);
}

// A page is written when there is no room for others, and read back when more of it comes.
TEST(pages_of_a_new_segment, may_be_written_in_pieces) {
  const temp_dir dir;
  constexpr std::uint64_t length = 1 << 20, each = 1000;
  rvm::segment::create(os::real_disk(), dir / "segment", {.length = length});
  rvm::segment made(os::real_disk(), dir / "segment", "segment", os::access::read_write, false);
  rewriting::page_writer writer(made, 4);
  std::vector<std::byte> expected(length), piece(each);
  for (std::uint64_t n = 0; n < length / each; ++n) {
    const std::uint64_t at = n * 7919 % (length / each) * each;
    std::ranges::fill(piece, static_cast<std::byte>(n + 1));
    std::ranges::copy(piece, expected.begin() + static_cast<std::ptrdiff_t>(at));
    writer.write(at, piece);
  }
  writer.finish();
  std::vector<std::byte> found(length);
  made.read(0, found);
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(made.verify({}).empty());
}

TEST(template_arguments_of_names, are_those_between_the_outer_brackets) {
  EXPECT_EQ(rewriting::template_arguments("std::map<a*, std::pair<b, c (*)(d, e)>, f<1>>"),
            (std::vector<std::string>{"a*", "std::pair<b, c (*)(d, e)>", "f<1>"}));
  EXPECT_TRUE(rewriting::template_arguments("part").empty());
}

}  // namespace
