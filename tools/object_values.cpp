// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "object_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <tenure/store/weak_cell.hpp>

#include "objects/object_text.hpp"
#include "objects/stored_types.hpp"
#include "types/utf8.hpp"

namespace tenure::tools {

using namespace heap;

namespace {

using kind = shown_value::kind;

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// --- Strings --------------------------------------------------------------------------------------------------------------

enum class string_form { none, ours, standard, internal };

// Which classes are strings is known by their names; how they are laid out, by their headers (tenure/string.hpp; libstdc++).
string_form form_of(const type& of) {
  const std::string& name = of.name;
  if (of.size == 24 && (name == "tenure::string" || name.starts_with("tenure::basic_string<")))
    return string_form::ours;
  if (of.size == 32 &&
      (name.starts_with("std::__cxx11::basic_string<char,") || name.starts_with("std::basic_string<char,")))
    return string_form::standard;
  if (of.size == sizeof(stored_text) && name == "tenure::heap::stored_text") return string_form::internal;
  return string_form::none;
}

struct found_text {
  stored_address first = stored_address::none;
  std::uint64_t length = 0;
  const std::byte* inside = nullptr;  // they are in the string itself
};

found_text find_text(string_form form, const std::byte* at) {
  const stored_address pointer = stored_address_in(at);
  const auto length = read<std::uint64_t>(at + 8);
  switch (form) {
    case string_form::ours:
      // Up to 14 characters are behind the pointer, which is null then, their number is in the last byte.
      if (pointer == stored_address::none) return {{}, read<std::uint8_t>(at + 23), at + 8};
      return {pointer, length};
    case string_form::standard:
      // Up to 15 characters are at its end, and the pointer refers to them.
      if (pointer == stored_address_of(at + 16) || pointer == stored_address::none) return {{}, length, at + 16};
      return {pointer, length};
    default: return {pointer, length};
  }
}

// --- Nodes of trees ---

// How many slots of a field of a node have values (tenure/containers/detail/tree_nodes.hpp).
std::uint64_t used_slots(const type& of, const type_field& f, const std::byte* at) {
  const bool is_leaf = of.name.starts_with("tenure::detail::tree_leaf<");
  if (!is_leaf && !of.name.starts_with("tenure::detail::tree_inner<")) return f.count;
  const std::uint64_t count = read<std::uint32_t>(at + sizeof(void*));
  if (f.name == (is_leaf ? "entries" : "separators")) return count;
  return f.name == "children" ? count + 1 : f.count;
}

// --- Scalars --------------------------------------------------------------------------------------------------------------

std::string integer_text(const std::byte* at, std::uint64_t size, bool is_signed) {
  switch (size) {
    case 1:
      return is_signed ? fmt::to_string(int{read<std::int8_t>(at)}) : fmt::to_string(unsigned{read<std::uint8_t>(at)});
    case 2: return is_signed ? fmt::to_string(read<std::int16_t>(at)) : fmt::to_string(read<std::uint16_t>(at));
    case 4: return is_signed ? fmt::to_string(read<std::int32_t>(at)) : fmt::to_string(read<std::uint32_t>(at));
    case 8: return is_signed ? fmt::to_string(read<std::int64_t>(at)) : fmt::to_string(read<std::uint64_t>(at));
    default: {
      std::string digits = "0x";
      for (std::uint64_t n = size; n-- > 0;) digits += fmt::format("{:02x}", read<std::uint8_t>(at + n));
      return digits;
    }
  }
}

std::string floating_text(const std::byte* at, std::uint64_t size) {
  switch (size) {
    case sizeof(float): return fmt::format("{}", read<float>(at));
    case sizeof(double): return fmt::format("{}", read<double>(at));
    case sizeof(long double): return fmt::format("{}", read<long double>(at));
    default: return integer_text(at, size, false);
  }
}

// --- Everything -----------------------------------------------------------------------------------------------------------

class decoder {
 public:
  decoder(const database_set& store, const value_limits& limits) : store_(store), limits_(limits) {}

