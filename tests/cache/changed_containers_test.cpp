// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers in objects of a cache: what they change is in the commit, and an abort puts it back.
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "cache/cached_graph.hpp"

using namespace tenure;
using namespace tenure::support;
using tenure::cache::ref;

namespace changed_containers_types {

struct drawer {
  tenure::vector<std::uint64_t> numbers;
  tenure::vector<tenure::string> names;
  tenure::map<std::uint64_t, std::uint64_t> ordered;
  tenure::hash_map<std::uint64_t, std::uint64_t> hashed;
  tenure::string text;
  tenure::field<std::uint64_t> field;
  std::uint64_t plain;
};
struct cabinet {
  drawer* inner;
  ref<drawer> outer;
};

}  // namespace changed_containers_types
using namespace changed_containers_types;

namespace {

class changed_containers : public cached_store {
 protected:
  static constexpr std::uint64_t count = 100;

  void make_filled() {
    make([](store& s) {
      auto& r = s.root<cabinet>("cabinet");
      s.transact([&] {
        r.inner = s.make<drawer>();
        auto* const outer = s.make<drawer>();
        r.outer = outer;
        for (drawer* const each : {r.inner, outer}) {
          each->numbers.reserve(2 * count);
          each->names.reserve(2 * count);
          each->text = std::string(count, 'a').c_str();
          each->plain = 7;
          for (std::uint64_t n = 0; n < count; ++n) {
            each->numbers.push_back(n);
            each->names.push_back(tenure::string("a name that is too long to lie in the string itself"));
            each->ordered[n] = n;
            each->hashed[n] = n;
          }
        }
      });
    });
  }

  // Without new memory, which a cache has none of.
  static void change(drawer& s, std::uint64_t by) {
    s.numbers.push_back(by);
    s.numbers.erase(s.numbers.begin() + 3);
    s.names.pop_back();
    s.names.front() = "short";
    s.ordered.erase(by % count);
    s.ordered.find(50)->second = by;
    s.hashed.erase(by % count);
    s.text.erase(0, 1);
    s.text.append("b");
    s.field = by;
    tenure::change(s.plain) = by;
  }
  static void expect_changed(const drawer& s, std::uint64_t by) {
    EXPECT_EQ(s.numbers.size(), count);
    EXPECT_EQ(s.numbers.back(), by);
    EXPECT_EQ(s.numbers[3], 4u);
    EXPECT_EQ(s.names.size(), count - 1);
    EXPECT_EQ(s.names.front(), "short");
    EXPECT_EQ(s.ordered.size(), count - 1);
    EXPECT_FALSE(s.ordered.contains(by % count));
    EXPECT_FALSE(s.hashed.contains(by % count));
    EXPECT_EQ(s.text.back(), 'b');
    EXPECT_EQ(s.field, by);
    EXPECT_EQ(s.plain, by);
  }
  static void expect_as_made(const drawer& s) {
    ASSERT_EQ(s.numbers.size(), count);
    ASSERT_EQ(s.names.size(), count);
    for (std::uint64_t n = 0; n < count; ++n) {
      EXPECT_EQ(s.numbers[n], n);
      EXPECT_GT(s.names[n].size(), 40u);
      ASSERT_TRUE(s.ordered.contains(n));
      EXPECT_EQ(s.ordered.find(n)->second, n);
      ASSERT_TRUE(s.hashed.contains(n));
    }
    EXPECT_EQ(s.text, std::string(count, 'a').c_str());
    EXPECT_EQ(s.field, 0u);
    EXPECT_EQ(s.plain, 7u);
  }
};

// [cache.commit.difference]
TEST_F(changed_containers, are_committed_or_put_back) {
  make_filled();
  for (const auto mode : {cache::concurrency::one_writer, cache::concurrency::object_locks}) {
    SCOPED_TRACE(static_cast<int>(mode));
    auto& s = open({.transactions = mode});
    const std::uint64_t by = 20 + static_cast<std::uint64_t>(mode);
    {
      auto tx = s.begin();
      change(s.root<cabinet>("cabinet")->outer.change(), by);
      change(*s.root<cabinet>("cabinet").change().inner, by);
      tx.abort();
    }
    s.read([&] {
      expect_as_made(*s.root<cabinet>("cabinet")->outer);
      expect_as_made(*s.root<cabinet>("cabinet")->inner);
    });
    close();
  }
  auto& s = open();
  s.transact([&] {
    change(s.root<cabinet>("cabinet")->outer.change(), 30);
    change(*s.root<cabinet>("cabinet")->inner, 30);  // that of a constant object: containers announce it all the same
  });
  s.read([&] { expect_changed(*s.root<cabinet>("cabinet")->outer, 30); });
  close();
  look([&](store& mapped) {
    expect_changed(*mapped.root<cabinet>("cabinet").outer, 30);
    expect_changed(*mapped.root<cabinet>("cabinet").inner, 30);
  });
}

// The room of the cache is no limit for what containers announce: they could not say so.
TEST_F(changed_containers, need_no_room_for_old_values) {
  make_filled();
  // As little as there can be for the object with all that it points to.
  const auto is_enough = [&](std::uint64_t bytes) {
    try {
      open({.object_bytes = bytes}).transact([&] { (void)opened->root<cabinet>("cabinet")->outer.change(); });
      return true;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::cache_full) << e.what();
      return false;
    }
  };
  std::uint64_t bytes = 20'000;
  while (!is_enough(bytes) && !HasFailure()) {
    opened.reset();
    bytes += 100;
  }
  auto& s = *opened;
  s.transact([&] {
    drawer& outer = s.root<cabinet>("cabinet")->outer.change();
    for (std::uint64_t n = 0; n < count; ++n) {
      outer.names[n] = "n";
      outer.ordered.erase(n);
    }
  });
  s.check();
  close();
  look([&](store& mapped) {
    EXPECT_TRUE(mapped.root<cabinet>("cabinet").outer->ordered.empty());
    EXPECT_EQ(mapped.root<cabinet>("cabinet").outer->names.back(), "n");
  });
}

// Without change() there is no lock: a container gets it if it is free, and otherwise there is no commit.
TEST_F(changed_containers, of_which_others_have_locks) {
  make_filled();
  auto& s = open({.transactions = cache::concurrency::object_locks});
  const auto numbers = [&]() -> auto& {
    return const_cast<tenure::vector<std::uint64_t>&>(s.root<cabinet>("cabinet")->outer->numbers);
  };
  s.transact([&] { numbers().pop_back(); });
  {
    const auto reading = s.begin_read();
    EXPECT_EQ(numbers().size(), count - 1);
    std::thread([&] {
      auto tx = s.begin();
      numbers().pop_back();
      expect_error(errc::bad_transaction, {"drawer", "change()"}, [&] { tx.commit(); });
      tx.abort();
    }).join();
  }
  close();
  look([](store& mapped) { EXPECT_EQ(mapped.root<cabinet>("cabinet").outer->numbers.size(), count - 1); });
}

struct late {
  std::uint64_t value = 0;
  ~late() { tenure::change(value) = 1; }
};

// What a thread destroys last announces itself when its list of transactions is gone, with one that was left on it.
TEST_F(changed_containers, may_live_longer_than_their_threads_transactions) {
  make_filled();
  auto& s = open();
  std::optional<cache::transaction> left;
  std::thread([&] {
    thread_local late last;
    last.value = 2;
    left.emplace(s.begin());
  }).join();
  left.reset();
  s.transact([&] { s.root<cabinet>("cabinet")->outer.change().plain = 8; });
}

}  // namespace
