// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/evolution.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <utility>

#include "types/declared_changes.hpp"
#include "types/field_path.hpp"

namespace tenure {

detail::version_changes& type_changes::since(std::uint32_t version) {
  const auto at = std::ranges::lower_bound(versions, version, {}, &detail::version_changes::since);
  if (at != versions.end() && at->since == version) return *at;
  return *versions.insert(at, {version});
}

namespace types {
namespace {

using detail::field_change;
using detail::version_changes;

constexpr std::uint64_t word = sizeof(void*);

[[nodiscard]] const type_field* nth_unnamed(const type& in, field_kind kind, std::size_t n) {
  for (const type_field& f : in.fields)
    if (f.name.empty() && f.kind == kind && n-- == 0) return &f;
  return nullptr;
}

class aligned_memory {
 public:
  aligned_memory(std::uint64_t size, std::uint64_t alignment)
      : alignment_{std::max<std::uint64_t>(alignment, word)},
        memory_(static_cast<std::byte*>(::operator new(size, alignment_))) {}
  ~aligned_memory() { ::operator delete(memory_, alignment_); }
  aligned_memory(const aligned_memory&) = delete;
  aligned_memory& operator=(const aligned_memory&) = delete;
  [[nodiscard]] std::byte* get() const { return memory_; }

 private:
  const std::align_val_t alignment_;
  std::byte* const memory_;
};

// What the default constructor makes. Its addresses of itself become relative.
[[nodiscard]] value_conversion::image image_of(const type& t) {
  if (t.operations == nullptr || t.operations->construct == nullptr)
    return {std::vector<std::byte>(t.size), {}, nullptr};
  const aligned_memory memory(t.size, t.alignment);
  const detail::prototype_memory of_containers;  // a plan is made before a store is there
  std::memset(memory.get(), 0, t.size);
  t.operations->construct(memory.get());
  value_conversion::image made{{memory.get(), memory.get() + t.size}, {}, nullptr};
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.get());
  const pointer_map words(t);
  for (const pointer_map::word& w : words.words()) {
    if (w.length != word || w.kind == field_kind::vtable || w.kind == field_kind::transient) continue;
    std::uintptr_t value;
    std::memcpy(&value, made.bytes.data() + w.offset, word);
    if (value != 0 && (value < begin || value > begin + t.size)) made.constructed = &t;
    if (value < begin || value > begin + t.size) continue;
    value -= begin;
    std::memcpy(made.bytes.data() + w.offset, &value, word);
    made.own_addresses.push_back(w.offset);
  }
  if (t.operations->destroy != nullptr) t.operations->destroy(memory.get());
  return made;
}

// Of the standard library's, whose parts are converted one by one.
[[nodiscard]] bool are_of_one_template(std::string_view one, std::string_view other) {
  for (const std::string_view name : {"std::optional<", "std::pair<", "std::tuple<", "std::variant<", "std::array<"})
    if (one.starts_with(name) && other.starts_with(name)) return true;
  return false;
}

class planning {
 public:
  planning(const evolution& of, value_conversion& made, std::vector<std::string>& problems)
      : of_(of), made_(made), problems_(problems) {}

  // A value at offsets of the whole.
  void plan_value(const std::string& path, const type& stored, std::uint64_t from, const type& program,
                  std::uint64_t to) {
    if (const std::string repeated = repeated_member(stored, program);
        !repeated.empty() && evolution::differ(stored, program)) {
      say(path,
          "there are several members `" + repeated +
              "`, of a base that it has more than once: which becomes which cannot be told; keep the class and its "
              "bases as they were, or make the objects anew as those of another class");
      return;
    }
    if (stored.version > program.version && evolution::differ(stored, program)) {
      say(path,
          "was stored with version " + std::to_string(stored.version) + " of the class, and this program has version " +
              std::to_string(program.version) +
              ": use the newer program, or a copy of the store from before; if this class is the later one, give it a "
              "tenure::version above " +
              std::to_string(stored.version));
      return;
    }
    const declared_changes changes(of_.changes_of(program), stored.version);
    for (const std::string& mistake : changes.mistakes(program)) say(path, mistake);
    for (const version_changes* v : changes.functions()) made_.functions.push_back({guard_, v, &stored, from, to});
    scope in{path, &stored, from, &changes, {}, !changes.functions().empty()};
    // What the default constructor makes; of a nested value, that of the class around it does, if there surely is one.
    if (guard_.conditions != 0 || !is_filled_) {
      if (has_default(program))
        fill(to, image_of(program));
      else
        mark_vtables(program, to);
    }
    const bool was_filled = std::exchange(is_filled_, is_filled_ || has_default(program));
    plan_fields(in, program, "", to);
    find_lost(in, stored, "");
    add_bases(stored, from, program, to);
    is_filled_ = was_filled;
  }

