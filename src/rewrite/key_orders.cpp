// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/key_orders.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

namespace tenure::rewriting {

namespace {

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view p) { return name.starts_with(p); });
}

[[nodiscard]] bool is_text(std::string_view name) {
  return name == "tenure::string" ||
         starts_with_any(name, {"tenure::basic_string<", "std::__cxx11::basic_string<", "std::basic_string<"});
}

// As people write it, without what does not matter: a field<T> is stored as a T.
[[nodiscard]] std::string_view bare(std::string_view name) {
  for (;;) {
    constexpr std::string_view constant = " const", field = "tenure::field<";
    if (name.ends_with(constant)) {
      name.remove_suffix(constant.size());
    } else if (name.starts_with(field) && name.ends_with('>')) {
      name = name.substr(field.size(), name.size() - field.size() - 1);
      while (name.ends_with(' ')) name.remove_suffix(1);
    } else {
      return name;
    }
  }
}

// Whose values lie elsewhere.
[[nodiscard]] bool is_container(std::string_view name) {
  return starts_with_any(name, {"std::vector<", "tenure::vector<", "std::deque<", "std::list<", "std::forward_list<",
                                "std::__cxx11::list<"}) ||
         is_container_with_keys(name);
}

// Whether comparing or hashing such keys may look at addresses.
class key_search {
 public:
  explicit key_search(const heap::type_index& types) {
    for (std::uint32_t n = 1; n < types.count(); ++n)
      if (const heap::known_type* const known = types.find(n); known != nullptr) {
        types_.emplace_back(n, known->of);
        add(known->of->name, *known->of);
      }
  }

  [[nodiscard]] bool may_have_addresses(std::string_view key) const {
    key = bare(key);
    if (key.ends_with('*')) return true;
    if (is_text(key)) return false;
    if (is_compared_by_parts(key))
      return std::ranges::any_of(template_arguments(key), [&](const std::string& part) {
        return !part.starts_with("tenure::allocator<") && part != "tenure::heap_memory" && may_have_addresses(part);
      });
    const auto found = by_name_.find(key);
    return found != by_name_.end() && has_pointers(*found->second);
  }

  // Adds the types of what lies in the memory that keys of this type own, and that may have addresses.
  void add_owned(std::string_view key, std::set<std::string, std::less<>>& to) const {
    key = bare(key);
    if (key.ends_with('*') || is_text(key)) return;
    if (is_container(key)) {
      for (const std::string& part : template_arguments(key))
        if (!part.starts_with("tenure::allocator<") && may_have_addresses(part) && to.emplace(bare(part)).second)
          add_owned(part, to);
      return;
    }
    if (const auto found = by_name_.find(key); found != by_name_.end())
      for (const type_field& f : found->second->fields)
        if (f.kind == field_kind::nested) add_owned(f.type_name, to);
    if (starts_with_any(key, {"std::pair<", "std::tuple<", "std::array<", "std::optional<", "std::variant<"}))
      for (const std::string& part : template_arguments(key)) add_owned(part, to);
  }
  [[nodiscard]] const std::vector<std::pair<std::uint32_t, const type*>>& types() const { return types_; }

 private:
  // Under the names that the program has for it, too: persist<T>::name may give it another one.
  void add(std::string_view name, const type& of) {
    if (!by_name_.emplace(bare(name), &of).second) return;
    for (const type_field& f : of.fields)
      if (f.kind == field_kind::nested && f.of) add(f.type_name, f.of());
  }
  // What these consist of is compared and hashed.
  [[nodiscard]] static bool is_compared_by_parts(std::string_view key) {
    return key.ends_with('>') && starts_with_any(key, {"std::pair<", "std::tuple<", "std::array<", "std::optional<",
                                                       "std::vector<", "tenure::vector<"});
  }
  [[nodiscard]] bool has_pointers(const type& of) const {
    return std::ranges::any_of(of.fields, [&](const type_field& f) {
      if (f.kind != field_kind::nested || !f.of)
        return f.kind == field_kind::reference || f.kind == field_kind::conservative;
      const std::string_view name = bare(f.of().name);
      return is_text(name) || is_compared_by_parts(name) ? may_have_addresses(name) : has_pointers(f.of());
    });
  }

