// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The operations of OO7, once for all worlds.
#pragma once

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "oo7/generation.hpp"

namespace tenure::bench::oo7 {

// What a traversal calls for each part; the compiler must not know that it does nothing.
[[gnu::noinline]] inline void null_procedure(int x, int y, const type_name& type) {
  asm volatile("" : : "r"(x), "r"(y), "r"(&type) : "memory");
}

template <class W>
class operations {
  using s = schema<W>;
  template <class T>
  using ptr = typename W::template ptr<T>;
  using atomic = ptr<typename s::atomic_part>;
  using composite = ptr<typename s::composite_part>;

 public:
  operations(const configuration& how, typename s::database& in)
      : how_(how), in_(in), seen_in_(static_cast<std::size_t>(how.atomic_per_composite)) {}

  // The count that the benchmark defines. The caller has called restart_random().
  std::uint64_t run(operation what) {
    switch (what) {
      case operation::t1: return each_part([](const atomic& p) { return act_null(p); });
      case operation::t2a: return each_root_part([](const atomic& p) { return swap_coordinates(p); });
      case operation::t2b: return each_part([](const atomic& p) { return swap_coordinates(p); });
      case operation::t2c: return each_part([](const atomic& p) { return four_times(p, swap_coordinates); });
      case operation::t3a: return each_root_part([&](const atomic& p) { return toggle_date(p); });
      case operation::t3b: return each_part([&](const atomic& p) { return toggle_date(p); });
      case operation::t3c:
        return each_part(
            [&](const atomic& p) { return four_times(p, [&](const atomic& q) { return toggle_date(q); }); });
      case operation::t4: return each_document([](auto& d) { return count_of('I', W::view(d.text)); });
      case operation::t5do: return each_document([](auto& d) { return replace_start(d, "I am", "This is"); });
      case operation::t5undo: return each_document([](auto& d) { return replace_start(d, "This is", "I am"); });
      case operation::t6: return each_composite([](const composite& c) { return act_null(c->root_part); });
      case operation::t7: return traverse_up();
      case operation::t8: return each_manual([](std::string_view text) { return count_of('I', text); });
      case operation::t9:
        return each_manual([](std::string_view text) { return std::uint64_t{text.front() == text.back()}; });
      case operation::q1: return look_up_parts();
      case operation::q2: return parts_dated_from(1990);
      case operation::q3: return parts_dated_from(1900);
      case operation::q4: return look_up_documents();
      case operation::q5: return newer_components();
      case operation::q6: return older_assemblies();
      case operation::q7: return scan_parts([](const atomic& p) { return act_null(p); });
      case operation::q8:
        return scan_parts([&](const atomic& p) {
          return std::uint64_t{W::find(in_.documents_by_id, int{p->document_id}) != nullptr};
        });
      case operation::insert: return generation<W>{how_, in_}.insert_composites();
      case operation::remove: return generation<W>{how_, in_}.delete_composites();
    }
    throw std::invalid_argument("no such operation");
  }

  totals sum() {
    totals all;
    scan_parts([&](const atomic& p) {
      ++all.atomics;
      all.dates += static_cast<std::uint64_t>(int{p->build_date});
      all.x += static_cast<std::uint64_t>(int{p->x});
      all.y += static_cast<std::uint64_t>(int{p->y});
      for (const auto& c : p->to) all.lengths += static_cast<std::uint64_t>(int{c->length});
      all.connections += p->to.size();
      return std::uint64_t{1};
    });
    if (in_.atomics_by_id.size() != in_.atomics_by_date.size())
      throw std::runtime_error("the indexes of atomic parts differ");
    all.documents = in_.documents_by_title.size();
    all.composites = in_.composites_by_id.size();
    return all;
  }

 private:
  // --- What is done to a part or a document ---

