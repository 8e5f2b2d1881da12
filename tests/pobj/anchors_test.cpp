// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Anchors and the variables that they are bound to: never another one, never bytes that are not the variable's, and a way
// out wherever a program has changed.
#include <dlfcn.h>

#include "os/static_symbols.hpp"
#include "pobj/scenario.hpp"
#include "pobj/transaction.hpp"
#include "support/sanitizers.hpp"

namespace tenure::pobj {
namespace {

class pobj_anchors : public pobj_test {
 protected:
  ~pobj_anchors() override {
    test_hooks::crash();
    named_statics().clear();
  }
};

// --- Which names last ---

TEST_F(pobj_anchors, names_that_compilers_number) {
  using os::symbol_kind;
  EXPECT_EQ(os::kind_of_symbol("cache"), symbol_kind::lasting);
  EXPECT_EQ(os::kind_of_symbol("f.cache"), symbol_kind::lasting);
  EXPECT_EQ(os::kind_of_symbol("cache.0"), symbol_kind::numbered);
  EXPECT_EQ(os::kind_of_symbol("f.cache.12"), symbol_kind::numbered);
  EXPECT_EQ(os::kind_of_symbol("list.lto_priv.0"), symbol_kind::optimized);
  EXPECT_EQ(os::kind_of_symbol("hits.0.lto_priv.1"), symbol_kind::optimized);
  EXPECT_EQ(os::kind_of_symbol("list.llvm.12345"), symbol_kind::optimized);
  const auto bare = os::symbol_without_numbers;
  EXPECT_EQ(bare("f.cache.1"), bare("f.cache"));
  EXPECT_NE(bare("f.cache"), bare("g.cache"));
  EXPECT_EQ(bare("i"), "i");  // no type, as it would be in C++
  EXPECT_EQ(bare("_ZZ1fiE1x"), bare("_ZZ1fiE1x_0"));
  EXPECT_EQ(bare("_ZZ1fiE1x"), bare("_ZZ1fiE1x__10_"));
  EXPECT_NE(bare("_ZZ1fiE1x"), bare("_ZZ1fiE3x_0"));
  EXPECT_NE(bare("_ZZ1fiE1x"), bare("_ZZ1giE1x"));
  EXPECT_EQ(bare("_ZZZ1fiENKUlvE_clEvE1y"), bare("_ZZZ1fiENKUlvE0_clEvE1y"));
  EXPECT_EQ(bare("_ZZZ1fiENK3$_0clEvE1y"), bare("_ZZZ1fiENK3$_1clEvE1y"));
}

void*& one_of_two(int which) {
  if (which == 0) {
    static void* twice;
    return twice;
  }
  if (which == 1) {
    static void* twice;
    return twice;
  }
  static void* once;
  return once;
}

TEST_F(pobj_anchors, of_one_name_in_one_function_are_refused) {
  start();
  for (const int which : {0, 1})
    expect_failure(POBJ_ESTATIC, pobj_static_set_ref(&one_of_two(which), nullptr), {"twice", "pobj_static_named"});
  EXPECT_OK(pobj_static_set_ref(&one_of_two(2), new_node(1)));
  // With names of their own they are what they were.
  for (const int which : {0, 1}) {
    EXPECT_OK(pobj_static_named(which == 0 ? "a" : "b", &one_of_two(which), sizeof(void*), nullptr));
    EXPECT_OK(pobj_static_set_ref(&one_of_two(which), new_node(static_cast<std::uint64_t>(10 + which))));
  }
  for (const int which : {0, 1, 2}) one_of_two(which) = nullptr;
  restart();
  EXPECT_EQ(static_cast<node*>(one_of_two(0))->value, 10u);
  EXPECT_EQ(static_cast<node*>(one_of_two(1))->value, 11u);
  EXPECT_EQ(static_cast<node*>(one_of_two(2))->value, 1u);
}

// What a store has from before, under a name that says nothing, is not given to whoever has the name now.
TEST_F(pobj_anchors, stored_under_a_name_that_does_not_last_stay_unbound) {
  for (const auto& [symbol, file] : {std::pair{"cache.0", "a.c"}, {"list.lto_priv.0", ""}}) {
    const static_name name{false, "", file, symbol, 0};
    EXPECT_EQ(find_static(name, 8), nullptr);
  }
  const auto place = os::symbol_around(&one_of_two(0));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(find_static({false, place->module, place->file, place->symbol, 0}, 8), nullptr);
}

// --- Extents ---

node* table[6];
constexpr std::size_t six[] = {0, 8, 16, 24, 32, 40, POBJ_END};
constexpr std::size_t two[] = {0, 8, POBJ_END};

TEST_F(pobj_anchors, no_more_than_the_variable_has) {
  if (support::symbols_have_redzones) GTEST_SKIP() << "variables are longer here";
  start();
  expect_failure(POBJ_ERANGE, pobj_static_update(table, sizeof table + 8, six), {"56 bytes", "48", "table"});
  expect_failure(POBJ_ERANGE, pobj_static_update(&table[5], 16, two), {"16 bytes", "has 8"});
  EXPECT_OK(pobj_static_update(table, sizeof table, six));
  static node* named[2];
  EXPECT_OK(pobj_static_named("named", named, 8, nullptr));
  expect_failure(POBJ_ERANGE, pobj_static_update(named, 16, two), {"16 bytes", "named", "has 8"});
}

// [pobj.static.extent]
TEST_F(pobj_anchors, none_in_the_bytes_of_another) {
  start();
  EXPECT_OK(pobj_static_update(&table[2], 16, two));
  expect_failure(POBJ_ESTATIC, pobj_static_update(table, sizeof table, six), {"tableE+16", "pobj_static_forget"});
  expect_failure(POBJ_ESTATIC, pobj_static_update(&table[1], 16, two), {"tableE+16"});
  expect_failure(POBJ_ESTATIC, pobj_static_update_ref(&table[3]), {"tableE+16"});
  EXPECT_OK(pobj_static_update(&table[0], 16, two));
  EXPECT_OK(pobj_static_update(&table[4], 16, two));
  const char* const name = "program:anchors_test.cpp:_ZN6tenure4pobj12_GLOBAL__N_15tableE+";
  for (const char* const offset : {"0", "16", "32"})
    EXPECT_OK(pobj_static_forget((std::string(name) + offset).c_str()));
  EXPECT_EQ(report().statics, 0u);
  table[5] = new_node(3);
  EXPECT_OK(pobj_static_update(table, sizeof table, six));
  restart();
  EXPECT_EQ(report().statics, 1u);
  EXPECT_EQ(table[5]->value, 3u);
}

// A store of before may have such.
TEST_F(pobj_anchors, that_overlap_in_the_store_are_not_bound_both) {
  start();
  EXPECT_OK(pobj_static_update(&table[0], 16, two));
  EXPECT_OK(pobj_static_update(&table[2], 16, two));
  const position second = open_store()->statics.all().back()->slot + 8 + offsetof(stored_static, offset);
  EXPECT_OK(pobj_close());
  {
    rvm::options how;
    how.disk = disk.get();
    rvm::memory memory("/store/log", how);
    rvm::region region = memory.map("/store/objects");
    memory.transact([&](rvm::transaction& tx) { tx.modify(region.at<std::uint64_t>(second), 8); });
    region.unmap();
    memory.close();
  }
  start();
  EXPECT_EQ(report().statics, 1u);
  EXPECT_EQ(report().unbound, 1u);
  EXPECT_EQ(std::string(pobj_unbound(0)).substr(std::string(pobj_unbound(0)).size() - 2), "+8");
  expect_failure(POBJ_ESTATIC, pobj_static_bind(pobj_unbound(0), &table[1], 16), {"already"});
}

// --- Growing ---

TEST_F(pobj_anchors, grow) {
  start();
  std::fill_n(table, 6, nullptr);
  table[0] = new_node(1);
  EXPECT_OK(pobj_static_update(table, 16, two));
  // An abort takes the growth back.
  EXPECT_OK(pobj_start());
  table[5] = new_node(2);
  EXPECT_OK(pobj_static_update(table, sizeof table, six));
  EXPECT_OK(pobj_static_update(table, sizeof table, six));
  EXPECT_OK(pobj_abort());
  EXPECT_OK(pobj_static_update(table, 16, two));
  table[5] = new_node(2);
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_static_update(table, 32, two));
  EXPECT_OK(pobj_static_update(table, sizeof table, six));
  EXPECT_OK(pobj_end());
  std::fill_n(table, 6, nullptr);
  crash_and_restart();
  EXPECT_EQ(report().statics, 1u);
  EXPECT_EQ(table[0]->value, 1u);
  EXPECT_EQ(table[5]->value, 2u);
  // Smaller means that something is lost: that is said, and is possible.
  expect_failure(POBJ_ESTATIC, pobj_static_update(table, 8, nullptr), {"48 bytes", "with 8", "pobj_static_forget"});
  const std::string name = text_of(open_store()->statics.all().front()->name);
  EXPECT_OK(pobj_static_forget(name.c_str()));
  EXPECT_OK(pobj_static_update_ref(table));
  table[0] = nullptr;
  restart();
  EXPECT_EQ(table[0]->value, 1u);
}

TEST_F(pobj_anchors, an_abort_brings_back_what_has_grown_in_memory) {
  start();
  std::fill_n(table, 6, nullptr);
  node* const n = new_node(1);
  table[0] = table[4] = n;
  EXPECT_OK(pobj_static_update(table, 16, two));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_static_update(table, sizeof table, six));
  table[0] = table[4] = nullptr;
  EXPECT_OK(pobj_static_update(table, sizeof table, six));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(table[0], n);
  EXPECT_EQ(table[4], n);
  EXPECT_EQ(open_store()->statics.all().front()->size, 16u);
}

