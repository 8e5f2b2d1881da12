// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is drawn to happen to classes from version to version, as evolve<T> declares it, and what must become of old values: told
// field by field, by identity, from what happened. Nothing of the library's planning is used.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <set>

#include <tenure/evolve.hpp>

#include "drawn_schema.hpp"

namespace tenure::drawn {

// Counts what the comparisons have met.
using counters = std::map<std::string, std::uint64_t>;

class history {
 public:
  // A field of a class that went into a class that is nested in it, or out of it.
  struct move {
    std::size_t stage;  // the schema that it was made to
    int outer, inner, nested_field;
    int outer_field, inner_field;
    bool is_inwards;
  };
  // A function: `result` = 3 * one + other.
  struct function {
    std::size_t stage;
    int of, one, other, result;
  };

  history(std::mt19937_64& random, std::size_t stages) : random_(random) {
    draw_first();
    while (stages_.size() < stages) draw_next();
  }

  [[nodiscard]] const schema& at(std::size_t stage) const { return *stages_[stage]; }
  [[nodiscard]] const schema& last() const { return *stages_.back(); }
  [[nodiscard]] std::size_t stages() const { return stages_.size(); }
  [[nodiscard]] type_changes& changes_of(int id) { return changes_[id]; }
  [[nodiscard]] const function* function_of(int id) const {
    const auto found = functions_.find(id);
    return found != functions_.end() ? &found->second : nullptr;
  }
  [[nodiscard]] std::string name_at_version(int id, std::uint32_t version, int field_id) const {
    for (const auto& s : stages_)
      if (const drawn_class& c = s->at(id); c.version == version)
        if (const field* const f = c.find(field_id)) return f->name;
    return {};
  }
  // Whether a field of that name is in a stage behind this one.
  [[nodiscard]] bool comes_later(int id, std::size_t stage, const std::string& name) const {
    for (std::size_t n = stage + 1; n < stages_.size(); ++n)
      for (const field& f : at(n).at(id).fields)
        if (f.name == name) return true;
    return false;
  }

  // --- What must become of values ----------------------------------------------------------------------------------------

  struct outcome {
    bool has_misfit = false;  // values that do not fit
    object values = {};
  };
  // Whether the plan must refuse a class, whatever the values are: a number would become another without a declaration.
  [[nodiscard]] bool must_be_refused(std::size_t stage, int id) const {
    const drawn_class &before = at(stage).at(id), &after = last().at(id);
    bool refused = false;
    for (const field& a : after.fields)
      if (const field* const b = before.find(a.id)) {
        refused |= is_refused(stage, *b, a, id, a.id);
        if (b->is != form::pointer && b->is != form::vector && b->of_class >= 0)
          refused |= must_be_refused(stage, b->of_class);
      }
    for (const move& m : moves_)
      if (const auto [b, a] = fields_of(m, stage); m.outer == id && b != nullptr)
        refused |= is_refused(stage, *b, *a, m.outer, m.outer_field);
    return refused;
  }
  void convert(std::size_t stage, int id, const object& was, outcome& result, counters& met) const {
    result.values = converted(stage, id, was, result, met);
  }

  // Values of that stage; `tame`: all fit into what the fields become.
  object draw_values(std::size_t stage, int id, bool tame, const std::function<target(const field&)>& draw_target,
                     bool has_memory) {
    object made;
    for (const field& f : at(stage).at(id).fields) {
      const std::vector<const field*> later = becomes(id, f);
      std::uint64_t count = f.count, kept = f.count;
      for (const field* const each : later) kept = std::min(kept, each->count);
      if (f.is == form::optional) count = kept = below(2);
      if (f.is == form::vector) count = kept = has_memory ? below(4) : 0;
      std::vector<element>& all = made[f.id];
      for (std::uint64_t n = 0; n < count; ++n) {
        element& e = all.emplace_back();
        const bool must_be_zero = tame && n >= kept;
        if (f.is == form::nested && must_be_zero)
          e.fields = zero(stage, f.of_class);
        else if (f.is == form::pointer)
          e.leads_to = must_be_zero ? target{} : draw_target(f);
        else if (f.is == form::text)
          e.text = std::string(has_memory && !must_be_zero ? below(40) : 0, static_cast<char>('a' + below(26)));
        else if (f.of_class >= 0)
          e.fields = draw_values(stage, f.of_class, tame, draw_target, has_memory);
        else if (!must_be_zero)
          e.value = draw_number(f.of_number, later, tame);
      }
    }
    return made;
  }

