// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that one transaction destroys while others wait for them, with object locks.
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "cache/cached_graph.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace locks_of_destroyed_types {

struct part {
  std::uint64_t number;
  ref<part> next;
};
struct whole {
  std::uint64_t number;
  part* inside;  // a plain pointer: both are in one group
  ref<part> other;
};

}  // namespace locks_of_destroyed_types
using namespace locks_of_destroyed_types;

namespace {

class locks_of_destroyed : public cached_store {
 protected:
  cache::store& open_locking() {
    make([](store& s) {
      auto& root = s.root<whole>("whole");
      auto &second = s.root<whole>("second"), &third = s.root<whole>("third");
      s.transact([&] {
        root.inside = s.make<part>(part{1, {}});
        root.other = s.make<part>(part{2, {}});
        second.other = third.other = root.other;
      });
    });
    return open({.transactions = cache::concurrency::object_locks});
  }
  ref<whole> root() { return opened->root<whole>("whole"); }
  ref<whole> second() { return opened->root<whole>("second"); }
  // Calls f in another thread, and ends the transaction when that waits for a lock.
  void while_it_waits(const std::function<void()>& end, const std::function<void()>& f) {
    const std::uint64_t before = opened->stats().lock_waits;
    std::atomic<bool> has_ended{false};
    std::thread other([&] {
      f();
      has_ended = true;
    });
    while (!has_ended && opened->stats().lock_waits == before) std::this_thread::yield();
    end();
    other.join();
  }
  void destroy_inside() {
    whole& all = root().change();
    opened->destroy(ref<part>(all.inside));
    all.inside = nullptr;
  }
};

// Whoever has waited for it has no lock of its group, of which others are there still.
TEST_F(locks_of_destroyed, are_none) {
  auto& s = open_locking();
  for (const bool with_a_change : {false, true}) {
    SCOPED_TRACE(with_a_change);
    if (with_a_change) s.transact([&] { root().change().inside = const_cast<part*>(s.make<part>().get()); });
    const auto inside = s.read([&] { return cache::identity<part>(ref<part>(root()->inside)); });
    auto tx = s.begin();
    destroy_inside();
    while_it_waits([&] { tx.commit(); },
                   [&] {
                     auto waits = s.begin();
                     expect_error(errc::damaged, {"where no object is"}, [&] {
                       if (with_a_change)
                         inside.get().change().number = 5;
                       else
                         (void)inside.get()->number;
                     });
                   });
    s.transact([&] { root().change().number = 7; });
    s.read([&] { EXPECT_EQ(root()->number, 7u); });
    s.check();
  }
  close();
}

// A pin gives an object without a lock, so an announcement may wait until the object is gone. Of two that wait, none waits for the
// other one then.
TEST_F(locks_of_destroyed, are_refused_to_who_announces_a_change) {
  auto& s = open_locking();
  std::optional<cache::pin<part>> pinned;
  s.read([&] { pinned.emplace(root()->other); });
  auto tx = s.begin();
  s.destroy(root()->other);
  root().change().other = {};
  const auto is_refused = [&] {
    auto waits = s.begin();
    expect_error(errc::bad_transaction, {"was destroyed by another transaction"},
                 [&] { cache::change(**pinned).number = 5; });
    waits.abort();
  };
  while_it_waits([&] { while_it_waits([&] { tx.commit(); }, is_refused); }, is_refused);
  s.check();
  pinned.reset();
  close();
}

// Refs to what another transaction has destroyed: it may be aborted, and if it is not, it removes the refs
// [cache.making.destroyed.refs].
TEST_F(locks_of_destroyed, keep_nobody_else_from_committing) {
  auto& s = open_locking();
  for (const bool is_aborted : {true, false}) {
    SCOPED_TRACE(is_aborted);
    auto tx = s.begin();
    s.destroy(root()->other);
    root().change().other = {};
    std::thread([&] {
      s.transact([&] { ++second().change().number; });
      s.transact([&] { second().change() = {second()->number + 1, nullptr, second()->other}; });
    }).join();
    if (is_aborted) {
      tx.abort();
      s.read([&] { EXPECT_EQ(second()->other->number, 2u); });
    } else {
      ++second().change().number;
      expect_error(errc::cannot_persist, {"other", "which the transaction has destroyed"}, [&] { tx.commit(); });
      second().change().other = {};
      s.root<whole>("third").change().other = {};
      tx.commit();
    }
    s.read([&] { EXPECT_EQ(second()->number, is_aborted ? 2u : 5u); });
    s.check();
  }
  close();
}

// [cache.locks.united] It would unite groups, of which both transactions have exclusive locks.
TEST_F(locks_of_destroyed, get_no_plain_pointers) {
  auto& s = open_locking();
  std::optional<cache::pin<part>> pinned;
  s.read([&] { pinned.emplace(root()->other); });
  auto tx = s.begin();
  s.destroy(root()->other);
  root().change().other = {};
  std::thread([&] {
    auto other = s.begin();
    second().change().inside = const_cast<part*>(pinned->get());
    expect_error(errc::cannot_persist, {"inside", "another transaction changes or destroys"}, [&] { other.commit(); });
    other.abort();
  }).join();
  second().change().other = {};
  s.root<whole>("third").change().other = {};
  tx.commit();
  s.check();
  pinned.reset();
  close();
}

}  // namespace
