// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/access_order.hpp"

#include <charconv>
#include <span>
#include <sstream>

#include <tenure/error.hpp>

#include "log/new_file.hpp"

namespace tenure::rewriting {

namespace {

constexpr const char *first_line = "tenure accesses 2", *cut_short_line = "cut short";
constexpr std::uint64_t longest_file = std::uint64_t{1} << 30, least_unit = 4096, largest_unit = std::uint64_t{1} << 40;

[[nodiscard]] std::string text_of(os::const_bytes id) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::byte each : id) {
    text += digits[std::to_integer<unsigned>(each) / 16];
    text += digits[std::to_integer<unsigned>(each) % 16];
  }
  return text;
}

template <class T>
[[nodiscard]] bool parse(const std::string& text, T& into, int base = 10) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), into, base);
  return end.ec == std::errc() && end.ptr == text.data() + text.size();
}

[[nodiscard]] bool parse_id(const std::string& text, std::span<std::byte> id) {
  if (text.size() != 2 * id.size()) return false;
  std::uint8_t value = 0;
  for (std::size_t n = 0; n < id.size(); ++n) {
    if (!parse(text.substr(2 * n, 2), value, 16)) return false;
    id[n] = std::byte{value};
  }
  return true;
}

[[noreturn]] void refuse_line(const std::string& file, std::uint64_t number, const std::string& why) {
  throw error(errc::bad_option, file + ": line " + std::to_string(number) + ": " + why +
                                    "; the file is written by a store that is opened with record_accesses");
}

}  // namespace

void write_accesses(os::disk& disk, const std::string& file, const used_parts_of_store& all) {
  std::ostringstream lines;
  lines << first_line << "\nlog " << text_of(all.log) << '\n';
  for (const used_parts& each : all.databases) {
    lines << "database " << text_of(std::as_bytes(std::span(each.database))) << ' ' << each.unit << '\n';
    for (const std::uint32_t part : each.order) lines << part << '\n';
    if (each.is_cut_short) lines << cut_short_line << '\n';
  }
  const std::string text = lines.str();
  rvm::new_file made(disk, file, 0666);
  made.file().write_at(0, std::as_bytes(std::span(text)));
  made.file().sync();
  made.replace();
}

used_parts_of_store read_accesses(os::disk& disk, const std::string& file) {
  const auto from = disk.open(file, os::access::read_only);
  const std::uint64_t length = from->size();
  std::string text(length <= longest_file ? length : 0, '\0');
  (void)from->read_at(0, std::as_writable_bytes(std::span(text)));
  std::istringstream lines(text);
  used_parts_of_store read;
  std::vector<used_parts>& all = read.databases;
  std::string line;
  for (std::uint64_t number = 1; std::getline(lines, line); ++number) {
    const auto refuse = [&](const std::string& why) { refuse_line(file, number, why); };
    if (number == 1) {
      if (line != first_line) refuse("the file does not begin with \"" + std::string(first_line) + "\"");
      continue;
    }
    std::istringstream words(line);
    std::string word, id, unit;
    words >> word >> id >> unit;
    used_parts made;
    std::uint32_t part = 0;
    if (number == 2) {
      if (word != "log" || !parse_id(id, read.log)) refuse("\"" + line + "\" is no identity of a log");
    } else if (word == "database") {
      if (!parse_id(id, std::as_writable_bytes(std::span(made.database))) || !parse(unit, made.unit) ||
          made.unit < least_unit || made.unit > largest_unit)
        refuse("\"" + line + "\" has no identity of a database, or no size of its parts");
      all.push_back(std::move(made));
    } else if (line == cut_short_line && !all.empty()) {
      all.back().is_cut_short = true;
    } else if (all.empty() || !id.empty() || !parse(word, part)) {
      refuse("\"" + line + "\" is no part of a database");
    } else {
      all.back().order.push_back(part);
    }
  }
  if (all.empty()) throw error(errc::bad_option, file + ": says of no database what was used of it");
  return read;
}

}  // namespace tenure::rewriting