 private:
  // A class with declarations of its own, and the classes nested in it that have none.
  struct scope {
    std::string path;  // of the value, for messages
    const type* stored;
    std::uint64_t from;
    const declared_changes* changes;
    std::set<std::string> used;  // stored fields
    bool has_functions;          // which may use the others
  };

  void plan_fields(scope& in, const type& program, const std::string& prefix, std::uint64_t to) {
    std::map<field_kind, std::size_t> unnamed;
    for (const type_field& f : program.fields) {
      if (f.kind == field_kind::vtable || f.kind == field_kind::transient) continue;
      if (f.name.empty()) {
        if (const type_field* const was = nth_unnamed(*in.stored, f.kind, unnamed[f.kind]++); was != nullptr)
          plan_field(in, in.path, {was}, in.from, f, to + f.offset);
        else
          say(in.path, "its value is new: its class is another one; make the objects anew");
        continue;
      }
      const std::string name = prefix + f.name;
      const declared_changes::source source = in.changes->source_of(name);
      if (source.added != nullptr) {
        put_value(in, name, *source.added, f, to + f.offset);
        continue;
      }
      found_field was = find_field(*in.stored, source.path);
      if (was.field == nullptr && !source.path.empty()) was = find_field(*in.stored, source.path, &of_);
      if (was.field != nullptr && was.field->kind != field_kind::transient) {
        const bool is_taken_apart = f.kind == field_kind::nested && f.count == 1 &&
                                    (in.changes->leads_to_parts_of(name) || in.changes->takes_apart(source.path));
        if (is_taken_apart && has_same_named_parts(*was.field, f)) {
          plan_fields(in, f.of(), name + ".", to + f.offset);
          add_whole(was, in.from, f, to + f.offset);
          continue;
        }
        in.used.insert(was.path);
        plan_field(in, name, was, in.from, f, to + f.offset);
        if (is_taken_apart) plan_parts(in, f.of(), name + ".", source.path + ".", to + f.offset);
      } else if (f.kind == field_kind::nested && f.count == 1 && in.changes->leads_to_parts_of(name)) {
        plan_fields(in, f.of(), name + ".", to + f.offset);
      } else if (f.only_if && was.field == nullptr) {
        continue;  // a new alternative of a variant, which no stored value has
      } else if (f.size != 0 && was.field == nullptr && !has_default(program) && prefix.empty()) {
        say(in.path, "field `" + name + "` is new, and " + program.name +
                         " has no default constructor that tells its value: give it one, or declare " +
                         declaration(in, "added(\"" + name + "\", VALUE)"));
      } else if (f.size == 0 && was.field == nullptr) {
        say(in.path, "has now " + f.name + " (" + f.type_name +
                         "): what is stored depends on a function that has changed; make the container anew");
      }
    }
  }

  // A nested value of a class that is as it was, of whose parts the class around it says something: each part is looked for by
  // its name.
  [[nodiscard]] static bool has_same_named_parts(const type_field& was, const type_field& is) {
    return was.kind == field_kind::nested && was.count == 1 && !evolution::differ(was.of(), is.of()) &&
           std::ranges::none_of(is.of().fields,
                                [](const type_field& f) { return f.kind == field_kind::vtable || f.name.empty(); });
  }
  // Pointers to it lead to where it is now.
  void add_whole(const found_field& found, std::uint64_t base, const type_field& is, std::uint64_t to) {
    const value_conversion::guarded saved = guard_;
    const std::uint64_t in_class = base + found.offset;
    push_guards(found, base, in_class);
    add_part(in_class + found.field->offset, found.field->size, to, is.type_name, false, true);
    guard_ = saved;
  }