  // One value of the type.
  shown_value value(const type& of, const std::byte* at) const {
    if (const string_form form = form_of(of); form != string_form::none) return string(form, at);
    if (of.name.starts_with("std::optional<")) return optional(of, at);
    if (of.name == "tenure::detail::weak_cell") return weak_reference(at);
    shown_value all{.is = kind::fields};
    sound_object base;  // of derived pointers, which may lead behind its end
    for (const type_field& f : of.fields) {
      if (f.only_if && !holds(*f.only_if, at)) continue;
      if (f.kind == field_kind::vtable) continue;
      if (f.kind == field_kind::reference) base = find_sound(store_, stored_address_in(at + f.offset));
      if (f.kind == field_kind::derived && f.count == 1 && base) {
        const stored_address to = stored_address_in(at + f.offset);
        if (static_cast<address>(to) - base.at <= base.size) {
          all.parts.emplace_back(f.name, reference(to, base));
          continue;
        }
      }
      all.parts.emplace_back(f.name, field_value(f, at + f.offset, used_slots(of, f, at)));
    }
    // Numbers, arrays and their like have one field without a name.
    if (of.fields.size() == 1 && of.fields[0].name.empty() && all.parts.size() == 1) {
      shown_value only = std::move(all.parts[0].second);
      return only;
    }
    return all;
  }

  shown_value array(const sound_object& object, element_range elements) const {
    const type& of = *object.type->of;
    const auto* const at = reinterpret_cast<const std::byte*>(object.at);
    if (of.size == 0) return {.is = kind::fields};
    if (of.fields.size() == 1 && of.fields[0].kind == field_kind::data && is_text(of.fields[0], of.size))
      return characters(at, object.count() * of.size, true);
    const std::uint64_t end = std::min(elements.end, object.count()), first = std::min(elements.first, end);
    return list(end - first, [&](std::uint64_t n) { return value(of, at + (first + n) * of.size); });
  }

 private:
  static bool holds(const field_guard& guard, const std::byte* at) {
    std::uint64_t value = 0;
    std::memcpy(&value, at + guard.offset, guard.width);
    return value == guard.value;
  }
  static bool is_text(const type_field& f, std::uint64_t each) {
    return f.scalar == scalar_kind::text || (f.scalar == scalar_kind::character && each == 1);
  }

  template <class F>
  shown_value list(std::uint64_t count, F&& element) const {
    shown_value all{.is = kind::list};
    const std::uint64_t shown = std::min(count, limits_.elements);
    for (std::uint64_t n = 0; n < shown; ++n) all.parts.emplace_back("", element(n));
    all.left_out = count - shown;
    return all;
  }

  // `padded`: zeros at the end are no characters.
  shown_value characters(const std::byte* first, std::uint64_t length, bool padded) const {
    if (padded)
      while (length != 0 && first[length - 1] == std::byte{0}) --length;
    const std::uint64_t shown = std::min(length, limits_.text);
    return {.is = kind::text,
            .text = std::string(reinterpret_cast<const char*>(first), static_cast<std::size_t>(shown)),
            .left_out = length - shown};
  }

  shown_value string(string_form form, const std::byte* at) const {
    const found_text found = find_text(form, at);
    if (found.inside != nullptr || found.first == stored_address::none) {
      const std::uint64_t room = form == string_form::ours ? 14 : form == string_form::standard ? 15 : 0;
      if (found.length > room)
        return {.is = kind::note, .text = fmt::format("string with a length of {}", found.length)};
      return characters(found.inside, found.length, false);
    }
    const sound_object in = find_sound(store_, found.first);
    const std::uint64_t before = static_cast<address>(found.first) - in.at;
    if (!in || found.length > in.size - before)
      return {.is = kind::note,
              .text = fmt::format("string of {} characters at {}, where they are not", found.length,
                                  address_text(found.first))};
    return characters(static_cast<const std::byte*>(in_memory(found.first)), found.length, false);
  }

  shown_value optional(const type& of, const std::byte* at) const {
    for (const type_field& f : of.fields)
      if (f.only_if && holds(*f.only_if, at)) return field_value(f, at + f.offset, f.count);
    return {.is = kind::none};
  }

