// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Persistence by reachability: what gets to the disk and what does not.
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/tenure.hpp>

#include "objects/format.hpp"
#include "support/expect_error.hpp"
#include "support/temp_dir.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace reachability_types {

struct marked {
  char text[48];
  marked* next;
};
struct holder {
  marked* one;
  void* anything;
  const char* text;
};
struct large {
  char bytes[1 << 20];
};
struct huge {
  char bytes[70 << 20];
};
struct large_ones {
  huge* one;
  tenure::vector<large*> many;
};
struct piece {
  char bytes[8000];
};
struct crumb {
  char bytes[500];
};
struct pieces {
  huge* one;
  tenure::vector<piece*> all;
  tenure::vector<crumb*> crumbs;
};
struct buffer {
  char bytes[100000];
  buffer* next;
};
struct alignas(256) aligned {
  long value;
  aligned* next;
};
// Places that keep the bytes of an old reference.
struct stale_places {
  buffer* plain;
  std::optional<buffer*> maybe;
  std::variant<long, buffer*> one_of;
  std::vector<buffer*, tenure::allocator<buffer*>> foreign;
  tenure::vector<buffer*> own;
};
struct many_words {
  buffer* all[100000];
  std::optional<buffer*> maybe[1000];
};
struct with_transient {
  long kept;
  transient<long> cached;
  with_transient* next;
};

constexpr char marker[] = "UNREACHABLE-OBJECTS-STAY-OFF-THE-DISK";

marked filled() {
  marked m{};
  std::memcpy(m.text, marker, sizeof marker);
  return m;
}

}  // namespace reachability_types
using namespace reachability_types;

class reachability : public reopened_store {
 protected:
  void expect_no_marker() {
    for (const char* file : {"/log", "/main.db"})
      EXPECT_EQ(contents_of(path + file).find(marker), std::string::npos) << file;
  }
  // Another store, for objects of many MiB.
  void open_with_room() {
    how.create.reservation = std::uint64_t{1} << 29;
    how.create.home = next_home(how.create.reservation);
    opened.reset();
    path = dir / ("roomy" + std::to_string(how.create.home));
    open();
  }
};

// [heap.bytes.reachable-only]
TEST_F(reachability, one_among_many_unreachable_ones_is_all_that_is_written) {
  holder& root = s().root<holder>("holder");
  const auto before = s().stats();
  std::vector<marked*> garbage;
  s().transact([&] {
    for (int i = 0; i < 999; ++i) {
      garbage.push_back(s().make<marked>(filled()));
      if (i == 500) {
        root.one = s().make<marked>();
        std::strcpy(root.one->text, "reachable");
      }
    }
  });
  const auto after = s().stats();
  EXPECT_EQ(after.objects_stabilized - before.objects_stabilized, 1u + 2u + 5u)
      << "the object, and what describes its type";
  for (const marked* m : garbage) {
    EXPECT_STREQ(m->text, marker) << "unreachable objects stay valid";
    EXPECT_FALSE(s().is_persistent(m));
  }
  EXPECT_TRUE(s().is_persistent(root.one));
  expect_no_marker();
  s().transact([&] { garbage[0]->text[0] = 'u'; });
  reopen();
  expect_no_marker();
  EXPECT_STREQ(s().root<holder>("holder").one->text, "reachable");
}