  // Of another nested value that was there before: what the class around it says of its parts.
  void plan_parts(scope& in, const type& program, const std::string& prefix, const std::string& before,
                  std::uint64_t to) {
    for (const type_field& f : program.fields) {
      if (f.kind == field_kind::vtable || f.kind == field_kind::transient || f.name.empty()) continue;
      const std::string name = prefix + f.name;
      const declared_changes::source source = in.changes->source_of(name);
      if (source.added != nullptr) {
        put_value(in, name, *source.added, f, to + f.offset);
      } else if (!source.path.empty() && source.path != before + f.name) {
        const found_field was = find_field(*in.stored, source.path);
        if (was.field == nullptr || was.field->kind == field_kind::transient) continue;
        in.used.insert(was.path);
        plan_field(in, name, was, in.from, f, to + f.offset);
      } else if (f.kind == field_kind::nested && f.count == 1 && in.changes->leads_to_parts_of(name)) {
        plan_parts(in, f.of(), name + ".", before, to + f.offset);
      }
    }
  }

  [[nodiscard]] bool has_default(const type& program) const { return of_.has_default(program); }

  void put_value(const scope& in, const std::string& name, const field_change& added, const type_field& f,
                 std::uint64_t to) {
    std::string problem;
    value_conversion::image made{bytes_of_added(added, f, problem), {}, nullptr};
    if (!problem.empty())
      say(in.path, "field `" + name + "`" + problem);
    else if (added.value_type)  // not of a program that does not run here, and has not told it
      fill(to, std::move(made));
  }
  // Where a value is, its vtable pointers are not zero: so whoever sets them knows it from a slot without one.
  void mark_vtables(const type& program, std::uint64_t to) {
    for (const type_field& f : program.fields)
      if (f.kind == field_kind::vtable)
        fill(to + f.offset, {std::vector(static_cast<std::size_t>(f.size), std::byte{1}), {}, nullptr});
  }
  void fill(std::uint64_t to, value_conversion::image image) {
    made_.images.push_back(std::move(image));
    made_.fills.push_back({guard_, to, made_.images.size() - 1});
  }

  void plan_field(scope& in, const std::string& name, const found_field& found, std::uint64_t base,
                  const type_field& is, std::uint64_t to) {
    const type_field& was = *found.field;
    const std::uint64_t in_class = base + found.offset, from = in_class + was.offset;
    const value_conversion::guarded saved = guard_;
    push_guards(found, base, in_class);
    const std::uint64_t each_was = was.size / was.count, each_is = is.size / is.count,
                        count = std::min(was.count, is.count);
    const auto path = [&] { return in.path.empty() ? name : in.path + "." + name; };
    const std::string& whole = in.stored->name;
    if (is.count < was.count &&
        (whole.starts_with("tenure::detail::tree_leaf<") || whole.starts_with("tenure::detail::tree_inner<") ||
         whole.starts_with("tenure::cache::detail::map_leaf<") ||
         whole.starts_with("tenure::cache::detail::map_inner<"))) {
      made_.has_fewer_slots = true;
    } else if (is.count < was.count) {
      if (!in.changes->is_narrowed(name))
        say(in.path, "field `" + name + "` had " + std::to_string(was.count) + " elements, has " +
                         std::to_string(is.count) + ": declare " + declaration(in, "narrowed(\"" + name + "\")") +
                         " if the others are zero, or make it in a function (converted)");
      made_.left_out.push_back({guard_, from + count * each_was, (was.count - count) * each_was, path()});
    }
    const auto copy = [&] {
      if (count != 0 && each_was != 0) made_.copies.push_back({guard_, from, to, count * each_was});
    };
    const std::string title = "field `" + name + "` was " + was.type_name + ", is " + is.type_name +
                              of_.renaming_hint(was.type_name, is.type_name);
    const std::string advice =
        ": make it in a function (converted), and declare " + declaration(in, "removed(\"" + name + "\")");
    // Which elements lay beside each other is not stored.
    if (was.count != is.count && is.row != 1) {
      say(in.path, "field `" + name + "` had " + std::to_string(was.count) +
                       " elements, and is an array of arrays with " + std::to_string(is.count) + advice);
      guard_ = saved;
      return;
    }
    if (was.kind != is.kind) {
      say(in.path, title + ", of another kind" + advice);
    } else if (is.kind == field_kind::nested) {
      plan_nested(in, path(), title + advice, was.of(), from, is.of(), to, count, each_was, each_is);
    } else if (is.kind == field_kind::reference || is.kind == field_kind::derived) {
      const bool is_same = of_.renamed(was.type_name) == is.type_name || is.type_name == "void*";
      if (is_same)
        copy();
      else
        say(in.path, title + advice);
    } else if (is.kind == field_kind::conservative) {
      if (was.size == is.size && of_.renamed(was.type_name) == is.type_name)
        copy();
      else
        say(in.path, title + ": the layout is unknown, so it cannot be converted; describe its members");
    } else {
      plan_data(in, name, path(), title + advice, was, from, is, to, count, each_was, each_is);
    }
    const bool is_copied = !made_.copies.empty() && made_.copies.back().from == from && made_.copies.back().to == to;
    const bool is_class = is.kind == field_kind::nested;
    add_part(from, is_copied ? count * each_was : was.size, to, is.type_name, is_copied, is_class);
    if (!is_copied && was.count != 1)
      for (std::uint64_t n = 0; n < count; ++n)
        add_part(from + n * each_was, each_was, to + n * each_is, is.type_name, false, is_class);
    guard_ = saved;
  }