  // What the functions add.
  static bool is_small(const field& f) {
    return f.is == form::number && f.count == 1 && f.of_number.size <= 4 && f.of_number.kind != scalar_kind::floating &&
           f.of_number.kind != scalar_kind::enumeration;
  }

  std::uint64_t below(std::uint64_t end) { return random_() % end; }

 private:
  // --- Reference ---------------------------------------------------------------------------------------------------------

  // What a number becomes. Of enumerations it is not known whether they have signs.
  static std::optional<long double> number_as(const number& was, const number& is, long double value) {
    using enum scalar_kind;
    const long double all = std::ldexp(1.0L, static_cast<int>(8 * is.size));
    if (was == is) return value;
    if (is.kind == boolean) return value == 0 || value == 1 ? std::optional(value) : std::nullopt;
    if (was.kind == enumeration && is.kind != floating && was.size == is.size)
      return value > most_of(is) ? value - all : value;  // the same bits
    if (was.kind == enumeration && value >= std::ldexp(1.0L, static_cast<int>(8 * was.size - 1))) return std::nullopt;
    if (is.kind == enumeration) {
      if (was.kind != floating && was.size == is.size) return value < 0 ? value + all : value;
      if (std::trunc(value) != value || value < -all / 2 || value >= all / 2) return std::nullopt;
      return value < 0 ? value + all : value;
    }
    return holds(is, value) ? std::optional(value) : std::nullopt;
  }
  static bool is_lossless(const number& was, const number& is) {
    using enum scalar_kind;
    if (was == is) return true;
    if (is.kind == boolean) return false;
    if (was.kind == enumeration || is.kind == enumeration)
      return was.kind != floating && is.kind != floating && is.size >= was.size;
    if (is.kind == floating && was.kind != floating)
      return 8 * was.size <= static_cast<std::uint64_t>(is.size == 4 ? 24 : 53);
    if (is.kind == floating) return is.size >= was.size;
    return was.kind != floating && least_of(is) <= least_of(was) && most_of(is) >= most_of(was);
  }

