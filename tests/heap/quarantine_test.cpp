// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// [heap.collection.quarantine]: where a collection has taken something, nothing new is made until another one has found that
// nothing leads there.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap/collected_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace quarantine_types {

// Its layout is not known.
class any_word {
 public:
  void set(const void* to) { word_ = reinterpret_cast<std::uintptr_t>(to); }
  std::uintptr_t get() const { return word_; }

 private:
  std::uintptr_t word_ = 0, more_ = 0;
};

struct wide {
  std::uint64_t numbers[9];
};
struct narrow {
  std::uint64_t numbers[3];
};
struct huge_buffer {
  char bytes[100'000'000];
};

using kept_queue = finalization_queue<kept_node>;
struct queue_holder {
  kept_queue* of;
  vector<kept_node*> watched;
  vector<kept_buffer*> between;
};

}  // namespace quarantine_types
using namespace quarantine_types;

namespace {

class quarantined : public collecting_an_open_store {
 protected:
  static collection_options with(quarantine how) { return {.roots = program_roots::handles, .quarantine = how}; }
  quarantined() {
    how.tune.most_blocks = 1;
    how.memory.background = false;  // what is checked must not change meanwhile
    reopen();
  }
  // Where objects are, hidden, and how long they are.
  using places = std::map<std::uintptr_t, std::size_t>;
  // Returns where new nodes and buffers are.
  places make_more() {
    places made;
    kept_list& l = s().root<kept_list>("more");
    auto& buffers = s().root<vector<kept_buffer*>>("more buffers");
    s().transact([&] {
      for (std::size_t n = 0; n < 2 * many; ++n) l.all.push_back(s().make<kept_node>());
      for (std::size_t n = 0; n < 20; ++n) buffers.push_back(s().make<kept_buffer>());
    });
    for (const kept_node* each : l.all) made[hidden(each)] = sizeof *each;
    for (const kept_buffer* each : buffers) made[hidden(each)] = sizeof *each;
    return made;
  }
  // So many that they have pages of their own.
  std::uintptr_t make_many(std::uint64_t id) {
    kept_list& l = s().root<kept_list>("list");
    s().transact([&] {
      for (std::size_t n = 0; n < many; ++n) l.all.push_back(s().make<kept_node>());
      for (kept_node* each : l.all) each->id = id;
    });
    garbage.clear();
    for (const kept_node* each : l.all) garbage.push_back(hidden(each));
    s().transact([&] { l.all.clear(); });
    return garbage[many / 2];
  }
  static constexpr std::size_t many = 2'000;
  std::vector<std::uintptr_t> make_buffers() {
    auto& buffers = s().root<vector<kept_buffer*>>("buffers");
    s().transact([&] {
      for (int n = 0; n < 3; ++n) buffers.push_back(s().make<kept_buffer>());
    });
    std::vector<std::uintptr_t> made;
    for (const kept_buffer* each : buffers) made.push_back(hidden(each));
    s().transact([&] { buffers.clear(); });
    return made;
  }
  // How many of these objects lie where others have been.
  template <class Of>
  static std::size_t in_both(const places& made, const Of& gone) {
    return static_cast<std::size_t>(std::ranges::count_if(gone, [&](std::uintptr_t g) {
      const auto next = made.lower_bound(g);  // hidden addresses descend
      return next != made.end() && ~g - ~next->first < next->second;
    }));
  }
};

TEST_F(quarantined, space_is_not_used_before_the_next_collection) {
  make_many(7);
  const std::vector<std::uintptr_t> buffers = make_buffers();
  const collect_report first = s().collect(with(quarantine::hold));
  EXPECT_EQ(first.garbage, many + 3);
  EXPECT_EQ(first.confirmed, 0U);
  EXPECT_GE(s().space().quarantined, many + 3);
  EXPECT_GE(s().space().quarantined_bytes, 3 * sizeof(kept_buffer));
  const places made = make_more();
  EXPECT_EQ(in_both(made, garbage), 0U);
  EXPECT_EQ(in_both(made, buffers), 0U);
  for (const std::uintptr_t each : garbage) EXPECT_EQ(shown(each)->id, 7U);  // whoever has hidden a pointer
  expect_sound(s());

  const collect_report second = s().collect(with(quarantine::hold));
  EXPECT_EQ(second.confirmed, many + 3);
  EXPECT_EQ(second.confirmed_bytes, first.garbage_bytes);
  EXPECT_EQ(second.used_after_collection, 0U);
  EXPECT_EQ(s().space().quarantined, 0U);
  expect_sound(s());
  const places later = make_more();
  EXPECT_GT(in_both(later, garbage), 0U);
  EXPECT_GT(in_both(later, buffers), 0U);
}

TEST_F(quarantined, without_it_space_is_used_at_once) {
  make_many(7);
  const std::vector<std::uintptr_t> buffers = make_buffers();
  s().collect(with(quarantine::none));
  EXPECT_EQ(s().space().quarantined, 0U);
  const places made = make_more();
  EXPECT_GT(in_both(made, garbage), 0U);
  EXPECT_GT(in_both(made, buffers), 0U);
}

TEST_F(quarantined, a_store_that_was_opened_again_has_none) {
  make_many(7);
  const std::vector<std::uintptr_t> buffers = make_buffers();
  s().collect(with(quarantine::hold));
  reopen();
  EXPECT_EQ(s().space().quarantined, 0U);
  const places made = make_more();
  EXPECT_GT(in_both(made, garbage), 0U);
  EXPECT_GT(in_both(made, buffers), 0U);
}

TEST_F(quarantined, transient_objects_too) {
  std::vector<std::uintptr_t> gone;
  for (std::size_t n = 0; n < many; ++n) {
    gone.push_back(hidden(s().make<kept_node>()));
    shown(gone.back())->id = 9;
  }
  gone.push_back(hidden(s().make<kept_buffer>()));
  EXPECT_EQ(s().collect(with(quarantine::hold)).transient_garbage, gone.size());
  EXPECT_EQ(in_both(make_more(), gone), 0U);
  std::vector<std::uintptr_t> more;
  for (std::size_t n = 0; n < many; ++n) more.push_back(hidden(s().make<kept_node>()));
  EXPECT_EQ(std::ranges::count_if(more, [&](std::uintptr_t m) { return std::ranges::count(gone, m) != 0; }), 0);
  for (std::size_t n = 0; n + 1 < gone.size(); ++n) ASSERT_EQ(shown(gone[n])->id, 9U);
  expect_sound(s());
  const collect_report second = s().collect(with(quarantine::hold));
  EXPECT_EQ(second.confirmed, gone.size());
  EXPECT_EQ(second.transient_garbage, more.size());
  EXPECT_GT(in_both(make_more(), gone), 0U);
  expect_sound(s());
}

// Blocks and pages that lose some of their objects only are not filled again either.
TEST_F(quarantined, what_is_left_beside_stays_usable) {
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] {
    for (std::size_t n = 0; n < many; ++n) l.all.push_back(s().make<kept_node>());
  });
  std::set<std::uintptr_t> gone;
  s().transact([&] {
    for (std::size_t n = 0; n < l.all.size(); ++n)
      if (n % 4 != 0) gone.insert(hidden(l.all[n])), l.all[n] = nullptr;
  });
  s().collect(with(quarantine::hold));
  const auto make_some = [&] {
    std::size_t reused = 0;
    s().transact([&] {
      for (std::size_t n = 0; n < 2 * many; ++n) {
        l.all.push_back(s().make<kept_node>());
        reused += gone.contains(hidden(l.all.back()));
      }
    });
    return reused;
  };
  EXPECT_EQ(make_some(), 0U);
  s().collect(with(quarantine::hold));
  EXPECT_GT(make_some(), gone.size() / 2);
  expect_sound(s());
}

