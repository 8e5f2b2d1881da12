// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/address_orders.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <tenure/hash.hpp>
#include <tenure/store/weak_cell.hpp>

#include "objects/object_walk.hpp"
#include "rewrite/container_places.hpp"

namespace tenure::rewriting {

using namespace heap;

namespace {

template <class T = std::uint64_t>
[[nodiscard]] T value_at(address at) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
  return value;
}

[[nodiscard]] const type_field* field_of(const type& of, std::string_view name) {
  const auto found = std::ranges::find(of.fields, name, &type_field::name);
  return found != of.fields.end() ? &*found : nullptr;
}

[[nodiscard]] std::string_view text_at(address at, bool is_ours) {
  const auto first = value_at<const char*>(at);
  if (!is_ours) return {first, value_at(at + 8)};
  if (first != nullptr) return {first, value_at(at + 8)};
  return {reinterpret_cast<const char*>(at + 8), value_at<std::uint8_t>(at + 23)};
}

template <class T>
[[nodiscard]] int three_ways(const T& one, const T& other) {
  return one < other ? -1 : other < one ? 1 : 0;
}

constexpr const char* damaged = "it is damaged";
constexpr const char* own_function = "the program's own function orders it";
constexpr const char* other_keys = "its keys have more than pointers, numbers and text before pointers";

}  // namespace

// --- Keys ---------------------------------------------------------------------------------------------------------------

bool address_orders::add_part(const type_field& f, std::uint64_t at, std::vector<key_part>& to) {
  using kind = key_part::kind;
  if (f.count != 1) return false;
  if (f.kind == field_kind::nested) return add_parts(f.of(), at, to);
  if (f.kind == field_kind::reference) return to.push_back({kind::pointer, at, f.size, f.type_name}), true;
  if (f.kind != field_kind::data || f.size > 8) return false;
  switch (f.scalar) {
    case scalar_kind::boolean:
    case scalar_kind::unsigned_integer: to.push_back({kind::without_sign, at, f.size}); return true;
    case scalar_kind::signed_integer: to.push_back({kind::with_sign, at, f.size}); return true;
    case scalar_kind::floating: to.push_back({kind::floating, at, f.size}); return true;
    default: return false;
  }
}

bool address_orders::add_parts(const type& of, std::uint64_t at, std::vector<key_part>& to) {
  using kind = key_part::kind;
  // What lies behind a pointer would move with it, and text has memory of its own.
  const bool has_pointer = std::ranges::any_of(to, [](const key_part& p) { return p.is == kind::pointer; });
  if (of.name == "tenure::string" || of.name.starts_with("tenure::basic_string<"))
    return !has_pointer && (to.push_back({kind::text_of_ours, at, of.size}), true);
  if (of.name.starts_with("std::__cxx11::basic_string<char,"))
    return !has_pointer && (to.push_back({kind::standard_text, at, of.size}), true);
  if (!of.name.starts_with("std::pair<") && !(of.fields.size() == 1 && of.fields[0].name.empty())) return false;
  return std::ranges::all_of(of.fields, [&](const type_field& f) { return add_part(f, at + f.offset, to); });
}

// An index has pairs, and all of them is in its order.
bool address_orders::parts_of_entry(const type_field& entries, bool is_set, std::vector<key_part>& to) {
  type_field one = entries;
  one.size /= one.count;
  one.count = 1;
  if (is_set) return add_part(one, 0, to);
  if (one.kind != field_kind::nested) return false;
  const type_field* const key = field_of(one.of(), "first");
  return key != nullptr && add_part(*key, key->offset, to);
}

int address_orders::compare(const std::vector<key_part>& parts, address one, address other) const {
  using kind = key_part::kind;
  for (const key_part& p : parts) {
    const address a = one + p.offset, b = other + p.offset;
    int order = 0;
    switch (p.is) {
      case kind::pointer: order = three_ways(target_of(p, a), target_of(p, b)); break;
      case kind::with_sign: order = three_ways(with_sign(a, p.size), with_sign(b, p.size)); break;
      case kind::without_sign: order = three_ways(without_sign(a, p.size), without_sign(b, p.size)); break;
      case kind::floating: order = three_ways(floating(a, p.size), floating(b, p.size)); break;
      case kind::text_of_ours: order = text_at(a, true).compare(text_at(b, true)); break;
      case kind::standard_text: order = text_at(a, false).compare(text_at(b, false)); break;
    }
    if (order != 0) return order;
  }
  return 0;
}

