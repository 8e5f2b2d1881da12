// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "os/virtual_memory.hpp"
#include "os/write_tracking.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/sanitizers.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace store_test_types {

struct node {
  int value;
  node* next;
};
struct pair_of_nodes {
  node *first, *second;
};
struct table {
  std::uint64_t numbers[1 << 18];
};
struct package {
  tenure::string name;
  tenure::vector<package*> depends;
};

}  // namespace store_test_types
using namespace store_test_types;

TEST(ten_lines, work_as_printed) {
  const temp_dir dir;
  const auto run = [&] {
    tenure::store store{dir / "packages", small_store()};
    auto& by_name = store.root<tenure::map<tenure::string, package*>>("by-name");
    store.transact([&] {
      auto* p = store.make<package>();
      p->name = "libc6";
      by_name[p->name] = p;
    });
    expect_sound(store);
  };
  run();
  tenure::store store{dir / "packages"};
  auto& by_name = store.root<tenure::map<tenure::string, package*>>("by-name");
  ASSERT_EQ(by_name.size(), 1u);
  EXPECT_EQ(by_name.at("libc6")->name, "libc6");
  EXPECT_TRUE(by_name.at("libc6")->depends.empty());
}

class store_test : public reopened_store {};

TEST_F(store_test, objects_are_found_at_the_same_addresses) {
  node* first = nullptr;
  s().transact([&] {
    first = &s().root<node>("list");
    first->value = 1;
    first->next = s().make<node>(node{2, nullptr});
  });
  node* const second = first->next;
  reopen();
  node& again = s().root<node>("list");
  EXPECT_EQ(&again, first);
  EXPECT_EQ(again.next, second);
  EXPECT_EQ(again.value, 1);
  EXPECT_EQ(second->value, 2);
}

TEST_F(store_test, roots_have_types) {
  (void)s().root<node>("list");
  expect_error(errc::wrong_type, {"the root \"list\" is a store_test_types::node, not a"},
               [&] { (void)s().root<pair_of_nodes>("list"); });
  expect_error(errc::wrong_type, {"list"}, [&] { (void)s().find_root<pair_of_nodes>("list"); });
  EXPECT_NE(s().find_root<node>("list"), nullptr);
  EXPECT_EQ(s().find_root<node>("other"), nullptr);
  EXPECT_EQ(s().root_names(), std::vector<std::string>{"list"});
  s().transact([&] {
    (void)s().root<node>("second");
    EXPECT_EQ(s().root_names().size(), 2u);
  });
  s().remove_root("second");
  EXPECT_EQ(s().default_database().root_names(), std::vector<std::string>{"list"});
  s().remove_root("list");
  EXPECT_EQ(s().find_root<node>("list"), nullptr);
  expect_error(errc::no_such_root, {"list"}, [&] { (void)s().remove_root("list"); });
  expect_error(errc::bad_option, {"name"}, [&] { (void)s().root<node>(""); });
}

TEST_F(store_test, many_roots) {
  for (int i = 0; i < 100; ++i) (void)s().root<node>("root " + std::to_string(i));
  s().transact([&] {
    for (int i = 0; i < 100; ++i) s().root<node>("root " + std::to_string(i)).value = i;
  });
  reopen();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(s().root<node>("root " + std::to_string(i)).value, i);
}

TEST_F(store_test, several_databases_and_pointers_between_them) {
  database parts = s().create_database("parts", {.reservation = 1 << 28, .home = next_home(1 << 28)});
  EXPECT_EQ(parts.name(), "parts");
  s().transact([&] {
    node* const far = parts.make<node>(node{7, nullptr});
    s().root<node>("near").next = far;
    parts.root<node>("back").next = &s().root<node>("near");
  });
  EXPECT_EQ(s().databases().size(), 2u);
  reopen();
  node* const far = s().root<node>("near").next;
  EXPECT_EQ(far->value, 7);
  database again = s().find_database("parts").value();
  EXPECT_EQ(again.root<node>("back").next, &s().root<node>("near"));
  EXPECT_GE(reinterpret_cast<std::uint64_t>(far), again.home());
  EXPECT_FALSE(s().find_database("other"));
  expect_error(std::errc::file_exists, {"parts"}, [&] { (void)s().create_database("parts"); });
  expect_error(errc::bad_option, {"letters"}, [&] { (void)s().create_database("a/b"); });
}

TEST_F(store_test, an_abort_spans_databases) {
  database parts = s().create_database("parts", {.reservation = 1 << 28, .home = next_home(1 << 28)});
  node& here = s().root<node>("here");
  node& there = parts.root<node>("there");
  transaction tx = s().begin();
  here.value = there.value = 5;
  tx.abort();
  EXPECT_EQ(here.value, 0);
  EXPECT_EQ(there.value, 0);
}

TEST_F(store_test, one_process_at_a_time) {
  expect_error(errc::in_use, {"log"}, [&] { (void)store(path, how); });
}