TEST_F(reachability, the_log_gets_little_more_than_what_is_reachable) {
  holder& root = s().root<holder>("holder");
  s().transact([&] { root.one = s().make<marked>(); });  // its type is known from here on
  const auto log_of = [&](int reachable) {
    const auto before = s().stats();
    s().transact([&] {
      for (int i = 0; i < 999; ++i) {
        auto* const m = s().make<marked>(filled());
        if (i < reachable) {
          m->next = root.one;
          root.one = m;
        }
      }
    });
    const auto after = s().stats();
    const std::uint64_t bytes = after.bytes_stabilized - before.bytes_stabilized;
    EXPECT_GE(bytes, static_cast<std::uint64_t>(reachable) * sizeof(marked));
    EXPECT_LE(bytes, static_cast<std::uint64_t>(reachable) * (sizeof(marked) + 8));
    const std::uint64_t logged = after.memory.bytes_logged - before.memory.bytes_logged;
    const std::uint64_t ranges = after.memory.ranges_logged - before.memory.ranges_logged;
    EXPECT_LE(static_cast<double>(logged + 24 * ranges), 1.2 * static_cast<double>(bytes) + 200)
        << reachable << " reachable";
  };
  for (const int reachable : {1, 10, 100, 999}) log_of(reachable);
}

TEST_F(reachability, later_attachment_is_enough) {
  holder& root = s().root<holder>("holder");
  marked* kept = nullptr;
  s().transact([&] { kept = s().make<marked>(filled()); });
  EXPECT_FALSE(s().is_persistent(kept));
  expect_no_marker();
  kept->text[0] = 'u';  // transient objects may be changed at any time
  s().transact([&] { root.one = kept; });
  EXPECT_TRUE(s().is_persistent(kept));
  reopen();
  EXPECT_STREQ(s().root<holder>("holder").one->text, std::string(marker).replace(0, 1, "u").c_str());
}

TEST_F(reachability, through_pointers_into_objects) {
  holder& root = s().root<holder>("holder");
  s().transact([&] {
    auto* const m = s().make<marked>();
    std::strcpy(m->text, "inside");
    root.text = m->text + 2;
    root.anything = &m->next;
  });
  reopen();
  EXPECT_STREQ(s().root<holder>("holder").text, "side");
}

TEST_F(reachability, long_chains_and_cycles) {
  holder& root = s().root<holder>("holder");
  s().transact([&] {
    marked* last = nullptr;
    for (int i = 0; i < 100000; ++i) {
      auto* const m = s().make<marked>();
      m->next = root.one;
      root.one = m;
      if (last == nullptr) last = m;
    }
    last->next = root.one;
  });
  reopen();
  const marked* at = s().root<holder>("holder").one;
  int steps = 0;
  do at = at->next;
  while (++steps < 200000 && at != s().root<holder>("holder").one);
  EXPECT_EQ(steps, 100000);
}

TEST_F(reachability, objects_of_all_sizes) {
  buffer& root = s().root<buffer>("buffers");
  for (int round = 0; round < 5; ++round)
    s().transact([&] {
      auto* const b = s().make<buffer>();
      std::memset(b->bytes, 'a' + round, sizeof b->bytes);
      b->next = root.next;
      root.next = b;
      (void)s().make<buffer>();  // garbage between
    });
  aligned& first = s().root<aligned>("aligned");
  s().transact([&] {
    for (aligned* at = &first; at->value < 100; at = at->next) {
      at->next = s().make<aligned>();
      at->next->value = at->value + 1;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at->next) % 256, 0u);
    }
  });
  reopen();
  int round = 4;
  for (const buffer* b = s().root<buffer>("buffers").next; b != nullptr; b = b->next, --round)
    EXPECT_TRUE(std::ranges::all_of(b->bytes, [&](char c) { return c == 'a' + round; }));
  EXPECT_EQ(round, -1);
}

// [heap.space.after-commit]
TEST_F(reachability, destroyed_memory_is_used_again_after_the_commit) {
  buffer& root = s().root<buffer>("buffers");
  s().transact([&] { root.next = s().make<buffer>(); });
  buffer* const old = root.next;
  s().transact([&] {
    s().destroy(root.next);
    root.next = s().make<buffer>();
    EXPECT_NE(root.next, old) << "what is destroyed in a transaction could come back";
  });
  EXPECT_FALSE(s().is_persistent(old));
  s().transact([&] {
    s().destroy(root.next);
    root.next = s().make<buffer>();
  });
  EXPECT_EQ(root.next, old);
  const auto size = s().stats();
  for (int i = 0; i < 1000; ++i)
    s().transact(
        [&] {
          s().destroy(root.next);
          root.next = s().make<buffer>();
        },
        commit_mode::lazy);
  EXPECT_EQ(s().stats().objects_destroyed - size.objects_destroyed, 1000u);
  reopen();
}