std::uint64_t address_orders::without_sign(address at, std::uint64_t size) {
  std::uint64_t value = 0;  // little-endian: the first bytes are the low ones
  std::memcpy(&value, reinterpret_cast<const void*>(at), size);
  return value;
}
std::int64_t address_orders::with_sign(address at, std::uint64_t size) {
  const auto shift = static_cast<unsigned>(64 - 8 * size);
  return static_cast<std::int64_t>(without_sign(at, size) << shift) >> shift;
}
double address_orders::floating(address at, std::uint64_t size) {
  return size == sizeof(float) ? value_at<float>(at) : value_at<double>(at);
}

// As tenure::hash.
std::uint64_t address_orders::hash_of(const std::vector<key_part>& parts, address entry, std::uint64_t seed) const {
  using kind = key_part::kind;
  for (const key_part& p : parts) {
    const address at = entry + p.offset;
    switch (p.is) {
      case kind::pointer: seed = tenure::detail::hash_number(target_of(p, at), seed); break;
      case kind::with_sign:
        seed = tenure::detail::hash_number(static_cast<std::uint64_t>(with_sign(at, p.size)), seed);
        break;
      case kind::without_sign: seed = tenure::detail::hash_number(without_sign(at, p.size), seed); break;
      case kind::floating: seed = tenure::hash<double>()(floating(at, p.size), seed); break;
      case kind::text_of_ours: seed = tenure::detail::hash_text(text_at(at, true), seed); break;
      case kind::standard_text: seed = tenure::detail::hash_text(text_at(at, false), seed); break;
    }
  }
  return seed;
}

// --- Containers -----------------------------------------------------------------------------------------------------------

template <class F>
void address_orders::for_each_array(const keyed_container& which, address value, F&& f) const {
  const std::string_view name = name_of_elements(*which.of);
  if (!name.starts_with("tenure::")) return;  // nodes stay where they are
  const bool is_hash = name.starts_with("tenure::hash_");
  address array = value_at(value + which.offset + offset_of(*which.of, is_hash ? "groups_" : "first_"));
  for (sound_object found = find_sound(store_, reinterpret_cast<const void*>(array)); found && found.at == array;
       found = find_sound(store_, reinterpret_cast<const void*>(array))) {
    f(array, array + found.size);
    const type_field* const next = is_hash ? nullptr : field_of(*found.type->of, "next");
    if (next == nullptr) return;
    array = value_at(array + next->offset);
  }
}

void address_orders::expect(const keyed_container& which, address value) {
  for_each_array(which, value, [&](address begin, address end) { waiting_[begin] = end; });
}

void address_orders::require_no_waiting(address to) const {
  const auto waiting = waiting_.upper_bound(to);
  if (waiting != waiting_.begin() && to < std::prev(waiting)->second) throw comes_later();
}

address address_orders::target_of(const key_part& key, address at) const {
  const address to = value_at(at);
  require_no_waiting(to);
  return moved_(entry_at(to), key.type);
}

std::uint64_t address_orders::hidden_key(std::uint64_t was) {
  const auto at = reinterpret_cast<address>(tenure::detail::shown(was));
  require_no_waiting(at);
  const address to = weakly_(entry_at(at));
  // No object has such an address, and no two keys are equal.
  return tenure::detail::hide(reinterpret_cast<const void*>(to != 0 ? to : ++ended_));
}

std::string address_orders::reorder(const keyed_container& which, address value) {
  std::string why = reorder_entries(which, value);
  for_each_array(which, value, [&](address begin, address) { waiting_.erase(begin); });
  return why;
}