// Nor do emptied pages beside others get objects of another type.
TEST_F(quarantined, pages_keep_their_type) {
  s().close();
  how.tune.typed_from = 0;
  open();
  kept_list& l = s().root<kept_list>("list");
  auto& others = s().root<vector<wide*>>("others");
  auto& thirds = s().root<vector<narrow*>>("thirds");
  s().transact([&] {
    for (std::size_t n = 0; n < many; ++n) {
      l.all.push_back(s().make<kept_node>());
      others.push_back(s().make<wide>());
      thirds.push_back(s().make<narrow>());
    }
  });
  std::vector<std::uintptr_t> gone;
  for (const kept_node* each : l.all) gone.push_back(hidden(each));
  s().transact([&] { thirds.clear(); });
  s().collect(with(quarantine::none));  // their pages are free, beside those of the others
  s().transact([&] { l.all.clear(); });
  s().collect(with(quarantine::hold));
  const auto make_others = [&] {
    places made;
    s().transact([&] {
      for (std::size_t n = 0; n < many; ++n) {
        others.push_back(s().make<wide>());
        made[hidden(others.back())] = sizeof(wide);
      }
    });
    return made;
  };
  EXPECT_EQ(in_both(make_others(), gone), 0U);
  expect_sound(s());
  s().collect(with(quarantine::hold));
  EXPECT_GT(in_both(make_others(), gone), 0U);
}