// --- Names ---

TEST_F(pobj_anchors, that_get_a_name_are_stored_under_it) {
  start();
  EXPECT_OK(pobj_static_set_ref(&table[0], new_node(4)));
  EXPECT_OK(pobj_static_named("table.first", &table[0], 8, nullptr));
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_static_update_ref(&table[0]));
  EXPECT_OK(pobj_abort());
  EXPECT_EQ(open_store()->statics.all().front()->name.given, false);
  EXPECT_OK(pobj_static_update_ref(&table[0]));
  expect_failure(POBJ_ESTATIC, pobj_static_named("other", table, 16, nullptr), {"table.first"});
  // In another build it is elsewhere.
  EXPECT_OK(pobj_static_named("table.first", nullptr, 0, nullptr));
  EXPECT_EQ(report().unbound, 1u);
  EXPECT_STREQ(pobj_unbound(0), "table.first");
  static node* elsewhere;
  EXPECT_OK(pobj_static_named("table.first", &elsewhere, 8, nullptr));
  EXPECT_EQ(elsewhere->value, 4u);
  restart();
  EXPECT_EQ(report().statics, 1u);
  expect_failure(POBJ_ESTATIC, pobj_static_named("no such", nullptr, 0, nullptr), {"no such"});
  EXPECT_OK(pobj_close());
  EXPECT_OK(pobj_static_named("table.first", nullptr, 0, nullptr));
  start();
  EXPECT_EQ(report().unbound, 1u);
}

