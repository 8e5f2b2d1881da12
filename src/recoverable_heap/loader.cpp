// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The load map, byte by byte. It is recoverable memory: the first page of the segment's data, changed in transactions.
//
//     0      load_map_header    64 bytes
//     64     stored_entry       64 bytes, 63 times; those beyond `count` are zero
//     4096   nothing, up to loader::map_length, so that regions are aligned for hosts with larger pages
#include <tenure/loader.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "log/checksum.hpp"
#include "os/process.hpp"
#include "os/sanitizers.hpp"
#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"
#include "segments/format.hpp"

namespace tenure::rvm {

namespace {

constexpr std::uint64_t load_map_magic = 0x44414f4c554e4554;  // "TENULOAD"
constexpr std::uint32_t load_map_version = 1;

struct load_map_header {
  std::uint64_t magic;        //    0  load_map_magic
  std::uint32_t version;      //    8  load_map_version
  std::uint32_t endian;       //   12  endian_mark
  std::uint64_t home;         //   16  address
  std::uint32_t count;        //   24  entries
  std::uint32_t checksum;     //   28  CRC32C of the page with zero here
  std::uint64_t reserved[4];  //   32  zero
};
static_assert(sizeof(load_map_header) == 64 && offsetof(load_map_header, checksum) == 28);

struct stored_entry {
  std::array<char, 32> name;  //    0  ends with a zero byte, and zeros follow it
  std::uint64_t offset;       //   32  in the segment's data
  std::uint64_t length;       //   40  bytes
  std::uint64_t address;      //   48
  std::uint64_t reserved;     //   56  zero
};
static_assert(sizeof(stored_entry) == 64);

struct load_map {
  load_map_header header;
  std::array<stored_entry, loader::max_entries> entries;
};
static_assert(sizeof(load_map) == 4096);

std::uint32_t checksum_of(load_map map) {
  map.header.checksum = 0;
  return crc32c(std::as_bytes(std::span{&map, 1}));
}

// Where homes are drawn from. Everything but ThreadSanitizer leaves the first range alone; that leaves only the second.
struct address_range {
  std::uint64_t begin, end;
};
constexpr address_range ordinary_homes{0x110000000000, 0x500000000000};
constexpr address_range thread_sanitizer_homes{0x550000000000, 0x555555554000};
constexpr std::uint64_t home_step = std::uint64_t{1} << 30;
constexpr std::uint64_t address_limit = std::uint64_t{1} << 47;

std::byte* pointer(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }
std::uint64_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// What keeps [address, address+length) from being used, or "".
std::string obstacle(std::uint64_t address, std::uint64_t length) {
  if (address >= address_limit || length > address_limit - address)
    return "such addresses do not exist on this machine";
  // Its mmap would quietly map elsewhere.
  constexpr std::uint64_t end_of_window = 0x568000000000;
  if (os::thread_sanitizer && (address < thread_sanitizer_homes.begin || address + length > end_of_window))
    return "this program runs under ThreadSanitizer, which leaves only addresses from " +
           os::hexadecimal(thread_sanitizer_homes.begin) + " to " + os::hexadecimal(thread_sanitizer_homes.end) +
           " to others";
  const std::string there = os::occupant(pointer(address), length);
  return there.empty() ? "" : there + " is there";
}

std::uint64_t draw_home(std::uint64_t length, const std::string& path) {
  constexpr address_range from = os::thread_sanitizer ? thread_sanitizer_homes : ordinary_homes;
  if (length > from.end - from.begin)
    throw error(errc::bad_option, path + ": a segment of " + std::to_string(length) +
                                      " bytes has no room among the addresses from " + os::hexadecimal(from.begin) +
                                      " to " + os::hexadecimal(from.end) + "; give it a home");
  const std::uint64_t places = (from.end - from.begin - length) / home_step + 1;
  std::string last;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::uint64_t random = 0;
    os::random_bytes(std::as_writable_bytes(std::span{&random, 1}));
    const std::uint64_t home = from.begin + random % places * home_step;
    last = obstacle(home, length);
    if (last.empty()) return home;
  }
  throw error(errc::address_taken,
              path + ": found no home for " + std::to_string(length) + " bytes; at the last place tried, " + last);
}

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw error(errc::damaged, path + ": the load map is damaged: " + why);
}

}  // namespace