// Three of four objects go, then the rest, while what is free is being filled again: in pages, and between objects with headers.
class half_filled : public quarantined, public ::testing::WithParamInterface<bool> {};

TEST_P(half_filled, get_no_objects_where_some_were_taken) {
  s().close();
  how.tune.typed_from = GetParam() ? 0 : ~std::uint64_t{0};
  how.tune.least_hole = 16;
  open();
  kept_list& l = s().root<kept_list>("list");
  auto& more = s().root<vector<kept_node*>>("more");
  s().transact([&] {
    for (std::size_t n = 0; n < many; ++n) l.all.push_back(s().make<kept_node>());
  });
  s().transact([&] {
    for (std::size_t n = 0; n < many; ++n)
      if (n % 4 != 0) l.all[n] = nullptr;
  });
  s().collect(with(quarantine::none));
  s().transact([&] {
    for (std::size_t n = 0; n < many / 8; ++n) more.push_back(s().make<kept_node>());
  });
  std::set<std::uintptr_t> gone;
  for (const kept_node* each : l.all)
    if (each != nullptr) gone.insert(hidden(each));
  s().transact([&] { l.all.clear(); });
  EXPECT_EQ(s().collect(with(quarantine::hold)).garbage, many / 4);
  places made;
  s().transact([&] {
    for (std::size_t n = 0; n < many; ++n) {
      more.push_back(s().make<kept_node>());
      made[hidden(more.back())] = sizeof(kept_node);
    }
  });
  EXPECT_EQ(in_both(made, gone), 0U);
  expect_sound(s());
}
INSTANTIATE_TEST_SUITE_P(quarantine, half_filled, ::testing::Bool());

TEST_F(quarantined, checking_tells_of_writes_and_references) {
  const std::uintptr_t it = make_many(7);
  const std::uint64_t dropped_by = s().stats().memory.begun;
  s().collect(with(quarantine::check));
  for (const std::uintptr_t each : garbage) ASSERT_EQ(shown(each)->id, 0xd9d9d9d9d9d9d9d9);
  kept_list& l = s().root<kept_list>("list");
  s().transact([&] { shown(it)->pad[2] = 5; });
  const collect_report first = s().collect(with(quarantine::check));
  ASSERT_EQ(first.used_after_collection, 1U);
  ASSERT_EQ(first.uses.size(), 1U);
  const use_after_collection& use = first.uses[0];
  EXPECT_EQ(use.object, shown(it));
  EXPECT_EQ(use.type, type_of<kept_node>().name);
  EXPECT_EQ(use.bytes, sizeof(kept_node));
  EXPECT_TRUE(use.was_changed);
  EXPECT_FALSE(use.is_referred_to);
  EXPECT_LT(std::chrono::system_clock::now() - use.taken, std::chrono::hours(1));
  EXPECT_EQ(use.transaction, dropped_by);
  EXPECT_EQ(first.confirmed, many - 1);
  // It is told once, and stays.
  const collect_report second = s().collect(with(quarantine::check));
  EXPECT_EQ(second.used_after_collection, 0U);
  EXPECT_EQ(second.confirmed, 0U);
  EXPECT_EQ(s().space().quarantined, 1U);
  EXPECT_EQ(in_both(make_more(), std::vector{it}), 0U);
  EXPECT_EQ(l.first, nullptr);
  reopen();
}