// [heap.reference.unchanged] [heap.reference.guards]
TEST_F(reachability, a_new_object_at_an_old_address_is_found) {
  stale_places& in = s().root<stale_places>("places");
  struct place {
    const char* name;
    std::function<void(buffer*)> put;
    std::function<void()> take;
    std::function<buffer*()> get;
  };
  const place places[] = {
      {"plain", [&](buffer* b) { in.plain = b; }, [] {}, [&] { return in.plain; }},
      {"optional", [&](buffer* b) { in.maybe = b; }, [&] { in.maybe.reset(); }, [&] { return *in.maybe; }},
      {"variant", [&](buffer* b) { in.one_of = b; },
       [&] { in.one_of = static_cast<long>(reinterpret_cast<std::uintptr_t>(std::get<1>(in.one_of))); },
       [&] { return std::get<1>(in.one_of); }},
      {"std::vector", [&](buffer* b) { in.foreign.push_back(b); }, [&] { in.foreign.pop_back(); },
       [&] { return in.foreign.back(); }},
      {"tenure::vector", [&](buffer* b) { in.own.push_back(b); }, [&] { in.own.pop_back(); },
       [&] { return in.own.back(); }},
  };
  how.check_destroyed = destroy_check::never;  // "plain" refers to nothing between two transactions
  reopen();
  for (const place& p : places) {
    buffer* old = nullptr;
    s().transact([&] { p.put(old = s().make<buffer>()); });
    s().transact([&] {
      s().destroy(old);
      p.take();
    });
    s().transact([&] {
      buffer* const fresh = s().make<buffer>();
      EXPECT_EQ(fresh, old) << p.name << ": otherwise this shows nothing";
      fresh->bytes[7] = 'x';
      p.put(fresh);
    });
    EXPECT_TRUE(s().is_persistent(p.get())) << p.name;
    reopen();
    EXPECT_EQ(p.get()->bytes[7], 'x') << p.name;
  }
}

// A container that grows twice in a transaction has made and freed an array.
TEST_F(reachability, what_a_transaction_makes_and_destroys_is_not_found_at_an_old_address) {
  stale_places& in = s().root<stale_places>("places");
  buffer *old = nullptr, *other = nullptr;
  s().transact([&] {
    in.foreign.push_back(old = s().make<buffer>());
    in.plain = other = s().make<buffer>();
  });
  s().transact([&] {
    s().destroy(std::exchange(in.plain, nullptr));
    s().destroy(old);
    in.foreign.pop_back();
  });
  s().transact([&] {
    const std::set<buffer*> made{s().make<buffer>(), s().make<buffer>()};
    EXPECT_EQ(made, (std::set<buffer*>{old, other})) << "otherwise this shows nothing";
    in.foreign.push_back(old);
    in.foreign.pop_back();
    s().destroy(old);
  });
  EXPECT_FALSE(s().is_persistent(old));
}

// [heap.reference.guards]
TEST_F(reachability, an_optional_that_is_engaged_again_refers_to_its_object) {
  stale_places& in = s().root<stale_places>("places");
  buffer* made = nullptr;
  s().transact([&] {
    made = s().make<buffer>();
    in.maybe = made;
    in.maybe.reset();  // the address stays in its bytes
  });
  EXPECT_FALSE(s().is_persistent(made));
  s().transact([&] { in.maybe = made; });
  EXPECT_TRUE(s().is_persistent(made));
}

