// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is known of the types of a store and of a program besides the plans: names, and what no plan can do.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <set>
#include <utility>

#include "types/evolution.hpp"

namespace tenure::types {

namespace {

[[nodiscard]] bool is_in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}

}  // namespace

bool value_conversion::condition::holds(const std::byte* old) const {
  std::uint64_t has = 0;  // little-endian: the first bytes are the low ones
  std::memcpy(&has, old + offset, width);
  return test == test::equals ? has == value : test == test::differs ? has != value : has > value;
}

namespace {

// Containers of the standard library whose nodes, or which themselves, refer to the container.
[[nodiscard]] bool is_linked_container(std::string_view name) {
  constexpr std::array beginnings{"std::__cxx11::list<", "std::map<",      "std::multimap<",
                                  "std::set<",           "std::multiset<", "std::unordered_"};
  return std::ranges::any_of(beginnings, [&](const char* begin) { return name.starts_with(begin); });
}

// Nodes, which no program names.
[[nodiscard]] bool is_part_of_container(std::string_view name) {
  constexpr std::array beginnings{"tenure::detail::", "tenure::cache::detail::", "std::_", "std::__detail::"};
  return std::ranges::any_of(beginnings, [&](const char* begin) { return name.starts_with(begin); });
}

// Whether a value of the type starts with one of that name, on some level.
[[nodiscard]] bool starts_with(const type& of, std::string_view name) {
  return std::ranges::any_of(of.fields, [&](const type_field& f) {
    if (f.offset != 0 || f.size == 0) return false;
    return f.type_name == name || (f.kind == field_kind::nested && f.of && starts_with(f.of(), name));
  });
}

// Whether a value of a class of that name starts there, on some level.
[[nodiscard]] bool has_class_at(const type& of, std::uint64_t offset, std::string_view name) {
  return std::ranges::any_of(of.fields, [&](const type_field& f) {
    if (f.kind != field_kind::nested || !f.of || offset < f.offset || offset >= f.offset + f.size) return false;
    const std::uint64_t inside = (offset - f.offset) % (f.size / f.count);
    return (inside == 0 && f.of().name == name) || has_class_at(f.of(), inside, name);
  });
}

}  // namespace

std::optional<std::uint64_t> value_conversion::moved_offset(const std::byte* old, std::uint64_t offset,
                                                            std::string_view pointee) const {
  const bool is_whole =
      pointee.empty() || pointee == to->name || to->name == "tenure::slots<" + std::string(pointee) + ">";
  if (offset == 0 && is_whole) return 0;
  for (const kept_base& b : bases)
    if (b.name == pointee && (offset == b.from || offset == b.from_vtable) && holds(b, old)) return b.to;
  const kept_part* best = nullptr;
  // What leads to where a class begins means that, or the base, and not its first field.
  if (offset != 0 && (pointee.empty() || pointee == "void")) {
    for (const kept_base& b : bases)
      if ((offset == b.from || offset == b.from_vtable) && holds(b, old)) return b.to;
    for (const kept_part& p : parts)
      if (p.is_class && offset == p.from && holds(p, old) && (best == nullptr || p.size >= best->size)) best = &p;
    if (best != nullptr) return best->to;
  }
  // Of two that are as large, the inner one; but one of which every byte is there.
  const auto is_better = [&](const kept_part& p) {
    return best == nullptr || p.size < best->size || (p.size == best->size && p.is_copied && !best->is_copied);
  };
  const auto is_there = [&](const kept_part& p) {
    return offset >= p.from && offset < p.from + p.size && holds(p, old);
  };
  // A link of a standard container leads to its head, whose layout does not depend on the elements.
  const bool is_link = pointee.find("_node_base") != std::string_view::npos;
  for (const kept_part& p : parts)
    if (is_link && is_linked_container(p.type_name) && is_there(p) && is_better(p)) best = &p;
  if (best != nullptr) return best->to + (offset - best->from);
  for (const kept_part& p : parts) {
    if (!is_there(p)) continue;
    if (offset == p.from && !pointee.empty() && p.type_name == pointee) return p.to;
    if ((p.is_copied || offset == p.from) && is_better(p)) best = &p;
  }
  if (const auto vtable = vtables.find(offset); vtable != vtables.end()) return vtable->second;
  // A pointer to something else than the first field is one to the whole.
  if (offset == 0 && !starts_with(*from, pointee) && !is_link) return 0;
  if (best == nullptr || is_no_longer(*best, pointee, offset)) return std::nullopt;
  return best->to + (offset - best->from);
}

// Whether a pointer of this type cannot lead to what has become of what it led to: a number of another type, or a field of a class
// that was taken apart.
bool value_conversion::is_no_longer(const kept_part& part, std::string_view pointee, std::uint64_t offset) const {
  if (pointee.ends_with(" const")) pointee.remove_suffix(std::string_view(" const").size());
  if (pointee.empty() || pointee == "void" || part.is_class || part.type_name == pointee) return false;
  return !part.is_copied || has_class_at(*from, offset, pointee);
}

