// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Hash tables, ours and those of the standard library. Which hash function a program has is not known here: entries stay where
// they are, or in one list, which the next insertion spreads.
#include <algorithm>
#include <bit>

#include "rewrite/salvaged_containers.hpp"
#include "types/pointee.hpp"

namespace tenure::rewriting {

namespace {

// With a smaller max_load_factor() the next insertion would ask for more than a thousand buckets an entry, which may be more memory
// than there is.
constexpr float least_load = 1.0F / 1024;

}  // namespace

// Slots whose entry is lost become free. The number of entries that have passed a group stays.
std::string salvaged_containers::mend_our_table(const type& of, address at) {
  const auto field = [&](std::string_view name) { return at + offset_of(of, name); };
  const address groups = field("groups_"), size = field("size_"), mask = field("mask_");
  const std::uint64_t had = damaged_image::get(size), last = damaged_image::get(mask);
  const auto forget = [&] {
    for (const address each : {groups, size, mask}) damaged_image::put(each, std::uint64_t{0});
    damaged_image::put(field("algorithm_"), std::uint32_t{0});
  };
  if (damaged_image::get(groups) == 0) {
    if (had == 0 && last == 0) return "";
    forget();
    return entries_left(0, had);
  }
  const sound_object array = array_at(of, "groups_", damaged_image::get(groups), {.elements = last + 1});
  const type_field* const tags = array ? container_field(*array.type->of, "tags") : nullptr;
  const type_field* const entries = array ? container_field(*array.type->of, "entries") : nullptr;
  if (tags == nullptr || entries == nullptr || array.count() != last + 1 || !std::has_single_bit(last + 1) ||
      !claim(array.at, at)) {
    forget();
    return entries_left(0, had);
  }
  const bool is_map = required_field(of, "groups_").name.find("hash_map_entries<") != std::string::npos;
  const std::uint64_t each = entries->size / entries->count;
  const type_field* const key = is_map && entries->of ? container_field(entries->of(), "first") : nullptr;
  std::uint64_t count = 0;
  bool is_whole = true;
  for (std::uint64_t g = 0; g <= last; ++g) {
    const address group = array.at + g * array.type->of->size;
    for (std::uint64_t n = 0; n < entries->count; ++n) {
      const address tag = group + tags->offset + n, entry = group + entries->offset + n * each;
      if (damaged_image::get<std::uint8_t>(tag) == 0) continue;
      const std::uint64_t from = entry - group + (key != nullptr ? key->offset : 0);
      if ((damaged_image::get<std::uint8_t>(tag) & 0x80U) != 0 &&
          is_sound_key(*array.type, group, from, from + (key != nullptr ? key->size : each))) {
        ++count;
        continue;
      }
      damaged_image::put(tag, std::uint8_t{0});
      damaged_image::clear(entry, each);
      moved_[entry] = {each, 0};
      is_whole = false;
    }
  }
  if (is_whole && count == had) return "";
  damaged_image::put(size, count);
  return entries_left(count, had);
}

// Whether each bucket has its nodes, where hashes are known: nodes may have them, and those of numbers are the numbers.
bool salvaged_containers::has_right_buckets(const type& of, address at, const std::vector<address>& nodes,
                                            const type& node) {
  const type_field *const cached = container_field(node, "hash"), *const value = &required_field(node, "value");
  const type_field* const key = name_is_map(of) && value->of ? container_field(value->of(), "first") : value;
  const bool is_number = key != nullptr && key->kind == field_kind::data && key->size <= sizeof(std::uint64_t) &&
                         (key->scalar == scalar_kind::signed_integer || key->scalar == scalar_kind::unsigned_integer) &&
                         of.name.find("std::hash<") != std::string::npos;
  const bool is_pointer =
      key != nullptr && key->kind == field_kind::reference && of.name.find("std::hash<") != std::string::npos;
  if (cached == nullptr && !is_number && !is_pointer) return true;
  const address buckets = damaged_image::get(at);
  const std::uint64_t count = damaged_image::get(at + 8);
  std::unordered_set<std::uint64_t> used;
  std::uint64_t last = ~std::uint64_t{0};
  address before = at + 16;
  for (const address each : nodes) {
    std::uint64_t hash = 0;
    if (cached != nullptr) {
      hash = damaged_image::get(each + cached->offset);
    } else {
      const auto shift = static_cast<unsigned>(64 - 8 * key->size);
      std::memcpy(&hash, reinterpret_cast<const void*>(each + value->offset + (key != value ? key->offset : 0)),
                  key->size);
      if (key->scalar == scalar_kind::signed_integer)
        hash = static_cast<std::uint64_t>(static_cast<std::int64_t>(hash << shift) >> shift);
    }
    if (const std::uint64_t bucket = hash % count; bucket != last) {
      if (!used.insert(bucket).second || damaged_image::get(buckets + bucket * sizeof(address)) != before) return false;
      last = bucket;
    }
    before = each;
  }
  return true;
}

// What a table with buckets elsewhere may have in its own one: nothing, or the head of the list, its own or that of a table with which
// it was swapped. Anything else would be a pointer to nowhere when its object is destroyed, because nobody uses it.
bool salvaged_containers::may_be_unused(address single, address first, std::uint64_t first_at, const type& of) const {
  if (single == 0 || single == first) return true;
  const address other = single - first_at;
  const sound_object in = image_.find(other);
  return in && may_contain(*in.type->of, other - in.at, of);
}

// A list of all nodes, bucket by bucket. Each bucket refers to what is before its first node.
std::string salvaged_containers::mend_table(address at, const type& of) {
  constexpr std::uint64_t buckets_at = 0, count_at = 8, first_at = 16, size_at = 24, load_at = 32, resize_at = 40,
                          single_at = 48;
  if (of.size != 56) return "";
  const address buckets = damaged_image::get(at + buckets_at);
  const std::uint64_t count = damaged_image::get(at + count_at), size = damaged_image::get(at + size_at);
  const database_state& in = *image_.store().at(reinterpret_cast<const void*>(at));
  std::string name = node_name(of, "std::__detail::_Hash_node<");
  name += image_.described(in, name + ", true>") != nullptr ? ", true>" : ", false>";
  const type* like = nullptr;
  std::vector<address> nodes;
  std::unordered_set<address> seen;
  const auto walk = [&](address node) {
    for (; node != 0; node = damaged_image::get(node)) {
      if (!is_node(node, name, like) || !claim(node, at) || !seen.insert(node).second) return false;
      nodes.push_back(node);
    }
    return true;
  };
  bool is_whole = walk(damaged_image::get(at + first_at)) && nodes.size() == size;
  const bool is_single = buckets == at + single_at && count == 1;
  const sound_object array = is_single ? sound_object{} : array_at(of, "buckets", buckets, {.elements = count});
  const bool has_buckets =
      is_single || (array && count != 0 && count <= array.size / sizeof(address) && claim(array.at, at));
  std::uint64_t used = 0;
  for (std::uint64_t n = 0; has_buckets && n < count; ++n) {
    const address before = damaged_image::get(buckets + n * sizeof(address));
    if (before == 0) continue;
    ++used;
    if (before == at + first_at || seen.contains(before)) continue;
    is_whole = false;
    (void)walk(before);
  }
  is_whole = is_whole && has_buckets && (used != 0) == (size != 0);
  if (!is_single && !may_be_unused(damaged_image::get(at + single_at), at + first_at, first_at, of)) {
    damaged_image::put(at + single_at, address{0});
    is_whole = false;
  }
  if (!(damaged_image::get<float>(at + load_at) >= least_load)) {  // or no number
    damaged_image::put(at + load_at, 1.0F);
    is_whole = false;
  }
  const type_field* const value = like != nullptr ? container_field(*like, "value") : nullptr;
  const type_field* const key =
      value != nullptr && value->of && name_is_map(of) ? container_field(value->of(), "first") : nullptr;
  if (value != nullptr)
    std::erase_if(nodes, [&](address node) {
      const std::uint64_t from = value->offset + (key != nullptr ? key->offset : 0);
      if (is_sound_key(*image_.find(node).type, node, from, from + (key != nullptr ? key->size : value->size)))
        return false;
      damaged_image::put(node, address{0});
      is_whole = false;
      return true;
    });
  if (is_whole && (value == nullptr || has_right_buckets(of, at, nodes, *like))) return "";
  address last = at + first_at;
  for (const address node : nodes) {
    damaged_image::put(last, node);
    last = node;
  }
  damaged_image::put(last, address{0});
  damaged_image::put(at + buckets_at, at + single_at);
  damaged_image::put(at + count_at, std::uint64_t{1});
  damaged_image::put(at + size_at, std::uint64_t{nodes.size()});
  damaged_image::put(at + resize_at, std::uint64_t{0});
  damaged_image::put(at + single_at, nodes.empty() ? address{0} : at + first_at);
  return entries_left(nodes.size(), size);
}

}  // namespace tenure::rewriting