// The object is looked at in parts: where its references and their conditions are is searched for.
TEST_F(reachability, references_of_an_object_with_many_are_found_wherever_they_are) {
  many_words& in = s().root<many_words>("many");
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const std::size_t one = random() % std::size(in.all), other = random() % std::size(in.maybe);
    s().transact([&] {
      in.all[one] = s().make<buffer>();
      in.maybe[other] = s().make<buffer>();
    });
    EXPECT_TRUE(s().is_persistent(in.all[one])) << one;
    EXPECT_TRUE(s().is_persistent(*in.maybe[other])) << other;
    buffer* const old = *in.maybe[other];
    s().transact([&] {
      s().destroy(old);
      s().destroy(in.all[one]);
      in.all[one] = nullptr;
      in.maybe[other].reset();
    });
  }
}

// Blocks that were worth filling again, in zones that were emptied and lie within a large object now. Its bytes look like
// the bookkeeping of such blocks.
// The object's bytes look like the bookkeeping of blocks that may be filled: with headers, or with typed pages.
TEST_F(reachability, a_large_object_is_not_filled) {
  for (const heap::block_kind kind : {heap::block_kind::small, heap::block_kind::typed}) {
    how.tune.typed_from = kind == heap::block_kind::typed ? 0 : ~std::uint64_t{0};
    open_with_room();
    pieces& root = s().root<pieces>("pieces");
    s().transact([&] {
      for (int n = 0; n < 40'000; ++n) root.all.push_back(s().make<piece>());
    });
    const auto destroy = [&](std::size_t end, std::size_t but) {
      s().transact([&] {
        for (std::size_t n = 0; n < end; ++n)
          if (root.all[n] != nullptr && n % but != 0) s().destroy(std::exchange(root.all[n], nullptr));
      });
    };
    // One stays in each block; then none, but in the last blocks, which are filled before the others.
    destroy(root.all.size(), 8);
    destroy(39'900, root.all.size());
    s().transact([&] { root.one = s().make<huge>(); });
    const auto pattern = [&](std::size_t n) { return n % 8 == 0 ? static_cast<char>(kind) : '\0'; };
    s().transact([&] {
      for (std::size_t n = 0; n < sizeof(huge); ++n) root.one->bytes[n] = pattern(n);
    });
    s().transact([&] {
      for (int n = 0; n < 10'000; ++n) {
        root.crumbs.push_back(s().make<crumb>());
        std::ranges::fill(root.crumbs.back()->bytes, 'c');
      }
    });
    std::size_t wrong = 0;
    for (std::size_t n = 0; n < sizeof(huge); ++n) wrong += root.one->bytes[n] != pattern(n);
    EXPECT_EQ(wrong, 0u);
    expect_sound(s());
  }
}

// They go on over the bookkeeping of zones, which others use when they are gone, and they where those are gone.
TEST_F(reachability, memory_of_objects_larger_than_a_zone_is_used_again) {
  open_with_room();
  large_ones& root = s().root<large_ones>("large");
  const auto fill = [&](char with) {
    s().transact([&] {
      root.one = s().make<huge>();
      std::fill(std::begin(root.one->bytes), std::end(root.one->bytes), with);
    });
    return root.one;
  };
  const auto remove = [&] { s().transact([&] { s().destroy(std::exchange(root.one, nullptr)); }); };
  // Enough for all that the huge one had; the last of them lie where it had its end.
  const auto many = [&] {
    std::byte* highest = nullptr;
    s().transact([&] {
      for (int n = 0; n < 130; ++n) {
        root.many.push_back(s().make<large>());
        std::fill(std::begin(root.many.back()->bytes), std::end(root.many.back()->bytes), 'l');
        highest = std::max(highest, reinterpret_cast<std::byte*>(root.many.back()));
      }
    });
    expect_sound(s());
    for (const large* const each : root.many) EXPECT_EQ(std::ranges::count(each->bytes, 'l'), std::ssize(each->bytes));
    s().transact([&] {
      for (large* const each : root.many) s().destroy(each);
      root.many.clear();
    });
    expect_sound(s());
    return highest;
  };
  huge* aborted = nullptr;
  {
    transaction tx = s().begin();
    aborted = s().make<huge>();
    std::fill(std::begin(aborted->bytes), std::end(aborted->bytes), 'a');
    tx.abort();
  }
  EXPECT_LT(many(), reinterpret_cast<std::byte*>(aborted + 1) + (64 << 20)) << "memory of the aborted one is used";
  const void* highest = nullptr;
  for (int round = 0; round < 3; ++round) {
    const huge* const first = fill('1');
    expect_sound(s());
    remove();
    expect_sound(s());
    const huge* const second = fill('2');
    EXPECT_EQ(std::ranges::count(second->bytes, '2'), std::ssize(second->bytes));
    remove();
    const void* const top = std::max<const void*>({first, second, many()});
    if (round < 2) highest = std::max(highest, top);  // a small object may have kept a zone from the huge ones
    EXPECT_LE(top, highest) << "round " << round;
    reopen();
  }
}

TEST_F(reachability, an_abort_brings_back_what_was_destroyed) {
  holder& root = s().root<holder>("holder");
  s().transact([&] { root.one = s().make<marked>(filled()); });
  transaction tx = s().begin();
  s().destroy(root.one);
  root.one = nullptr;
  tx.abort();
  EXPECT_STREQ(root.one->text, marker);
  EXPECT_TRUE(s().is_persistent(root.one));
  s().transact([&] {
    s().destroy(root.one);
    expect_error(errc::bad_free, {"destroyed already"}, [&] { s().destroy(root.one); });
    root.one = nullptr;
  });
  marked local{};
  s().transact([&] { expect_error(errc::bad_free, {"no object"}, [&] { s().destroy(&local); }); });
  expect_error(errc::bad_transaction, {"no open write transaction"}, [&] { s().destroy(&root); });
}

TEST_F(reachability, small_objects_fill_the_gaps_of_destroyed_ones) {
  holder& root = s().root<holder>("holder");
  const auto churn = [&] {
    s().transact([&] {
      std::vector<marked*> all;
      for (marked* m = root.one; m != nullptr; m = m->next) all.push_back(m);
      root.one = nullptr;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (i % 4 != 0) {
          s().destroy(all[i]);
        } else {
          all[i]->next = root.one;
          root.one = all[i];
        }
      for (int i = 0; i < 3000; ++i) {
        auto* const m = s().make<marked>();
        m->next = root.one;
        root.one = m;
      }
    });
  };
  for (int i = 0; i < 4; ++i) churn();
  const auto used = [&] { return contents_of(path + "/main.db").size(); };
  reopen();
  const auto before = used();
  for (int i = 0; i < 40; ++i) {
    s().transact([&] {});
    holder& again = s().root<holder>("holder");
    s().transact([&] {
      while (again.one != nullptr) {
        marked* const next = again.one->next;
        s().destroy(again.one);
        again.one = next;
      }
      for (int k = 0; k < 4000; ++k) {
        auto* const m = s().make<marked>();
        m->next = again.one;
        again.one = m;
      }
    });
  }
  reopen();
  EXPECT_LT(used(), before + (8 << 20));
}

TEST_F(reachability, transient_fields_are_zero_in_a_new_process_and_never_written) {
  with_transient& root = s().root<with_transient>("root");
  s().transact([&] {
    root.cached = 5;
    root.next = s().make<with_transient>();
    root.next->kept = 1;
    root.next->cached = 0x5544332211;
  });
  EXPECT_EQ(root.next->cached, 0x5544332211) << "a commit does not take it away";
  s().transact([&] { root.next->cached = 0x5544332212; });
  transaction tx = s().begin();
  root.next->kept = 2;
  root.next->cached = 7;
  tx.abort();
  EXPECT_EQ(root.next->kept, 1);
  EXPECT_EQ(root.next->cached, 0x5544332212) << "an abort gives back what it was at begin";
  s().flush();
  for (const char* file : {"/log", "/main.db"})
    EXPECT_EQ(contents_of(path + file).find("\x44\x33\x22"), std::string::npos) << file;
  reopen();
  const with_transient& again = s().root<with_transient>("root");
  EXPECT_EQ(again.cached, 0);
  EXPECT_EQ(again.next->kept, 1);
  EXPECT_EQ(again.next->cached, 0);
}

// [heap.reference.persistent]
TEST_F(reachability, pointers_out_of_the_store_abort_the_commit_and_name_the_path) {
  holder& root = s().root<holder>("holder");
  marked on_the_stack{};
  const auto in_malloc = std::make_unique<marked>();
  static marked in_static_data{"initialized", nullptr};
  const auto refuse = [&](void* what, const char* where) {
    transaction tx = s().begin();
    root.one = s().make<marked>();
    root.one->next = s().make<marked>();
    root.one->next->next = static_cast<marked*>(what);
    expect_error(errc::cannot_persist, {"root holder", ".one", ".next", where}, [&] { tx.commit(); });
    EXPECT_TRUE(tx.is_open());
    root.one->next->next = nullptr;
    tx.commit();  // the cause is gone
  };
  refuse(&on_the_stack, "the stack");
  refuse(in_malloc.get(), "malloc");
  refuse(&in_static_data, "static data");
  transaction tx = s().begin();
  root.text = "a literal";
  expect_error(errc::cannot_persist, {"root holder", ".text", "static data"}, [&] { tx.commit(); });
  tx.abort();
  EXPECT_EQ(root.text, nullptr);
}

TEST_F(reachability, pointers_to_destroyed_objects_abort_the_commit) {
  holder& root = s().root<holder>("holder");
  s().transact([&] { root.one = s().make<marked>(); });
  transaction tx = s().begin();
  marked* const other = s().make<marked>();
  other->next = root.one;
  s().destroy(root.one);
  root.one = other;
  expect_error(errc::cannot_persist, {"destroyed", ".next"}, [&] { tx.commit(); });
  tx.abort();
}

TEST_F(reachability, statistics_per_type) {
  holder& root = s().root<holder>("holder");
  s().transact([&] { root.one = s().make<marked>(); });
  s().transact([&] {
    for (int i = 0; i < 10; ++i) {
      auto* const m = s().make<marked>();
      m->next = root.one;
      root.one = m;
    }
  });
  const auto stats = s().stats();
  ASSERT_EQ(stats.last_commit.size(), 1u);
  EXPECT_EQ(stats.last_commit[0].type, "reachability_types::marked");
  EXPECT_EQ(stats.last_commit[0].objects, 10u);
  EXPECT_GE(stats.last_commit[0].bytes, 10 * sizeof(marked));
  EXPECT_LE(stats.last_commit[0].bytes, 10 * (sizeof(marked) + 8));
  EXPECT_EQ(stats.conservative_objects, 0u);
}

TEST_F(reachability, large_volumes_go_past_the_log) {
  holder& root = s().root<holder>("holder");
  s().transact([&] {
    for (int i = 0; i < 400000; ++i) {
      auto* const m = s().make<marked>(i % 3 == 0 ? filled() : marked{});
      if (i % 3 == 0) continue;
      m->next = root.one;
      root.one = m;
    }
  });
  EXPECT_GT(s().stats().bulk_bytes, 10u << 20);
  EXPECT_LT(s().stats().memory.log_size, 8u << 20) << "the log need not grow";
  expect_no_marker();
  reopen();
  expect_no_marker();
  std::size_t count = 0;
  for (const marked* m = s().root<holder>("holder").one; m != nullptr; m = m->next) ++count;
  EXPECT_EQ(count, 266666u);
}
