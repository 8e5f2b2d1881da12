// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Types: of single objects and defined ones; what changes in images when they change.
#include <vector>

#include "pobj/scenario.hpp"

namespace tenure::pobj {
namespace {

class pobj_types : public pobj_test {
 protected:
  ~pobj_types() override { defined_types::all().by_name.clear(); }
};

struct pair {
  node* first;
  std::uint64_t number;
  node* second;
};
constexpr std::size_t none[] = {POBJ_END};
constexpr std::size_t pair_references[] = {offsetof(pair, first), offsetof(pair, second), POBJ_END};
void* anchor;

TEST_F(pobj_types, lists_that_make_no_sense) {
  start();
  void* const p = pobj_malloc(16);
  const std::size_t odd[] = {4, POBJ_END}, outside[] = {16, POBJ_END};
  expect_failure(POBJ_ETYPE, pobj_ref_typify(p, odd), {"offset 4"});
  expect_failure(POBJ_ERANGE, pobj_ref_typify(p, outside), {"offset 16", "POBJ_END"});
  expect_failure(POBJ_ERANGE, pobj_ref_flag(p, static_cast<char*>(p) + 4), {"offset 4"});
  expect_failure(POBJ_ERANGE, pobj_ref_flag(p, static_cast<char*>(p) + 9), {"do not lie in"});
  EXPECT_OK(pobj_ref_typify(p, nullptr));
  EXPECT_OK(pobj_ref_typify(p, none));
}

TEST_F(pobj_types, flags_word_by_word) {
  start();
  constexpr std::size_t count = 5000;
  auto** const all = static_cast<node**>(pobj_calloc(count, sizeof(node*)));
  EXPECT_OK(pobj_static_set_ref(&anchor, all));
  EXPECT_OK(pobj_start());
  for (std::size_t i = 0; i < count; i += 2) {
    EXPECT_OK(pobj_ref_flag(all, &all[i]));
    EXPECT_OK(pobj_ref_flag(all, &all[i]));
    all[i] = new_node(i);
  }
  EXPECT_OK(pobj_ref_unflag(all, &all[0]));
  EXPECT_OK(pobj_ref_unflag(all, &all[1]));
  EXPECT_OK(pobj_update(all));
  EXPECT_OK(pobj_end());
  EXPECT_EQ(open_store()->types.count(), 3u);  // none, one reference at the beginning, and this
  void* const before = all[0];
  restart();
  auto** const found = static_cast<node**>(anchor);
  EXPECT_EQ(found[0], before);  // no reference: its bytes
  EXPECT_EQ(found[1], nullptr);
  for (std::size_t i = 2; i < count; i += 2) ASSERT_EQ(found[i]->value, i);
}

// [pobj.type.converted]
TEST_F(pobj_types, a_word_that_becomes_a_reference_is_one_in_the_image) {
  start();
  auto* const p = static_cast<pair*>(pobj_malloc(sizeof(pair)));
  *p = {new_node(1), 2, new_node(3)};
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_ref_typify(p, pair_references));  // after the update
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  restart();
  auto* found = static_cast<pair*>(anchor);
  ASSERT_NE(found->first, nullptr);
  EXPECT_EQ(found->first->value, 1u);
  EXPECT_EQ(found->second->value, 3u);
  // And back: then it is the pointer's bytes.
  EXPECT_OK(pobj_ref_unflag(found, &found->first));
  const node* const first = found->first;
  restart();
  found = static_cast<pair*>(anchor);
  EXPECT_EQ(found->first, first);
  EXPECT_EQ(found->second->value, 3u);
}

TEST_F(pobj_types, an_abort_takes_them_back) {
  start();
  auto* const p = static_cast<pair*>(pobj_malloc(sizeof(pair)));
  *p = {new_node(1), 2, new_node(3)};
  EXPECT_OK(pobj_ref_flag(p, &p->first));
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_ref_unflag(p, &p->first));
  EXPECT_OK(pobj_ref_flag(p, &p->second));
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_abort());
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_ref_typify(p, none));
  EXPECT_OK(pobj_abort());
  const node* const second = p->second;
  restart();
  auto* const found = static_cast<pair*>(anchor);
  EXPECT_EQ(found->first->value, 1u);
  EXPECT_EQ(found->second, second);
}

constexpr std::size_t with_transients[] = {8, 16, POBJ_END};  // offset 8, 16 bytes

