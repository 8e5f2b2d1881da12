// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Types that have changed since a store was written, and the index of types in the store.
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "objects/object_text.hpp"
#include "objects/object_walk.hpp"
#include "records/format.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/renamed_type.hpp"
#include "support/test_store.hpp"
#include "types/fingerprint.hpp"

using namespace tenure;
using namespace tenure::support;

namespace schema_types {

struct holder {
  void* object;
};

namespace before {
struct place {
  int x, y;
};
struct package {
  std::uint64_t size;
  package* depends;
  place where;
};
}  // namespace before

namespace added {
struct package {
  std::uint64_t size;
  package* depends;
  before::place where;
  package* conflicts;
};
}  // namespace added
namespace removed {
struct package {
  std::uint64_t size;
  package* depends;
};
}  // namespace removed
namespace other_name {
struct package {
  std::uint64_t size;
  package* needs;
  before::place where;
};
}  // namespace other_name
namespace other_type {
struct package {
  double size;
  package* depends;
  before::place where;
};
}  // namespace other_type
namespace data_for_pointer {
struct package {
  std::uint64_t size;
  std::uint64_t depends;
  before::place where;
};
}  // namespace data_for_pointer
namespace other_pointee {
struct package {
  std::uint64_t size;
  before::place* depends;
  before::place where;
};
}  // namespace other_pointee
namespace not_stored {
struct package {
  std::uint64_t size;
  transient<package*> depends;
  before::place where;
};
}  // namespace not_stored
namespace other_order {
struct package {
  package* depends;
  std::uint64_t size;
  before::place where;
};
}  // namespace other_order
namespace other_place {
struct place {
  int x;
  float y;
};
struct package {
  std::uint64_t size;
  package* depends;
  place where;
};
}  // namespace other_place
namespace next_version {
struct package {
  std::uint64_t size;
  package* depends;
  before::place where;
};
}  // namespace next_version

namespace before {
struct named {
  named* next;
};
struct file : named {
  long length;
  static constexpr auto persistent = bases<named>{} + members<&file::length>{};
};
}  // namespace before
namespace other_base {
struct named {
  named* next;
  named* previous;
};
struct file : named {
  long length;
  static constexpr auto persistent = bases<named>{} + members<&file::length>{};
};
}  // namespace other_base
namespace no_base {
struct file {
  file* next;
  long length;
};
}  // namespace no_base
namespace with_functions {
struct named {
  virtual ~named() = default;
  named* next = nullptr;
  static constexpr auto persistent = members<&named::next>{};
};
struct file : named {
  long length = 0;
  static constexpr auto persistent = bases<named>{} + members<&file::length>{};
};
}  // namespace with_functions

}  // namespace schema_types
using namespace schema_types;

template <>
struct tenure::persist<schema_types::next_version::package> {
  static constexpr std::uint32_t version = 2;
};

namespace {

// What this program registers as its type: programs have one of a name only.
const type* of_the_program = nullptr;
const type& registered() { return of_the_program != nullptr ? *of_the_program : type_of<holder>(); }
[[maybe_unused]] const bool is_registered = (detail::register_type(&registered), true);

template <class T>
const type& stored() {
  static const type& t =
      renamed(type_of<T>(), {"before::", "added::", "removed::", "other_name::", "other_type::", "data_for_pointer::",
                             "other_pointee::", "not_stored::", "other_order::", "other_place::", "next_version::",
                             "other_base::", "no_base::", "with_functions::"});
  return t;
}

class schema : public reopened_store {
 protected:
  ~schema() override { of_the_program = nullptr; }