// Opening looks at a few pages. A program that uses the store then need not wait for each page that it touches.
TEST_F(store_test, is_read_when_it_is_used) {
  (void)s().root<table>("table");
  s().close();
  open();
  const auto count = [&] {
    const auto home = reinterpret_cast<std::byte*>(s().databases().front().home());
    return os::write_tracking().count_present(home, sizeof(table), ~std::uint64_t{0});
  };
  if (count() == ~std::uint64_t{0}) GTEST_SKIP() << "the kernel does not tell which pages are in memory";
  const std::size_t all = sizeof(table) / os::page_size();
  EXPECT_LT(count(), all / 2);
  (void)s().find_root<table>("table");
  while (count() < all) std::this_thread::yield();

  s().close();
  how.read_ahead = sizeof(table) / 2;
  open();
  (void)s().find_root<table>("table");
  EXPECT_LT(count(), all / 2) << "larger than what is to be read ahead";
}

TEST_F(store_test, reading_only) {
  s().transact([&] { s().root<node>("list").value = 3; });
  s().close();
  opened.reset();
  how.mode = rvm::open_mode::read_only;
  open();
  EXPECT_EQ(s().root<node>("list").value, 3);
  expect_error(errc::read_only, {"reading"}, [&] { (void)s().begin(); });
  expect_error(errc::read_only, {"reading"}, [&] { (void)s().make<node>(); });
  expect_error(errc::read_only, {"reading"}, [&] { (void)s().root<node>("new one"); });
}

TEST(store_files, that_are_missing) {
  const temp_dir dir;
  expect_error(std::errc::no_such_file_or_directory, {"no store"},
               [&] { (void)store(dir / "none", {.mode = rvm::open_mode::open}); });
  const auto how = small_store();
  store(dir / "made", how).close();
  auto create = how;
  create.mode = rvm::open_mode::create;
  expect_error(std::errc::file_exists, {"log"}, [&] { (void)store(dir / "made", create); });
}

TEST(store_files, of_another_store_are_refused) {
  const temp_dir dir;
  for (const char* name : {"a", "b"}) {
    store s(dir / name, small_store());
    (void)s.create_database("extra", {.reservation = 1 << 28, .home = next_home(1 << 28)});
  }
  std::filesystem::copy_file(dir / "a/extra.db", dir / "b/extra.db", std::filesystem::copy_options::overwrite_existing);
  expect_error(errc::wrong_log, {"extra"}, [&] { (void)store(dir / "b", small_store()); });
  std::filesystem::create_directory(dir / "c");
  for (const char* name : {"log", "log.1"})
    std::filesystem::copy_file(dir / ("a/" + std::string(name)), dir / ("c/" + std::string(name)));
  std::filesystem::copy_file(dir / "a/main.db", dir / "c/main.db");
  expect_error(std::errc::no_such_file_or_directory, {"extra"}, [&] { (void)store(dir / "c", small_store()); });
}

TEST(store_files, with_homes_that_are_taken) {
  const temp_dir dir;
  auto how = small_store();
  store first(dir / "a", how);
  expect_error(errc::address_taken, {"home"}, [&] { (void)store(dir / "b", how); });
}

