// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log_mods.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "classic/segment_header.hpp"
#include "history.hpp"
#include "log/checksum.hpp"
#include "log_survey.hpp"
#include "log_text.hpp"
#include "os/process.hpp"

namespace tenure::tools {

using namespace rvm;

namespace {

constexpr std::uint64_t most_bytes = 4096;

// Decimal, or hexadecimal with 0x, or octal with 0; a minus is allowed.
std::uint64_t number_in(const std::string& text) {
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits.starts_with('0')) {
    base = 8;
  }
  std::uint64_t number = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (bad != std::errc{} || end != digits.data() + digits.size()) throw std::runtime_error(text + ": no number");
  return negative ? 0 - number : number;
}

std::string trimmed(const std::string& text) {
  const std::size_t from = text.find_first_not_of(' ');
  return from == std::string::npos ? "" : text.substr(from, text.find_last_not_of(' ') - from + 1);
}

// "8xb", in any order; false if it is no such thing.
bool parse_units(const std::string& text, wanted_mods& into) {
  wanted_mods read = into;
  std::string digits;
  for (const char c : text) {
    if (c >= '0' && c <= '9')
      digits += c;
    else if (c == 'b' || c == 's' || c == 'l')
      read.size = c == 'b' ? 1 : c == 's' ? 2 : 8;
    else if (std::string_view("duxoc").find(c) != std::string_view::npos)
      read.format = c;
    else
      return false;
  }
  if (!digits.empty()) read.count = number_in(digits);
  if (read.count == 0 || read.count > most_bytes / read.size)
    throw std::runtime_error(fmt::format("{}: from 1 to {} bytes can be asked for", text, most_bytes));
  into = read;
  return true;
}

std::string value_in(const std::string& text, const wanted_mods& of) {
  std::istringstream words(text);
  std::vector<std::uint64_t> numbers;
  for (std::string word; words >> word;) numbers.push_back(number_in(word));
  if (numbers.empty() || numbers.size() > of.count)
    throw std::runtime_error(fmt::format("behind =, there must be from 1 to {} numbers", of.count));
  std::string value;
  for (std::uint64_t i = 0; i < of.count; ++i)  // fewer numbers are repeated
    value.append(reinterpret_cast<const char*>(&numbers[i % numbers.size()]), of.size);
  return value;
}

// Bytes of one segment.
struct place {
  std::string segment;  // absolute
  std::uint64_t offset;
};

class searcher {
 public:
  searcher(os::disk& disk, const std::string& log) : disk_(disk), log_(os::absolute_path(log)) {}

  // Where the address is, by what rvm_create_segment wrote in the first page of a segment; which may be in the log only.
  [[nodiscard]] place find(std::uint64_t address) const {
    std::map<std::string, std::array<std::byte, sizeof(classic::segment_header)>> pages;
    survey_log(disk_, log_, [&](const group_view& group, os::const_bytes) {
      for (const segment_name& name : group.segments())
        if (const std::string path = absolute(name); name.raw && !pages.contains(path))
          read_first_page(path, pages[path]);
      for (const transaction_view& tx : group.transactions())
        for (const range_view& range : tx.ranges)
          if (const auto page = pages.find(absolute(group.segments()[range.segment]));
              page != pages.end() && range.offset < page->second.size())
            std::memcpy(page->second.data() + range.offset, range.value.data(),
                        std::min<std::size_t>(range.value.size(), page->second.size() - range.offset));
      return true;
    });
    for (const auto& [path, page] : pages) {
      classic::segment_header header;
      std::memcpy(&header, page.data(), sizeof header);
      if (!is_valid(header)) continue;
      for (std::uint32_t i = 0; i < header.count; ++i)
        if (const auto& r = header.regions[i]; address >= r.address && address - r.address < r.length)
          return {path, r.offset + (address - r.address)};
    }
    throw std::runtime_error(fmt::format(
        "{:#x}: the log has changes for no segment that is loaded there; SEGMENT:OFFSET names bytes of any", address));
  }