  void plan_nested(const scope& in, const std::string& path, const std::string& refusal, const type& was,
                   std::uint64_t from, const type& is, std::uint64_t to, std::uint64_t count, std::uint64_t each_was,
                   std::uint64_t each_is) {
    if (!evolution::differ(was, is)) {
      if (count != 0 && each_was != 0) made_.copies.push_back({guard_, from, to, count * each_was});
      return;
    }
    if (of_.renamed(was.name) != is.name && !are_of_one_template(was.name, is.name)) return say(in.path, refusal);
    const value_conversion::guarded saved = guard_;
    for (std::uint64_t n = 0; n < count; ++n) {
      if (const auto in_use = slot_in_use(*in.stored, in.from, n)) push_conditions({*in_use});
      plan_value(path, was, from + n * each_was, is, to + n * each_is);
      guard_ = saved;
      if (!problems_.empty()) return;  // the other elements have the same
    }
  }

  // Slots of the library's own containers that are not in use are zero, and stay so.
  static std::optional<value_conversion::condition> slot_in_use(const type& stored, std::uint64_t from,
                                                                std::uint64_t n) {
    using test = enum value_conversion::condition::test;
    const auto field = [&](std::string_view name) { return std::ranges::find(stored.fields, name, &type_field::name); };
    if (stored.name.starts_with("tenure::detail::hash_group<")) {
      const auto tags = field("tags");
      if (tags != stored.fields.end())
        return value_conversion::condition{{from + tags->offset + n, 1, 0}, test::differs};
    }
    if (stored.name.starts_with("tenure::detail::tree_leaf<") ||
        stored.name.starts_with("tenure::detail::tree_inner<")) {
      const auto count = field("tenure::detail::tree_node::count");
      if (count != stored.fields.end()) return value_conversion::condition{{from + count->offset, 4, n}, test::exceeds};
    }
    return std::nullopt;
  }

  void plan_data(const scope& in, const std::string& name, const std::string& path, const std::string& refusal,
                 const type_field& was, std::uint64_t from, const type_field& is, std::uint64_t to, std::uint64_t count,
                 std::uint64_t each_was, std::uint64_t each_is) {
    const number_type old_number = number_of(was.scalar, each_was, was.type_name),
                      new_number = number_of(is.scalar, each_is, is.type_name);
    if (old_number == new_number || (was.scalar == is.scalar && each_was == each_is)) {
      if (count != 0 && each_was != 0) made_.copies.push_back({guard_, from, to, count * each_was});
      return;
    }
    if (!is_number(old_number) || !is_number(new_number)) return say(in.path, refusal);
    if (!is_widening(old_number, new_number) && !in.changes->is_narrowed(name))
      return say(in.path,
                 refusal + "; or declare " + declaration(in, "narrowed(\"" + name + "\")") + " if each value fits");
    for (std::uint64_t n = 0; n < count; ++n)
      made_.numbers.push_back({guard_, from + n * each_was, to + n * each_is, old_number, new_number, path});
  }

