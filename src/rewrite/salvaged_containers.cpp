// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers whose elements lie one after the other, and what all have in common.
#include "rewrite/salvaged_containers.hpp"

#include <algorithm>

#include "rewrite/key_orders.hpp"
#include "types/pointee.hpp"

namespace tenure::rewriting {

namespace {

using image = damaged_image;

[[nodiscard]] bool is_all_zero(address at, std::uint64_t bytes) {
  const auto* const first = reinterpret_cast<const std::byte*>(at);
  return std::all_of(first, first + bytes, [](std::byte b) { return b == std::byte{}; });
}

[[nodiscard]] std::string lost_elements(std::uint64_t count) {
  return "has lost its elements; it had " + std::to_string(count) + " of them, and is empty now";
}

constexpr std::uint64_t word = sizeof(address);

}  // namespace

// --- All ------------------------------------------------------------------------------------------------------------------

std::string salvaged_containers::mend(const container_place& place, address at) {
  using enum container_shape;
  if (is_all_zero(at, place.of->size)) return "";  // empty, or no value: a slot that nothing was made in
  std::string what = [&] {
    switch (place.is) {
      case our_vector: return mend_our_vector(*place.of, at);
      case our_string: return mend_our_string(*place.of, at);
      case our_tree: return mend_our_tree(*place.of, at);
      case cache_map: return mend_cache_map(*place.of, at);
      case our_table: return mend_our_table(*place.of, at);
      case queue: return mend_queue(*place.of, at);
      case vector: return mend_vector(*place.of, at);
      case string: return mend_string(*place.of, at);
      case deque: return mend_deque(*place.of, at);
      case list: return mend_list(*place.of, at);
      case forward_list: return mend_forward_list(*place.of, at);
      case tree: return mend_tree(*place.of, at);
      case table: return mend_table(at, *place.of);
    }
    return std::string();
  }();
  if (!what.empty()) note_changed(at);
  return what;
}

const salvaged_containers::range* salvaged_containers::live_in(address array) const {
  const auto found = live_.find(array);
  return found != live_.end() ? &found->second : nullptr;
}

const std::vector<std::string>& salvaged_containers::pointees(const type& of, const pointer_map& words) {
  const auto [found, is_new] = pointees_.try_emplace(&of);
  if (is_new)
    for (const pointer_map::word& w : words.words())
      found->second.emplace_back(w.kind == field_kind::reference ? pointee_of(declared_type_of_pointer(of, w.offset))
                                                                 : std::string_view());
  return found->second;
}

const std::vector<container_place>& salvaged_containers::places_in(const type& of) {
  const auto [found, is_new] = places_.try_emplace(&of);
  if (is_new) found->second = container_places(of);
  return found->second;
}

sound_object salvaged_containers::array_at(const type& of, std::string_view field, address to,
                                           damaged_image::array_extent how_long) {
  const type_field* const f = container_field(of, field);
  const std::string_view pointee = f != nullptr ? pointee_of(f->type_name) : std::string_view();
  const sound_object found = image_.find(to, pointee, how_long);
  if (!found || found.at != to || (pointee.ends_with('*') && found.type->of->size != word)) return {};
  // A class may be described with another name than pointers to it have.
  const bool is_described = !pointee.empty() && image_.described(*found.in, pointee) != nullptr;
  return !is_described || name_of_elements(*found.type->of) == pointee ? found : sound_object{};
}

bool salvaged_containers::is_node(address at, const std::string& name, const type*& like) {
  const sound_object found = image_.find(at, name);
  if (!found || found.at != at) return false;
  const std::string& has = found.type->of->name;
  if (image_.described(*found.in, name) != nullptr ? has != name : !has.starts_with(name.substr(0, name.find('<') + 1)))
    return false;
  if (like == nullptr) like = found.type->of;
  return found.type->of == like;
}

bool salvaged_containers::claim(address node, address container) {
  address& owner = owners_.emplace(node, container).first->second;
  if (owner == container) return true;
  // It may have been in an entry that lies elsewhere now.
  auto entry = moved_.upper_bound(owner);
  if (entry == moved_.begin()) return false;
  --entry;
  const auto& [from, now] = *entry;
  if (owner >= from + now.size || now.to == 0 || owner - from + now.to != container) return false;
  owner = container;
  return true;
}

std::string salvaged_containers::node_name(const type& of, std::string_view node) {
  const std::vector<std::string> arguments = template_arguments(name_of_elements(of));
  const std::size_t least = name_is_map(of) ? 2 : 1;
  if (arguments.size() < least) return std::string(node);
  const std::string value =
      name_is_map(of) ? "std::pair<" + arguments[0] + " const, " + arguments[1] + ">" : arguments[0];
  return std::string(node) + value;
}

bool salvaged_containers::is_sound_key(const heap::known_type& of, address element, std::uint64_t from,
                                       std::uint64_t to) {
  for (const container_place& place : places_in(*of.of)) {
    if (place.offset < from || place.offset >= to) continue;
    if (!is_there(place, reinterpret_cast<const std::byte*>(element))) continue;
    if (!mend(place, element + place.offset).empty() || changed_.contains(element + place.offset)) return false;
    if (!has_sound_elements(place, element + place.offset)) return false;
  }
  if (!of.words->has_pointers()) return true;
  const std::vector<pointer_map::word>& words = of.words->words();
  const std::vector<std::string>& names = pointees(*of.of, *of.words);
  for (std::size_t n = 0; n < words.size(); ++n) {
    const pointer_map::word& w = words[n];
    if (w.kind != field_kind::reference || w.offset < from || w.offset >= to) continue;
    if (!of.words->holds(w, reinterpret_cast<const std::byte*>(element))) continue;
    const address target = image::get(element + w.offset);
    if (changed_.contains(element + w.offset) || (target != 0 && !image_.find(target, names[n]))) return false;
  }
  return true;
}

bool salvaged_containers::has_sound_elements(const container_place& place, address container) {
  const auto is_pointer = [](const type_field& f) {
    return (f.kind == field_kind::reference || f.kind == field_kind::derived) && f.size == word;
  };
  const auto first = std::ranges::find_if(place.of->fields, is_pointer);
  const sound_object array =
      first != place.of->fields.end() ? image_.find(image::get(container + first->offset)) : sound_object{};
  if (!array) return true;
  if (image_.has_lost_elements(array.at)) return false;
  if (place.is != container_shape::our_vector && place.is != container_shape::vector) return true;
  const std::uint64_t each = array.type->of->size;
  const range* const known = live_in(array.at);
  const range live = known != nullptr ? *known : range{0, array.count()};
  for (std::uint64_t n = live.first; each != 0 && n < live.end; ++n)
    if (!is_sound_key(*array.type, array.at + n * each, 0, each)) return false;
  return true;
}

std::string salvaged_containers::entries_left(std::uint64_t left, std::uint64_t had) {
  if (left == had) return "was put in order; all its " + std::to_string(had) + " entries are left";
  return "has lost entries; " + std::to_string(left) + " are left, of " + std::to_string(had);
}

void salvaged_containers::note_live(const sound_object& array, address first, address end) {
  const std::uint64_t each = array.type->of->size;
  if (!array.type->of->tolerates_stale || each == 0) return;
  const range now{(first - array.at) / each, (end - array.at) / each};
  const auto [known, is_new] = live_.emplace(array.at, now);
  if (!is_new) known->second = {std::min(known->second.first, now.first), std::max(known->second.end, now.end)};
}

// --- Vectors and strings ----------------------------------------------------------------------------------------------------

std::string salvaged_containers::mend_our_vector(const type& of, address at) {
  const address first = at + offset_of(of, "first_"), size = at + offset_of(of, "size_"),
                capacity = at + offset_of(of, "capacity_");
  const std::uint64_t count = image::get(size), room = image::get(capacity);
  if (count == 0 && room == 0 && image::get(first) == 0) return "";  // of a class that has more
  const sound_object array = array_at(of, "first_", image::get(first), {.elements = room});
  if (array && array.type->of->size != 0 && count <= room && room <= array.count() && claim(array.at, at)) {
    note_live(array, array.at, array.at + count * array.type->of->size);
    return "";
  }
  for (const address each : {first, size, capacity}) image::put(each, std::uint64_t{0});
  return lost_elements(count);
}

std::string salvaged_containers::mend_vector(const type& of, address at) {
  const address first = image::get(at + offset_of(of, "begin")), end = image::get(at + offset_of(of, "end")),
                room = image::get(at + offset_of(of, "end_of_storage"));
  const sound_object array = array_at(of, "begin", first, {.bytes = room - first});
  const std::uint64_t each = array ? array.type->of->size : 0;
  const bool is_bits = container_field(of, "end_bit") != nullptr;
  if (each != 0 && first <= end && end <= room && room <= array.at + array.size && (end - first) % each == 0 &&
      (!is_bits || (image::get<std::uint32_t>(at + offset_of(of, "begin_bit")) == 0 &&
                    image::get<std::uint32_t>(at + offset_of(of, "end_bit")) < 8 * word)) &&
      claim(array.at, at)) {
    note_live(array, first, is_bits ? room : end);
    return "";
  }
  image::clear(at, of.size);
  return "has lost its elements, and is empty now";
}

std::string salvaged_containers::mend_our_string(const type& of, address at) {
  constexpr std::uint64_t inside = 14;
  const address heap = at + offset_of(of, "heap_"), words = at + offset_of(of, "words_");
  const address text = image::get(heap);
  if (text == 0) {
    const auto size = image::get<std::uint8_t>(words + inside + 1);
    if (size <= inside && image::get<char>(words + size) == '\0') return "";
  } else {
    const std::uint64_t size = image::get(words), room = image::get(words + word);
    const sound_object array = array_at(of, "heap_", text, {.elements = room + 1});
    if (array && size <= room && room < array.size && claim(array.at, at)) {
      image::put(text + size, '\0');
      return "";
    }
  }
  image::put(heap, address{0});
  image::clear(words, 2 * word);
  return "has lost its text, and is empty now";
}

std::string salvaged_containers::mend_string(const type& of, address at) {
  const type_field* const inside = container_field(of, "short");
  if (inside == nullptr || inside->count == 0) return "";
  const address own = at + inside->offset, text = image::get(at);
  const std::uint64_t length = image::get(at + word), each = inside->size / inside->count;
  if (text == own) {
    if (length < inside->count) return "";
  } else if (text == 0 && length == 0) {
    return "";
  } else {
    const std::uint64_t room = image::get(own);
    const sound_object array = array_at(of, "data", text, {.elements = room + 1});
    if (array && length <= room && room < array.size / each && claim(array.at, at)) {
      image::clear(text + length * each, each);
      return "";
    }
  }
  image::put(at, own);
  image::put(at + word, std::uint64_t{0});
  image::clear(own, inside->size);
  return "has lost its text, and is empty now";
}

// --- Deques ---------------------------------------------------------------------------------------------------------------

// A map of blocks, its size, and two iterators: where they are, the block's start and end, and its place in the map.
namespace {

struct deque_words {
  explicit deque_words(address at) : map(image::get(at)), map_size(image::get(at + word)) {
    for (std::uint64_t n = 0; n < 4; ++n) {
      start[n] = image::get(at + (2 + n) * word);
      finish[n] = image::get(at + (6 + n) * word);
    }
  }
  address map;
  std::uint64_t map_size;
  address start[4], finish[4];
};

}  // namespace

sound_object salvaged_containers::map_of_deque(const type& of, address at) {
  const deque_words w(at);
  const sound_object map = array_at(of, "map", w.map, {.elements = w.map_size});
  return map && w.map_size != 0 && w.map_size <= map.size / word && claim(map.at, at) ? map : sound_object{};
}

bool salvaged_containers::is_sound_deque(const type& of, address at) {
  const deque_words w(at);
  const std::uint64_t bytes = w.start[2] - w.start[1];
  const address end = w.map + w.map_size * word;
  if (!map_of_deque(of, at) || w.start[3] < w.map || w.start[3] > w.finish[3] || w.finish[3] >= end ||
      (w.start[3] - w.map) % word != 0 || (w.finish[3] - w.map) % word != 0 || bytes == 0 ||
      w.finish[2] - w.finish[1] != bytes)
    return false;
  for (address node = w.start[3]; node <= w.finish[3]; node += word) {
    const sound_object block = array_at(of, "start.first", image::get(node), {.bytes = bytes});
    if (!block || block.type->of->size == 0 || block.size < bytes || bytes % block.type->of->size != 0 ||
        !claim(block.at, at))
      return false;
    const bool is_first = node == w.start[3], is_last = node == w.finish[3];
    const address first = is_first ? w.start[0] : block.at, last = is_last ? w.finish[0] : block.at + bytes;
    if ((is_first && w.start[1] != block.at) || (is_last && w.finish[1] != block.at) || first < block.at ||
        first > last || last > block.at + bytes || (is_last && last == block.at + bytes) ||
        (first - block.at) % block.type->of->size != 0 || (last - block.at) % block.type->of->size != 0)
      return false;
  }
  note_live(map_of_deque(of, at), w.start[3], w.finish[3] + word);
  for (address node = w.start[3]; node <= w.finish[3]; node += word) {
    const sound_object block = image_.find(image::get(node));
    note_live(block, node == w.start[3] ? w.start[0] : block.at, node == w.finish[3] ? w.finish[0] : block.at + bytes);
  }
  return true;
}

// Those that are left, in order.
std::vector<salvaged_containers::deque_block> salvaged_containers::blocks_of_deque(const type& of, address at,
                                                                                   sound_object& like,
                                                                                   std::uint64_t& bytes) {
  const deque_words w(at);
  std::vector<deque_block> found;
  const auto add = [&](address block) {
    const sound_object there = array_at(of, "start.first", block, {.bytes = w.start[2] - w.start[1]});
    if (!there || there.type->of->size == 0 || (like && (there.type != like.type || there.size < bytes))) return;
    if (std::ranges::find(found, block, &deque_block::at) != found.end() || !claim(block, at)) return;
    if (!like) {
      like = there;
      bytes = there.size / there.type->of->size * there.type->of->size;
    }
    const auto place = [&](address cursor, address otherwise) {
      return cursor >= block && cursor <= block + bytes && (cursor - block) % like.type->of->size == 0 ? cursor
                                                                                                       : otherwise;
    };
    const address first = block == w.start[1] ? place(w.start[0], block) : block,
                  end = block == w.finish[1] ? place(w.finish[0], block + bytes) : block + bytes;
    if (first <= end) found.push_back({block, first, end});
  };
  if (map_of_deque(of, at)) {
    // Where the map has the blocks of the iterators; where these say, if it has not.
    const address end = w.map + w.map_size * word;
    const auto place_of = [&](const address(&iterator)[4]) {
      for (address node = w.map; node < end; node += word)
        if (image::get(node) == iterator[1]) return node;
      return iterator[3] >= w.map && iterator[3] < end && (iterator[3] - w.map) % word == 0 ? iterator[3] : end;
    };
    const address first = place_of(w.start), last = place_of(w.finish);
    for (address node = first; node <= last && node < end && last < end; node += word) add(image::get(node));
  }
  if (found.empty()) {
    add(w.start[1]);
    add(w.finish[1]);
  }
  return found;
}

// What the container's arrays are.
const heap::known_type* salvaged_containers::array_type(const database_state& in, const type& of,
                                                        std::string_view field) {
  const type_field* const f = container_field(of, field);
  const heap::known_type* found = nullptr;  // without pointers, arrays have no name of their own
  for (std::uint32_t n = 1; f != nullptr && n < in.types->count(); ++n)
    if (const heap::known_type* const known = in.types->find(n);
        known != nullptr && name_of_elements(*known->of) == pointee_of(f->type_name) &&
        (found == nullptr || known->of->tolerates_stale))
      found = known;
  return found;
}

std::string salvaged_containers::mend_deque(const type& of, address at) {
  if (of.size != 10 * word || is_sound_deque(of, at)) return "";
  const deque_words w(at);
  const database_state& in = *image_.store().at(reinterpret_cast<const void*>(at));
  sound_object like;
  std::uint64_t bytes = 0, left = 0;
  std::vector<deque_block> blocks = blocks_of_deque(of, at, like, bytes);
  const heap::known_type* const elements = like ? like.type : array_type(in, of, "start.first");
  const std::uint64_t each = elements != nullptr ? elements->of->size : 0;
  if (bytes == 0 && each != 0) bytes = std::max<std::uint64_t>(512 / each, 1) * each;  // as the library does it
  // The last one has room for another element.
  if (each != 0 && (blocks.empty() || blocks.back().end == blocks.back().at + bytes)) {
    if (const address made = image_.make(in, elements->index, bytes); made != 0)
      blocks.push_back({made, made, made});
    else if (!blocks.empty())
      blocks.back().end -= each;
  }
  sound_object map = map_of_deque(of, at);
  std::uint64_t slots = map ? w.map_size : 0;
  if (map ? slots < blocks.size() : !blocks.empty()) {
    const heap::known_type* const of_map = map ? map.type : array_type(in, of, "map");
    slots = std::max<std::uint64_t>(8, blocks.size() + 2);
    map = image_.find(of_map != nullptr ? image_.make(in, of_map->index, slots * word) : 0);
  }
  if (!map || blocks.empty()) {
    image::clear(at, of.size);
    return "has lost its memory, and is no deque any more: assign another one to it before it is used";
  }
  image::clear(map.at, slots * word);
  const address first = map.at + (slots - blocks.size()) / 2 * word;
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    image::put(first + n * word, blocks[n].at);
    left += (blocks[n].end - blocks[n].first) / each;
    note_live(image_.find(blocks[n].at), blocks[n].first, blocks[n].end);
  }
  note_live(map, first, first + blocks.size() * word);
  const auto put_iterator = [&](std::uint64_t to, address current, const deque_block& block, address node) {
    for (const address value : {current, block.at, block.at + bytes, node}) image::put(at + word * to++, value);
  };
  image::put(at, map.at);
  image::put(at + word, slots);
  put_iterator(2, blocks.front().first, blocks.front(), first);
  put_iterator(6, blocks.back().end, blocks.back(), first + (blocks.size() - 1) * word);
  return "has lost elements; " + std::to_string(left) + " are left";
}

}  // namespace tenure::rewriting