  object converted(std::size_t stage, int id, const object& was, outcome& result, counters& met) const {
    const drawn_class &before = at(stage).at(id), &after = last().at(id);
    object is = default_of(last(), id);
    if (before.name != after.name) ++met["class renamed"];
    if (before.fields.size() > 1 && !same_order(before, after)) ++met["reordered"];
    const function* const f = function_of(id);
    const bool runs = f != nullptr && stage < f->stage;
    for (const field& b : before.fields)
      if (after.find(b.id) == nullptr) ++met["removed"];
    for (const field& a : after.fields) {
      if (const field* const b = before.find(a.id)) {
        if (b->name != a.name) ++met["renamed"];
        put(stage, *b, a, was.at(b->id), is.at(a.id), result, met);
      } else if (const auto added = added_.find(a.id); added != added_.end() && stage < added->second.stage) {
        ++met["added"];
        for (element& e : is.at(a.id)) e.value = added->second.value;
      } else {
        ++met["new"];
      }
    }
    for (const move& m : moves_)
      if (m.outer == id && stage < m.stage) apply(m, stage, was, is, result, met);
    if (runs) {
      ++met["function"];
      const auto number_of = [&](int field_id) {
        const field* const b = before.find(field_id);
        return b != nullptr && is_small(*b) ? was.at(field_id)[0].value : 0.0L;
      };
      if (const auto at = is.find(f->result); at != is.end())
        at->second[0].value = 3 * number_of(f->one) + number_of(f->other);
    }
    return is;
  }
  // Of a stage before it: the field as it was, and as it is now. nullptr: nothing moves.
  [[nodiscard]] std::pair<const field*, const field*> fields_of(const move& m, std::size_t stage) const {
    if (stage >= m.stage) return {};
    const schema &before = at(stage), &after = last();
    if ((m.is_inwards ? after : before).at(m.outer).find(m.nested_field) == nullptr) return {};
    const field* const b =
        m.is_inwards ? before.at(m.outer).find(m.outer_field) : before.at(m.inner).find(m.inner_field);
    const field* const a = m.is_inwards ? after.at(m.inner).find(m.inner_field) : after.at(m.outer).find(m.outer_field);
    return b != nullptr && a != nullptr ? std::pair(b, a) : std::pair<const field*, const field*>();
  }
  void apply(const move& m, std::size_t stage, const object& was, object& is, outcome& result, counters& met) const {
    const auto [b, a] = fields_of(m, stage);
    if (const auto added = added_.find(m.outer_field); b == nullptr && m.is_inwards && added != added_.end()) {
      if (stage >= added->second.stage || last().at(m.outer).find(m.nested_field) == nullptr) return;
      for (element& e : is.at(m.nested_field)[0].fields.at(m.inner_field)) e.value = added->second.value;
    }
    if (b == nullptr) return;
    ++met[m.is_inwards ? "moved in" : "moved out"];
    if (m.is_inwards)
      put(stage, *b, *a, was.at(m.outer_field), is.at(m.nested_field)[0].fields.at(m.inner_field), result, met);
    else
      put(stage, *b, *a, was.at(m.nested_field)[0].fields.at(m.inner_field), is.at(m.outer_field), result, met);
  }
  static bool has_number(const field& f) { return f.is == form::number || (f.is == form::optional && f.of_class < 0); }
  // `narrowed`: the field of the class `id` of which it would have been declared.
  [[nodiscard]] bool is_declared(std::size_t stage, const field& b, const field& a, int id, int narrowed) const {
    return is_lossless(b.of_number, a.of_number) || (b.is == form::number && is_narrowed(id, stage, narrowed));
  }
  // A function need not have made what has its name still.
  [[nodiscard]] bool is_refused(std::size_t stage, const field& b, const field& a, int id, int narrowed) const {
    if (a.count < b.count && !is_narrowed(id, stage, narrowed)) return true;
    return has_number(b) && !is_declared(stage, b, a, id, narrowed);
  }
  void put(std::size_t stage, const field& b, const field& a, const std::vector<element>& was, std::vector<element>& is,
           outcome& result, counters& met) const {
    if (b.is == form::optional || b.is == form::vector) {
      is.assign(was.size(), {});
      if (!was.empty()) ++met[b.is == form::vector ? "vector" : "optional"];
    } else {
      if (a.count > b.count) ++met["longer"];
      if (a.count < b.count) ++met["shorter"];
    }
    if (has_number(b) && !(b.of_number == a.of_number))
      ++met[is_lossless(b.of_number, a.of_number) ? "widened" : "narrowed"];
    if (b.is == form::pointer && b.of_class != a.of_class) ++met["pointer to void"];
    for (std::size_t n = 0; n < was.size(); ++n) {
      if (n >= is.size()) {
        if (!is_zero(stage, b, was[n])) ++met["element left out"], result.has_misfit = true;
      } else if (has_number(b)) {
        const std::optional<long double> fits = number_as(b.of_number, a.of_number, was[n].value);
        if (!fits) ++met["misfit"], result.has_misfit = true;
        is[n].value = fits.value_or(0);
      } else if (b.is != form::pointer && b.of_class >= 0) {
        is[n].fields = converted(stage, b.of_class, was[n].fields, result, met);
      } else {
        is[n] = was[n];
      }
    }
  }
  [[nodiscard]] bool is_narrowed(int id, std::size_t stage, int field_id) const {
    return std::ranges::any_of(narrowed_, [&](const auto& n) {
      return std::get<0>(n) == id && std::get<1>(n) == field_id && stage < std::get<2>(n);
    });
  }
  [[nodiscard]] bool is_zero(std::size_t stage, const field& f, const element& e) const {
    if (e.value != 0 || !e.text.empty() || !(e.leads_to == target{})) return false;
    return std::ranges::all_of(e.fields, [&](const auto& all) {
      const field& inner = *at(stage).at(f.of_class).find(all.first);
      if (inner.is == form::vector || inner.is == form::optional) return all.second.empty();
      return std::ranges::all_of(all.second, [&](const element& each) { return is_zero(stage, inner, each); });
    });
  }
  static bool same_order(const drawn_class& a, const drawn_class& b) {
    std::vector<int> one, other;
    for (const field& f : a.fields)
      if (b.find(f.id) != nullptr) one.push_back(f.id);
    for (const field& f : b.fields)
      if (a.find(f.id) != nullptr) other.push_back(f.id);
    return one == other;
  }

