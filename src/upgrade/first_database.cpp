// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "upgrade/first_database.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include <tenure/error.hpp>
#include <tenure/type.hpp>

#include "log/checksum.hpp"
#include "objects/block_map.hpp"
#include "objects/format.hpp"
#include "objects/stored_types.hpp"
#include "upgrade/edited_segment.hpp"

namespace tenure::upgrading {

namespace {

using namespace heap;

// What was stored otherwise than today. Addresses are those of the database's home.
struct first_text {
  std::uint64_t text, length;
};
struct first_array {  // type table, root table, table of databases
  std::uint64_t entries, count, capacity;
};
struct first_type {
  first_text name;
  std::uint64_t size, alignment, fingerprint;
  std::uint32_t version, flags, first_slot, slots;
  std::uint64_t fields, field_count;
};
struct first_database_entry {
  first_text name;
  std::uint64_t home, reservation;
  database_id id;
};
static_assert(sizeof(first_type) == 72 && sizeof(first_database_entry) == 48);
static_assert(sizeof(stored_type) == 96 && offsetof(stored_type, tail) == sizeof(first_type) &&
              sizeof(stored_field) == 88);

constexpr std::uint64_t longest_text = 1 << 20;

class database_upgrade {
 public:
  explicit database_upgrade(rvm::segment& of)
      : segment_(of), bytes_(of), home_(of.info().home), length_(of.length() / block_size * block_size) {}

  upgraded_database run() {
    upgraded_database found;
    if (is_blank()) {
      found.is_blank = true;
      return found;
    }
    header_ = bytes_.get<database_header>(0);
    require_sound_header();
    blocks_end_ = header_.blocks_end;
    bytes_.read(zone_kinds_at, std::as_writable_bytes(std::span(kinds_)));
    require_sound_zones();
    found.store = header_.store_id;
    found.id = header_.database_id;
    read_types();
    const std::uint64_t databases = header_.trims;
    replace_types();
    if (databases != 0) found.databases = take_databases(databases);
    header_.version = database_header::right_version;
    header_.checksum = rvm::header_checksum(header_, offsetof(database_header, checksum));
    header_.blocks_end = blocks_end_;
    header_.trims = 0;
    bytes_.put(0, header_);
    bytes_.save();
    return found;
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw error(errc::damaged, segment_.path() + ": this copy of the database is damaged, and so is the original: " +
                                   what + "; restore the store from a backup of that format, and upgrade that");
  }

  bool is_blank() {
    std::vector<std::byte> first(std::min<std::uint64_t>(length_, headed_starts_at));
    bytes_.read(0, first);
    return std::ranges::all_of(first, [](std::byte b) { return b == std::byte{}; });
  }

  void require_sound_header() const {
    if (header_.magic != database_header::right_magic) damaged("its header is no database header");
    if (header_.version != 1 || header_.abi != database_header::this_abi)
      throw error(errc::wrong_version, segment_.path() + ": was written by version " + std::to_string(header_.version) +
                                           " of the format, or on a machine of another kind; only databases of "
                                           "version 1, of a machine like this one, can be upgraded");
    if (header_.checksum != rvm::header_checksum(header_, offsetof(database_header, checksum)))
      damaged("its header fails its checksum");
    if (header_.incompatible != 0 || header_.read_only_compatible != 0)
      throw error(errc::wrong_version, segment_.path() + ": uses features that this version does not know");
    if (header_.home != home_ || header_.reservation != segment_.max_length() + vtable_area ||
        header_.reservation > largest_reservation)
      damaged("its header was made for another address");
    if (header_.blocks_end > length_ / block_size || header_.blocks_end < headed_bookkeeping_blocks)
      damaged("its blocks end at " + std::to_string(header_.blocks_end) + ", but it has " +
              std::to_string(length_ / block_size));
  }

  void require_sound_zones() const {
    for (std::uint64_t zone = 0; zone < kinds_.size(); ++zone) {
      const zone_kind kind = kinds_[zone];
      const std::uint64_t needed = kind == zone_kind::headed ? headed_bookkeeping_blocks * block_size : 1;
      const bool is_known = kind == zone_kind::unused || kind == zone_kind::headed || kind == zone_kind::continued;
      if (!is_known || (kind != zone_kind::unused && zone * zone_size + needed > length_) ||
          (zone == 0 && kind != zone_kind::headed))
        damaged("zone " + std::to_string(zone) + " is of kind " + std::to_string(static_cast<int>(kind)));
    }
  }