TEST_F(pobj_anchors, that_a_transaction_has_changed_are_neither_unbound_nor_forgotten) {
  start();
  EXPECT_OK(pobj_static_set_ref(&table[0], new_node(4)));
  const std::string name = text_of(open_store()->statics.all().front()->name);
  EXPECT_OK(pobj_start());
  EXPECT_OK(pobj_static_update_ref(&table[0]));
  expect_failure(POBJ_ETRANSACTION, pobj_static_bind(name.c_str(), nullptr, 0), {"table", "transaction"});
  EXPECT_OK(pobj_end());
  EXPECT_OK(pobj_static_bind(name.c_str(), nullptr, 0));
  EXPECT_OK(pobj_static_bind(name.c_str(), nullptr, 0));
  expect_failure(POBJ_EOPTION, pobj_static_bind(nullptr, nullptr, 0), {"name"});
  // Nothing is overwritten that the variable has not got.
  table[0] = nullptr;
  expect_failure(POBJ_ESTATIC, pobj_static_update_ref(&table[0]), {"pobj_static_bind", "pobj_static_forget"});
  EXPECT_OK(pobj_static_bind(nullptr, &table[0], 8));
  EXPECT_EQ(table[0]->value, 4u);
  expect_failure(POBJ_ESTATIC, pobj_static_bind(name.c_str(), &table[2], 8), {"already", "unbind"});
  EXPECT_OK(pobj_static_bind(nullptr, &table[2], 8));  // there is none of it
}

// --- Libraries that are loaded and closed ---

