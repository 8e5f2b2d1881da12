// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Classes, their changes from version to version, and values are drawn. What conversions make of the values must be what a
// straightforward converter says, which knows fields by identity (drawn_changes.hpp) [heap.rewrite.plan].
#include <array>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "drawn_changes.hpp"
#include "rewrite/converted_values.hpp"
#include "rewrite/rewriter.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"
#include "types/evolution.hpp"

namespace drawn_evolution {

using namespace tenure;
using namespace tenure::drawn;

// What operations of types need, which are plain functions.
struct running_program {
  history* of;
  std::size_t stage;  // of the store
  described* is;
  std::array<std::vector<std::byte>, 5> defaults;
};
running_program* running = nullptr;

template <std::size_t N>
void construct(void* memory) {
  std::memcpy(memory, running->defaults[N].data(), running->defaults[N].size());
}
template <std::size_t N>
const type_changes& changes_of_class() {
  return running->of->changes_of(static_cast<int>(N));
}
template <std::size_t... N>
const type_operations& operations_of(std::size_t n, std::index_sequence<N...>) {
  static const std::array<type_operations, sizeof...(N)> all{
      type_operations{nullptr, nullptr, nullptr, &construct<N>, &changes_of_class<N>}...};
  return all[n];
}

void call(void (*)(), const old_object& was, void* is, conversion&) {
  const history& h = *running->of;
  for (const drawn_class& c : h.at(running->stage).classes) {
    if (c.name != was.type_name()) continue;
    const history::function& f = *h.function_of(c.id);
    const auto number_of = [&](int id) {
      const drawn::field* const old = c.find(id);
      return old != nullptr && history::is_small(*old) ? was.get<std::int64_t>(old->name) : 0;
    };
    const std::int64_t sum = 3 * number_of(f.one) + number_of(f.other);
    std::memcpy(static_cast<std::byte*>(is) + running->is->offset_of(c.id, f.result), &sum, sizeof sum);
  }
}

const described::memory no_memory{
    {},
    [](const target& t) { return static_cast<std::uintptr_t>(t.object + 1) * 4096; },
    [](std::uintptr_t address) {
      return address == 0 ? target{} : target{static_cast<int>(address / 4096) - 1, -1, 0};
    }};

// A program with the last version of the classes.
struct program {
  explicit program(history& h) : of(h), is(h.last()), state{&h, 0, &is, {}} {
    running = &state;
    for (std::size_t n = 0; n < state.defaults.size(); ++n) {
      const int id = static_cast<int>(n);
      type& t = is.of_class(id);
      t.operations = &operations_of(n, std::make_index_sequence<5>());
      state.defaults[n].resize(t.size);
      is.write(id, default_of(h.last(), id), state.defaults[n].data(), no_memory);
      if (const auto since = h.function_since(id)) h.changes_of(id).since(*since).convert = call;
    }
  }
  ~program() { running = nullptr; }
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  history& of;
  described is;
  running_program state;
};

void expect_met(const counters& met, const std::vector<std::string>& verbs, std::uint64_t least) {
  for (const std::string& verb : verbs) {
    const auto found = met.find(verb);
    EXPECT_GE(found != met.end() ? found->second : 0, least) << verb;
  }
}
const std::vector<std::string> all_verbs{
    "reordered", "widened", "narrowed", "new",      "added",    "removed",         "renamed",      "moved in",
    "moved out", "longer",  "shorter",  "function", "optional", "pointer to void", "class renamed"};

class drawn_values : public support::reopened_store {
 protected:
  // Values of one class of a stage.
  void compare(program& p, described& stored, int id, const types::evolution& plan, bool tame) {
    history& h = p.of;
    const std::size_t stage = p.state.stage;
    const type &was = stored.of_class(id), &is = p.is.of_class(id);
    std::vector<std::string> problems;
    const types::value_conversion how = plan.plan(was, is, problems);
    const bool is_refused = h.must_be_refused(stage, id);
    if (!problems.empty() != is_refused) {
      for (auto& v : h.changes_of(id).versions)
        for (auto& c : v.fields)
          std::printf("since %u kind %d %s %s\n", v.since, (int)c.what, c.field.c_str(), c.to.c_str());
      for (std::size_t q = 0; q < h.stages(); ++q) {
        std::printf("stage %zu v%u:", q, h.at(q).at(id).version);
        for (auto& f : h.at(q).at(id).fields)
          std::printf(" %d=%s:%d/%s*%lu", f.id, f.name.c_str(), (int)f.is, f.of_number.name, f.count);
        std::puts("");
      }
      std::printf("stage %zu\n", stage);
    }
    ASSERT_EQ(!problems.empty(), is_refused) << (problems.empty() ? was.name : problems[0]);
    if (is_refused) return void(++met["refused"]);
    const object values = h.draw_values(
        stage, id, tame,
        [&](const drawn::field&) {
          return target{static_cast<int>(h.below(50)) - 1, -1, 0};
        },
        false);
    std::vector<std::byte> old(was.size);
    stored.write(id, values, old.data(), no_memory);
    history::outcome expected;
    h.convert(stage, id, values, expected, met);
    if (expected.has_misfit) {
      ++met["refused value"];
      EXPECT_FALSE(tame);
      return support::expect_error(errc::schema_mismatch, {"does not fit"},
                                   [&] { rewriting::convert(how, old, into, further); });
    }
    if (types::evolution::differ(was, is))
      rewriting::convert(how, old, into, further);
    else
      into.assign(old.begin(), old.end());
    ASSERT_EQ(into.size(), is.size);
    ASSERT_TRUE(p.is.read(id, into.data(), no_memory) == expected.values)
        << "class " << was.name << " of stage " << stage;
    ++met["converted"];
  }

