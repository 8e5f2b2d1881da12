// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Static variables: found by their symbols, given names, and lost by a build.
#include "os/static_symbols.hpp"
#include "pobj/scenario.hpp"
#include "support/sanitizers.hpp"

namespace tenure::pobj {

node* a_global_anchor;

namespace {

class pobj_statics : public pobj_test {
 protected:
  ~pobj_statics() override { named_statics().clear(); }
};

node* local_anchor;

node*& function_anchor() {
  static node* within_a_function;
  return within_a_function;
}

struct settings_of_program {
  int volume;
  char name[12];
  node* favourite;
};
settings_of_program settings_variable;
constexpr std::size_t settings_references[] = {offsetof(settings_of_program, favourite), POBJ_END};
node* several[3];

TEST_F(pobj_statics, of_every_scope) {
  start();
  EXPECT_OK(pobj_static_set_ref(&a_global_anchor, new_node(1)));
  EXPECT_OK(pobj_static_set_ref(&local_anchor, new_node(2)));
  function_anchor() = new_node(3);
  EXPECT_OK(pobj_static_update_ref(&function_anchor()));
  EXPECT_OK(pobj_static_set_ref(&several[2], new_node(4)));
  a_global_anchor = local_anchor = function_anchor() = several[2] = nullptr;
  several[1] = reinterpret_cast<node*>(8);
  restart();
  EXPECT_EQ(report().statics, 4u);
  EXPECT_EQ(a_global_anchor->value, 1u);
  EXPECT_EQ(local_anchor->value, 2u);
  EXPECT_EQ(function_anchor()->value, 3u);
  EXPECT_EQ(several[2]->value, 4u);
  EXPECT_EQ(several[1], reinterpret_cast<node*>(8));
}

TEST_F(pobj_statics, of_any_type) {
  start();
  settings_variable = {11, "loud", new_node(7)};
  EXPECT_OK(pobj_static_update(&settings_variable, sizeof settings_variable, settings_references));
  settings_variable.volume = 12;
  EXPECT_OK(pobj_static_update(&settings_variable, sizeof settings_variable, settings_references));
  settings_variable = {};
  restart();
  EXPECT_EQ(settings_variable.volume, 12);
  EXPECT_STREQ(settings_variable.name, "loud");
  EXPECT_EQ(settings_variable.favourite->value, 7u);
  // Without its reference, then with it again.
  EXPECT_OK(pobj_static_update(&settings_variable, sizeof settings_variable, nullptr));
  const node* const favourite = settings_variable.favourite;
  restart();
  EXPECT_EQ(settings_variable.favourite, favourite);
  expect_failure(POBJ_ESTATIC, pobj_static_update(&settings_variable, 8, nullptr),
                 {"settings_variable", "24 bytes", "with 8"});
  expect_failure(POBJ_EOPTION, pobj_static_update(nullptr, 8, nullptr), {"address"});
}

TEST_F(pobj_statics, that_are_none) {
  start();
  node* on_the_stack = nullptr;
  expect_failure(POBJ_ESTATIC, pobj_static_set_ref(&on_the_stack, nullptr), {"pobj_static_named"});
  node* const n = new_node(1);
  expect_failure(POBJ_ESTATIC, pobj_static_set_ref(&n->next, nullptr), {"pobj_static_named"});
}

TEST_F(pobj_statics, an_abort_takes_them_back) {
  start();
  local_anchor = nullptr;
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_static_set_ref(&local_anchor, new_node(1)));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(local_anchor, nullptr);  // it was not stored before
  EXPECT_OK(pobj_static_set_ref(&local_anchor, new_node(2)));
  node* const kept = local_anchor;
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_static_set_ref(&local_anchor, nullptr));
  EXPECT_OK(pobj_static_set_ref(&local_anchor, new_node(3)));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(local_anchor, kept);
  restart();
  EXPECT_EQ(local_anchor->value, 2u);
}

TEST_F(pobj_statics, with_names_of_the_programs_own) {
  static node* by_name;
  EXPECT_OK(pobj_static_named("tests.by_name", &by_name, sizeof by_name, settings_references + 1));
  start();
  EXPECT_OK(pobj_static_set_ref(&by_name, new_node(5)));
  EXPECT_EQ(open_store()->statics.all().front()->name.symbol, "tests.by_name");
  // In the next build it is another variable.
  static node* under_another_symbol;
  EXPECT_OK(pobj_close());
  named_statics().clear();
  EXPECT_OK(pobj_static_named("tests.by_name", &under_another_symbol, sizeof(node*), nullptr));
  expect_failure(POBJ_ESTATIC, pobj_static_named("tests.by_name", &by_name, sizeof(node*), nullptr), {"before"});
  start();
  EXPECT_EQ(report().statics, 1u);
  EXPECT_EQ(under_another_symbol->value, 5u);
  // And in one after that it is bound late.
  EXPECT_OK(pobj_close());
  named_statics().clear();
  start();
  EXPECT_EQ(report().unbound, 1u);
  EXPECT_STREQ(pobj_unbound(0), "tests.by_name");
  EXPECT_EQ(pobj_unbound(1), nullptr);
  expect_failure(POBJ_ESTATIC, pobj_static_named("tests.by_name", &settings_variable, 4, nullptr),
                 {"tests.by_name", "8 bytes", "with 4"});
  by_name = nullptr;
  EXPECT_OK(pobj_static_named("tests.by_name", &by_name, sizeof by_name, nullptr));
  EXPECT_EQ(by_name->value, 5u);
  EXPECT_EQ(report().unbound, 0u);
  expect_failure(POBJ_EOPTION, pobj_static_named("", &by_name, 8, nullptr), {"name"});
}