  // `used`: of its elements, so many have values.
  shown_value field_value(const type_field& f, const std::byte* at, std::uint64_t used) const {
    const std::uint64_t each = f.size / f.count;
    switch (f.kind) {
      case field_kind::transient: return {.is = kind::note, .text = "transient"};
      case field_kind::conservative: return unknown(at, f.size);
      case field_kind::data:
        if (f.count > 1 && is_text(f, each)) return characters(at, f.size, true);
        if (f.scalar == scalar_kind::none) return {.is = kind::note, .text = fmt::format("{} bytes", f.size)};
        break;
      default: break;
    }
    if (f.count == 1) return element(f, at, each);
    return list(std::min<std::uint64_t>(f.count, used),
                [&](std::uint64_t n) { return element(f, at + n * each, each); });
  }

  shown_value element(const type_field& f, const std::byte* at, std::uint64_t size) const {
    switch (f.kind) {
      case field_kind::nested: return value(f.of(), at);
      case field_kind::reference:
      case field_kind::derived: return reference(stored_address_in(at));
      default: return scalar(f.scalar, at, size);
    }
  }

  static shown_value scalar(scalar_kind what, const std::byte* at, std::uint64_t size) {
    switch (what) {
      case scalar_kind::boolean: return {.is = kind::number, .text = read<std::uint8_t>(at) != 0 ? "true" : "false"};
      case scalar_kind::floating: return {.is = kind::number, .text = floating_text(at, size)};
      case scalar_kind::character:
        if (size == 1) return {.is = kind::text, .text = std::string(1, read<char>(at))};
        return {.is = kind::number, .text = integer_text(at, size, false)};
      case scalar_kind::signed_integer:
      case scalar_kind::enumeration: return {.is = kind::number, .text = integer_text(at, size, true)};
      default: return {.is = kind::number, .text = integer_text(at, size, false)};
    }
  }

  shown_value reference(stored_address to) const { return reference(to, find_sound(store_, to)); }
  // `object`: in which the address is, or where it ends.
  shown_value reference(stored_address to, const sound_object& object) const {
    shown_value shown{.is = kind::reference, .to = to};
    if (!object || to == stored_address::none) return shown;
    shown.to_type = object.type->of->name;
    shown.to_count = object.count();
    shown.to_object = object.at;
    const std::uint64_t offset = static_cast<address>(to) - object.at;
    if (offset == object.size)
      shown.to_field = "[end]";
    else if (offset != 0)
      shown.to_field = field_text(store_, object.at, offset);
    return shown;
  }

  shown_value weak_reference(const std::byte* at) const {
    shown_value shown = reference(stored_address_of(tenure::detail::shown(read<std::uint64_t>(at))));
    shown.is_weak = true;
    return shown;
  }

  // Words that may be references, as far as they are.
  shown_value unknown(const std::byte* at, std::uint64_t size) const {
    shown_value found{.is = kind::list};
    for (std::uint64_t word = 0; word + sizeof(void*) <= size; word += sizeof(void*)) {
      shown_value maybe = reference(stored_address_in(at + word));
      if (maybe.to_object != 0) found.parts.emplace_back("", std::move(maybe));
    }
    shown_value note{.is = kind::note, .text = fmt::format("{} bytes of unknown layout", size)};
    if (found.parts.empty()) return note;
    shown_value both{.is = kind::fields};
    both.parts.emplace_back("unknown", std::move(note));
    both.parts.emplace_back("may refer to", std::move(found));
    return both;
  }

  const database_set& store_;
  const value_limits& limits_;
};

// The length of the character at `at` if it is a whole one in UTF-8, and none of control; otherwise 0.
std::size_t printable(const std::string& bytes, std::size_t at) {
  const types::utf8_character c = types::first_character(std::string_view(bytes).substr(at));
  const bool is_control = c.code < 0x20 || (c.code >= 0x7f && c.code < 0xa0);
  return is_control ? 0 : c.length;
}

}  // namespace

shown_value value_of(const database_set& store, const sound_object& object, const value_limits& limits,
                     element_range elements) {
  const decoder d(store, limits);
  if (object.count() == 1 && object.type->of->size == object.size)
    return d.value(*object.type->of, reinterpret_cast<const std::byte*>(object.at));
  return d.array(object, elements);
}

std::string quoted(const std::string& bytes) {
  std::string text = "\"";
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = printable(bytes, at);
    if (length == 0) {
      const auto c = static_cast<unsigned char>(bytes[at]);
      text += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : fmt::format("\\{:03o}", c);
      ++at;
      continue;
    }
    if (bytes[at] == '"' || bytes[at] == '\\') text += '\\';
    text.append(bytes, at, length);
    at += length;
  }
  return text + "\"";
}

