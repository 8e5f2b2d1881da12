// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects without headers, in pages of one type and size.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "objects/database_set.hpp"
#include "support/expect_error.hpp"
#include "support/temp_dir.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace typed_pages_test {

struct node {
  node* next;
  std::uint64_t number;
};
struct triple {
  std::int32_t x, y, z;
};
struct other {
  other* next;
  std::uint64_t numbers[3];
};
struct odd {
  char bytes[13];
};
struct alignas(64) aligned {
  aligned* next;
  char bytes[50];
};
struct alignas(128) widely_aligned {
  char bytes[128];
};
class unknown {
 public:
  unknown() : words_{} {}
  [[nodiscard]] std::array<const void*, 8>& words() { return words_; }

 private:
  std::array<const void*, 8> words_;
};
struct three_words {
  std::uint64_t words[3];
};
struct six_words {
  std::uint64_t words[6];
};
struct cached {
  cached* next;
  long number;
  transient<long> remembered;
};
struct wasteful {
  char bytes[1500];
};
struct page_of_one {
  char bytes[4088];
};
struct holder {
  node* nodes;
  triple* triples;
  other* others;
  tenure::vector<node*> all;
  tenure::vector<triple*> corners;
};

namespace {

heap::object_facts facts_of(const void* object) { return open_set_with(object)->at(object)->describe(object); }
bool has_header(const void* object) { return facts_of(object).begin != reinterpret_cast<heap::address>(object); }
std::uint64_t page_of(const void* object) { return reinterpret_cast<std::uint64_t>(object) / heap::typed_page_size; }

class typed_pages : public reopened_store {
 protected:
  typed_pages() {
    opened.reset();
    std::filesystem::remove_all(path);
    how.tune.typed_from = 0;
    open();
  }
  holder& root() { return s().root<holder>("holder"); }
  // Makes nodes that are reachable, and returns them in the order in which they were made.
  std::vector<node*> make_nodes(std::uint64_t count) {
    std::vector<node*> made;
    s().transact([&] {
      for (std::uint64_t n = 0; n < count; ++n) {
        made.push_back(s().make<node>(node{root().nodes, n}));
        root().nodes = made.back();
      }
    });
    return made;
  }
};

}  // namespace

TEST(page_word, says_what_it_was_made_of) {
  for (std::uint64_t size = 12; size <= heap::typed_page_size - 4; size += 4) {
    const heap::page_word page(heap::most_types - 1, size, size % 8 == 0);
    EXPECT_TRUE(page.is_typed() && page.is_sound());
    EXPECT_EQ(page.type(), heap::most_types - 1);
    EXPECT_EQ(page.size(), size);
    EXPECT_EQ(page.is_pointer_free(), size % 8 == 0);
    EXPECT_EQ(page.stride() % 8, 0U);
    EXPECT_GE(page.stride(), std::max<std::uint64_t>(size, heap::granule));
    EXPECT_LT(page.stride(), size + 8);
  }
  EXPECT_FALSE(heap::page_word().is_typed());
  EXPECT_FALSE(heap::page_word::suits(8, 8)) << "a header costs nothing";
  EXPECT_FALSE(heap::page_word::suits(13, 1));
  EXPECT_FALSE(heap::page_word::suits(heap::typed_page_size, 8));
}

TEST_F(typed_pages, have_objects_one_behind_the_other) {
  const std::vector<node*> nodes = make_nodes(1000);
  for (std::size_t n = 1; n < nodes.size(); ++n) {
    EXPECT_FALSE(has_header(nodes[n]));
    if (page_of(nodes[n]) == page_of(nodes[n - 1])) {
      EXPECT_EQ(nodes[n], nodes[n - 1] + 1);
    }
  }
  std::set<std::uint64_t> pages;
  for (const node* const each : nodes) pages.insert(page_of(each));
  EXPECT_EQ(pages.size(), (1000 * sizeof(node) + heap::typed_page_size - 1) / heap::typed_page_size);
  EXPECT_EQ(*pages.rbegin() - *pages.begin(), pages.size() - 1) << "pages that are needed together lie together";
}