// What was hidden when the object was taken.
TEST_F(quarantined, pointers_that_come_back_are_told) {
  const std::uintptr_t it = make_many(7);
  s().collect(with(quarantine::hold));
  kept_list& l = s().root<kept_list>("list");
  l.first = nullptr;
  kept_node* const transient_one = s().make<kept_node>();
  const handle<kept_node> keeps = transient_one;
  transient_one->next = shown(it);
  const collect_report first = s().collect(with(quarantine::hold));
  ASSERT_EQ(first.uses.size(), 1U);
  EXPECT_EQ(first.uses[0].object, shown(it));
  EXPECT_TRUE(first.uses[0].is_referred_to);
  EXPECT_FALSE(first.uses[0].was_changed);
  EXPECT_EQ(shown(it)->id, 7U);
  transient_one->next = nullptr;
  {
    const handle<std::uint64_t> inside = &shown(it)->pad[1];
    EXPECT_EQ(s().collect(with(quarantine::hold)).confirmed, 0U);
  }
  EXPECT_EQ(s().collect(with(quarantine::hold)).confirmed, 1U);
}

// In a persistent object. The transaction that stores it writes to an object of a known type, so its commit refuses it; not if the
// reference is in words of unknown layout.
TEST_F(quarantined, pointers_in_persistent_objects_are_told) {
  auto& words = s().root<any_word>("words");
  const std::uintptr_t it = make_many(7);
  s().collect(with(quarantine::hold));
  s().transact([&] { words.set(shown(it)); });
  const collect_report first = s().collect(with(quarantine::hold));
  ASSERT_EQ(first.uses.size(), 1U);
  EXPECT_EQ(first.uses[0].object, shown(it));
  EXPECT_TRUE(first.uses[0].is_referred_to);
  EXPECT_EQ(first.confirmed, many - 1);
  s().transact([&] { words.set(nullptr); });
  EXPECT_EQ(s().collect(with(quarantine::hold)).confirmed, 1U);
}

// It continues over the bookkeeping of the zones behind, and the last one is shorter than others.
TEST_F(quarantined, an_object_of_several_zones) {
  s().close();
  how.create.reservation = std::uint64_t{256} << 20;
  path += "-large";
  open();
  auto& large = s().root<huge_buffer*>("large");
  auto& buffers = s().root<vector<kept_buffer*>>("buffers");
  s().transact([&] {
    for (int n = 0; n < 600; ++n) buffers.push_back(s().make<kept_buffer>());
  });
  for (int round = 0; round < 2; ++round) {
    s().transact([&] { large = s().make<huge_buffer>(); });
    const std::uintptr_t it = hidden(large);
    s().transact([&] { std::memset(large, 7, sizeof *large); });
    s().transact([&] { large = nullptr; });
    EXPECT_EQ(s().collect(with(quarantine::hold)).garbage, 1U);
    // So many that the rest of its last zone would be used, too.
    const std::size_t before = buffers.size();
    try {
      for (;;) s().transact([&] { buffers.push_back(s().make<kept_buffer>()); });
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::out_of_memory) << e.what();
    }
    s().transact([&] {
      while (buffers.size() > before) {
        s().destroy(buffers.back());
        buffers.pop_back();
      }
    });
    EXPECT_EQ(std::ranges::count(shown<huge_buffer>(it)->bytes, 7), sizeof(huge_buffer));
    EXPECT_EQ(s().collect(with(quarantine::hold)).confirmed, 1U);
    expect_sound(s());
  }
  // Nothing is free behind the end of the database.
  try {
    for (;;) s().transact([&] { buffers.push_back(s().make<kept_buffer>()); });
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::out_of_memory) << e.what();
  }
  EXPECT_GT(buffers.size() * sizeof(kept_buffer), std::uint64_t{160} << 20);
  expect_sound(s());
}

TEST_F(quarantined, a_database_that_is_full_says_what_is_held) {
  s().close();
  how.create.reservation = std::uint64_t{256} << 20;
  path += "-small";
  open();
  auto& buffers = s().root<vector<kept_buffer*>>("buffers");
  std::string told;
  for (int round = 0; round < 40 && told.empty(); ++round) {
    try {
      s().transact([&] {
        buffers.clear();
        for (int n = 0; n < 600; ++n) buffers.push_back(s().make<kept_buffer>());
      });
      if (round == 2) {
        s().collect(with(quarantine::hold));
      }
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::out_of_memory) << e.what();
      told = e.what();
    }
  }
  EXPECT_NE(told.find("in quarantine"), std::string::npos) << told;
  s().collect(with(quarantine::none));
  s().collect(with(quarantine::none));
  s().transact([&] { buffers.clear(); });
  s().collect(with(quarantine::none));
  s().transact([&] {
    for (int n = 0; n < 600; ++n) buffers.push_back(s().make<kept_buffer>());
  });
}