  // --- Objects -------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t entry_at(std::uint64_t block) const {
    const std::uint64_t zone = block / blocks_in_zone * zone_size, in_zone = block % blocks_in_zone;
    return kinds_[block / blocks_in_zone] == zone_kind::headed
               ? zone + headed_entries_at + in_zone * sizeof(block_entry)
               : zone + record_offset(in_zone);
  }
  [[nodiscard]] std::uint64_t starts_at(std::uint64_t block) const {
    const std::uint64_t zone = block / blocks_in_zone * zone_size, in_zone = block % blocks_in_zone;
    return kinds_[block / blocks_in_zone] == zone_kind::headed
               ? zone + headed_starts_at + in_zone * sizeof(start_bits)
               : zone + record_offset(in_zone) + offsetof(block_record, starts);
  }
  // The byte that has the start bit, and its mask.
  [[nodiscard]] std::uint64_t start_byte(std::uint64_t at) const {
    return starts_at(at / block_size) + at % block_size / granule / 8;
  }
  [[nodiscard]] static std::uint8_t start_mask(std::uint64_t at) {
    return static_cast<std::uint8_t>(1U << (at % block_size / granule % 8));
  }

  // The offset of an object of the heap's own, which must have this size at least.
  std::uint64_t object_at(std::uint64_t address, std::uint64_t size, const char* what) {
    const std::uint64_t at = address - home_, end = header_.blocks_end * block_size;
    const auto refuse = [&] { damaged(std::string(what) + " is not among its objects"); };
    if (at < headed_bookkeeping_blocks * block_size || at >= end || at % granule != 0) refuse();
    if (kinds_[at / zone_size] != zone_kind::headed || at % zone_size < headed_bookkeeping_blocks * block_size)
      refuse();
    const auto kind = bytes_.get<block_entry>(entry_at(at / block_size)).kind;
    if (kind != block_kind::small && kind != block_kind::large) refuse();
    if ((bytes_.get<std::uint8_t>(start_byte(at)) & start_mask(at)) == 0) refuse();
    const auto header = bytes_.get<object_header>(at - sizeof(object_header));
    if (header.size == huge_size || header.size < size || header.size > end - at) refuse();
    return at;
  }
  // An array of the heap's own; `each`: bytes of an element.
  std::uint64_t array_at(std::uint64_t address, std::uint64_t count, std::uint64_t each, const char* what) {
    if (count > length_ / each) damaged(std::string(what) + " is longer than the database");
    return object_at(address, count * each, what);
  }
  std::string text_of(const first_text& text, const char* what) {
    if (text.length == 0) return {};
    if (text.length > longest_text) damaged(std::string("the name of ") + what + " is too long");
    std::string name(static_cast<std::size_t>(text.length), '\0');
    bytes_.read(object_at(text.text, text.length, what), std::as_writable_bytes(std::span(name)));
    return name;
  }

  // Takes an object out of the bookkeeping. Nothing may refer to it any more.
  void free_object(std::uint64_t at) {
    const std::uint64_t block = at / block_size;
    const std::uint64_t byte = start_byte(at);
    if ((bytes_.get<std::uint8_t>(byte) & start_mask(at)) == 0) damaged("two of its tables have the same object");
    bytes_.put(byte, static_cast<std::uint8_t>(bytes_.get<std::uint8_t>(byte) & ~start_mask(at)));
    auto entry = bytes_.get<block_entry>(entry_at(block));
    if (entry.kind == block_kind::large) {
      const std::uint64_t zone_end = (block / blocks_in_zone + 1) * blocks_in_zone;
      for (std::uint64_t b = block; b < std::min<std::uint64_t>(block + entry.span, zone_end); ++b)
        bytes_.put(entry_at(b), block_entry{});
      return;
    }
    const std::uint64_t taken = granules_of(bytes_.get<object_header>(at - sizeof(object_header)).size);
    if (entry.used < taken) damaged("block " + std::to_string(block) + " has more objects than it counts");
    entry.used = static_cast<std::uint16_t>(entry.used - taken);
    bytes_.put(entry_at(block), entry.used == 0 ? block_entry{} : entry);
  }
  void free_text(const first_text& text) {
    if (text.length != 0) free_object(object_at(text.text, text.length, "a text"));
  }