  // Stored fields that nothing has become of. Functions may use what was not renamed.
  void find_lost(const scope& in, const type& stored, const std::string& prefix) {
    for (const type_field& f : stored.fields) {
      if (f.name.empty() || f.kind == field_kind::vtable || f.kind == field_kind::transient || f.size == 0) continue;
      const std::string name = prefix + f.name;
      if (in.used.contains(name) || in.changes->is_removed(name)) continue;
      const auto inside = in.used.lower_bound(name + ".");
      const bool is_nested = f.kind == field_kind::nested && f.count == 1;
      if ((inside != in.used.end() && leads_into(*inside, name)) || (is_nested && in.changes->takes_apart(name))) {
        find_lost(in, f.of(), name + ".");
      } else if (const std::string now = in.changes->new_name(name);
                 !now.empty() && !in.changes->has_function_after_renaming(name)) {
        std::string problem = "field `" + name + "` (" + f.type_name + ") was renamed, and would be `";
        problem += now;
        problem += "` now, which is no field or comes from another one: declare what became of it later, or ";
        problem += declaration(in, "removed(\"" + name + "\")");
        problem += " in place of renamed";
        say(in.path, problem);
      } else if (!in.has_functions) {
        say(in.path, "field `" + name + "` (" + f.type_name + ") is gone: declare " +
                         declaration(in, "removed(\"" + name + "\")") + ", or " +
                         declaration(in, "renamed(\"" + name + "\", NEW NAME)"));
      }
    }
  }

  void push_guards(const found_field& found, std::uint64_t base, std::uint64_t in_class) {
    const type_field& f = *found.field;
    std::vector<value_conversion::condition> more;
    for (field_guard g : found.guards) {
      g.offset += base;
      more.push_back({g});
    }
    if (f.only_if) more.push_back({{in_class + f.only_if->offset, f.only_if->width, f.only_if->value}});
    push_conditions(more);
  }
  void push_conditions(const std::vector<value_conversion::condition>& more) {
    if (more.empty()) return;
    const auto first = static_cast<std::uint32_t>(made_.conditions.size());
    for (std::uint32_t n = 0; n < guard_.conditions; ++n) {
      const value_conversion::condition outer = made_.conditions[guard_.first_condition + n];
      made_.conditions.push_back(outer);
    }
    made_.conditions.insert(made_.conditions.end(), more.begin(), more.end());
    guard_ = {first, static_cast<std::uint32_t>(made_.conditions.size()) - first};
  }

  void add_part(std::uint64_t from, std::uint64_t size, std::uint64_t to, const std::string& type_name, bool is_copied,
                bool is_class) {
    if (size != 0) made_.parts.push_back({guard_, from, size, to, type_name, is_copied, is_class});
  }