  detail::conversion_memory further{*current_store()->databases};
  rewriting::value_bytes into;
  counters met;
};

TEST_F(drawn_values, become_what_a_straightforward_converter_says) {
  const std::uint64_t rounds = std::max<std::uint64_t>(rvm::testing::scaled(400), 400);
  for (std::uint64_t round = 0; round < rounds && !HasFatalFailure(); ++round) {
    SCOPED_TRACE(round);
    std::mt19937_64 random(round);
    history h(random, 2 + random() % 5);
    program p(h);
    const types::evolution plan(p.is.all());
    for (; p.state.stage + 1 < h.stages(); ++p.state.stage) {
      described stored(h.at(p.state.stage));
      for (int id = 0; id < 5; ++id)
        for (int n = 0; n < 4; ++n) ASSERT_NO_FATAL_FAILURE(compare(p, stored, id, plan, n != 0));
    }
    for (const auto& [what, times] : h.drawn()) met[what] += times;
  }
  expect_met(met, all_verbs, rounds / 20);
  expect_met(met, {"name reused", "exchanged", "misfit", "element left out", "refused value"}, rounds / 20);
  expect_met(met, {"refused"}, 1);
  for (const auto& [what, times] : met) RecordProperty(what, std::to_string(times));
}

// A declaration that was forgotten is missed, and nothing is lost.
TEST_F(drawn_values, are_not_lost_if_a_declaration_is_missing) {
  using kind = detail::field_change::kind;
  std::uint64_t missed = 0;
  const std::uint64_t rounds = std::max<std::uint64_t>(rvm::testing::scaled(400), 400);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    std::mt19937_64 random(round);
    history h(random, 2 + random() % 4);
    program p(h);
    const types::evolution plan(p.is.all());
    for (int id = 0; id < 5; ++id) {
      if (h.function_of(id) != nullptr) continue;
      for (std::size_t v = 0; v < h.changes_of(id).versions.size(); ++v) {
        std::vector<detail::field_change>& fields = h.changes_of(id).versions[v].fields;
        for (std::size_t n = 0; n < fields.size(); ++n) {
          const detail::field_change change = fields[n];
          if (change.what != kind::removed && change.what != kind::renamed) continue;
          const std::size_t stage = [&] {  // the last one of the version
            std::size_t last = 0;
            for (std::size_t s = 0; s < h.stages(); ++s)
              if (h.at(s).at(id).version == h.changes_of(id).versions[v].since) last = s;
            return last;
          }();
          if (change.field.find('.') != std::string::npos || h.comes_later(id, stage, change.field)) continue;
          described stored(h.at(stage));
          fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(n));
          std::vector<std::string> problems;
          (void)plan.plan(stored.of_class(id), p.is.of_class(id), problems);
          fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(n), change);
          ASSERT_FALSE(problems.empty()) << change.field;
          ++missed;
        }
      }
    }
  }
  EXPECT_GT(missed, rounds / 2);
}

// --- Whole stores --------------------------------------------------------------------------------------------------------

struct drawn_root {
  tenure::vector<void*> all;
};

class drawn_stores : public ::testing::Test {
 protected:
  struct stored_object {
    int of;
    object values;
    std::uintptr_t at = 0;
  };

  // To whole objects, and to nested values that are there in both.
  target draw_target(history& h, std::size_t stage, const drawn::field& from) {
    if (h.below(4) == 0) return {};
    const int object = static_cast<int>(h.below(objects.size()));
    const int of = objects[static_cast<std::size_t>(object)].of;
    if (from.of_class < 0 || from.of_class == of) return {object, -1, 0};
    for (const drawn::field& f : h.at(stage).at(of).fields) {
      const drawn::field* const later = h.last().at(of).find(f.id);
      if (f.is != form::nested || f.of_class != from.of_class || later == nullptr) continue;
      return {object, f.id, h.below(std::min(f.count, later->count))};
    }
    return {};
  }
  std::uintptr_t address_of(described& in, const target& t) {
    if (t.object < 0) return 0;
    const stored_object& o = objects[static_cast<std::size_t>(t.object)];
    if (t.field < 0) return o.at;
    const drawn::field& f = *in.layout_of().at(o.of).find(t.field);
    return o.at + in.offset_of(o.of, t.field) + t.element * in.of_class(f.of_class).size;
  }
  // Pointers are compared as addresses.
  void resolve(described& in, int id, object& values) {
    for (const drawn::field& f : in.layout_of().at(id).fields)
      for (element& e : values.at(f.id)) {
        if (f.is == form::pointer) e.leads_to = {-2, -1, address_of(in, e.leads_to)};
        if (f.is != form::pointer && f.of_class >= 0) resolve(in, f.of_class, e.fields);
      }
  }