// Nobody gets the report of a cycle that fails.
TEST_F(quarantined, a_use_is_told_when_a_cycle_succeeds) {
  const std::uintptr_t it = make_many(7);
  s().collect(with(quarantine::hold));
  const handle<kept_node> back = shown(it);
  collection_options failing = with(quarantine::hold);
  failing.on_progress = [](const rvm::progress& p) {
    if (std::string_view(p.phase) == "sweeping") throw std::runtime_error("enough");
  };
  EXPECT_THROW(s().collect(failing), std::runtime_error);
  const collect_report next = s().collect(with(quarantine::hold));
  ASSERT_EQ(next.uses.size(), 1U);
  EXPECT_EQ(next.uses[0].object, shown(it));
  EXPECT_EQ(s().collect(with(quarantine::hold)).uses.size(), 0U);
}

// --- Queues that are garbage ------------------------------------------------------------------------------------------------

// A queue watches objects that are kept. Half of its entries have gone already when these are destroyed.
class garbage_queue : public quarantined {
 protected:
  queue_holder& h() { return s().root<queue_holder>("queue"); }
  void make_queue() {
    s().transact([&] {
      h().of = s().make<kept_queue>();
      for (int n = 0; n < 3; ++n) h().watched.push_back(s().make<kept_node>());
      h().of->watch(h().watched[0]);
    });
    s().transact([&] {
      for (int n = 0; n < 500; ++n) h().between.push_back(s().make<kept_buffer>());
    });
    s().transact([&] {
      h().of->watch(h().watched[1]);
      for (int n = 0; n < 3'000; ++n) h().of->watch(h().watched[n % 3]);
    });
    s().transact([&] { h().of = nullptr; });
  }
  void destroy(std::size_t which) {
    s().transact([&] {
      s().destroy(h().watched[which]);
      h().watched[which] = nullptr;
    });
  }
  // Calls f() in the midst of the sweep.
  template <class F>
  collect_report collect_with(quarantine how, F&& f) {
    collection_options options = with(how);
    options.on_progress = [&](const rvm::progress& p) {
      if (std::string_view(p.phase) == "sweeping" && p.done == 1'024) f();
    };
    return s().collect(options);
  }
};

TEST_F(garbage_queue, what_it_watches_can_be_destroyed_while_it_goes) {
  for (const quarantine how : {quarantine::check, quarantine::hold, quarantine::none}) {
    make_queue();
    int calls = 0;
    EXPECT_GT(collect_with(how,
                           [&] {
                             ++calls;
                             destroy(1);
                             destroy(0);
                           })
                  .garbage,
              3'000U);
    EXPECT_EQ(calls, 1);
    expect_sound(s());
    EXPECT_EQ(s().collect(with(how)).used_after_collection, 0U);
    s().transact([&] { h().watched.clear(), h().between.clear(); });
  }
}

// What is made where an entry was is no entry.
TEST_F(garbage_queue, new_objects_are_not_taken_for_its_entries) {
  make_queue();
  auto& numbers = s().root<vector<kept_node*>>("numbers");
  (void)collect_with(quarantine::none, [&] {
    destroy(1);
    s().transact([&] {
      for (int n = 0; n < 3'000; ++n) {
        numbers.push_back(s().make<kept_node>());
        numbers.back()->id = 5;
      }
    });
    destroy(2);
    destroy(0);
  });
  for (const kept_node* each : numbers) {
    ASSERT_TRUE(s().is_persistent(each));
    ASSERT_EQ(each->id, 5U);
    ASSERT_EQ(each->next, nullptr);
  }
  expect_sound(s());
}

TEST_F(garbage_queue, half_of_it_may_be_left) {
  make_queue();
  EXPECT_THROW(collect_with(quarantine::none, [] { throw std::runtime_error("enough"); }), std::runtime_error);
  destroy(1);
  reopen();
  destroy(2);
  destroy(0);
  reopen();
  s().collect(with(quarantine::none));
  expect_sound(s());
}

}  // namespace