TEST_F(pobj_types, defined_ones_and_transient_fields) {
  start();
  const pobj_type* const type = pobj_type_define("pair", sizeof(pair), pair_references, with_transients);
  ASSERT_NE(type, nullptr) << pobj_error();
  EXPECT_EQ(pobj_type_define("pair", sizeof(pair), pair_references, with_transients), type);
  auto* const p = static_cast<pair*>(pobj_malloc(3 * sizeof(pair)));  // an array
  EXPECT_OK(pobj_set_type(p, type));
  for (std::uint64_t i = 0; i < 3; ++i) p[i] = {new_node(i), i, new_node(10 + i)};
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  // Neither followed nor brought back by a restore.
  p[1].number = 77;
  p[1].first = nullptr;
  EXPECT_OK(pobj_restore(p));
  EXPECT_EQ(p[1].number, 77u);
  EXPECT_EQ(p[1].first->value, 1u);
  auto* const unmet = static_cast<node*>(pobj_malloc_transient(sizeof(node)));
  p[2].second = unmet;
  EXPECT_OK(pobj_update_recursive(p, POBJ_PERSISTIFY));
  EXPECT_EQ(pobj_is_persistent(unmet), 0);
  expect_failure(POBJ_ETYPE, pobj_ref_flag(p, &p[0].number), {"\"pair\""});
  node* const same = p[0].first;
  EXPECT_OK(pobj_set_ref(p, &p[0].first, same));  // is one already
  expect_failure(POBJ_ETYPE, pobj_set_ulong(p, reinterpret_cast<unsigned long*>(&p[0].first), 1), {"\"pair\""});
  restart();
  const auto* const found = static_cast<pair*>(anchor);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].first->value, i);
    EXPECT_EQ(found[i].number, 0u);
    EXPECT_EQ(found[i].second, nullptr);
  }
  void* const odd = pobj_malloc(25);
  expect_failure(POBJ_ERANGE, pobj_set_type(odd, type), {"25 bytes", "24 bytes"});
  EXPECT_OK(pobj_set_type(odd, nullptr));
}

TEST_F(pobj_types, definitions_that_make_no_sense) {
  const std::size_t overlapping[] = {0, 8, 4, 8, POBJ_END}, outside[] = {8, 24, POBJ_END}, partly[] = {4, 8, POBJ_END},
                    first[] = {0, POBJ_END};
  EXPECT_EQ(pobj_type_define(nullptr, 8, nullptr, nullptr), nullptr);
  expect_failure(POBJ_ETYPE, POBJ_ETYPE, {"name"});
  EXPECT_EQ(pobj_type_define("t", 0, nullptr, nullptr), nullptr);
  EXPECT_EQ(pobj_type_define("t", 24, nullptr, overlapping), nullptr);
  expect_failure(POBJ_ETYPE, POBJ_ETYPE, {"overlap"});
  EXPECT_EQ(pobj_type_define("t", 24, nullptr, outside), nullptr);
  expect_failure(POBJ_ERANGE, POBJ_ERANGE, {"24 bytes at offset 8"});
  EXPECT_EQ(pobj_type_define("t", 24, first, partly), nullptr);
  expect_failure(POBJ_ETYPE, POBJ_ETYPE, {"in part"});
  EXPECT_EQ(pobj_type_define("t", 12, first, nullptr), nullptr);
  expect_failure(POBJ_ETYPE, POBJ_ETYPE, {"multiple of 8"});
  EXPECT_NE(pobj_type_define("t", 24, first, nullptr), nullptr);
  EXPECT_EQ(pobj_type_define("t", 16, first, nullptr), nullptr);
  expect_failure(POBJ_ETYPE, POBJ_ETYPE, {"24 bytes", "16 bytes"});
}

TEST_F(pobj_types, another_build_with_another_type_is_refused) {
  start();
  const pobj_type* const type = pobj_type_define("pair", sizeof(pair), pair_references, nullptr);
  auto* const p = static_cast<pair*>(pobj_malloc(sizeof(pair)));
  EXPECT_OK(pobj_set_type(p, type));
  *p = {new_node(1), 2, new_node(3)};
  EXPECT_OK(pobj_update(p));
  EXPECT_OK(pobj_static_set_ref(&anchor, p));
  EXPECT_OK(pobj_close());
  // As the next build has it.
  defined_types::all().by_name.clear();
  ASSERT_NE(pobj_type_define("pair", 32, pair_references, nullptr), nullptr);
  const pobj_options o = small_options();
  expect_failure(POBJ_ETYPE, pobj_init_with(&o), {"24 bytes", "32 bytes"});
  // A build that says nothing of it: the store knows.
  defined_types::all().by_name.clear();
  start();
  EXPECT_EQ(static_cast<pair*>(anchor)->second->value, 3u);
  EXPECT_EQ(pobj_type_define("pair", 32, pair_references, nullptr), nullptr);
  expect_failure(POBJ_ETYPE, POBJ_ETYPE, {"24 bytes", "32 bytes"});
  EXPECT_NE(pobj_type_define("pair", 24, pair_references, nullptr), nullptr);
}

}  // namespace
}  // namespace tenure::pobj