TEST_F(typed_pages, are_of_types_with_one_exact_size) {
  s().transact([&] {
    EXPECT_FALSE(has_header(s().make<triple>()));
    EXPECT_FALSE(has_header(s().make<aligned>()));
    EXPECT_FALSE(has_header(s().make<page_of_one>()));
    EXPECT_TRUE(has_header(s().make<odd>()));
    EXPECT_TRUE(has_header(s().make<widely_aligned>()));
    EXPECT_TRUE(has_header(s().make<wasteful>()));
    EXPECT_TRUE(has_header(s().make<std::uint64_t>()));
    const auto array = [&](std::size_t count) {
      auto* const made = s().make<tenure::vector<node*>>();
      made->resize(count);
      return &made->front();
    };
    EXPECT_FALSE(has_header(array(3)));
    EXPECT_EQ(facts_of(array(4)).size, 32U);
    EXPECT_FALSE(has_header(array(32)));
    EXPECT_TRUE(has_header(array(33))) << "of more than 256 bytes";
    auto* const text = s().make<tenure::string>("a text that is too long to lie in the string itself");
    EXPECT_TRUE(has_header(text->data()));
    const triple* const first = s().make<triple>();
    EXPECT_EQ(facts_of(first).size, sizeof(triple));
    EXPECT_EQ(facts_of(first).end - facts_of(first).begin, 16U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(s().make<aligned>()) % 64, 0U);
  });
}

// So few objects of a type leave no page mostly empty.
TEST_F(typed_pages, begin_when_there_are_enough_objects) {
  how.tune.typed_from = 4096;
  reopen();
  const std::vector<node*> nodes = make_nodes(300);
  for (std::size_t n = 0; n < nodes.size(); ++n) EXPECT_EQ(has_header(nodes[n]), n < 256) << n;
  // An abort takes back that there were enough.
  transaction tx = s().begin();
  for (int n = 0; n < 300; ++n) (void)s().make<other>();
  tx.abort();
  s().transact([&] { EXPECT_TRUE(has_header(s().make<other>())); });
}

TEST_F(typed_pages, are_found_from_addresses_inside) {
  const std::vector<node*> nodes = make_nodes(600);
  const database_state& in = *open_set_with(nodes[0])->at(nodes[0]);
  for (const node* const each : nodes)
    for (std::size_t n = 0; n < sizeof(node); n += 5)
      EXPECT_EQ(in.find(reinterpret_cast<const char*>(each) + n).at, reinterpret_cast<heap::address>(each));
  EXPECT_FALSE(in.find(nodes.back() + 1)) << "a free slot";
  reopen();
  std::uint64_t left = 600;
  for (const node* each = root().nodes; each != nullptr; each = each->next) EXPECT_EQ(each->number, --left);
}

// A damaged store may say that an object starts there.
TEST_F(typed_pages, have_no_object_that_reaches_beyond_the_page) {
  s().transact([&] {
    const auto expect_none_behind = [](const void* made) {
      const auto at = reinterpret_cast<heap::address>(made);
      const heap::block_map& map = *open_set_with(made)->at(made)->map;
      const std::uint64_t block = map.block_of(at);
      heap::transient_block* const in = map.find_transient_block(block);
      ASSERT_NE(in, nullptr);
      const heap::address page = at - at % heap::typed_page_size;
      const heap::page_word word = in->pages[(page - map.start_of(block)) / heap::typed_page_size];
      const heap::address behind = page + word.slots() * word.stride();
      ASSERT_NE(behind % heap::typed_page_size, 0U);
      const std::uint64_t bit = (behind - map.start_of(block)) / heap::granule;
      in->starts.set(bit);
      EXPECT_FALSE(map.find(behind)) << word.stride();
      in->starts.reset(bit);
    };
    expect_none_behind(s().make<six_words>());
    expect_none_behind(s().make<three_words>());
  });
}

