// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers whose order depends on addresses of objects that a collection would like to move: all ways in which keys have these.
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/field.hpp>
#include <tenure/set.hpp>
#include <tenure/tenure.hpp>

#include "heap/collected_store.hpp"
#include "support/rewritten_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace evacuated_keys_test_types {

struct bead {
  std::uint64_t id;
  std::uint64_t words[7];
};
struct pearl {
  std::uint64_t id;
  std::uint64_t words[7];
};
struct renamed_key {
  bead* of;
  friend auto operator<=>(const renamed_key&, const renamed_key&) = default;
};
struct keyed {
  tenure::set<renamed_key> renamed;
  std_set<renamed_key> standard_renamed;
  std_set<tenure::field<bead*>> fields;
};
struct keyed_by_owners {
  std_set<std_vector<pearl*>> vectors;
  std_map<std::pair<std::uint64_t, std_list<pearl*>>, std::uint64_t> lists;
  std_set<std::optional<std_deque<pearl*>>> deques;
  std_set<std_map<std::uint64_t, pearl*>> maps;
};

}  // namespace evacuated_keys_test_types
template <>
struct tenure::persist<evacuated_keys_test_types::renamed_key> {
  static constexpr const char* name = "evacuated_keys_test_types::key_of_another_name";
};
using namespace evacuated_keys_test_types;

namespace {

class evacuating_keys : public reopened_store {
 protected:
  evacuating_keys() {
    how.check_destroyed = destroy_check::always;
    how.tune.refill = 0;  // blocks that were half emptied stay so
    reopen();
  }
  // Returns how many stayed.
  std::uint64_t evacuate() {
    const collect_report done = s().collect({.roots = program_roots::handles,
                                             .quarantine = quarantine::none,
                                             .evacuation = {.enabled = true, .sparse_percent = 90}});
    expect_sound(s());
    return done.pinned;
  }
};

// Each object is in one container only: another one would keep it.
template <class T, class Put>
void make_some_of_many(store& s, Put put) {
  s.transact([&] {
    for (std::uint64_t n = 0; n < 4'000; ++n) {
      T* const made = s.make<T>();
      made->id = n;
      if (n % 8 == 0) put(made);
    }
  });
  (void)s.collect({.roots = program_roots::handles, .quarantine = quarantine::none});
}
template <class Container>
void expect_all_found(const Container& in, std::size_t count) {
  EXPECT_EQ(in.size(), count);
  for (const auto& each : in) EXPECT_TRUE(in.contains(each));
}

TEST_F(evacuating_keys, leaves_keys_whose_types_have_other_names) {
  keyed& r = s().root<keyed>("keyed");
  make_some_of_many<bead>(s(), [&](bead* made) { r.renamed.insert({made}); });
  make_some_of_many<bead>(s(), [&](bead* made) { r.standard_renamed.insert({made}); });
  make_some_of_many<bead>(s(), [&](bead* made) { r.fields.insert(made); });
  EXPECT_GE(evacuate(), 1'000U);
  expect_all_found(r.renamed, 500);
  expect_all_found(r.standard_renamed, 500);
  expect_all_found(r.fields, 500);
}

// They are compared and hashed by what they own.
TEST_F(evacuating_keys, leaves_what_memory_of_keys_refers_to) {
  keyed_by_owners& r = s().root<keyed_by_owners>("keyed");
  make_some_of_many<pearl>(s(), [&](pearl* made) { r.vectors.insert(std_vector<pearl*>(1, made)); });
  make_some_of_many<pearl>(s(), [&](pearl* made) { r.lists[{1, std_list<pearl*>(1, made)}] = made->id; });
  make_some_of_many<pearl>(s(), [&](pearl* made) { r.deques.insert(std_deque<pearl*>(1, made)); });
  make_some_of_many<pearl>(s(), [&](pearl* made) { r.maps.insert(std_map<std::uint64_t, pearl*>{{1, made}}); });
  EXPECT_GE(evacuate(), 1'500U);
  expect_all_found(r.vectors, 500);
  for (const auto& [key, id] : r.lists) EXPECT_TRUE(r.lists.contains(key) && key.second.front()->id == id);
  expect_all_found(r.deques, 500);
  expect_all_found(r.maps, 500);
}

}  // namespace