// There are 62 places of a TiB.
TEST(store_files, new_ones_choose_homes_that_others_in_the_process_do_not_have) {
  if (thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer leaves few addresses";
  temp_dir dir;
  std::vector<std::unique_ptr<store>> all;
  for (int n = 0; n < 30; ++n) all.push_back(std::make_unique<store>(dir / std::to_string(n)));
  EXPECT_EQ(all.size(), 30U);
}

TEST(two_stores, containers_take_memory_where_they_are) {
  const temp_dir dir;
  const std::string long_text = "a text that does not fit into the string itself";
  {
    store a(dir / "a", small_store()), b(dir / "b", small_store());  // b is the one that was opened last
    auto& in_a = a.root<package>("p");
    auto& in_b = b.root<package>("p");
    auto* const transient_one = a.make<package>();
    transient_one->name = long_text;
    a.transact([&] {
      b.transact([&] {
        in_b.name = long_text;
        in_a.name = long_text;
      });
      const tenure::string here = long_text + " on the stack";  // in a, whose transaction is still open
      EXPECT_FALSE(a.is_persistent(here.data()));
      in_a.depends.push_back(transient_one);
      in_a.depends[0]->depends.push_back(&in_a);
    });
    const auto before = b.stats().objects_destroyed;
    b.transact([&] { a.transact([&] { in_b.name = "short"; }); });
    EXPECT_EQ(b.stats().objects_destroyed - before, 0u) << "it grew: a short text keeps the memory";
    b.transact([&] { a.transact([&] { in_b.name = tenure::string(); }); });
    EXPECT_EQ(b.stats().objects_destroyed - before, 1u);
    expect_sound(a);
    expect_sound(b);
  }
  store a(dir / "a");
  EXPECT_EQ(a.root<package>("p").depends[0]->name, long_text);
  expect_sound(a);
}

TEST(two_stores, transactions_end_in_any_order) {
  const temp_dir dir;
  store a(dir / "a", small_store()), b(dir / "b", small_store());
  auto& in_a = a.root<tenure::vector<tenure::string>>("v");
  auto& in_b = b.root<tenure::vector<tenure::string>>("v");
  const tenure::string text("a text that does not fit into the string itself");  // in b
  transaction of_b = b.begin(), of_a = a.begin();
  in_a.push_back(text);
  of_b.commit();
  in_a.push_back(text);
  of_b = b.begin();
  in_b.push_back(text);
  of_a.commit();
  in_b.push_back(text);
  of_b.commit();
  expect_sound(a);
  expect_sound(b);
}

TEST(two_stores, one_that_is_destroyed_in_a_transaction_is_forgotten) {
  const temp_dir dir;
  store a(dir / "a", small_store());
  {
    auto b = std::make_unique<store>(dir / "b", small_store());
    transaction tx = b->begin();
    b.reset();
    std::construct_at(&tx);  // its store is no more
  }
  const tenure::string text("a text that does not fit into the string itself");
  a.transact([&] { a.root<package>("p").name = text; });
  expect_sound(a);
}

TEST(store_options_test, that_make_no_sense) {
  const temp_dir dir;
  auto how = small_store();
  how.create.reservation = 3 << 28;
  expect_error(errc::bad_option, {"power of two"}, [&] { (void)store(dir / "a", how); });
  how = small_store();
  how.create.home += 4096;
  expect_error(errc::misaligned, {"multiple"}, [&] { (void)store(dir / "b", how); });
}

TEST_F(store_test, after_close_nothing_works) {
  store moved = std::move(*opened);
  moved.close();
  expect_error(errc::closed, {"closed"}, [&] { (void)moved.begin(); });
  expect_error(errc::closed, {"closed"}, [&] { (void)moved.root<node>("list"); });
  expect_error(errc::closed, {"closed"}, [&] { (void)moved.root_names(); });
  expect_error(errc::closed, {"closed"}, [&] { (void)moved.begin_read(); });
  opened.reset();
}

TEST_F(store_test, cannot_be_closed_in_a_transaction) {
  transaction tx = s().begin();
  expect_error(errc::transactions_open, {"open transactions"}, [&] { (void)s().close(); });
  tx.abort();
  const auto reading = s().begin_read();
  expect_error(errc::transactions_open, {"open transactions"}, [&] { (void)s().close(); });
}

TEST_F(store_test, a_child_of_a_fork_has_none) {
  const node& list = s().root<node>("list");
  child_process child([&] {
    try {
      s().transact([] {});
    } catch (const error& e) {
      return e.code() == errc::forked ? 0 : 1;
    }
    return 2;
  });
  EXPECT_TRUE(child.wait().exited_with(0));
  EXPECT_EQ(list.value, 0);
}

// Threads of the parent wait for each other all the time, and what they wait for has waiters in the child that are not there.
TEST_F(store_test, a_child_of_a_fork_can_end_it) {
  if (!children_of_threads_allocate) GTEST_SKIP() << "AddressSanitizer's locks are held in the child";
  node& list = s().root<node>("list");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&, n] {
      while (!stop) {
        if (n < 2)
          s().transact([&] { ++list.value; }, commit_mode::lazy);
        else
          (void)s().begin_read();
      }
    });
  for (int n = 0; n < 20 && !HasFailure(); ++n) {
    child_process child([&] {
      ::alarm(30);  // ends one that hangs
      opened.reset();
      return 0;
    });
    EXPECT_TRUE(child.wait().exited_with(0));
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

// Its pages may be closed again while a collection looks at them.
TEST_F(store_test, who_makes_an_object_does_not_block_faults) {
  std::thread([&] {
    sigset_t all, now;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    (void)s().make<node>();
    ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
    EXPECT_FALSE(::sigismember(&now, SIGSEGV));
    EXPECT_FALSE(::sigismember(&now, SIGBUS));
    EXPECT_TRUE(::sigismember(&now, SIGTERM));
  }).join();
}

namespace store_test_types {

struct shape {
  virtual ~shape() = default;
  virtual int corners() const { return 0; }
  static constexpr auto persistent = tenure::members<>{};
};
struct polygon final : shape {
  int count = 0;
  int corners() const override { return count; }
  static constexpr auto persistent = tenure::bases<shape>{} + tenure::members<&polygon::count>{};
};
struct drawing {
  shape* first;
  std::optional<polygon> inner;
  tenure::vector<polygon> more;
};

}  // namespace store_test_types

// A process that only reads calls functions of a type that it never makes. [heap.vtable.canonical]
TEST_F(store_test, virtual_functions_work_in_another_process) {
  s().transact([&] {
    drawing& d = s().root<drawing>("drawing");
    auto* const p = s().make<polygon>();
    p->count = 5;
    d.first = p;
    d.inner.emplace().count = 3;
    d.more.resize(2);
    d.more[1].count = 4;
  });
  s().close();
  opened.reset();
  child_process child([&] {
    open();
    const drawing& d = *s().find_root<drawing>("drawing");
    const shape* const inner = &*d.inner;
    const shape* const more = &d.more[1];
    const bool right = d.first->corners() == 5 && dynamic_cast<const polygon*>(d.first) != nullptr &&
                       inner->corners() == 3 && more->corners() == 4 && s().verify().empty();
    opened.reset();
    return right ? 0 : 1;
  });
  const auto end = child.wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output;
  open();
}
