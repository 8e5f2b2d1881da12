// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/table_check.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/error.hpp>

#include "objects/database_set.hpp"
#include "objects/database_state.hpp"

namespace tenure::heap {

namespace {

constexpr std::uint64_t looked_at_behind_end = 32;            // blocks
constexpr std::uint64_t longest_text = 1 << 20;               // bytes of a name of anything
constexpr std::uint64_t most_words = std::uint64_t{1} << 24;  // of pointers in one object, nested types flattened

class table_check {
 public:
  explicit table_check(const database_state& of) : of_(of) {}

  void run() {
    const database_header& h = of_.header();
    if (h.blocks_end * block_size > of_.region.size() || h.blocks_end > of_.map->blocks())
      fail("its blocks end at " + std::to_string(h.blocks_end) + ", beyond the segment's end");
    check_zones();
    if (of_.owner.makes_objects()) check_unused();
    if (h.types != stored_address::none) check_types(table<heap::type_table>(h.types, "type table"));
    if (h.roots != stored_address::none) check_roots(table<root_table>(h.roots, "root table"));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw error(errc::damaged, of_.file + ": is damaged: " + what + "; restore it from a backup");
  }
  // A later version has other kinds, on pages that match their checksums.
  [[noreturn]] void fail_unknown(const std::string& what) const {
    if (!of_.owner.memory().verify_segment(of_.file).empty()) fail(what);
    throw error(errc::wrong_version, of_.file + ": " + what +
                                         ", which this version of the library does not know; open it with the version "
                                         "that wrote it");
  }

  // Whether these objects lie in the part of the segment that contains objects.
  template <class T>
  [[nodiscard]] bool is_inside(const T* first, std::uint64_t count) const {
    const std::uint64_t offset = reinterpret_cast<address>(first) - of_.map->home(), size = of_.region.size();
    return offset >= bookkeeping_blocks_of(of_.map->kind_of_zone(0)) * block_size && offset < size &&
           offset % alignof(T) == 0 && count <= (size - offset) / sizeof(T);
  }
  // Whether the bookkeeping knows these objects. Otherwise a writer could get memory that is in use but counts as free.
  // Where nobody makes objects, the check is not needed, and a repair must do without it.
  template <class T>
  [[nodiscard]] bool is_kept(const T* first, std::uint64_t count) const {
    if (!of_.owner.makes_objects()) return true;
    const found_object found = of_.map->find_start(reinterpret_cast<address>(first));
    return found.is_persistent && of_.map->facts(found).size / sizeof(T) >= count;
  }
  template <class T>
  [[nodiscard]] const T& table(stored_address at, const char* what) const {
    const T* const found = object_at<const T>(at);
    if (!is_inside(found, 1) || !is_kept(found, 1)) fail(std::string("its header refers to no ") + what);
    return *found;
  }
  template <class T>
  void require_array(const T* first, std::uint64_t count, std::uint64_t capacity, const std::string& what) const {
    if (count > capacity)
      fail(what + " has " + std::to_string(count) + " entries, but room for " + std::to_string(capacity));
    if (count != 0 && (!is_inside(first, count) || !is_kept(first, count)))
      fail(what + " does not lie in the database");
  }
  void require_text(const stored_text& text, const std::string& what) const {
    if (text.length > longest_text || (text.length != 0 && !is_inside(text.text, text.length)))
      fail("the name of " + what + " does not lie in the database");
  }

  // A zone must be unused if the segment does not contain its first byte, or all of its bookkeeping if it has any.
  // Nobody looks for objects there.
  void check_zones() const {
    for (std::uint64_t zone = 0; zone < (of_.map->capacity() + zone_size - 1) / zone_size; ++zone) {
      const zone_kind kind = of_.map->kind_of_zone(zone);
      const std::uint64_t needed = has_blocks(kind) ? bookkeeping_blocks_of(kind) * block_size : 1;  // bytes of it
      const std::string what = "zone " + std::to_string(zone) + " is of kind " + std::to_string(static_cast<int>(kind));
      if (kind != zone_kind::unused && kind != zone_kind::continued && !has_blocks(kind)) fail_unknown(what);
      if (kind != zone_kind::unused && zone * zone_size + needed > of_.region.size()) fail(what);
    }
  }

  // Where a writer would make objects. Near the end only, as each record that is looked at may be read from the disk.
  void check_unused() const {
    const std::uint64_t blocks = of_.region.size() / block_size, end = of_.header().blocks_end,
                        zone_end = (end + blocks_in_zone - 1) / blocks_in_zone * blocks_in_zone;
    const auto fail_at = [&](std::uint64_t block) {
      fail("block " + std::to_string(block) + " is in use, but its blocks end at " + std::to_string(end));
    };
    for (std::uint64_t b = zone_end; b < blocks; b += blocks_in_zone)
      if (of_.map->kind_of_zone(b / blocks_in_zone) != zone_kind::unused) fail_at(b);
    if (!has_blocks(of_.map->kind_of_zone(end / blocks_in_zone))) return;
    for (std::uint64_t b = end; b < std::min({end + looked_at_behind_end, zone_end, blocks}); ++b)
      if (!of_.map->is_bookkeeping(b) && of_.map->entry(b).kind != block_kind::unused) fail_at(b);
  }