std::string evolution::renaming_hint(std::string_view stored, std::string_view program) const {
  const std::string_view shorter = stored.size() < program.size() ? stored : program;
  std::size_t first = static_cast<std::size_t>(std::ranges::mismatch(stored, program).in1 - stored.begin());
  while (first > 0 && is_in_name(shorter[first - 1])) --first;
  const auto name_at = [&](std::string_view in) {
    std::size_t end = first;
    while (end < in.size() && is_in_name(in[end])) ++end;
    return std::string(in.substr(first, end - first));
  };
  const std::string was = name_at(stored), is = name_at(program);
  if (was.empty() || is.empty() || program_type_named(is) == nullptr || program_type_named(was) != nullptr) return "";
  std::string renamed_one(stored);
  for (std::size_t at = 0; (at = renamed_one.find(was, at)) != std::string::npos; at += is.size())
    renamed_one.replace(at, was.size(), is);
  if (renamed_one != program) return "";
  return " (if " + is + " is what " + was + " was, declare was_named(\"" + was + "\") in evolve<" + is +
         ">, and nothing else is needed)";
}

evolution::evolution(const std::vector<const type*>& program, std::map<std::string, told> others)
    : others_(std::move(others)) {
  for (const type* const t : program) {
    by_name_.emplace(t->name, t);
    const type_changes* const changes = changes_of(*t);
    if (changes == nullptr) continue;
    for (const std::string& old : changes->old_names) new_names_.emplace(old, t->name);
  }
}

void evolution::look_at(const std::vector<const type*>& stored) {
  const auto find = [&](std::string_view name) {
    const auto found = std::ranges::find(stored, name, [](const type* t) -> std::string_view { return t->name; });
    return found != stored.end() ? *found : nullptr;
  };
  const evolution declared = *this;
  std::erase_if(new_names_, [&](const auto& renaming) {
    const auto& [old, now] = renaming;
    const auto has_name = by_name_.find(old);
    const type* const objects = find(old);
    if (has_name == by_name_.end() || objects == nullptr) return false;
    evolution without = declared;
    without.new_names_.erase(old);
    std::vector<std::string> as_those, as_these;
    (void)without.plan(*objects, *has_name->second, as_those);
    (void)declared.plan(*objects, *declared.program_type_named(now), as_these);
    if (find(now) != nullptr || as_those.empty() || !as_these.empty()) return true;
    by_name_.erase(has_name);
    return false;
  });
}

const type_changes* evolution::changes_of(const type& program) const {
  if (program.operations != nullptr)
    return program.operations->changes != nullptr ? &program.operations->changes() : nullptr;
  const auto found = others_.find(program.name);
  return found != others_.end() ? &found->second.changes : nullptr;
}

bool evolution::has_default(const type& program) const {
  if (program.operations != nullptr) return program.operations->construct != nullptr;
  const auto found = others_.find(program.name);
  return found != others_.end() && found->second.has_default;
}

std::string evolution::renamed(std::string_view stored) const {
  std::string name;
  // Instances of templates first: their names are more than one word.
  std::string with_instances(stored);
  for (const auto& [was, is] : new_names_) {
    if (!was.ends_with('>')) continue;
    for (std::size_t at = 0; (at = with_instances.find(was, at)) != std::string::npos;) {
      const bool is_whole = at == 0 || !is_in_name(with_instances[at - 1]);
      if (is_whole) with_instances.replace(at, was.size(), is);
      at += is_whole ? is.size() : 1;
    }
  }
  stored = with_instances;
  for (std::size_t at = 0; at < stored.size();) {
    if (!is_in_name(stored[at])) {
      name += stored[at++];
      continue;
    }
    std::size_t end = at;
    while (end < stored.size() && is_in_name(stored[end])) ++end;
    // A class, or one in it.
    const std::string_view part = stored.substr(at, end - at);
    std::string_view rest;
    auto found = new_names_.find(part);
    for (std::size_t cut = part.rfind("::"); found == new_names_.end() && cut != std::string_view::npos && cut != 0;
         cut = part.rfind("::", cut - 1)) {
      found = new_names_.find(part.substr(0, cut));
      if (found != new_names_.end()) rest = part.substr(cut);
    }
    name += found != new_names_.end() ? found->second + std::string(rest) : std::string(part);
    at = end;
  }
  return name;
}

std::string evolution::renamed_member(std::string_view name) const {
  const std::size_t end = name.rfind("::");
  if (end == std::string_view::npos) return std::string(name);
  return renamed(name.substr(0, end)) + std::string(name.substr(end));
}