  // --- Drawing -----------------------------------------------------------------------------------------------------------

  object zero(std::size_t stage, int id) const {
    object made;
    for (const field& f : at(stage).at(id).fields) {
      std::vector<element>& all = made[f.id];
      for (std::uint64_t n = 0; n < f.count && f.is != form::vector && f.is != form::optional; ++n)
        if (element& e = all.emplace_back(); f.is == form::nested) e.fields = zero(stage, f.of_class);
    }
    return made;
  }
  long double draw_number(const number& of) {
    if (below(4) != 0) return static_cast<long double>(below(of.kind == scalar_kind::boolean ? 2 : 100));
    if (of.kind == scalar_kind::floating)
      return rounded(of,
                     static_cast<long double>(static_cast<std::int64_t>(random_())) / (below(2) == 0 ? 1 : 1 << 20));
    const auto size = static_cast<int>(8 * of.size - (of.kind == scalar_kind::boolean ? 7 : 0));
    return least_of(of) + static_cast<long double>(random_() >> (64 - size));
  }
  // What a field is in the last stage.
  [[nodiscard]] std::vector<const field*> becomes(int id, const field& f) const {
    std::vector<const field*> found;
    const auto add = [&](int of, int field_id) {
      if (const field* const later = last().at(of).find(field_id)) found.push_back(later);
    };
    add(id, f.id);
    for (const move& m : moves_) {
      if (m.is_inwards && m.outer_field == f.id) add(m.inner, m.inner_field);
      if (!m.is_inwards && m.inner_field == f.id) add(m.outer, m.outer_field);
    }
    return found;
  }
  long double draw_number(const number& of, const std::vector<const field*>& later, bool tame) {
    for (int tries = 0; tries < 20; ++tries) {
      const long double value = draw_number(of);
      const auto fits = [&](const field* each) { return number_as(of, each->of_number, value).has_value(); };
      if (!tame || std::ranges::all_of(later, fits)) return value;
    }
    return 0;
  }
  std::string new_name() { return "f" + std::to_string(++names_); }
  number draw_number_type() { return numbers()[below(numbers().size())]; }
  field draw_field(const schema& in, int id) {
    field f{++ids_, new_name()};
    f.is = static_cast<form>(below(10) < 5 ? 0 : below(6));
    const auto classes = static_cast<int>(in.classes.size());
    if (f.is == form::nested && id + 1 == classes) f.is = form::number;
    if (f.is == form::pointer) f.of_class = static_cast<int>(below(static_cast<std::uint64_t>(classes)));
    if (f.is == form::nested || (id + 1 < classes && (f.is == form::vector || f.is == form::optional) && below(2) == 0))
      f.of_class = id + 1 + static_cast<int>(below(static_cast<std::uint64_t>(classes - id - 1)));
    if (f.is != form::vector && f.is != form::optional && below(4) == 0) f.count = 1 + below(3);
    f.of_number = draw_number_type();
    f.fresh = static_cast<long double>(below(2));
    return f;
  }
  void draw_first() {
    auto made = std::make_unique<schema>();
    for (int n = 0; n < 5; ++n) made->classes.push_back({n, "c" + std::to_string(n), 0, {}});
    for (drawn_class& c : made->classes)
      for (std::uint64_t left = 1 + below(8); left != 0; --left) c.fields.push_back(draw_field(*made, c.id));
    stages_.push_back(std::move(made));
  }