  // Makes an object of at most largest_small bytes, all zeros. Returns its offset.
  std::uint64_t make_object(std::uint32_t of, std::uint64_t size) {
    std::uint64_t at = (next_ + sizeof(object_header) + granule - 1) / granule * granule;
    if (next_ == 0 || at + size > limit_) {
      take_block();
      at = (next_ + sizeof(object_header) + granule - 1) / granule * granule;
    }
    next_ = at + size;
    const std::uint64_t block = at / block_size;
    bytes_.put(at - sizeof(object_header), object_header{of, static_cast<std::uint32_t>(size)});
    bytes_.put(start_byte(at), static_cast<std::uint8_t>(bytes_.get<std::uint8_t>(start_byte(at)) | start_mask(at)));
    auto entry = bytes_.get<block_entry>(entry_at(block));
    entry.kind = block_kind::small;
    entry.used = static_cast<std::uint16_t>(entry.used + granules_of(size));
    bytes_.put(entry_at(block), entry);
    return at;
  }

  // A block without objects: one that is unused, or behind all others.
  void take_block() {
    for (; scanned_ < header_.blocks_end; ++scanned_) {
      if (scanned_ % blocks_in_zone < bookkeeping_blocks || kinds_[scanned_ / blocks_in_zone] != zone_kind::headed)
        continue;
      if (bytes_.get<block_entry>(entry_at(scanned_)).kind == block_kind::unused) return use_block(scanned_++);
    }
    std::uint64_t block = blocks_end_;
    if (block % blocks_in_zone != 0 && !has_blocks(kinds_[block / blocks_in_zone]))
      block = (block / blocks_in_zone + 1) * blocks_in_zone;
    const bool is_new_zone = block % blocks_in_zone == 0;
    if (block % blocks_in_zone < bookkeeping_blocks)
      block = block / blocks_in_zone * blocks_in_zone + bookkeeping_blocks;
    if ((block + 1) * block_size > segment_.max_length())
      throw error(errc::out_of_memory, segment_.path() +
                                           ": has no room for another block, and the descriptions of its types need "
                                           "one; destroy some objects with the version that wrote it");
    if (const std::uint64_t needed = (block + 1) * block_size; needed > segment_.length())
      segment_.grow(rvm::round_up(needed, least_growth));
    if (is_new_zone) open_zone(block / blocks_in_zone);
    blocks_end_ = block + 1;
    use_block(block);
  }
  void use_block(std::uint64_t block) {
    bytes_.put_zeros(block * block_size, block_size);
    bytes_.put_zeros(starts_at(block), sizeof(start_bits));
    bytes_.put(entry_at(block), block_entry{});
    next_ = block * block_size;
    limit_ = next_ + block_size;
  }
  void open_zone(std::uint64_t zone) {
    kinds_[zone] = zone_kind::ordinary;
    bytes_.put(zone_kinds_at + zone, zone_kind::ordinary);
    bytes_.put_zeros(zone * zone_size + records_at, bookkeeping_size - records_at);
    for (std::uint64_t n = 0; n < bookkeeping_blocks; ++n)
      bytes_.put(entry_at(zone * blocks_in_zone + n), block_entry{block_kind::bookkeeping, 0, 0, 0});
  }

  // --- Types ---------------------------------------------------------------------------------------------------------

  void read_types() {
    table_ = bytes_.get<first_array>(
        object_at(static_cast<std::uint64_t>(header_.types), sizeof(first_array) + 8, "its type table"));
    if (table_.count > table_.capacity || table_.count >= most_types) damaged("its type table has too many types");
    if (table_.count == 0) return;
    const std::uint64_t at = array_at(table_.entries, table_.count, 8, "its type table");
    for (std::uint64_t n = 0; n < table_.count; ++n) {
      const auto address = bytes_.get<std::uint64_t>(at + n * 8);
      first_type t{};
      if (address != 0 && n != 0) t = bytes_.get<first_type>(object_at(address, sizeof t, "a type"));
      types_.push_back(address != 0 && n != 0 ? address : 0);
      names_.push_back(address != 0 && n != 0 ? text_of(t.name, "a type") : "");
    }
  }
  [[nodiscard]] first_type type(std::uint64_t n) { return bytes_.get<first_type>(types_[n] - home_); }
  // 0: there is no type of this name.
  [[nodiscard]] std::uint32_t find_type(std::string_view name) const {
    const auto at = std::ranges::find(names_, name);
    return at != names_.end() ? static_cast<std::uint32_t>(at - names_.begin()) : 0;
  }
  template <class T>
  std::uint32_t number_of() {
    const auto& today = type_of<T>();
    const std::uint32_t n = find_type(today.name);
    if (n == 0) damaged("it has no description of " + today.name);
    if constexpr (!std::is_same_v<T, stored_type>)
      if (type(n).fingerprint != today.fingerprint) damaged("its description of " + today.name + " is another one");
    return n;
  }