// What another build has under another symbol, or not at all, stays in the store.
TEST_F(pobj_statics, that_a_build_does_not_have) {
  start();
  EXPECT_OK(pobj_static_set_ref(&a_global_anchor, new_node(1)));
  EXPECT_OK(pobj_static_set_ref(&local_anchor, new_node(2)));
  auto& all = open_store()->statics.all();
  const position at = all.back()->slot + 8 + sizeof(stored_static);
  const std::string symbol = all.back()->name.symbol;
  EXPECT_EQ(all.back()->name.file, "statics_test.cpp");
  // As if the symbol had had another name: its first letter is changed.
  EXPECT_OK(pobj_close());
  {
    rvm::options how;
    how.disk = disk.get();
    rvm::memory memory("/store/log", how);
    rvm::region region = memory.map("/store/objects");
    memory.transact([&](rvm::transaction& tx) {
      char& letter = region.at<char>(at + std::string("statics_test.cpp").size());
      tx.modify(letter, 'X');
    });
    region.unmap();
    memory.close();
  }
  a_global_anchor = local_anchor = nullptr;
  for (int i = 0; i < 2; ++i) {
    start();
    EXPECT_EQ(report().statics, 1u);
    EXPECT_EQ(report().unbound, 1u);
    EXPECT_EQ(a_global_anchor->value, 1u);
    EXPECT_EQ(local_anchor, nullptr);
    EXPECT_EQ(std::string(pobj_unbound(0)), "program:statics_test.cpp:X" + symbol.substr(1) + "+0");
    std::uint64_t freed = 0;
    EXPECT_OK(pobj_sweep(&freed));
    EXPECT_EQ(freed, 0u);
    EXPECT_OK(pobj_close());
  }
  start();
  const std::string lost = pobj_unbound(0);
  expect_failure(POBJ_ESTATIC, pobj_static_bind("no such", &local_anchor, 8), {"no such", "pobj_unbound"});
  expect_failure(POBJ_ESTATIC, pobj_static_bind(lost.c_str(), &local_anchor, 4), {lost, "4"});
  expect_failure(POBJ_ESTATIC, pobj_static_bind(lost.c_str(), &a_global_anchor, 8), {"already"});
  EXPECT_OK(pobj_static_bind(lost.c_str(), &local_anchor, 8));
  EXPECT_EQ(local_anchor->value, 2u);
  EXPECT_OK(pobj_static_set_ref(&local_anchor, a_global_anchor));
  restart();
  EXPECT_EQ(report().unbound, 1u);
  expect_failure(POBJ_ESTATIC, pobj_static_forget("no such"), {"no such"});
  EXPECT_OK(pobj_start());
  expect_failure(POBJ_ETRANSACTION, pobj_static_forget(lost.c_str()), {"own"});
  EXPECT_OK(pobj_end());
  EXPECT_OK(pobj_static_forget(lost.c_str()));
  EXPECT_EQ(report().unbound, 0u);
  restart();
  EXPECT_EQ(report().unbound, 0u);
  EXPECT_EQ(pobj_unbound(0), nullptr);
}

TEST_F(pobj_statics, symbols_of_the_program_and_of_libraries) {
  const auto mine = os::symbol_around(&several[1]);
  ASSERT_TRUE(mine.has_value());
  EXPECT_EQ(mine->module, "");
  EXPECT_EQ(mine->file, "statics_test.cpp");
  EXPECT_EQ(mine->offset, 8u);
  if (!support::symbols_have_redzones) {
    EXPECT_EQ(os::address_of_symbol(mine->module, mine->file, mine->symbol).size, sizeof several);
  }
  const auto theirs = os::symbol_around(std::addressof(stdout));
  EXPECT_TRUE(theirs.has_value());
  EXPECT_EQ(os::address_of_symbol("no.such.so", "", "x").address, nullptr);
  EXPECT_EQ(os::address_of_symbol("", "", "no such symbol").address, nullptr);
  int local = 0;
  EXPECT_FALSE(os::symbol_around(&local).has_value());
}

}  // namespace
}  // namespace tenure::pobj