std::string address_orders::reorder_entries(const keyed_container& which, address value) {
  const std::string name(name_of_elements(*which.of));
  const std::vector<std::string> arguments = template_arguments(name);
  const std::string family = name.substr(0, name.find('<'));
  const bool is_set = family.ends_with("set"), is_index = family == "tenure::ordered_index";
  if (arguments.empty() || !is_container_with_keys(name)) return "it is a class derived from a container";
  const std::string& key = arguments[0];
  const std::size_t function = is_set ? 1 : 2;
  const auto is_usual = [&](const std::string& usual) {
    return arguments.size() > function && arguments[function] == usual + "<" + key + ">";
  };
  if (family.starts_with("tenure::hash_"))
    return is_usual("tenure::hash") ? reorder_hash_table(*which.of, value + which.offset, is_set) : own_function;
  if (family.starts_with("tenure::"))
    return is_usual("tenure::less") ? reorder_tree(*which.of, value + which.offset, is_set || is_index) : own_function;
  if (family.starts_with("std::unordered_"))
    return is_usual("std::hash") ? reorder_standard_table(*which.of, value + which.offset, is_set) : own_function;
  return is_usual("std::less") ? reorder_standard_tree(*which.of, value + which.offset, is_set) : own_function;
}

const type* address_orders::type_at(address object, std::string_view prefix) const {
  const sound_object found = find_sound(store_, reinterpret_cast<const void*>(object));
  return found && found.at == object && found.type->of->name.starts_with(prefix) ? found.type->of : nullptr;
}

void address_orders::move_entry(address entry, std::uint64_t size, address to) {
  slots_[to] = {size, entry};
  if (entry != to) entries_[entry] = {size, to};
}

std::string address_orders::reorder_hash_table(const type& of, address value, bool is_set) {
  const address groups = value_at(value + offset_of(of, "groups_"));
  const std::uint64_t mask = value_at(value + offset_of(of, "mask_")), seed = value_at(value + offset_of(of, "seed_"));
  const type* const group = type_at(groups, "tenure::detail::hash_group<");
  const type_field* const entries = group != nullptr ? field_of(*group, "entries") : nullptr;
  if (entries == nullptr || find_sound(store_, reinterpret_cast<const void*>(groups)).count() != mask + 1)
    return damaged;
  std::vector<key_part> parts;
  if (!parts_of_entry(*entries, is_set, parts)) return other_keys;
  const std::uint64_t slots = entries->count, each = entries->size / slots;
  const bool is_weak = is_weak_map(name_of_elements(of));
  std::map<address, std::uint64_t> keys;  // of a weak map
  struct new_group {
    std::vector<std::uint8_t> tags;
    std::uint8_t passed = 0;
    std::vector<address> from;  // entries
  };
  std::vector<new_group> made(mask + 1);
  for (new_group& g : made) g.tags.resize(slots), g.from.resize(slots);
  constexpr std::uint8_t many = 255;
  for (std::uint64_t g = 0; g <= mask; ++g)
    for (std::uint64_t n = 0; n < slots; ++n) {
      const address here = groups + g * group->size;
      if (value_at<std::uint8_t>(here + offset_of(*group, "tags") + n) == 0) continue;
      const address entry = here + entries->offset + n * each;
      if (is_weak) keys[entry + parts[0].offset] = hidden_key(value_at(entry + parts[0].offset));
      const std::uint64_t hash =
          is_weak ? tenure::detail::hash_number(keys[entry + parts[0].offset], seed) : hash_of(parts, entry, seed);
      const auto tag = static_cast<std::uint8_t>(0x80U | hash >> 57U);
      std::uint64_t at = hash & mask;
      const std::uint64_t step = 2 * std::uint64_t{tag} + 1;
      const auto free_slot = [&] { return std::ranges::find(made[at].tags, 0) - made[at].tags.begin(); };
      for (; free_slot() == static_cast<std::ptrdiff_t>(slots); at = (at + step) & mask)
        if (made[at].passed != many) ++made[at].passed;
      const auto slot = static_cast<std::size_t>(free_slot());
      made[at].tags[slot] = tag;
      made[at].from[slot] = entry;
    }
  for (const auto& [at, key] : keys) put_word(at, key);
  for (std::uint64_t g = 0; g <= mask; ++g) {
    const address here = groups + g * group->size;
    put(here + offset_of(*group, "tags"), std::as_bytes(std::span(made[g].tags)));
    put(here + offset_of(*group, "passed"), std::as_bytes(std::span(&made[g].passed, 1)));
    for (std::uint64_t n = 0; n < slots; ++n) {
      const address slot = here + entries->offset + n * each;
      if (made[g].from[n] != 0)
        move_entry(made[g].from[n], each, slot);
      else
        slots_[slot] = {each, 0};
    }
  }
  return "";
}