  void make(const std::string& path, const store_options& how, history& h, std::size_t stage, described& stored,
            bool tame) {
    objects.clear();
    for (int n = 0; n < 40; ++n) objects.push_back({n % 5, {}});
    for (stored_object& o : objects)
      o.values = h.draw_values(
          stage, o.of, tame, [&](const drawn::field& f) { return draw_target(h, stage, f); }, true);
    store s(path, how);
    auto& root = s.root<drawn_root>("drawn");
    s.transact([&] {
      database_state& in = current_store()->databases->front();
      const described::memory memory{
          [&](const type& of, std::uint64_t bytes) { return tenure::detail::make_object(in, of, bytes); },
          [&](const target& t) { return address_of(stored, t); },
          {}};
      for (stored_object& o : objects) {
        const type& of = stored.of_class(o.of);
        o.at = reinterpret_cast<std::uintptr_t>(tenure::detail::make_object(in, of, of.size));
        root.all.push_back(reinterpret_cast<void*>(o.at));
      }
      for (stored_object& o : objects) stored.write(o.of, o.values, reinterpret_cast<std::byte*>(o.at), memory);
    });
    support::expect_sound(s);
    s.close();
  }
  void convert(const std::string& from, const std::string& to, const types::evolution& plan, object_order order) {
    std::filesystem::create_directory(to);
    store_options how;
    how.mode = rvm::open_mode::read_only;
    store_state opened(from, how, type_check::none);
    const std::uint64_t reservation = std::uint64_t{1} << 28;
    rewriting::new_store as{to, to + "/log", {}};
    as.databases.push_back({"main", to + "/main.db", support::next_home(reservation) + heap::vtable_area, reservation,
                            opened.databases->front().header().database_id});
    (void)rewriting::rewrite(*opened.databases, as, {.order = order}, &plan);
    opened.close();
  }
  void check(const std::string& path, program& p, std::size_t stage) {
    store s(path);
    support::expect_sound(s);
    auto& root = s.root<drawn_root>("drawn");
    ASSERT_EQ(root.all.size(), objects.size());
    const described::memory memory{{}, {}, [](std::uintptr_t address) { return target{-2, -1, address}; }};
    for (std::size_t n = 0; n < objects.size(); ++n) objects[n].at = reinterpret_cast<std::uintptr_t>(root.all[n]);
    for (stored_object& o : objects) {
      history::outcome expected;
      p.of.convert(stage, o.of, o.values, expected, met);
      resolve(p.is, o.of, expected.values);
      ASSERT_TRUE(p.is.read(o.of, reinterpret_cast<const std::byte*>(o.at), memory) == expected.values)
          << "class " << o.of << " of stage " << stage;
    }
    s.close();
  }

  counters met;
  std::vector<stored_object> objects;
};

// With all that refers to something: pointers to objects and into them, vectors, strings.
TEST_F(drawn_stores, become_what_a_straightforward_converter_says) {
  const std::uint64_t rounds = std::max<std::uint64_t>(rvm::testing::scaled(20), 20);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const support::temp_dir dir;
    std::mt19937_64 random(round);
    history h(random, 2 + random() % 5);
    program p(h);
    const types::evolution plan(p.is.all());
    const std::size_t stage = p.state.stage = random() % (h.stages() - 1);
    described stored(h.at(stage));
    const bool tame = round % 4 != 0;
    ASSERT_NO_FATAL_FAILURE(make(dir / "was", support::small_store(), h, stage, stored, tame));
    bool is_refused = false;
    history::outcome all;
    counters ignored;
    for (const stored_object& o : objects) {
      is_refused |= h.must_be_refused(stage, o.of);
      if (!is_refused) h.convert(stage, o.of, o.values, all, ignored);
    }
    const auto order = static_cast<object_order>(random() % 4);
    if (is_refused || all.has_misfit) {
      EXPECT_FALSE(tame && !is_refused);
      ++met["refused"];
      const std::string was = dir / "was";
      support::expect_error(errc::schema_mismatch, {was.c_str()}, [&] { convert(was, dir / "is", plan, order); });
      continue;
    }
    convert(dir / "was", dir / "is", plan, order);
    ASSERT_NO_FATAL_FAILURE(check(dir / "is", p, stage));
    ++met["converted"];
  }
  expect_met(met, {"converted"}, rounds / 2);
  expect_met(met, {"new", "removed", "renamed", "widened", "optional", "vector"}, rounds / 4);
}

}  // namespace drawn_evolution