  // One that either has more than once; empty: there is none.
  static std::string repeated_member(const type& stored, const type& program) {
    for (const type* const of : {&stored, &program}) {
      std::set<std::string_view> names;
      for (const type_field& f : of->fields)
        if (!base_in(f.name).empty() && !names.insert(f.name).second) return f.name;
    }
    return {};
  }
  // "base" of "base::member"; "" of another name.
  static std::string base_in(const std::string& member) {
    const std::size_t end = member.rfind("::");
    return end != std::string::npos ? member.substr(0, end) : "";
  }
  // Where the first stored member is that this base, or one of its own, had, also of those that have other names now, or are gone.
  std::optional<std::uint64_t> first_member(const type& stored, const type& base) const {
    std::set<std::string> names{base.name};
    for (const type_field& f : base.fields) names.insert(base_in(f.name));
    std::optional<std::uint64_t> first;
    for (const type_field& f : stored.fields)
      if (const std::string name = base_in(f.name); !name.empty() && names.contains(of_.renamed(name)))
        first = std::min(first.value_or(f.offset), f.offset);
    return first;
  }
  // Where the vtable pointer is that comes before a base's first member; that member, if there is none.
  static std::uint64_t vtable_before(const type& in, std::uint64_t first) {
    std::uint64_t found = first;
    for (const type_field& f : in.fields)
      if (f.kind == field_kind::vtable && f.offset + f.size <= first && first - f.offset < 2 * word) found = f.offset;
    return found;
  }
  // Of a base that has not registered itself only the members are known: it starts with the first one.
  void add_unknown_base(const std::string& name, const type& stored, std::uint64_t from, const type& program,
                        std::uint64_t to) {
    std::optional<std::uint64_t> was, is;
    for (const type_field& f : stored.fields)
      if (const std::string base = base_in(f.name); !base.empty() && of_.renamed(base) == name)
        was = std::min(was.value_or(f.offset), f.offset);
    for (const type_field& f : program.fields)
      if (base_in(f.name) == name) is = std::min(is.value_or(f.offset), f.offset);
    if (!was || !is) return;
    const std::uint64_t vtable = vtable_before(stored, *was);
    made_.bases.push_back(
        {guard_, from + *was, from + vtable, to + (vtable == *was ? *is : vtable_before(program, *is)), name});
  }
  // Members of bases have the names of these before their own. Where a base starts in the program's class follows from its
  // own type; in the stored one from its members, or, if it had another base, from what these have become.
  void add_bases(const type& stored, std::uint64_t from, const type& program, std::uint64_t to) {
    std::set<std::string> names;
    for (const type_field& f : program.fields)
      if (const std::string name = base_in(f.name); !name.empty()) names.insert(name);
    for (const std::string& name : names) {
      const type* const base = of_.program_type_named(name);
      if (base == nullptr) {
        add_unknown_base(name, stored, from, program, to);
        continue;
      }
      const std::optional<std::uint64_t> known = first_member(stored, *base);
      std::optional<std::uint64_t> first = known, start;
      for (const type_field& f : base->fields) {
        if (f.name.empty()) continue;
        const std::string full = f.name.find("::") == std::string::npos ? name + "::" + f.name : f.name;
        const found_field was = find_field(stored, full, &of_), is = find_field(program, full);
        if (!known && was.field != nullptr && (!first || was.field->offset < *first)) first = was.field->offset;
        if (is.field != nullptr && !start) start = is.field->offset - f.offset;
      }
      if (!first || !start) continue;
      made_.bases.push_back({guard_, from + *first, from + vtable_before(stored, *first), to + *start, name});
    }
    if (&stored != made_.from) return;  // a nested value is meant by its own type
    std::vector<std::uint64_t> old_words, new_words;
    for (const type_field& f : stored.fields)
      if (f.kind == field_kind::vtable) old_words.push_back(from + f.offset);
    for (const type_field& f : program.fields)
      if (f.kind == field_kind::vtable) new_words.push_back(to + f.offset);
    for (std::size_t n = 0; old_words.size() == new_words.size() && n < old_words.size(); ++n)
      made_.vtables.emplace(old_words[n], new_words[n]);
  }

  static std::string declaration(const scope& in, const std::string& what) {
    return "since(" + std::to_string(in.stored->version) + ")." + what;
  }
  void say(const std::string& path, const std::string& what) {
    problems_.push_back(made_.to->name + (path.empty() ? "" : "." + path) + ": " + what);
  }

  const evolution& of_;
  value_conversion& made_;
  std::vector<std::string>& problems_;
  value_conversion::guarded guard_;
  bool is_filled_ = false;  // the whole value has what a default constructor makes
};

}  // namespace

value_conversion evolution::plan(const type& stored, const type& program, std::vector<std::string>& problems) const {
  value_conversion made;
  made.from = &stored;
  made.to = &program;
  std::vector<std::string> found;
  planning(*this, made, found).plan_value("", stored, 0, program, 0);
  problems.insert(problems.end(), found.begin(), found.end());
  return made;
}

}  // namespace types
}  // namespace tenure