TEST_F(typed_pages, get_new_objects_where_old_ones_were) {
  std::vector<node*> nodes = make_nodes(4000);
  s().transact([&] {
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (n % 4 == 3)
        root().all.push_back(nodes[n]);
      else
        s().destroy(nodes[n]);
    }
    root().nodes = nullptr;
    for (node* const kept : root().all) kept->next = nullptr;
  });
  for (const bool again : {false, true}) {
    std::set<std::uint64_t> pages;
    for (const node* const kept : root().all) pages.insert(page_of(kept));
    std::size_t there = 0;
    s().transact([&] {
      for (int n = 0; n < 1000; ++n) {
        node* const made = s().make<node>(node{nullptr, 77});
        root().all.push_back(made);
        there += pages.contains(page_of(made));
      }
    });
    EXPECT_GT(there, 700U);
    reopen();
    EXPECT_EQ(root().all.size(), again ? 3000U : 2000U);
    for (std::size_t n = 0; n < root().all.size(); ++n) EXPECT_EQ(root().all[n]->number, n < 1000 ? 4 * n + 3 : 77);
  }
}

// Pages whose objects are all new are written as a whole, the others by object.
TEST_F(typed_pages, written_past_the_log_have_neither_garbage_nor_transient_fields) {
  how.tune.bulk = 0;
  reopen();
  constexpr std::uint64_t count = 3000, to_clean = 0x5544332211;
  for (const bool is_full : {true, false})
    s().transact([&] {
      auto& first = s().root<cached*>(is_full ? "full" : "half");
      auto& numbered = s().root<node*>(is_full ? "nodes" : "half of the nodes");
      for (std::uint64_t n = 0; n < count; ++n) {
        auto* const made = s().make<cached>(cached{first, static_cast<long>(n), static_cast<long>(to_clean)});
        auto* const plain = s().make<node>(node{numbered, is_full || n % 2 != 0 ? n : to_clean});
        if (!is_full && n % 2 == 0) continue;
        first = made;
        numbered = plain;
      }
    });
  EXPECT_GT(s().stats().bulk_bytes, count * sizeof(cached));
  EXPECT_EQ(s().root<cached*>("full")->remembered, static_cast<long>(to_clean)) << "a commit does not take it away";
  s().flush();
  for (const char* file : {"/log", "/main.db"})
    EXPECT_EQ(contents_of(path + file).find("\x44\x33\x22"), std::string::npos) << file;
  reopen();
  for (const bool is_full : {true, false}) {
    std::uint64_t n = count, left = is_full ? count : count / 2;
    const node* plain = s().root<node*>(is_full ? "nodes" : "half of the nodes");
    for (const cached* at = s().root<cached*>(is_full ? "full" : "half"); at != nullptr; at = at->next, --left) {
      n -= is_full || left == count / 2 ? 1 : 2;
      ASSERT_EQ(at->number, static_cast<long>(n));
      ASSERT_EQ(at->remembered, 0);
      ASSERT_EQ(plain->number, n);
      plain = plain->next;
    }
    EXPECT_EQ(left, 0U);
    EXPECT_EQ(plain, nullptr);
  }
  EXPECT_EQ(s().verify(), std::vector<std::string>());
}

// Not before the commit: an abort brings the old objects back.
TEST_F(typed_pages, change_their_type_when_they_are_empty) {
  const std::vector<node*> nodes = make_nodes(4000);
  std::set<std::uint64_t> pages;
  for (const node* const each : nodes) pages.insert(page_of(each));
  const auto destroy_all = [&] {
    for (node* each = root().nodes; each != nullptr;) {
      node* const next = each->next;
      s().destroy(each);
      each = next;
    }
    root().nodes = nullptr;
  };
  const auto make_others = [&] {
    std::size_t there = 0;
    for (int n = 0; n < 1500; ++n) {
      root().others = s().make<other>(other{root().others, {1, 2, 3}});
      there += pages.contains(page_of(root().others));
    }
    return there;
  };
  {
    transaction tx = s().begin();
    destroy_all();
    EXPECT_EQ(make_others(), 0U);
    tx.abort();
  }
  std::uint64_t left = 4000;
  for (const node* each = root().nodes; each != nullptr; each = each->next) EXPECT_EQ(each->number, --left);
  EXPECT_EQ(left, 0U);
  s().transact(destroy_all);
  reopen();
  s().transact([&] { EXPECT_GT(make_others(), 700U); });
  reopen();
  std::size_t count = 0;
  for (const other* each = root().others; each != nullptr; each = each->next, ++count) EXPECT_EQ(each->numbers[2], 3U);
  EXPECT_EQ(count, 1500U);
}