  // What one step declares of a class. Each field has one change in it.
  struct step {
    schema& now;
    std::set<int> touched, declared;
  };
  void draw_next() {
    auto made = std::make_unique<schema>(last());
    step s{*made, {}, {}};
    for (std::uint64_t left = 1 + below(8); left != 0; --left) change(s, static_cast<int>(below(made->classes.size())));
    for (const int id : s.declared) ++made->classes[static_cast<std::size_t>(id)].version;
    stages_.push_back(std::move(made));
  }
  detail::version_changes& declare(step& s, int id) {
    s.declared.insert(id);
    return changes_[id].since(last().at(id).version);
  }
  field* pick(step& s, drawn_class& c) {
    if (c.fields.empty()) return nullptr;
    field& f = c.fields[below(c.fields.size())];
    if (frozen_.contains(f.id) || !s.touched.insert(f.id).second) return nullptr;
    if (last().at(c.id).find(f.id) == nullptr) return nullptr;  // it was made in this step
    return &f;
  }
  void insert(drawn_class& c, field f) {
    c.fields.insert(c.fields.begin() + static_cast<std::ptrdiff_t>(below(c.fields.size() + 1)), std::move(f));
  }
  void erase(drawn_class& c, int id) {
    std::erase_if(c.fields, [&](const field& f) { return f.id == id; });
  }