std::string address_orders::reorder_tree(const type& of, address value, bool is_set) {
  std::vector<address> slots, entries;
  std::vector<std::pair<address, std::size_t>> leaves;  // and the number of the first slot
  std::vector<key_part> parts;
  std::uint64_t each = 0;
  for (address leaf = value_at(value + offset_of(of, "first_")); leaf != 0;) {
    const type* const node = type_at(leaf, "tenure::detail::tree_leaf<");
    const type_field* const field = node != nullptr ? field_of(*node, "entries") : nullptr;
    const std::uint32_t count = field != nullptr ? value_at<std::uint32_t>(leaf + offset_of(*node, "count")) : 0;
    if (field == nullptr || count > field->count || slots.size() > value_at(value + offset_of(of, "size_")))
      return damaged;
    if (parts.empty() && !parts_of_entry(*field, is_set, parts)) return other_keys;
    each = field->size / field->count;
    leaves.emplace_back(leaf, slots.size());
    for (std::uint32_t n = 0; n < count; ++n) slots.push_back(leaf + field->offset + n * each);
    leaf = value_at(leaf + offset_of(*node, "next"));
  }
  entries = slots;
  std::ranges::stable_sort(entries, [&](address a, address b) { return compare(parts, a, b) < 0; });
  for (std::size_t n = 0; n < slots.size(); ++n) move_entry(entries[n], each, slots[n]);
  std::unordered_map<address, address> firsts;
  for (const auto& [leaf, first] : leaves) firsts[leaf] = entries[first];
  return set_separators(value_at(value + offset_of(of, "root_")), firsts, parts) != 0 ? "" : damaged;
}

// Returns the first entry below the node; 0: something is wrong.
address address_orders::set_separators(address node, const std::unordered_map<address, address>& firsts,
                                       const std::vector<key_part>& parts) {
  if (const auto leaf = firsts.find(node); leaf != firsts.end()) return leaf->second;
  const type* const inner = type_at(node, "tenure::detail::tree_inner<");
  const type_field* const separators = inner != nullptr ? field_of(*inner, "separators") : nullptr;
  if (separators == nullptr) return 0;
  const std::uint32_t count = value_at<std::uint32_t>(node + offset_of(*inner, "count"));
  if (count > separators->count) return 0;
  const address children = node + offset_of(*inner, "children");
  address first = 0;
  for (std::uint32_t n = 0; n <= count; ++n) {
    const address entry = set_separators(value_at(children + n * sizeof(address)), firsts, parts);
    if (entry == 0) return 0;
    if (n == 0) {
      first = entry;
      continue;
    }
    // It is the first key behind it. Text has memory of its own there, and is the same as before.
    const address separator = node + separators->offset + (n - 1) * (separators->size / separators->count);
    for (const key_part& p : parts)
      if (p.is != key_part::kind::text_of_ours && p.is != key_part::kind::standard_text)
        put(separator + p.offset, {reinterpret_cast<const std::byte*>(entry + p.offset), p.size});
  }
  return first;
}

