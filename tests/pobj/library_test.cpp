// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Beginning and ending; stores that are not what they should be.
#include <cstdlib>

#include <tenure/rvm.hpp>

#include "os/process.hpp"
#include "pobj/scenario.hpp"
#include "pobj/transaction.hpp"
#include "support/child_process.hpp"
#include "support/temp_dir.hpp"

namespace tenure::pobj {
namespace {

class pobj_library : public pobj_test {};

node* anchor;

TEST_F(pobj_library, nothing_works_before_initialization) {
  char byte = 0;
  node n = {};
  pobj_report report;
  EXPECT_EQ(pobj_malloc(8), nullptr);
  expect_failure(POBJ_ESTATE, POBJ_ESTATE, {"pobj_malloc", "pobj_init"});
  EXPECT_EQ(pobj_malloc_transient(8), nullptr);
  for (const int code : {pobj_close(),
                         pobj_get_report(&report),
                         pobj_free(&byte),
                         pobj_finalize(&byte),
                         pobj_sweep(nullptr),
                         pobj_persistify(&byte),
                         pobj_unpersistify(&byte),
                         pobj_set_type(&byte, nullptr),
                         pobj_ref_typify(&n, node_references),
                         pobj_ref_flag(&n, &n.next),
                         pobj_ref_unflag(&n, &n.next),
                         pobj_update(&n),
                         pobj_update_range(&n, &n, 8),
                         pobj_update_recursive(&n, 0),
                         pobj_memset(&n, &n, 0, 8),
                         pobj_set_ref(&n, &n.next, nullptr),
                         pobj_restore(&n),
                         pobj_static_set_ref(&anchor, nullptr),
                         pobj_static_update_ref(&anchor),
                         pobj_static_update(&anchor, 8, nullptr),
                         pobj_static_bind("x", &anchor, 8),
                         pobj_static_forget("x"),
                         pobj_start(),
                         pobj_end(),
                         pobj_abort()})
    EXPECT_EQ(code, POBJ_ESTATE);
  EXPECT_EQ(pobj_is_object(&n), 0);
  EXPECT_EQ(pobj_is_persistent(&n), 0);
  EXPECT_EQ(pobj_size(&n), 0u);
  EXPECT_EQ(pobj_unbound(0), nullptr);
  EXPECT_EQ(pobj_depth(), 0);
  EXPECT_OK(pobj_free(nullptr));
  pobj_finalize_block(&n, nullptr);  // a collector may be late
}

TEST_F(pobj_library, first_and_later_executions) {
  start();
  EXPECT_EQ(report().created, 1);
  EXPECT_EQ(report().objects, 0u);
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(7)));
  anchor = nullptr;
  restart();
  EXPECT_EQ(report().created, 0);
  EXPECT_EQ(report().objects, 1u);
  EXPECT_EQ(report().object_bytes, sizeof(node));
  EXPECT_EQ(report().statics, 1u);
  ASSERT_NE(anchor, nullptr);
  EXPECT_EQ(anchor->value, 7u);
  expect_failure(POBJ_EOPTION, pobj_get_report(nullptr), {"report"});
}

TEST_F(pobj_library, an_execution_that_just_ends) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(8)));
  for (std::uint64_t i = 0; i < 5; ++i) {
    crash_and_restart();
    ASSERT_NE(anchor, nullptr);
    EXPECT_EQ(anchor->value, 8 + i);
    anchor->value = 9 + i;
    EXPECT_OK(pobj_update(anchor));
  }
}

TEST_F(pobj_library, twice_is_an_error) {
  start();
  expect_failure(POBJ_ESTATE, pobj_init(), {"initialized already", "/store"});
}

TEST_F(pobj_library, options) {
  pobj_options o = small_options(1U << 20);
  expect_failure(POBJ_EOPTION, pobj_init_with(&o), {"flags"});
  o = small_options();
  o.objects = {nullptr, nullptr, &std::free};
  expect_failure(POBJ_EOPTION, pobj_init_with(&o), {"malloc"});
  start();
}

TEST_F(pobj_library, is_not_closed_with_open_transactions) {
  start();
  EXPECT_OK(pobj_start());
  expect_failure(POBJ_ETRANSACTION, pobj_close(), {"1 transactions"});
  expect_failure(POBJ_ETRANSACTION, pobj_sweep(nullptr), {"open"});
  EXPECT_OK(pobj_end());
  EXPECT_OK(pobj_close());
}

TEST_F(pobj_library, another_programs_store) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(3)));
  EXPECT_OK(pobj_close());
  pobj_options o = small_options();
  o.program = "other";
  expect_failure(POBJ_EPROGRAM, pobj_init_with(&o), {"\"test\"", "\"other\"", "POBJ_ANY_PROGRAM"});
  o.flags = POBJ_ANY_PROGRAM;
  ASSERT_OK(pobj_init_with(&o));
  EXPECT_EQ(anchor->value, 3u);
  EXPECT_OK(pobj_static_set_ref(&anchor, anchor));
  EXPECT_OK(pobj_close());
  o = small_options();
  expect_failure(POBJ_EPROGRAM, pobj_init_with(&o), {"\"test\"", "\"other\""});
}