loader::loader(memory& in, const std::string& path, const load_options& how) : in_(&in), path_(path) {
  if (number(how.home) % os::page_size() != 0)
    throw error(errc::misaligned, path + ": the home address " + os::hexadecimal(number(how.home)) +
                                      " is not a multiple of the page size, " + std::to_string(os::page_size()));
  const std::uint64_t length =
      how.length == 0 ? 0 : map_length + round_up(how.length, std::max<std::uint64_t>(os::page_size(), redo_page));
  map_ = in.map(path, {.length = map_length, .create_length = length});
  segment_length_ = round_down(in.segment_length(path), os::page_size());

  const load_map& stored = map_.at<load_map>(0);
  const auto bytes = std::as_bytes(std::span{&stored, 1});
  if (std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; })) {
    if (how.length == 0)
      throw error(errc::not_a_segment,
                  path + ": has no load map; it was not made by a loader, or its making was interrupted");
    create(how.home);
  } else {
    load();
  }
}

void loader::create(void* wanted) {
  if (wanted != nullptr) {
    if (const std::string what = obstacle(number(wanted), segment_length_); !what.empty())
      throw error(errc::address_taken, path_ + ": cannot be at home at " + os::hexadecimal(number(wanted)) +
                                           ", length " + std::to_string(segment_length_) + ": " + what);
    home_ = static_cast<std::byte*>(wanted);
  } else {
    home_ = pointer(draw_home(segment_length_, path_));
  }
  store({});
  created_ = true;
}

void loader::load() {
  const load_map& map = map_.at<load_map>(0);
  const load_map_header& header = map.header;
  if (header.magic != load_map_magic)
    throw error(errc::not_a_segment,
                path_ + ": has no load map: its data begin with something else; it was not made by a loader");
  if (header.endian != endian_mark)
    throw error(errc::wrong_version, path_ + ": the load map was written on a machine of the other byte order");
  if (header.version != load_map_version)
    throw error(errc::wrong_version, path_ + ": the load map has format version " + std::to_string(header.version) +
                                         ", this library has " + std::to_string(load_map_version));
  if (header.checksum != checksum_of(map)) damaged(path_, "its checksum does not match");
  if (header.home == 0 || header.home >= address_limit || segment_length_ > address_limit - header.home)
    damaged(path_, "its home, " + os::hexadecimal(header.home) + ", is impossible");
  if (header.count > max_entries) damaged(path_, "it claims to have " + std::to_string(header.count) + " entries");

  std::vector<load_entry> entries;
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const stored_entry& e = map.entries[i];
    const auto end = std::ranges::find(e.name, '\0');
    if (end == e.name.begin() || end == e.name.end())
      damaged(path_, "entry " + std::to_string(i) + " has no proper name");
    load_entry entry{{e.name.begin(), end}, e.offset, e.length, pointer(e.address)};
    if (e.address == 0) damaged(path_, "the region \"" + entry.name + "\" has no address");
    if (e.length == 0 || e.offset < map_length || e.offset > segment_length_ || e.length > segment_length_ - e.offset)
      damaged(path_, "the region \"" + entry.name + "\", offset " + std::to_string(e.offset) + ", length " +
                         std::to_string(e.length) + ", does not lie in the segment's " +
                         std::to_string(segment_length_) + " bytes");
    for (const load_entry& other : entries)
      if (other.name == entry.name || (other.offset < e.offset + e.length && e.offset < other.offset + other.length))
        damaged(path_, "the regions \"" + other.name + "\" and \"" + entry.name + "\" overlap or have one name");
    entries.push_back(std::move(entry));
  }
  home_ = pointer(header.home);
  for (load_entry& entry : entries) {
    region mapped = this->map(entry);
    const std::string name = entry.name;
    loaded_.emplace(name, entry_and_region{std::move(entry), std::move(mapped)});
  }
}

region loader::map(const load_entry& entry) {
  if (const std::string what = obstacle(number(entry.address), entry.length); !what.empty())
    throw error(errc::address_taken, path_ + ": the region \"" + entry.name + "\" belongs at " +
                                         os::hexadecimal(number(entry.address)) + ", length " +
                                         std::to_string(entry.length) + ", but cannot be mapped there: " + what);
  return in_->map(path_, {.offset = entry.offset, .length = entry.length, .address = entry.address});
}