  void show(const place& where, const wanted_mods& which, std::FILE* out) const {
    survey_log(disk_, log_, [&](const group_view& group, os::const_bytes bytes) {
      for_each_record(group, bytes, [&](const transaction_view& tx, lsn at) {
        for (const range_view& range : tx.ranges)
          if (absolute(group.segments()[range.segment]) == where.segment && matches(range, where, which))
            print(tx, at, range, where, which, out);
      });
      return true;
    });
    fmt::print(out, "-- no more records\n");
  }

 private:
  [[nodiscard]] std::string absolute(const segment_name& name) const {
    return name.path.starts_with('/') ? name.path : log_.substr(0, log_.rfind('/') + 1) + name.path;
  }
  void read_first_page(const std::string& path, std::array<std::byte, sizeof(classic::segment_header)>& into) const {
    into = {};
    if (disk_.exists(path)) (void)disk_.open(path, os::access::read_only)->read_at(0, into);
  }
  static bool is_valid(classic::segment_header header) {
    const std::uint32_t checksum = header.checksum;
    header.checksum = 0;
    return header.magic == classic::segment_magic && header.count <= classic::max_segment_regions &&
           crc32c(std::as_bytes(std::span{&header, 1})) == checksum;
  }
  static bool matches(const range_view& range, const place& where, const wanted_mods& which) {
    const std::uint64_t begin = range.offset, end = begin + range.value.size();
    if (!which.value) return begin < where.offset + which.length() && where.offset < end;
    return begin <= where.offset && where.offset + which.length() <= end &&
           std::memcmp(range.value.data() + (where.offset - begin), which.value->data(), which.value->size()) == 0;
  }

  static void print(const transaction_view& tx, lsn at, const range_view& range, const place& where,
                    const wanted_mods& which, std::FILE* out) {
    fmt::print(out, "LSN {}  transaction {}  {} {}\n", at, tx.id, os::utc_text(tx.time),
               which.value ? "assigns these values" : "modifies these bytes");
    fmt::print(out, "    {}  offset {}  length {}\n", where.segment, range.offset, range.value.size());
    fmt::print(out, "    {}:", which.segment.empty() ? fmt::format("{:#x}", which.at) : fmt::format("{}", which.at));
    for (std::uint64_t i = 0; i < which.count; ++i) {
      const std::uint64_t from = where.offset + i * which.size;
      if (from < range.offset || from + which.size > range.offset + range.value.size()) {
        fmt::print(out, " -");  // not, or not all of it, changed here
        continue;
      }
      std::uint64_t number = 0;
      std::memcpy(&number, range.value.data() + (from - range.offset), which.size);
      fmt::print(out, " {}", number_text(number, which));
    }
    fmt::print(out, "\n");
  }

  static std::string number_text(std::uint64_t number, const wanted_mods& how) {
    const unsigned unused = 64 - 8 * static_cast<unsigned>(how.size);
    switch (how.format) {
      case 'u': return fmt::format("{}", number);
      case 'x': return fmt::format("{:#x}", number);
      case 'o': return fmt::format("{:#o}", number);
      case 'c':
        return number >= 32 && number < 127 ? std::string(1, static_cast<char>(number)) : fmt::format("{:#o}", number);
      default: return fmt::format("{}", static_cast<std::int64_t>(number << unused) >> unused);
    }
  }

  os::disk& disk_;
  std::string log_;
};

}  // namespace

wanted_mods wanted_mods::parse(const std::string& text) {
  wanted_mods which;
  const std::size_t equals = text.find('=');
  std::string where = trimmed(text.substr(0, equals));
  // A path has slashes, too: what is behind the last one counts if it can be a format.
  if (const std::size_t slash = where.rfind('/');
      slash != std::string::npos && parse_units(trimmed(where.substr(slash + 1)), which))
    where = trimmed(where.substr(0, slash));
  if (const std::size_t colon = where.rfind(':'); colon != std::string::npos) {
    which.segment = where.substr(0, colon);
    where.erase(0, colon + 1);
  }
  which.at = number_in(where);
  if (equals != std::string::npos) which.value = value_in(text.substr(equals + 1), which);
  return which;
}

void show_log_mods(os::disk& disk, const std::string& log, const wanted_mods& which, std::FILE* out) {
  const searcher all(disk, log);
  all.show(which.segment.empty() ? all.find(which.at) : place{os::absolute_path(which.segment), which.at}, which, out);
}

}  // namespace tenure::tools