stored_address parse_address(const std::string& text) {
  std::uint64_t value = 0;
  const char* from = text.data();
  if (text.starts_with("0x") || text.starts_with("0X")) from += 2;
  const auto [end, code] = std::from_chars(from, text.data() + text.size(), value, 16);
  if (code != std::errc{} || end != text.data() + text.size())
    throw error(errc::bad_option,
                "\"" + text + "\" is no address: give hexadecimal digits, as other commands show them");
  return stored_address{value};
}

std::string address_text(stored_address at) { return fmt::format("0x{:x}", static_cast<std::uint64_t>(at)); }

std::string text_of(const shown_value& value) {
  switch (value.is) {
    case kind::none: return "none";
    case kind::number: return value.text;
    case kind::text:
      return quoted(value.text) + (value.left_out != 0 ? fmt::format(" and {} bytes more", value.left_out) : "");
    case kind::note: return "(" + value.text + ")";
    case kind::reference: {
      if (value.to == stored_address::none) return "null";
      if (value.to_object == 0) return "-> " + address_text(value.to) + " (no object)";
      return "-> " + (value.to_count > 1 ? fmt::format("{} x ", value.to_count) : "") + value.to_type + " at " +
             address_text(value.to_object) + (value.to_field.empty() ? "" : ", " + value.to_field);
    }
    case kind::fields:
    case kind::list: {
      std::string text;
      for (const auto& [name, part] : value.parts)
        text += (text.empty() ? "" : ", ") + name + (name.empty() ? "" : " ") + text_of(part);
      if (value.left_out != 0) text += fmt::format("{}... {} more", text.empty() ? "" : ", ", value.left_out);
      return value.is == kind::list ? "[" + text + "]" : "{" + text + "}";
    }
  }
  return {};
}

nlohmann::ordered_json json_of(const shown_value& value) {
  using json = nlohmann::ordered_json;
  switch (value.is) {
    case kind::none: return nullptr;
    case kind::number: {
      const json number = json::parse(value.text, nullptr, false);  // not those that JSON does not have: nan, inf
      return number.is_discarded() ? json(value.text) : number;
    }
    case kind::text:
      if (value.left_out == 0) return value.text;
      return {{"text", value.text}, {"left_out", value.left_out}};
    case kind::note: return {{"note", value.text}};
    case kind::reference: {
      if (value.to == stored_address::none) return nullptr;
      json j{{"address", address_text(value.to)}, {"type", nullptr}};
      if (value.to_object == 0) return j;
      j["type"] = value.to_type;
      if (value.to_count > 1) j["count"] = value.to_count;
      if (!value.to_field.empty()) {
        j["object"] = address_text(value.to_object);
        j["field"] = value.to_field;
      }
      return j;
    }
    case kind::list: {
      json all = json::array();
      for (const auto& part : value.parts) all.push_back(json_of(part.second));
      if (value.left_out != 0) all.push_back({{"left_out", value.left_out}});
      return all;
    }
    case kind::fields: {
      json all = json::object();
      std::uint64_t unnamed = 0;
      for (const auto& [name, part] : value.parts)
        all[name.empty() ? fmt::format("({})", unnamed++) : name] = json_of(part);
      return all;
    }
  }
  return nullptr;
}

bool is_text_pointer(const type& of, std::uint64_t offset) {
  if (form_of(of) != string_form::none) return offset == 0;
  for (const type_field& f : of.fields) {
    if (f.kind != field_kind::nested || offset < f.offset || offset - f.offset >= f.size) continue;
    if (is_text_pointer(f.of(), (offset - f.offset) % (f.size / f.count))) return true;
  }
  return false;
}

}  // namespace tenure::tools