  void change(step& s, int id) {
    using kind = detail::field_change::kind;
    drawn_class& c = s.now.classes[static_cast<std::size_t>(id)];
    switch (below(12)) {
      case 0: std::ranges::shuffle(c.fields, random_); return;
      case 1:
      case 2: return change_number(s, c);
      case 3:  // a new field, and nothing is said
        if (c.fields.size() < 12) insert(c, draw_field(s.now, id));
        return;
      case 4: {
        field f = draw_field(s.now, id);
        if (f.is != form::number || c.fields.size() >= 12) return;
        const auto value = static_cast<std::int32_t>(below(2));
        std::vector<std::byte> bytes(sizeof value);
        std::memcpy(bytes.data(), &value, sizeof value);
        declare(s, id).fields.push_back({kind::added, f.name, {}, bytes, &type_of<std::int32_t>});
        added_[f.id] = {stages_.size(), static_cast<long double>(value)};
        return insert(c, std::move(f));
      }
      case 5: {  // gone; another one may take its name
        field* const f = pick(s, c);
        if (f == nullptr) return;
        declare(s, id).fields.push_back({kind::removed, f->name});
        const std::string name = f->name;
        erase(c, f->id);
        if (below(3) == 0) reuse(s, c, name);
        return;
      }
      case 6: {
        field* const f = pick(s, c);
        if (f == nullptr) return;
        const std::string name = f->name;
        if (field* const other = below(3) == 0 ? pick(s, c) : nullptr; other != nullptr) {  // they exchange their names
          declare(s, id).fields.push_back({kind::renamed, name, other->name});
          declare(s, id).fields.push_back({kind::renamed, other->name, name});
          std::swap(f->name, other->name);
          ++drawn_["exchanged"];
          return;
        }
        f->name = new_name();
        declare(s, id).fields.push_back({kind::renamed, name, f->name});
        if (below(3) == 0) reuse(s, c, name);
        return;
      }
      case 7: {
        field* const f = pick(s, c);
        if (f == nullptr || f->is == form::vector || f->is == form::optional) return;
        const std::uint64_t count = 1 + below(4);
        if (count < f->count) narrow(s, *f, id);
        f->count = count;
        return;
      }
      case 8:
        if (!s.touched.insert(-1 - id).second) return;
        changes_[id].old_names.push_back(c.name);
        c.name = "c" + std::to_string(id) + "_" + std::to_string(++names_);
        return;
      case 9: return below(2) == 0 ? move_in(s, c) : move_out(s, c);
      case 10: return call(s, c);
      case 11: {
        field* const f = pick(s, c);
        if (f != nullptr && f->is == form::pointer) f->of_class = -1;
        return;
      }
    }
  }
  void reuse(step& s, drawn_class& c, const std::string& name) {
    field other = draw_field(s.now, c.id);
    other.name = name;
    ++drawn_["name reused"];
    insert(c, std::move(other));
  }
  void narrow(step& s, const field& f, int id) {
    declare(s, id).fields.push_back({detail::field_change::kind::narrowed, f.name});
    narrowed_.emplace_back(id, f.id, stages_.size());
  }
  void change_number(step& s, drawn_class& c) {
    field* const f = pick(s, c);
    if (f == nullptr || f->of_class >= 0 || (f->is != form::number && f->is != form::optional)) return;
    const number to = draw_number_type();
    const bool is_narrower = !is_lossless(f->of_number, to);
    if (is_narrower && (f->is == form::optional || below(2) == 0)) return;  // of what is in one nothing can be said
    if (is_narrower && below(24) != 0) narrow(s, *f, c.id);                 // or it was forgotten
    f->of_number = to;
    f->fresh = static_cast<long double>(below(2));
  }
  // A nested class of which there is one.
  field* pick_nested(step& s, drawn_class& c) {
    field* const b = pick(s, c);
    return b != nullptr && b->is == form::nested && b->count == 1 && b->of_class != c.id ? b : nullptr;
  }
  void move_in(step& s, drawn_class& c) {
    field* const b = pick_nested(s, c);
    field* const x = b != nullptr ? pick(s, c) : nullptr;
    if (x == nullptr || x->is == form::nested || x->of_class >= 0) return;
    drawn_class& inner = s.now.classes[static_cast<std::size_t>(b->of_class)];
    if (inner.fields.size() >= 12) return;
    field y = *x;
    y.id = ++ids_;
    y.name = new_name();
    declare(s, c.id).fields.push_back({detail::field_change::kind::renamed, x->name, b->name + "." + y.name});
    moves_.push_back({stages_.size(), c.id, inner.id, b->id, x->id, y.id, true});
    frozen_.insert({b->id, y.id});  // a path through a nested class has the names of today
    erase(c, x->id);
    insert(inner, std::move(y));
  }
  void move_out(step& s, drawn_class& c) {
    field* const b = pick_nested(s, c);
    if (b == nullptr || c.fields.size() >= 12) return;
    drawn_class& inner = s.now.classes[static_cast<std::size_t>(b->of_class)];
    field* const y = pick(s, inner);
    if (y == nullptr || y->is == form::nested || y->of_class >= 0) return;
    // The path must lead to it in all stages.
    for (const auto& stage : stages_) {
      for (const field& f : stage->at(inner.id).fields)
        if ((f.id == y->id) != (f.name == y->name)) return;
      if (const field* const f = stage->at(c.id).find(b->id); f != nullptr && f->count != 1) return;
    }
    field x = *y;
    x.id = ++ids_;
    x.name = new_name();
    declare(s, c.id).fields.push_back({detail::field_change::kind::renamed, b->name + "." + y->name, x.name});
    declare(s, inner.id).fields.push_back({detail::field_change::kind::removed, y->name});
    moves_.push_back({stages_.size(), c.id, inner.id, b->id, x.id, y->id, false});
    frozen_.insert(x.id);
    erase(inner, y->id);
    insert(c, std::move(x));
  }
  // Two fields become one, which a function makes.
  void call(step& s, drawn_class& c) {
    if (functions_.contains(c.id)) return;
    field* const one = pick(s, c);
    field* const other = one != nullptr ? pick(s, c) : nullptr;
    if (one == nullptr || other == nullptr || !is_small(*one) || !is_small(*other)) return;
    field sum{++ids_, new_name()};
    sum.of_number = numbers()[5];
    functions_[c.id] = {stages_.size(), c.id, one->id, other->id, sum.id};
    frozen_.insert(sum.id);
    detail::version_changes& since = declare(s, c.id);
    since.fields.push_back({detail::field_change::kind::removed, one->name});
    since.fields.push_back({detail::field_change::kind::removed, other->name});
    const std::set<int> gone{one->id, other->id};
    for (const int id : gone) erase(c, id);
    with_function_[c.id] = last().at(c.id).version;
    insert(c, std::move(sum));
  }

 public:
  // The version of the class since which there is a function.
  [[nodiscard]] std::optional<std::uint32_t> function_since(int id) const {
    const auto found = with_function_.find(id);
    return found != with_function_.end() ? std::optional(found->second) : std::nullopt;
  }
  [[nodiscard]] const counters& drawn() const { return drawn_; }

 private:
  struct added_value {
    std::size_t stage;
    long double value;
  };
  std::mt19937_64& random_;
  std::vector<std::unique_ptr<schema>> stages_;
  std::map<int, type_changes> changes_;  // by class
  std::map<int, added_value> added_;     // by field
  std::vector<std::tuple<int, int, std::size_t>> narrowed_;
  std::vector<move> moves_;
  std::map<int, function> functions_;
  std::map<int, std::uint32_t> with_function_;
  std::set<int> frozen_;  // fields that do not change any more
  counters drawn_;
  int ids_ = 0, names_ = 0;
};

}  // namespace tenure::drawn