  void close() {
    expect_sound(*opened);
    opened->close();
    opened.reset();
  }
  // Two objects of a type, in one of the store's databases.
  void make(const type& of, const database& in) {
    s().transact([&] {
      holder& root = database(in).root<holder>("holder");
      root.object = detail::allocate(of, 2, &root);
    });
  }
  // All bytes but the log's manifest, which says how often it was opened.
  std::map<std::string, std::string> files() {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().filename() != "log") all[entry.path().filename()] = contents_of(entry.path());
    }
    return all;
  }
  void expect_refused(const type& is, const std::vector<std::string>& lines) {
    std::string text = "has objects of " + is.name + " with another layout than this program's; nothing was changed:";
    for (const auto& line : lines) text += "\n  " + line;
    text += "\nstore_options::evolve converts them (tenure/evolve.hpp)";
    try {
      open();
      ADD_FAILURE() << "opened";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::schema_mismatch);
      const std::string message = e.what();
      EXPECT_EQ(message.substr(std::min(message.size(), message.find("has objects"))), text);
    }
    opened.reset();
  }

  // A store with objects of one type, and a program that has the other.
  void expect_refused(const type& was, const type& is, const std::vector<std::string>& lines) {
    make(was, s().default_database());
    close();
    const auto before = files();
    ASSERT_EQ(before.size(), 2u);
    of_the_program = &is;
    expect_refused(is, lines);
    EXPECT_TRUE(files() == before) << "a refused store was written";
    how.mode = rvm::open_mode::read_only;
    expect_refused(is, lines);
    EXPECT_TRUE(files() == before);
    how.mode = rvm::open_mode::open;

    // Types that are not registered are compared at their first use.
    of_the_program = nullptr;
    open();
    holder& root = s().root<holder>("holder");
    void* const made_before = root.object;
    EXPECT_NE(made_before, nullptr);
    const auto use = [&] {
      s().transact([&] {
        root.object = nullptr;
        root.object = detail::allocate(is, 1, &root);
      });
    };
    for (int time = 0; time < 2; ++time) expect_error(errc::schema_mismatch, {is.name, lines.at(0)}, use);
    EXPECT_EQ(root.object, made_before);
    of_the_program = &was;
    reopen();
    EXPECT_EQ(s().root<holder>("holder").object, made_before);
    make(was, s().default_database());
  }
};

}  // namespace

TEST_F(schema, fields_added) {
  expect_refused(stored<before::package>(), stored<added::package>(),
                 {"schema_types::package: had 24 bytes, has 32",
                  "schema_types::package: field `conflicts` is new: schema_types::package* at offset 24"});
}

TEST_F(schema, fields_removed) {
  expect_refused(stored<before::package>(), stored<removed::package>(),
                 {"schema_types::package: had 24 bytes, has 16",
                  "schema_types::package: field `where` is gone: it was schema_types::place at offset 16"});
}

TEST_F(schema, fields_renamed) {
  expect_refused(stored<before::package>(), stored<other_name::package>(),
                 {"schema_types::package: field `depends` is gone: it was schema_types::package* at offset 8",
                  "schema_types::package: field `needs` is new: schema_types::package* at offset 8"});
}

TEST_F(schema, fields_of_another_type) {
  expect_refused(stored<before::package>(), stored<other_type::package>(),
                 {"schema_types::package.size: was unsigned long at offset 0, is double at offset 0"});
}

TEST_F(schema, a_number_where_a_pointer_was) {
  expect_refused(
      stored<before::package>(), stored<data_for_pointer::package>(),
      {"schema_types::package.depends: was schema_types::package* at offset 8, is unsigned long at offset 8"});
}

TEST_F(schema, a_pointer_where_a_number_was) {
  expect_refused(
      stored<data_for_pointer::package>(), stored<before::package>(),
      {"schema_types::package.depends: was unsigned long at offset 8, is schema_types::package* at offset 8"});
}

TEST_F(schema, pointers_to_another_type) {
  expect_refused(
      stored<before::package>(), stored<other_pointee::package>(),
      {"schema_types::package.depends: was schema_types::package* at offset 8, is schema_types::place* at offset 8"});
}

TEST_F(schema, fields_that_are_stored_no_more) {
  expect_refused(stored<before::package>(), stored<not_stored::package>(),
                 {"schema_types::package.depends: was schema_types::package* at offset 8, is "
                  "tenure::transient<schema_types::package*> at offset 8"});
}