TEST_F(typed_pages, that_an_abort_has_taken_back_are_used_again) {
  (void)make_nodes(100);
  const node* last = nullptr;
  for (int n = 0; n < 50; ++n) {
    transaction tx = s().begin();
    for (int each = 0; each < 1000; ++each) (void)s().make<triple>(triple{1, 2, 3});
    const node* const made = s().make<node>(node{root().nodes, 5});
    EXPECT_TRUE(last == nullptr || made == last);
    last = made;
    tx.abort();
    expect_invariants(s());
  }
  transaction tx = s().begin();
  const triple* const made = s().make<triple>();
  EXPECT_EQ(made->x, 0);
  tx.commit();
}

// A word of which it is not known whether it is a pointer may point one past the end of what is meant.
TEST_F(typed_pages, keep_the_object_before_an_ambiguous_end) {
  auto& words = s().root<unknown>("unknown");
  const triple* meant = nullptr;
  s().transact([&] {
    triple* made[3];
    for (int n = 0; n < 3; ++n) made[n] = s().make<triple>(triple{n, n, n});
    EXPECT_EQ(reinterpret_cast<char*>(made[2]) - reinterpret_cast<char*>(made[0]), 32);
    meant = made[0];
    words.words()[1] = reinterpret_cast<char*>(made[0]) + 16;
  });
  EXPECT_TRUE(type_of<unknown>().is_conservative && s().is_persistent(meant));
  reopen();
}

TEST_F(typed_pages, of_several_threads_are_their_own) {
  (void)make_nodes(10);
  std::vector<node*> made[2];
  {
    transaction tx = s().begin();
    std::thread thread([&] {
      for (std::uint64_t n = 0; n < 3000; ++n) made[1].push_back(s().make<node>(node{nullptr, n}));
    });
    for (std::uint64_t n = 0; n < 3000; ++n) made[0].push_back(s().make<node>(node{nullptr, n}));
    thread.join();
    std::set<std::uint64_t> pages;
    for (const node* const each : made[0]) pages.insert(page_of(each));
    EXPECT_TRUE(std::ranges::none_of(made[1], [&](const node* each) { return pages.contains(page_of(each)); }));
    tx.abort();
  }
  s().transact([&] {
    for (node* const each : made[1]) {
      each->next = root().nodes;
      root().nodes = each;
    }
  });
  reopen();
  std::uint64_t left = 3000;
  for (const node* each = root().nodes; left != 0; each = each->next) ASSERT_EQ(each->number, --left);
}