  // The descriptions are made anew, longer. Nothing but the table refers to them.
  void replace_types() {
    if (types_.empty()) damaged("its type table is empty");
    const std::uint32_t own = number_of<stored_type>();
    (void)number_of<heap::type_table>();
    (void)number_of<root_table>();
    if (find_type(type_of<root_entry>().name) != 0) (void)number_of<root_entry>();
    const std::uint64_t table = table_.entries - home_;
    std::vector<std::uint64_t> old;
    for (std::uint64_t n = 1; n < types_.size(); ++n) {
      if (types_[n] == 0) continue;
      // Today's databases are listed by the log's manifest.
      const bool is_gone = names_[n] == "tenure::heap::database_table" || names_[n] == "tenure::heap::database_entry";
      first_type t = type(n);
      old.push_back(types_[n]);
      if (is_gone || n == own) free_fields(t);
      if (is_gone) {
        free_text(t.name);
        bytes_.put(table + n * 8, std::uint64_t{0});
        continue;
      }
      if (n == own) t = describe_stored_type(t);
      const std::uint64_t made = make_object(own, sizeof(stored_type));
      bytes_.put(made, t);
      bytes_.put(table + n * 8, home_ + made);
    }
    for (const std::uint64_t address : old) free_object(address - home_);
  }

  void free_fields(const first_type& of) {
    if (of.field_count == 0) return;
    const std::uint64_t at = array_at(of.fields, of.field_count, sizeof(stored_field), "the fields of a type");
    for (std::uint64_t n = 0; n < of.field_count; ++n) {
      free_text(bytes_.get<first_text>(at + n * sizeof(stored_field) + offsetof(stored_field, name)));
      free_text(bytes_.get<first_text>(at + n * sizeof(stored_field) + offsetof(stored_field, type_name)));
    }
    free_object(at);
  }

  first_text make_text(std::string_view text) {
    if (text.empty()) return {0, 0};
    const std::uint64_t at = make_object(number_of<char>(), text.size());
    bytes_.write(at, std::as_bytes(std::span(text)));
    return {home_ + at, text.size()};
  }

  // What stored_type is today.
  first_type describe_stored_type(first_type t) {
    const tenure::type& today = type_of<stored_type>();
    t.size = today.size;
    t.fingerprint = today.fingerprint;
    t.field_count = today.fields.size();
    const std::uint64_t fields = make_object(number_of<stored_field>(), today.fields.size() * sizeof(stored_field));
    t.fields = home_ + fields;
    for (std::size_t n = 0; n < today.fields.size(); ++n) {
      const type_field& f = today.fields[n];
      const std::uint64_t at = fields + n * sizeof(stored_field);
      stored_field s{};
      s.offset = f.offset;
      s.size = f.size;
      s.count = f.count;
      s.subobject = f.subobject;
      s.kind = static_cast<std::uint8_t>(f.kind);
      s.scalar = static_cast<std::uint8_t>(f.scalar);
      if (f.kind == field_kind::nested && f.of) s.of = number_of<stored_text>();
      bytes_.put(at, s);
      bytes_.put(at + offsetof(stored_field, name), make_text(f.name));
      bytes_.put(at + offsetof(stored_field, type_name), make_text(f.type_name));
    }
    return t;
  }

  // --- Databases -----------------------------------------------------------------------------------------------------

  std::vector<upgraded_database::entry> take_databases(std::uint64_t table) {
    std::vector<upgraded_database::entry> found;
    const std::uint64_t at = object_at(table, sizeof(first_array), "its table of databases");
    const auto all = bytes_.get<first_array>(at);
    if (all.count > all.capacity) damaged("its table of databases has too many entries");
    if (all.capacity != 0) {
      const std::uint64_t entries =
          array_at(all.entries, all.count, sizeof(first_database_entry), "its table of databases");
      for (std::uint64_t n = 0; n < all.count; ++n) {
        const auto e = bytes_.get<first_database_entry>(entries + n * sizeof(first_database_entry));
        found.push_back({text_of(e.name, "a database"), e.id});
        free_text(e.name);
      }
      free_object(entries);
    }
    free_object(at);
    return found;
  }

  rvm::segment& segment_;
  edited_segment bytes_;
  const std::uint64_t home_, length_;
  database_header header_{};
  std::array<zone_kind, largest_reservation / zone_size> kinds_{};
  std::uint64_t blocks_end_ = 0, scanned_ = 0;
  std::uint64_t next_ = 0, limit_ = 0;  // where the next object is made
  first_array table_{};                 // of types
  std::vector<std::uint64_t> types_;    // addresses, by number; 0: none
  std::vector<std::string> names_;
};

}  // namespace

upgraded_database upgrade_database(rvm::segment& of) { return database_upgrade(of).run(); }

}  // namespace tenure::upgrading