TEST_F(schema, fields_in_another_order) {
  expect_refused(stored<before::package>(), stored<other_order::package>(),
                 {"schema_types::package.size: was unsigned long at offset 0, is unsigned long at offset 8",
                  "schema_types::package.depends: was schema_types::package* at offset 8, is "
                  "schema_types::package* at offset 0"});
}

TEST_F(schema, a_type_inside_that_changed) {
  expect_refused(stored<before::package>(), stored<other_place::package>(),
                 {"schema_types::package.where (schema_types::place).y: was int at offset 4, is float at offset 4"});
}

TEST_F(schema, another_version) {
  expect_refused(stored<before::package>(), stored<next_version::package>(),
                 {"schema_types::package: was version 0, is version 2"});
}

TEST_F(schema, a_base_with_more_members) {
  expect_refused(
      stored<before::file>(), stored<other_base::file>(),
      {"schema_types::file: had 16 bytes, has 24",
       "schema_types::file.length: was long at offset 8, is long at offset 16",
       "schema_types::file: field `schema_types::named::previous` is new: schema_types::named* at offset 8"});
}

TEST_F(schema, a_base_that_is_gone) {
  expect_refused(
      stored<before::file>(), stored<no_base::file>(),
      {"schema_types::file: field `schema_types::named::next` is gone: it was schema_types::named* at offset 0",
       "schema_types::file: field `next` is new: schema_types::file* at offset 0"});
}

TEST_F(schema, virtual_functions_where_there_were_none) {
  expect_refused(stored<before::file>(), stored<with_functions::file>(),
                 {"schema_types::file: had 16 bytes, has 24",
                  "schema_types::file.schema_types::named::next: was schema_types::named* at offset 0, is "
                  "schema_types::named* at offset 8",
                  "schema_types::file.length: was long at offset 8, is long at offset 16",
                  "schema_types::file: the vtable pointer is new: a vtable pointer at offset 0"});
}

TEST_F(schema, of_another_database) {
  const database more = s().create_database("more", {.reservation = 1 << 28, .home = next_home(1 << 28)});
  make(stored<before::package>(), more);
  close();
  const auto before = files();
  ASSERT_EQ(before.size(), 3u);
  of_the_program = &stored<next_version::package>();
  expect_refused(*of_the_program, {"schema_types::package: was version 0, is version 2"});
  EXPECT_TRUE(files() == before);
  of_the_program = &stored<before::package>();
  open();
}