bool evolution::differ(const type& stored, const type& program) {
  if (stored.name != program.name || stored.fingerprint != program.fingerprint || stored.version != program.version ||
      stored.size != program.size || stored.fields.size() != program.fields.size())
    return true;
  for (std::size_t n = 0; n < stored.fields.size(); ++n)
    if (stored.fields[n].kind == field_kind::nested && differ(stored.fields[n].of(), program.fields[n].of()))
      return true;
  return false;
}

const type* evolution::program_type_named(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found != by_name_.end() ? found->second : nullptr;
}

const type* evolution::program_type_of(const type& stored) const {
  auto found = by_name_.find(stored.name);
  if (found == by_name_.end()) found = by_name_.find(renamed(stored.name));
  return found != by_name_.end() ? found->second : nullptr;
}

bool evolution::has_changed_as_base(const type& stored, const std::string& base) const {
  const auto program = by_name_.find(base);
  if (program == by_name_.end()) return false;
  std::optional<std::uint64_t> start;  // of the base in the stored class
  std::size_t members = 0;
  for (const type_field& is : program->second->fields) {
    if (is.name.empty() || is.name.find("::") != std::string::npos) continue;
    ++members;
    const auto was = std::ranges::find(stored.fields, base + "::" + is.name, &type_field::name);
    if (was == stored.fields.end() || was->type_name != is.type_name || was->kind != is.kind || was->size != is.size ||
        was->count != is.count)
      return true;
    if (!start) start = was->offset - is.offset;
    if (was->offset - is.offset != *start) return true;
  }
  return std::ranges::count_if(stored.fields, [&](const type_field& f) {
           return f.name.starts_with(base + "::") && f.name.find("::", base.size() + 2) == std::string::npos;
         }) != static_cast<std::ptrdiff_t>(members);
}

std::function<std::pair<const type*, const type*>(std::string_view)> evolution::changed_types(
    const std::vector<const type*>& stored) const {
  std::map<std::string_view, const type*> by_name;
  for (const type* const t : stored) by_name.emplace(t->name, t);
  return [this, by_name = std::move(by_name)](std::string_view name) -> std::pair<const type*, const type*> {
    const auto was = by_name.find(name);
    const type* const is = was != by_name.end() ? program_type_of(*was->second) : nullptr;
    return is != nullptr && differ(*was->second, *is) ? std::pair(was->second, is) : std::pair(nullptr, nullptr);
  };
}

void evolution::find_other_problems(const std::vector<const type*>& stored, std::vector<std::string>& problems) const {
  const auto changed = changed_types(stored);
  for (const type* const t : stored) {
    if (program_type_of(*t) == nullptr) continue;
    // How many elements are in a block of a deque depends on their size.
    constexpr std::string_view deque = "std::deque<", allocator = ", tenure::allocator<";
    const std::size_t end = t->name.rfind(allocator);
    if (!t->name.starts_with(deque) || end == std::string::npos) continue;
    const std::string element = t->name.substr(deque.size(), end - deque.size());
    for (const std::string& name : {element, "tenure::slots<" + element + ">"})
      if (const auto [was, is] = changed(name); was != nullptr && was->size != is->size) {
        problems.push_back(renamed(t->name) +
                           ": has elements of another size now, and a deque cannot be converted; with the old program, "
                           "store them in a vector");
        break;
      }
  }
}

std::vector<std::pair<std::string, std::string>> evolution::unknown_with_changes(
    const std::vector<const type*>& stored) const {
  const auto changed = changed_types(stored);
  std::vector<std::pair<std::string, std::string>> found;
  std::set<std::string_view> names;
  const auto has_changed = [&](std::string_view name) {
    return names.contains(name) || changed(name).first != nullptr;
  };
  for (bool is_complete = false; !is_complete;) {
    is_complete = true;
    for (const type* const t : stored) {
      if (program_type_of(*t) != nullptr || names.contains(t->name)) continue;
      const std::string part = changed_part_of(*t, has_changed);
      if (part.empty()) continue;
      is_complete = false;  // others may have this one
      names.insert(t->name);
      found.emplace_back(t->name, t->name + ": has a " + part + ", which has changed, and the program does not know " +
                                      t->name + ": register " +
                                      (is_part_of_container(t->name) ? "the container that has it" : "it") +
                                      " (tenure::register_type)");
    }
  }
  return found;
}

// Objects of types that the program lacks stay as they are, with all that is in them.
std::string evolution::changed_part_of(const type& stored,
                                       const std::function<bool(std::string_view)>& has_changed) const {
  std::string changed;
  for (const type_field& f : stored.fields) {
    const std::size_t end_of_base = f.name.rfind("::");
    if (f.kind == field_kind::nested && f.of && has_changed(f.of().name)) changed = f.of().name;
    if (end_of_base != std::string::npos && has_changed_as_base(stored, f.name.substr(0, end_of_base)))
      changed = f.name.substr(0, end_of_base);
    if (!changed.empty()) break;
  }
  return changed;
}

}  // namespace tenure::types