  std::vector<std::pair<std::uint32_t, const type*>> types_;  // and their numbers
  std::map<std::string, const type*, std::less<>> by_name_;
};

// The key of what such an object has entries of; empty: it has none. Of a pair that is not of a map, all is the key.
[[nodiscard]] std::string key_in_node(std::string_view name) {
  if (!starts_with_any(name, {"tenure::detail::tree_leaf<", "tenure::detail::tree_inner<",
                              "tenure::detail::hash_group<", "std::_Rb_tree_node<", "std::__detail::_Hash_node<"}))
    return "";
  const std::vector<std::string> arguments = template_arguments(name);
  if (arguments.empty()) return "";
  const std::string& entry = arguments.front();
  const std::vector<std::string> parts = template_arguments(entry);
  const bool is_of_map = entry.starts_with("std::pair<") && !parts.empty() && parts[0].ends_with(" const");
  return is_of_map ? parts[0] : entry;  // "std::pair<KEY const, VALUE>"
}

// An index has pairs, and all of them is in its order.
[[nodiscard]] bool depends_on_addresses(const std::string& name, const key_search& keys) {
  const std::vector<std::string> arguments = template_arguments(name);
  const bool is_index = name.starts_with("tenure::ordered_index<");
  return is_weak_map(name) ||
         (!arguments.empty() && (keys.may_have_addresses(arguments[0]) ||
                                 (is_index && arguments.size() > 1 && keys.may_have_addresses(arguments[1]))));
}

// The members of bases are members of the class: "tenure::detail::tree_structure<ENTRIES, MEMORY>::root_", where the entries
// are "tenure::detail::map_entries<KEY, VALUE, ORDER>".
[[nodiscard]] std::string derived_container(const type& of) {
  for (const type_field& f : of.fields) {
    if (!starts_with_any(f.name, {"tenure::detail::tree_structure<", "tenure::detail::hash_table<"})) continue;
    const std::vector<std::string> structure = template_arguments(f.name.substr(0, f.name.rfind("::")));
    const std::vector<std::string> entries = structure.empty() ? structure : template_arguments(structure.front());
    if (!entries.empty()) return "derived<" + entries.front() + ">";
  }
  return "";
}

void search(const type& of, std::uint64_t at, std::vector<field_guard>& guards,
            const std::function<bool(const type&, const std::string&)>& wanted, std::vector<keyed_container>& found) {
  const std::string name(name_of_elements(of)), container = is_container_with_keys(name) ? name : derived_container(of);
  if (!container.empty()) {
    if (!wanted(of, container)) return;
    const auto size = std::ranges::find_if(
        of.fields, [](const type_field& f) { return f.name == "size" || f.name.ends_with("::size_"); });
    found.push_back({at, &of, at + (size != of.fields.end() ? size->offset : 0), guards});
    return;
  }
  for (const type_field& f : of.fields) {
    if (f.kind != field_kind::nested || !f.of) continue;
    if (f.only_if) guards.push_back({at + f.only_if->offset, f.only_if->width, f.only_if->value});
    const std::uint64_t each = f.size / f.count;
    for (std::uint64_t n = 0; n < f.count; ++n) search(f.of(), at + f.offset + n * each, guards, wanted, found);
    if (f.only_if) guards.pop_back();
  }
}

[[nodiscard]] std::uint64_t number_in(const std::byte* at, std::size_t width) {
  std::uint64_t value = 0;  // little-endian: the first bytes are the low ones
  std::memcpy(&value, at, width);
  return value;
}

}  // namespace

std::string_view name_of_elements(const type& of) {
  constexpr std::string_view slots = "tenure::slots<";
  std::string_view name = of.name;
  if (!of.tolerates_stale || !name.starts_with(slots) || !name.ends_with('>')) return name;
  name.remove_prefix(slots.size());
  name.remove_suffix(1);
  while (name.ends_with(' ')) name.remove_suffix(1);
  return name;
}