// Writes the whole map anew, in a transaction of its own.
void loader::store(const std::map<std::string, load_entry, std::less<>>& entries) {
  assert(entries.size() <= max_entries);
  load_map next{};
  next.header.magic = load_map_magic;
  next.header.version = load_map_version;
  next.header.endian = endian_mark;
  next.header.home = number(home_);
  for (const auto& [name, entry] : entries) {
    assert(!name.empty() && name.size() < sizeof(stored_entry::name) && entry.offset >= map_length);
    stored_entry& e = next.entries[next.header.count++];
    name.copy(e.name.data(), e.name.size() - 1);
    e.offset = entry.offset;
    e.length = entry.length;
    e.address = number(entry.address);
  }
  next.header.checksum = checksum_of(next);
  transaction tx = in_->begin();
  tx.label("load map");
  tx.modify(map_.at<load_map>(0), next);
  tx.commit();
}

std::map<std::string, load_entry, std::less<>> loader::named_entries() const {
  std::map<std::string, load_entry, std::less<>> all;
  for (const auto& [name, loaded] : loaded_) all.emplace(name, loaded.entry);
  return all;
}

std::vector<load_entry> loader::entries() const {
  std::vector<load_entry> all;
  for (const auto& [name, loaded] : loaded_) all.push_back(loaded.entry);
  std::ranges::sort(all, {}, &load_entry::offset);
  return all;
}

region& loader::operator[](std::string_view name) {
  const auto at = loaded_.find(name);
  if (at == loaded_.end())
    throw error(errc::bad_option, path_ + ": the load map has no region \"" + std::string(name) + "\"");
  return at->second.mapped;
}

region& loader::add(std::string_view name, std::uint64_t length, void* address) {
  const auto refuse = [&](const std::string& why) {
    throw error(errc::bad_option,
                path_ + ": the region \"" + std::string(name) + "\" cannot be added to the load map: " + why);
  };
  if (name.empty() || name.size() > 31 || name.find('\0') != name.npos) refuse("a name has 1 to 31 bytes");
  if (contains(name)) refuse("there is one of that name");
  if (loaded_.size() == max_entries) refuse("it is full, with " + std::to_string(max_entries) + " regions");

  // First fit; or the longest part, if no length was asked for.
  struct part {
    std::uint64_t offset, length;
  };
  std::optional<part> chosen;
  std::uint64_t begin = map_length, longest = 0;
  const std::uint64_t unit = std::max<std::uint64_t>(os::page_size(), redo_page);
  length = round_up(length, unit);
  auto taken = entries();
  taken.push_back({"", segment_length_, 0, nullptr});
  for (const load_entry& next : taken) {
    const std::uint64_t room = next.offset - begin;
    if (length != 0 ? room >= length && !chosen : room > longest) chosen = part{begin, length != 0 ? length : room};
    longest = std::max(longest, room);
    begin = next.offset + next.length;
  }
  if (!chosen)
    throw error(errc::segment_too_short,
                path_ + ": has no room for the region \"" + std::string(name) + "\" of " + std::to_string(length) +
                    " bytes; the longest part that is not given away has " + std::to_string(longest));
  load_entry entry{std::string(name), chosen->offset, chosen->length,
                   address != nullptr ? static_cast<std::byte*>(address) : home_ + chosen->offset};
  // Mapped first: what the load map says has been seen to work.
  region mapped = map(entry);
  auto next = named_entries();
  next.emplace(entry.name, entry);
  store(next);
  return loaded_.emplace(name, entry_and_region{std::move(entry), std::move(mapped)}).first->second.mapped;
}

void loader::remove(std::string_view name) {
  (*this)[name].unmap();
  loaded_.erase(loaded_.find(name));
  store(named_entries());
}

// --- One heap in one segment ---

loaded_heap::loaded_heap(memory& in, const std::string& path, const load_options& how)
    : segment_(in, path, how), heap_(attach(in)) {}

recoverable_heap loaded_heap::attach(memory& in) {
  // Each step is durable when the next begins; a crash in between is made good here.
  region& area = segment_.contains("heap") ? segment_["heap"] : segment_.add("heap");
  if (!recoverable_heap::is_formatted(area)) {
    transaction tx = in.begin();
    tx.label("format heap");
    recoverable_heap::format(tx, area);
    tx.commit();
    created_ = true;
  }
  return recoverable_heap(area);
}

}  // namespace tenure::rvm