  static std::uint64_t act_null(const atomic& p) {
    null_procedure(p->x, p->y, p->type);
    return 1;
  }
  static std::uint64_t swap_coordinates(const atomic& p) {
    const int x = p->x;
    p->x = int{p->y};
    p->y = x;
    return 1;
  }
  std::uint64_t toggle_date(const atomic& p) {
    const int before = p->build_date, after = before % 2 != 0 ? before + 1 : before - 1;
    W::erase(in_.atomics_by_date, before, p);
    p->build_date = after;
    W::insert(in_.atomics_by_date, after, p);
    return 1;
  }
  template <class Act>
  static std::uint64_t four_times(const atomic& p, Act&& act) {
    std::uint64_t count = 0;
    for (int i = 0; i < 4; ++i) count += act(p);
    return count;
  }
  static std::uint64_t count_of(char wanted, std::string_view text) {
    return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), wanted));
  }
  static std::uint64_t replace_start(typename s::document& of, std::string_view from, std::string_view to) {
    if (!W::view(of.text).starts_with(from)) return 0;
    W::replace_front(of.text, from.size(), to);
    of.text_length = static_cast<int>(W::view(of.text).size());
    return 1;
  }

  // --- Ways through the database ---

  template <class F>
  struct private_visitor final : s::visitor {
    explicit private_visitor(F& f) : each(f) {}
    void visit(typename s::complex_assembly& one) override {
      for (const auto& sub : one.sub_assemblies) sub->accept(*this);
    }
    void visit(typename s::base_assembly& one) override {
      for (const auto& part : one.private_components) count += each(part);
    }
    F& each;
    std::uint64_t count = 0;
  };
  template <class F>
  std::uint64_t each_composite(F&& each) {
    private_visitor<F> by{each};
    for (const auto& module : in_.modules) module->design_root->accept(by);
    return by.count;
  }
  template <class F>
  std::uint64_t each_document(F&& each) {
    return each_composite([&](const composite& c) { return each(*c->documentation); });
  }
  template <class F>
  std::uint64_t each_part(F&& act) {
    return each_composite([&](const composite& c) {
      ++visit_;
      return depth_first(c->root_part, act);
    });
  }
  // The same way, but only root parts are acted on.
  template <class F>
  std::uint64_t each_root_part(F&& act) {
    return each_composite([&](const composite& c) {
      const atomic root = c->root_part;
      ++visit_;
      return depth_first(root, [&](const atomic& p) { return p == root ? act(p) : act_null(p) - 1; });
    });
  }
  // A composite part's atomic parts have consecutive ids, so the set of those visited is an array, never cleared.
  template <class F>
  std::uint64_t depth_first(const atomic& p, F&& act) {
    std::uint64_t count = act(p);
    seen_in_[place_of(p)] = visit_;
    for (const auto& connection : p->to) {
      const atomic& next = connection->to;
      if (seen_in_[place_of(next)] != visit_) count += depth_first(next, act);
    }
    return count;
  }
  [[nodiscard]] std::size_t place_of(const atomic& p) const {
    return static_cast<std::size_t>((p->id - 1) % how_.atomic_per_composite);
  }
  template <class F>
  std::uint64_t each_manual(F&& each) {
    std::uint64_t count = 0;
    for (const auto& module : in_.modules) count += each(W::view(module->manual->text));
    return count;
  }
  template <class F>
  std::uint64_t scan_parts(F&& act) {
    std::uint64_t count = 0;
    W::scan(in_.atomics_by_id, 0, [&](int, const atomic& p) {
      count += act(p);
      return true;
    });
    return count;
  }

  // --- Traversal 7 and the queries ---

  std::uint64_t traverse_up() {
    restart_random();
    const atomic part = *W::find(in_.atomics_by_id, draw(how_.atomics()) + 1);
    std::set<const void*> seen;
    for (const auto& base : part->part_of->used_in_private) {
      if (!seen.insert(&*base).second) continue;
      for (ptr<typename s::complex_assembly> up = base->super_assembly; up; up = up->super_assembly)
        if (!seen.insert(&*up).second) break;
    }
    return seen.size();
  }
  std::uint64_t look_up_parts() {
    restart_random();
    std::uint64_t count = 0;
    for (int i = 0; i < 10; ++i) {
      const auto* const found = W::find(in_.atomics_by_id, draw(how_.atomics()) + 1);
      if (found != nullptr) count += act_null(*found);
    }
    return count;
  }
  std::uint64_t parts_dated_from(int first) {
    std::uint64_t count = 0;
    W::scan(in_.atomics_by_date, first, [&](int date, const atomic& p) {
      if (date > 1999) return false;
      count += act_null(p);
      return true;
    });
    return count;
  }
  std::uint64_t look_up_documents() {
    restart_random();
    std::uint64_t count = 0;
    for (int i = 0; i < 10; ++i) {
      const auto* const found = W::find(in_.documents_by_title, composite_title(draw(how_.composites()) + 1));
      for (const auto& base : (*found)->part->used_in_private) count += base->id > 0 ? 1U : 0U;
    }
    return count;
  }
  std::uint64_t newer_components() {
    std::uint64_t count = 0;
    for (const auto& module : in_.modules)
      for (const auto& base : module->all_bases)
        for (const auto& part : base->private_components) count += part->build_date > base->build_date ? 1U : 0U;
    return count;
  }
  struct age_visitor final : s::visitor {
    void visit(typename s::complex_assembly& one) override {
      int below = 0;
      for (const auto& sub : one.sub_assemblies) {
        sub->accept(*this);
        below = std::max(below, newest);
      }
      judge(one.build_date, below);
    }
    void visit(typename s::base_assembly& one) override {
      int below = 0;
      for (const auto& part : one.private_components) below = std::max(below, int{part->build_date});
      judge(one.build_date, below);
    }
    void judge(int date, int below) {
      newest = below;
      count += date < below ? 1U : 0U;
    }
    int newest = 0;  // date of a private component below what was visited last
    std::uint64_t count = 0;
  };
  std::uint64_t older_assemblies() {
    age_visitor by;
    for (const auto& module : in_.modules) module->design_root->accept(by);
    return by.count;
  }

  const configuration& how_;
  typename s::database& in_;
  std::vector<std::uint32_t> seen_in_;  // by place in the composite part: the number of the last visit
  std::uint32_t visit_ = 0;
};

}  // namespace tenure::bench::oo7