bool is_loaded() {
  void* const library = ::dlopen(POBJ_PLUGIN, RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

class plugin {
 public:
  plugin() : library_(::dlopen(POBJ_PLUGIN, RTLD_LAZY)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
  }
  ~plugin() { ::dlclose(library_); }
  plugin(const plugin&) = delete;
  plugin& operator=(const plugin&) = delete;
  [[nodiscard]] node*& anchor() const { return *reinterpret_cast<node** (*)()>(::dlsym(library_, "plugin_anchor"))(); }

 private:
  void* library_;
};

// [pobj.static.library]
TEST_F(pobj_anchors, of_libraries_that_are_loaded_later) {
  start();
  {
    const plugin p;
    EXPECT_OK(pobj_static_set_ref(&p.anchor(), new_node(5)));
    p.anchor() = nullptr;
    restart();
    EXPECT_EQ(p.anchor()->value, 5u);  // it was there before
    EXPECT_OK(pobj_close());
  }
  EXPECT_FALSE(is_loaded());
  start();
  EXPECT_EQ(report().unbound, 1u);
  const std::string name = pobj_unbound(0);
  {
    const plugin p;
    expect_failure(POBJ_ESTATIC, pobj_static_set_ref(&p.anchor(), nullptr), {"loaded after", "pobj_static_bind"});
    EXPECT_OK(pobj_static_bind(nullptr, &p.anchor(), sizeof(node*)));
    EXPECT_EQ(p.anchor()->value, 5u);
    EXPECT_OK(pobj_static_bind(nullptr, &p.anchor(), sizeof(node*)));
  }
  // Closed while an anchor is bound to it: it stays, and so does the anchor.
  EXPECT_TRUE(is_loaded());
  EXPECT_OK(pobj_start());
  {
    const plugin p;
    EXPECT_OK(pobj_static_set_ref(&p.anchor(), nullptr));
  }
  EXPECT_OK(pobj_abort());
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(pobj_static_bind(name.c_str(), nullptr, 0));
    EXPECT_FALSE(is_loaded());
    const plugin p;
    EXPECT_EQ(p.anchor(), nullptr);
    EXPECT_OK(pobj_static_bind(name.c_str(), &p.anchor(), sizeof(node*)));
    EXPECT_EQ(p.anchor()->value, 5u);
  }
  EXPECT_OK(pobj_close());
  EXPECT_FALSE(is_loaded());
}

TEST_F(pobj_anchors, of_libraries_by_names) {
  start();
  for (std::uint64_t i = 0; i < 3; ++i) {
    const plugin p;
    EXPECT_OK(pobj_static_named("plugin", &p.anchor(), sizeof(node*), nullptr));
    if (i != 0) {
      EXPECT_EQ(p.anchor()->value, i);
    }
    EXPECT_OK(pobj_static_set_ref(&p.anchor(), new_node(i + 1)));
    EXPECT_OK(pobj_static_named("plugin", nullptr, 0, nullptr));
  }
  EXPECT_FALSE(is_loaded());
}

// Between its decision and its end, what forgets an anchor has it for itself.
TEST_F(pobj_anchors, that_are_being_forgotten_are_nobody_elses) {
  start();
  EXPECT_OK(pobj_static_update(table, 16, two));
  store& in = *open_store();
  const std::string name = text_of(in.statics.at(table)->name);
  for (const bool is_aborted : {true, false}) {
    SCOPED_TRACE(is_aborted);
    transaction forgetting(in);
    {
      const store_lock lock(in);
      forgetting.forget_static(*in.statics.at(table));
    }
    expect_failure(POBJ_ETRANSACTION, pobj_static_forget(name.c_str()), {"tableE+0", "forgets"});
    expect_failure(POBJ_ETRANSACTION, pobj_static_update(table, 16, two), {"tableE+0", "forgets"});
    expect_failure(POBJ_ETRANSACTION, pobj_static_update(table, sizeof table, six), {"tableE+0", "forgets"});
    expect_failure(POBJ_ETRANSACTION, pobj_static_bind(name.c_str(), nullptr, 0), {"tableE+0", "forgets"});
    ASSERT_FALSE(HasFailure());  // the end would use an anchor that is gone
    if (is_aborted)
      forgetting.abort();
    else
      forgetting.commit();
  }
  EXPECT_OK(pobj_static_update(table, sizeof table, six));
  EXPECT_OK(pobj_static_forget(name.c_str()));
  restart();
  EXPECT_EQ(report().statics + report().unbound, 0u);
}

TEST_F(pobj_anchors, that_are_bound_take_no_second_variable) {
  start();
  static node *first, *second;
  EXPECT_OK(pobj_static_named("doubled", &first, sizeof first, nullptr));
  EXPECT_OK(pobj_static_set_ref(&first, new_node(5)));
  EXPECT_OK(pobj_static_named("doubled", nullptr, 0, nullptr));
  EXPECT_OK(pobj_static_bind("doubled", &first, sizeof first));
  expect_failure(POBJ_ESTATIC, pobj_static_named("doubled", &second, sizeof second, nullptr),
                 {"doubled", "bound", "pobj_static_bind"});
  EXPECT_TRUE(named_statics().empty());
  EXPECT_OK(pobj_static_named("doubled", &first, sizeof first, nullptr));
}

// Otherwise two anchors would have one text, by which they are bound and forgotten.
TEST_F(pobj_anchors, given_names_are_unlike_those_of_symbols) {
  static node* variable;
  const auto name = [&](const char* text) { return pobj_static_named(text, &variable, sizeof variable, nullptr); };
  for (const bool is_open : {false, true}) {
    SCOPED_TRACE(is_open);
    if (is_open) start();
    for (const char* const text : {"program:a.c:x+0", "/usr/lib/a.so::x+16", "a:b:c:d+1"})
      expect_failure(POBJ_ESTATIC, name(text), {text, "MODULE:FILE:SYMBOL+OFFSET"});
    for (const char* const text : {"program:a.c:x", "a:b+0", "a+0", "a:b:c+", "a:b:c+0x", "a:b:c-0", "+0", "::x"}) {
      EXPECT_OK(name(text));
      EXPECT_OK(pobj_static_named(text, nullptr, 0, nullptr));
    }
  }
}

}  // namespace
}  // namespace tenure::pobj