// Threads that find the lock of births taken make objects in lanes from then on, and free them, while another one commits and
// aborts. Objects never share a slot, and those of different threads never a page.
TEST_F(typed_pages, of_threads_that_meet_come_from_lanes) {
  (void)make_nodes(10);
  heap::birth& birth = *open_set_with(root().nodes)->at(root().nodes)->birth;
  constexpr unsigned threads = 4;
  std::vector<node*> made[threads];
  std::atomic<bool> met{false};  // each has a lane
  std::atomic<bool> done{false};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      while (!met) s().make<node>(node{nullptr, 0});
      for (std::uint64_t n = 0; !done; ++n) {
        tenure::vector<node*> freed;  // arrays in lanes, too
        for (std::uint64_t k = n % 5; k != 0; --k) freed.push_back(nullptr);
        if (n < 20'000)
          made[t].push_back(s().make<node>(node{nullptr, n}));
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  for (unsigned lanes = 0; lanes < threads;)
    birth.with_lock([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      lanes = birth.lanes();
    });
  met = true;
  for (int n = 0; n < 100; ++n) {
    transaction tx = s().begin();
    root().nodes = s().make<node>(node{root().nodes, static_cast<std::uint64_t>(10 + n / 2)});
    if (n % 2 == 0)
      tx.abort();
    else
      tx.commit(commit_mode::lazy);
    expect_invariants(s());
  }
  done = true;
  for (auto& each : all) each.join();
  std::set<std::uint64_t> pages;
  for (const auto& of : made) {
    std::set<std::uint64_t> own;
    for (std::uint64_t n = 0; n < of.size(); ++n) {
      ASSERT_EQ(of[n]->number, n);
      own.insert(page_of(of[n]));
    }
    EXPECT_EQ(std::set<const node*>(of.begin(), of.end()).size(), of.size());
    const std::size_t before = pages.size();
    pages.insert(own.begin(), own.end());
    EXPECT_EQ(before + own.size(), pages.size());
  }
  expect_sound(s());
  s().transact([&] {
    for (const auto& of : made)
      for (node* const each : of) {
        each->next = root().nodes;
        root().nodes = each;
      }
  });
  reopen();
  const node* at = root().nodes;
  for (unsigned t = threads; t-- > 0;)
    for (std::uint64_t left = made[t].size(); left != 0; at = at->next) ASSERT_EQ(at->number, --left);
  for (std::uint64_t left = 60; left != 0; at = at->next) ASSERT_EQ(at->number, --left);
  EXPECT_EQ(at, nullptr);
}

// The pages of the bookkeeping stay open while transactions make objects: a stray write there meets no trap. It is taken back.
TEST_F(typed_pages, bookkeeping_takes_no_stray_writes) {
  for (int n = 0; n < 20; ++n) (void)make_nodes(1);
  const node* const last = root().nodes;
  const database_state& in = *open_set_with(last)->at(last);
  const heap::record_view record = in.map->record(in.map->block_of(reinterpret_cast<heap::address>(last)));
  const heap::page_words right = record.pages;
  {
    transaction tx = s().begin();
    root().nodes = s().make<node>(node{root().nodes, 20});
    record.pages[7] = heap::page_word(1, 400, true);
    tx.commit();
  }
  EXPECT_EQ(record.pages, right) << "written inside of a transaction";
  record.pages[7] = heap::page_word(1, 400, true);
  expect_error(errc::stray_write, {"main.db"}, [&] { (void)s().begin(); });
  EXPECT_EQ(record.pages, right) << "written outside";
  (void)make_nodes(1);
  reopen();
  EXPECT_EQ(root().nodes->next->number, 20U);
}

// As a dangling pointer does whose slot was used again.
TEST_F(typed_pages, references_to_objects_of_other_types_are_found) {
  other* wrong = nullptr;
  s().transact([&] {
    wrong = root().others = s().make<other>();
    root().nodes = s().make<node>();
    root().triples = s().make<triple>();
  });
  expect_sound(s());
  node* const right = root().nodes;
  const auto refer_to = [&](void* to) {
    s().transact([&] { root().nodes = static_cast<node*>(to); });
    return s().verify();
  };
  for (const auto& [to, text] : {std::pair<void*, std::string>(wrong, "refers to typed_pages_test::other at"),
                                 {root().triples, "refers to typed_pages_test::triple at"},
                                 {&right->number, "refers to byte 8 of typed_pages_test::node at"}}) {
    const std::vector<std::string> found = refer_to(to);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_NE(found[0].find("holder at"), std::string::npos) << found[0];
    EXPECT_NE(found[0].find(".nodes is a typed_pages_test::node*, but " + text), std::string::npos) << found[0];
  }
  EXPECT_TRUE(refer_to(right).empty());
}

}  // namespace typed_pages_test