bool is_weak_map(std::string_view name) {
  return name.starts_with("tenure::hash_map<unsigned long, tenure::detail::weak_map_entry<");
}

// Arrays of pointers to such containers have names that begin likewise.
bool is_container_with_keys(std::string_view name) {
  return name.ends_with('>') &&
         starts_with_any(
             name, {"tenure::hash_map<", "tenure::hash_set<", "tenure::map<", "tenure::set<", "tenure::multimap<",
                    "tenure::multiset<", "tenure::ordered_index<", "tenure::cache::map<", "std::map<", "std::set<",
                    "std::multimap<", "std::multiset<", "std::unordered_map<", "std::unordered_set<",
                    "std::unordered_multimap<", "std::unordered_multiset<"});
}

bool is_without_addresses(const type_field& key) {
  if (key.kind != field_kind::nested) return key.kind == field_kind::data;
  const type& of = key.of();
  return of.name == "tenure::string" ||
         starts_with_any(of.name, {"tenure::basic_string<", "std::__cxx11::basic_string<char,"}) ||
         (!of.is_conservative && std::ranges::all_of(of.fields, is_without_addresses));
}

std::vector<std::string> template_arguments(std::string_view name) {
  std::vector<std::string> found;
  const std::size_t open = name.find('<');
  if (open == std::string_view::npos || !name.ends_with('>')) return found;
  std::string_view inside = name.substr(open + 1, name.size() - open - 2);
  int depth = 0;
  std::size_t from = 0;
  const auto add = [&](std::size_t to) {
    std::string_view part = inside.substr(from, to - from);
    while (part.starts_with(' ')) part.remove_prefix(1);
    found.emplace_back(part);
  };
  for (std::size_t n = 0; n < inside.size(); ++n) {
    const char c = inside[n];
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == ']') --depth;
    if (c != ',' || depth != 0) continue;
    add(n);
    from = n + 1;
  }
  add(inside.size());
  return found;
}

std::vector<keyed_container> containers_in(const type& of,
                                           const std::function<bool(const type&, const std::string&)>& wanted) {
  std::vector<keyed_container> found;
  std::vector<field_guard> guards;
  search(of, 0, guards, wanted, found);
  return found;
}

std::vector<keyed_container> ordered_by_address(const type& of, const heap::type_index& types) {
  return containers_in(of, [keys = key_search(types)](const type&, const std::string& name) {
    return depends_on_addresses(name, keys);
  });
}

std::vector<bool> with_keys_by_address(const heap::type_index& types) {
  const key_search keys(types);
  // Of arrays and nodes that keys have.
  std::set<std::string, std::less<>> owned;
  for (const auto& [n, each] : keys.types())
    if (const std::string key = key_in_node(each->name); !key.empty()) keys.add_owned(key, owned);
  const auto is_owned = [&](std::string_view each) { return owned.contains(bare(each)); };
  const auto is_of_owned = [&](std::string_view name) {
    if (owned.empty()) return false;
    if (is_owned(name)) return true;
    if (!starts_with_any(name, {"tenure::detail::", "std::_"})) return false;
    const std::vector<std::string> arguments = template_arguments(name);
    return !arguments.empty() &&
           (is_owned(arguments.front()) || std::ranges::any_of(template_arguments(arguments.front()), is_owned));
  };
  std::vector<bool> found(keys.types().empty() ? 0 : keys.types().back().first + 1);
  for (const auto& [n, each] : keys.types()) {
    const std::string_view name = name_of_elements(*each);
    const std::string key = key_in_node(name);
    found[n] = (!key.empty() && keys.may_have_addresses(key)) || is_of_owned(name);
  }
  return found;
}

bool has_entries(const keyed_container& container, const std::byte* value) {
  return std::ranges::all_of(container.guards,
                             [&](const field_guard& g) { return number_in(value + g.offset, g.width) == g.value; }) &&
         number_in(value + container.size_offset, sizeof(std::uint64_t)) != 0;
}

}  // namespace tenure::rewriting