// Recovery comes first, and keeps what was committed.
TEST_F(schema, of_a_store_that_was_left_by_a_crash) {
  make(stored<before::package>(), s().default_database());
  holder& root = s().root<holder>("holder");
  s().transact([&] { root.object = nullptr; });
  const std::string copy = dir / "copy";
  std::filesystem::copy(path, copy);
  close();
  // The same files have the contents of before the store was closed.
  std::filesystem::copy(copy, path,
                        std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
  of_the_program = &stored<added::package>();
  expect_error(errc::schema_mismatch, {"field `conflicts` is new"}, [&] { open(); });
  of_the_program = &stored<before::package>();
  open();
  EXPECT_EQ(s().root<holder>("holder").object, nullptr);
}

// --- The index ---

namespace {

struct in_the_index {
  std::string name;
  std::uint64_t size, fingerprint;
  std::uint32_t version;
  std::vector<std::string> fields;
  bool operator==(const in_the_index&) const = default;
};

// By number, as another process finds them.
std::vector<in_the_index> index_of(const std::string& path) {
  store_options how;
  how.mode = rvm::open_mode::read_only;
  const store_state state(path, how);
  const database_state& in = state.databases->front();
  const auto is_persistent = [&](const void* object) {
    return in.map->find_start(reinterpret_cast<heap::address>(object)).is_persistent;
  };
  const heap::type_table& table = in.type_table();
  EXPECT_TRUE(is_persistent(&table) && is_persistent(table.types));
  std::vector<in_the_index> all;
  for (std::uint32_t n = 1; n < table.count; ++n) {
    if (table.types[n] == nullptr) {
      all.emplace_back();
      continue;
    }
    EXPECT_TRUE(is_persistent(table.types[n]));
    const type& t = *in.types->at(n).of;
    EXPECT_EQ(in.map->facts(reinterpret_cast<heap::address>(table.types[n])).type,
              state.databases->front().types->index_of(type_of<heap::stored_type>()));
    all.push_back({t.name, t.size, t.fingerprint, t.version, {}});
    for (const type_field& f : t.fields) all.back().fields.push_back(f.name + ": " + f.type_name);
    EXPECT_EQ(types::fingerprint_of(*in.types->at(n).owned), t.fingerprint) << t.name;
  }
  return all;
}

// A type that no program was compiled with: a number, a pointer, and every now and then another such type.
std::vector<const type*> generated_types(std::size_t count) {
  std::vector<const type*> all;
  for (std::size_t n = 0; n < count; ++n) {
    type t;
    t.name = "generated::type_" + std::to_string(n);
    t.size = 16;
    t.alignment = 8;
    type_field next;
    next.kind = field_kind::reference;
    next.name = "next";
    next.size = sizeof(void*);
    next.type_name = "void*";
    type_field number;
    number.name = "number_" + std::to_string(n % 7);
    number.scalar = scalar_kind::unsigned_integer;
    number.offset = number.size = 8;
    number.type_name = "unsigned long";
    t.fields = {next, number};
    if (n % 10 == 9) {
      type_field inner;
      inner.kind = field_kind::nested;
      inner.name = "inner";
      inner.of = all.back();
      inner.offset = 16;
      inner.size = all.back()->size;
      inner.type_name = all.back()->name;
      t.fields.push_back(inner);
      t.size += inner.size;
    }
    t.fingerprint = types::fingerprint_of(t);
    all.push_back(&keep(std::move(t)));
  }
  return all;
}

struct generated {
  generated* next;
  std::uint64_t number;
};

}  // namespace

TEST_F(schema, the_index_is_what_the_types_are) {
  s().transact([&] {
    s().root<before::package>("package");
    s().root<tenure::map<tenure::string, before::file*>>("files")["name"] = s().make<before::file>();
    s().root<next_version::package>("next");
  });
  close();
  const auto first = index_of(path);
  const auto expect_in = [&](const type& t) {
    const auto found = std::ranges::find(first, t.name, &in_the_index::name);
    ASSERT_NE(found, first.end()) << t.name;
    EXPECT_EQ(found->fingerprint, t.fingerprint) << t.name;
    EXPECT_EQ(found->size, t.size) << t.name;
    EXPECT_EQ(found->version, t.version) << t.name;
    EXPECT_EQ(found->fields.size(), t.fields.size()) << t.name;
  };
  for (const type* const t : {&type_of<before::package>(), &type_of<before::place>(), &type_of<before::file>(),
                              &type_of<next_version::package>(), &type_of<tenure::map<tenure::string, before::file*>>(),
                              &type_of<heap::stored_type>(), &type_of<heap::stored_field>(),
                              &type_of<heap::type_table>(), &type_of<heap::root_table>(), &type_of<char>()})
    expect_in(*t);
  open();
  s().transact([&] { s().root<before::package>("package").depends = s().make<before::package>(); });
  close();
  EXPECT_EQ(index_of(path), first) << "types keep their numbers, and are described once";
  open();
}

TEST_F(schema, thousands_of_types) {
  const auto types = generated_types(3000);
  holder& root = s().root<holder>("holder");
  std::uint64_t made = 0;
  const auto add = [&](const type* t) {
    auto* const g = static_cast<generated*>(detail::allocate(*t, 1, &root));
    g->next = static_cast<generated*>(root.object);
    g->number = made++;
    root.object = g;
  };
  for (std::size_t n = 0; n < types.size();) {
    const std::size_t before = n, made_before = made;
    transaction tx = s().begin();
    for (; n < types.size() && n < before + 1 + before / 2; ++n) add(types[n]);
    if (before % 3 == 1) {  // what does not commit gives numbers away, and nothing else
      tx.abort();
      made = made_before;
      n = before;
      s().transact([&] { add(types[n++]); });
      continue;
    }
    if (before % 3 == 2) {
      int on_the_stack = 0;
      void* const head = root.object;
      root.object = &on_the_stack;
      EXPECT_THROW(tx.commit(), error);
      root.object = head;
    }
    tx.commit();
    expect_sound(s());
  }
  EXPECT_EQ(made, types.size());
  close();
  const auto index = index_of(path);
  std::map<std::string, const in_the_index*> by_name;
  for (const auto& t : index) by_name[t.name] = &t;
  for (const type* const t : types) {
    ASSERT_TRUE(by_name.contains(t->name)) << t->name;
    EXPECT_EQ(by_name[t->name]->fingerprint, t->fingerprint);
  }
  open();
  holder& again = s().root<holder>("holder");
  std::uint64_t n = made;
  for (const auto* g = static_cast<const generated*>(again.object); g != nullptr; g = g->next)
    EXPECT_EQ(g->number, --n);
  EXPECT_EQ(n, 0u);
  s().transact([&] {
    for (const type* const t : types) {
      auto* const g = static_cast<generated*>(detail::allocate(*t, 1, &again));
      g->next = static_cast<generated*>(again.object);
      again.object = g;
    }
  });
  close();
  EXPECT_EQ(index_of(path), index);
  open();
}

// All that the heap makes for itself can be reached, also where the index grows several times in one commit.
TEST_F(schema, the_index_has_no_garbage) {
  holder& root = s().root<holder>("holder");
  s().transact([&] {
    for (const type* const t : generated_types(200)) {
      auto* const g = static_cast<generated*>(detail::allocate(*t, 1, &root));
      g->next = static_cast<generated*>(root.object);
      root.object = g;
    }
  });
  close();
  store_options reading = how;
  reading.mode = rvm::open_mode::read_only;
  {
    const store_state state(path, reading);
    heap::reachable_objects all(*state.databases);
    all.search();
    const database_state& in = state.databases->front();
    in.map->for_each_persistent(0, in.header().blocks_end, [&](heap::address object) {
      EXPECT_TRUE(all.contains(object)) << heap::object_text(*state.databases, object);
    });
  }
  open();
}

// The array of the index grows in commits that then fail: it must still be there for those that succeed.
TEST_F(schema, the_index_grows_in_commits_that_fail) {
  close();
  path = dir / "another";
  how = small_store();
  how.memory.log.max_size = how.memory.log.size = 256 << 10;
  how.memory.background = false;
  open();
  holder& root = s().root<holder>("holder");
  const auto types = generated_types(70);
  for (std::size_t n = 0; n < types.size(); ++n) {
    holder& large = s().root<holder>("large");
    transaction tx = s().begin();
    void* const head = root.object;
    auto* const g = static_cast<generated*>(detail::allocate(*types[n], 1, &root));
    g->next = static_cast<generated*>(head);
    root.object = g;
    large.object = detail::allocate(type_of<int>(), 100000, &root);
    std::fill_n(static_cast<int*>(large.object), 100000, 5);
    EXPECT_THROW(tx.commit(), error);
    large.object = nullptr;
    root.object = head;
    tx.checkpoint();  // without the new type
    expect_sound(s());
    root.object = g;
    tx.commit();
    expect_sound(s());
  }
  reopen();
  std::size_t count = 0;
  for (const auto* g = static_cast<const generated*>(s().root<holder>("holder").object); g != nullptr; g = g->next)
    ++count;
  EXPECT_EQ(count, 70u);
}