  void check_types(const heap::type_table& types) {
    require_array(types.types, types.count, types.capacity, "its type table");
    if (types.slots > vtable_area / vtable_slot) fail("its type table has too many virtual functions");
    types_ = {types.types, types.count};
    for (std::size_t n = 1; n < types_.size(); ++n)
      if (types_[n] != nullptr) check_type(n);
    words_.assign(types_.size(), unknown);
    for (std::size_t n = 1; n < types_.size(); ++n)
      if (types_[n] != nullptr) (void)words_of(n);
  }

  void check_type(std::size_t n) const {
    const std::string what = "its type " + std::to_string(n);
    if (!is_inside(types_[n], 1) || !is_kept(types_[n], 1)) fail(what + " does not lie in the database");
    const stored_type& t = *types_[n];
    if ((t.flags & ~(stored_type_conservative | stored_type_tolerates_stale)) != 0 || t.tail != 0 || t.same_name != 0)
      fail_unknown(what + " has flags, a repeated tail or another layout");
    require_text(t.name, what);
    require_array(t.fields, t.field_count, t.field_count, what);
    // Larger than the segment, if that was written anew since the last object of the type was there.
    if (t.size > largest_reservation || !std::has_single_bit(t.alignment))
      fail(what + " has an impossible size or alignment");
    if (std::uint64_t{t.first_slot} + t.slots > vtable_area / vtable_slot)
      fail(what + " has too many virtual functions");
    for (std::uint64_t f = 0; f < t.field_count; ++f)
      check_field(t, t.fields[f], what + ", field " + std::to_string(f) + ",");
  }

  void check_field(const stored_type& in, const stored_field& f, const std::string& what) const {
    require_text(f.name, what);
    require_text(f.type_name, what);
    if (f.kind > static_cast<std::uint8_t>(field_kind::conservative) ||
        f.scalar > static_cast<std::uint8_t>(scalar_kind::text))
      fail_unknown(what + " is of another kind");
    const auto kind = static_cast<field_kind>(f.kind);
    // A field without bytes says something about its type, for example which hash function it has.
    const bool has_no_bytes = f.size == 0 && (kind != field_kind::data || f.count != 1);
    if (f.offset > in.size || f.size > in.size - f.offset || f.count == 0 || f.size % f.count != 0 || has_no_bytes)
      fail(what + " does not lie in its type");
    if ((kind == field_kind::reference || kind == field_kind::derived || kind == field_kind::vtable) &&
        f.size / f.count != sizeof(void*))
      fail(what + " is a pointer of impossible size");
    if (kind == field_kind::vtable && f.subobject >= vtable_area / vtable_slot) fail(what + " is no vtable pointer");
    if (kind != field_kind::nested && f.of != 0) fail(what + " consists of a type, but is of another kind");
    if (kind == field_kind::nested && (f.of == 0 || f.of >= types_.size() || types_[f.of] == nullptr ||
                                       !is_inside(types_[f.of], 1) || types_[f.of]->size * f.count != f.size))
      fail(what + " consists of a type that does not fit");
    const bool is_width = f.guard_width <= 8 && std::has_single_bit(f.guard_width);
    if (f.guard_width != 0 && (!is_width || f.guard_offset > in.size || f.guard_width > in.size - f.guard_offset))
      fail(what + " depends on a place that does not lie in its type");
  }

  // The words of an object of the type that are no data. No type contains itself.
  std::uint64_t words_of(std::size_t n) {
    if (words_[n] == under_way) fail("its type " + std::to_string(n) + " consists of itself");
    if (words_[n] != unknown) return words_[n];
    words_[n] = under_way;
    std::uint64_t sum = 0;
    const stored_type& t = *types_[n];
    for (std::uint64_t f = 0; f < t.field_count; ++f) {
      const stored_field& field = t.fields[f];
      std::uint64_t each = 1;
      if (static_cast<field_kind>(field.kind) == field_kind::data) continue;
      if (static_cast<field_kind>(field.kind) == field_kind::nested) each = words_of(field.of);
      if (each != 0 && field.count > most_words / each) sum = most_words;
      sum += each * field.count;
      if (sum > most_words) fail("its type " + std::to_string(n) + " has too many fields");
    }
    return words_[n] = sum;
  }

  void check_roots(const root_table& roots) const {
    require_array(roots.entries, roots.count, roots.capacity, "its root table");
    for (std::uint64_t n = 0; n < roots.count; ++n) {
      const std::string what = "its root " + std::to_string(n);
      require_text(roots.entries[n].name, what);
      const auto object = reinterpret_cast<address>(roots.entries[n].object);
      if (!is_inside(static_cast<const std::byte*>(roots.entries[n].object), 1) || object % 8 != 0)
        fail(what + " refers to no object");
    }
  }

  static constexpr std::uint64_t unknown = ~std::uint64_t{0}, under_way = unknown - 1;
  const database_state& of_;
  std::span<stored_type* const> types_;
  std::vector<std::uint64_t> words_;  // for each type
};

}  // namespace

void require_sound_tables(const database_state& of) { table_check(of).run(); }

}  // namespace tenure::heap