// The nodes stay where they are. The one that takes the place of another gets its links, and its color.
std::string address_orders::reorder_standard_tree(const type& of, address value, bool is_set) {
  const address header = value + offset_of(of, "color"), root = value + offset_of(of, "root"),
                leftmost = value + offset_of(of, "leftmost"), rightmost = value + offset_of(of, "rightmost");
  const std::uint64_t size = value_at(value + offset_of(of, "size"));
  constexpr std::uint64_t parent = 8, left = 16, right = 24, links = 32;
  std::vector<address> nodes;
  std::vector<key_part> parts;
  std::uint64_t key_at = 0;
  for (address node = value_at(leftmost); node != header;) {
    const type* const t = type_at(node, "std::_Rb_tree_node<");
    const type_field* const field = t != nullptr ? field_of(*t, "value") : nullptr;
    if (field == nullptr || nodes.size() == size) return damaged;
    if (parts.empty() && !parts_of_entry(*field, is_set, parts)) return other_keys;
    key_at = field->offset;
    nodes.push_back(node);
    if (address next = value_at(node + right); next != 0) {
      for (; value_at(next + left) != 0; next = value_at(next + left)) {
        if (type_at(next, "std::_Rb_tree_node<") == nullptr) return damaged;
      }
      node = next;
    } else {
      address up = value_at(node + parent);
      for (; up != header && node == value_at(up + right); up = value_at(up + parent)) node = up;
      node = up;
    }
  }
  std::vector<address> sorted = nodes;
  std::ranges::stable_sort(sorted, [&](address a, address b) { return compare(parts, a + key_at, b + key_at) < 0; });
  std::unordered_map<address, address> now{{header, header}, {0, 0}};
  for (std::size_t n = 0; n < nodes.size(); ++n) now[nodes[n]] = sorted[n];
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    std::byte bytes[links];
    std::memcpy(bytes, reinterpret_cast<const void*>(nodes[n]), links);
    for (const std::uint64_t link : {parent, left, right}) {
      const address to = now[value_at(nodes[n] + link)];
      std::memcpy(bytes + link, &to, sizeof to);
    }
    put(sorted[n], bytes);
  }
  for (const address link : {root, leftmost, rightmost}) put_word(link, now[value_at(link)]);
  return "";
}

// A list of all nodes, bucket by bucket; each bucket refers to what is before its first node.
std::string address_orders::reorder_standard_table(const type& of, address value, bool is_set) {
  const address first = value + offset_of(of, "first"), buckets = value_at(value + offset_of(of, "buckets"));
  const std::uint64_t count = value_at(value + offset_of(of, "bucket_count")),
                      size = value_at(value + offset_of(of, "size"));
  const sound_object array = find_sound(store_, reinterpret_cast<const void*>(buckets));
  if (!array || count == 0 || buckets + count * sizeof(address) > array.at + array.size) return damaged;
  struct item {
    std::uint64_t key;  // the new address, which is its hash
    address node;
  };
  std::vector<item> nodes;
  std::vector<key_part> parts;
  for (address node = value_at(first); node != 0; node = value_at(node)) {
    const type* const t = type_at(node, "std::__detail::_Hash_node<");
    const type_field* const field = t != nullptr ? field_of(*t, "value") : nullptr;
    if (field == nullptr || nodes.size() == size) return damaged;
    if (parts.empty() && (!parts_of_entry(*field, is_set, parts) || parts.size() != 1)) return other_keys;
    nodes.push_back({target_of(parts[0], node + field->offset + parts[0].offset), node});
  }
  std::ranges::stable_sort(nodes, {}, [&](const item& i) { return std::pair(i.key % count, i.key); });
  std::vector<address> before(count);
  address last = first;
  for (const item& i : nodes) {
    if (before[i.key % count] == 0) before[i.key % count] = last;
    put_word(last, i.node);
    last = i.node;
  }
  put_word(last, 0);
  put(buckets, std::as_bytes(std::span(before)));
  return "";
}

// --- What differs ---------------------------------------------------------------------------------------------------------

void address_orders::apply(address from, std::span<std::byte> copy) const {
  apply_inside(from, copy);
  for (auto s = slots_.lower_bound(from); s != slots_.end() && s->first < from + copy.size(); ++s) {
    const auto& [size, source] = s->second;
    const std::span slot = copy.subspan(s->first - from, size);
    if (source == 0) {
      std::ranges::fill(slot, std::byte{});
      continue;
    }
    std::memcpy(slot.data(), reinterpret_cast<const void*>(source), size);
    apply_inside(source, slot);
  }
}

// The buckets of a large table are copied in pieces, and are one patch.
void address_orders::apply_inside(address from, std::span<std::byte> copy) const {
  const address end = from + copy.size();
  auto p = patches_.upper_bound(from);
  if (p != patches_.begin()) --p;
  for (; p != patches_.end() && p->first < end; ++p) {
    const address first = std::max(p->first, from), last = std::min(p->first + p->second.size(), end);
    if (first < last) std::memcpy(copy.data() + (first - from), p->second.data() + (first - p->first), last - first);
  }
}

address address_orders::entry_at(address at) const {
  auto found = entries_.upper_bound(at);
  if (found == entries_.begin()) return at;
  --found;
  return at < found->first + found->second.size ? found->second.to + (at - found->first) : at;
}

}  // namespace tenure::rewriting