TEST_F(pobj_library, files_that_are_no_store) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(4)));
  EXPECT_OK(pobj_close());
  const pobj_options o = small_options();
  const auto whole = disk->crash(1, sim::policy::keep_all);
  // No log.
  disk->remove("/store/log");
  expect_failure(POBJ_EDAMAGED, pobj_init_with(&o), {"no log", "tenure log renew /store/log"});
  disk->remove("/store/log.1");
  // Another store's.
  rvm::memory::create_log("/store/log", {}, {}, disk.get());
  expect_failure(POBJ_EDAMAGED, pobj_init_with(&o), {"/store/objects", "another log", "tenure log renew /store/log"});
  // Something else under the name.
  use(whole->crash(1));
  disk->install("/store/objects", std::vector<std::byte>(100'000));
  expect_failure(POBJ_EDAMAGED, pobj_init_with(&o), {"/store/objects"});
  use(whole->crash(1));
  disk->remove("/store/objects");
  {
    rvm::options how;
    how.disk = disk.get();
    rvm::memory memory("/store/log", how);
    memory.create_segment("/store/objects", {.length = 1 << 20});
  }
  expect_failure(POBJ_EDAMAGED, pobj_init_with(&o), {"no store"});
  // Nothing has been lost by all this.
  use(whole->crash(1));
  start();
  EXPECT_EQ(anchor->value, 4u);
}

// Writes a word of the segment's data as a program would that has gone wrong.
TEST_F(pobj_library, damaged_slots) {
  start();
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(4)));
  EXPECT_OK(pobj_close());
  const pobj_options o = small_options();
  const auto whole = disk->crash(1, sim::policy::keep_all);
  const auto with_word = [&](std::uint64_t offset, std::uint64_t word) {
    use(whole->crash(1));
    rvm::options how;
    how.disk = disk.get();
    rvm::memory memory("/store/log", how);
    rvm::region region = memory.map("/store/objects");
    memory.transact([&](rvm::transaction& tx) { tx.modify(region.at<std::uint64_t>(offset), word); });
    region.unmap();
    memory.close();
    return pobj_init_with(&o);
  };
  expect_failure(POBJ_EDAMAGED, with_word(4096, slot_word::of(slot_word::largest_size, 0, 0).bits), {"offset 4096"});
  expect_failure(POBJ_EDAMAGED, with_word(4096, slot_word::of(8, slot_word::type_free - 7, 0).bits), {"kind"});
  expect_failure(POBJ_EDAMAGED, with_word(4096, slot_word::of(16, slot_word::type_static, 0).bits), {"too short"});
  expect_failure(POBJ_EDAMAGED, with_word(4096, slot_word::of(16, slot_word::type_description, 0).bits), {"too short"});
  expect_failure(POBJ_EDAMAGED, with_word(4096, slot_word::of(16, 77, 0).bits), {"type"});
  expect_failure(POBJ_EDAMAGED, with_word(8, 99), {"version 99"});
  expect_failure(POBJ_EDAMAGED, with_word(16, 1 << 30), {"bytes"});
  expect_failure(POBJ_EDAMAGED, with_word(0, 12345), {"first page"});
}

TEST_F(pobj_library, fork_has_no_part_in_it) {
  start();
  node* const n = new_node(1);
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_set_ulong(n, &n->value, 2));
  support::child_process child([&] {
    if (pobj_is_object(n) != 0 || pobj_is_persistent(n) != 0) return 3;
    this_thread() = {};  // as when the thread ends
    if (pobj_update(n) != POBJ_ESTATE || pobj_malloc(8) != nullptr || pobj_start() != POBJ_ESTATE) return 1;
    return std::string(pobj_error()).find("parent") != std::string::npos ? 0 : 2;
  });
  const auto end = child.wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output;
  EXPECT_OK(pobj_end());
}

TEST_F(pobj_library, on_the_machines_own_disk) {
  test_hooks::disk = nullptr;
  test_hooks::background = true;
  const support::temp_dir dir;
  const std::string path = dir / "store";
  ::setenv("POBJ_STORE", path.c_str(), 1);
  ASSERT_OK(pobj_init());
  EXPECT_OK(pobj_static_set_ref(&anchor, new_node(11)));
  EXPECT_OK(pobj_close());
  ASSERT_OK(pobj_init());
  EXPECT_EQ(anchor->value, 11u);
  // Another process cannot have it at the same time.
  pobj_options o = {};
  o.path = path.c_str();
  EXPECT_OK(pobj_close());
  rvm::memory memory(path + "/log");
  expect_failure(POBJ_EIO, pobj_init_with(&o), {"log"});
  ::unsetenv("POBJ_STORE");
}

}  // namespace
}  // namespace tenure::pobj
