// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/schema_text.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <tenure/evolve.hpp>
#include <tenure/registry.hpp>
#include <tenure/schema.hpp>

#include "types/utf8.hpp"

namespace tenure {

namespace types {
namespace {

// Writes one object or list after the other, with commas between.
class json {
 public:
  json& open(char bracket) {
    separate();
    text_ += bracket;
    is_first_ = true;
    return *this;
  }
  json& close(char bracket) {
    text_ += bracket;
    is_first_ = false;
    return *this;
  }
  json& key(std::string_view name) {
    separate();
    quote(name);
    text_ += ": ";
    is_first_ = true;  // no comma before the value
    return *this;
  }
  json& value(std::string_view text) {
    separate();
    quote(text);
    return *this;
  }
  json& value(const char* text) { return value(std::string_view(text)); }
  json& value(std::uint64_t number) {
    separate();
    text_ += std::to_string(number);
    return *this;
  }
  json& value(bool yes) {
    separate();
    text_ += yes ? "true" : "false";
    return *this;
  }
  json& line() {
    separate();
    is_first_ = true;
    text_ += "\n  ";
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!is_first_) text_ += ", ";
    is_first_ = false;
  }
  // Bytes that are no UTF-8 are replaced, as in what the commands write.
  void quote(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    text_ += '"';
    while (!text.empty()) {
      const char c = text.front();
      const std::size_t length = first_character(text).length;
      if (const auto byte = static_cast<unsigned char>(c); byte < 0x20) {
        text_ += "\\u00";
        text_ += digits[byte >> 4U];
        text_ += digits[byte & 0xfU];
      } else if (length == 0) {
        text_ += "\xef\xbf\xbd";
      } else {
        if (c == '"' || c == '\\') text_ += '\\';
        text_ += text.substr(0, length);
      }
      text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    text_ += '"';
  }

  std::string text_;
  bool is_first_ = true;
};

void write_field(json& to, const type_field& f) {
  to.open('{').key("name").value(f.name).key("kind").value(name_of(f.kind));
  if (f.scalar != scalar_kind::none) to.key("scalar").value(name_of(f.scalar));
  to.key("type").value(f.type_name).key("offset").value(f.offset).key("size").value(f.size);
  if (f.count != 1) to.key("count").value(f.count);
  if (f.row != 1) to.key("row").value(f.row);
  if (f.kind == field_kind::nested && f.of) to.key("of").value(f.of().name);
  if (f.kind == field_kind::vtable) to.key("subobject").value(std::uint64_t{f.subobject});
  if (f.only_if) {
    to.key("only_if").open('{').key("offset").value(f.only_if->offset);
    to.key("width").value(std::uint64_t{f.only_if->width}).key("value").value(f.only_if->value).close('}');
  }
  to.close('}');
}

// Of fields that were added.
void write_values(json& to, const detail::version_changes& in) {
  to.key("values").open('[');
  for (const detail::field_change& f : in.fields) {
    if (!f.value_type) continue;
    const type& of = f.value_type();
    to.open('{').key("field").value(f.field).key("type").value(of.name);
    if (of.fields.size() == 1 && of.fields[0].scalar != scalar_kind::none)
      to.key("scalar").value(name_of(of.fields[0].scalar));
    to.key("bytes").open('[');
    for (const std::byte b : f.value) to.value(std::to_integer<std::uint64_t>(b));
    to.close(']').close('}');
  }
  to.close(']');
}

void write_changes(json& to, const type_changes& changes) {
  using kind = detail::field_change::kind;
  constexpr std::array<std::pair<kind, const char*>, 3> lists{
      {{kind::removed, "removed"}, {kind::added, "added"}, {kind::narrowed, "narrowed"}}};
  to.key("was_named").open('[');
  for (const std::string& name : changes.old_names) to.value(name);
  to.close(']').key("changes").open('[');
  for (const detail::version_changes& v : changes.versions) {
    to.open('{').key("since").value(std::uint64_t{v.since}).key("renamed").open('[');
    for (const detail::field_change& f : v.fields)
      if (f.what == kind::renamed) to.open('[').value(f.field).value(f.to).close(']');
    to.close(']');
    for (const auto& [what, name] : lists) {
      to.key(name).open('[');
      for (const detail::field_change& f : v.fields)
        if (f.what == what) to.value(f.field);
      to.close(']');
    }
    write_values(to, v);
    to.key("converted").value(v.convert != nullptr);
    if (v.has_second_function) to.key("converted_twice").value(true);
    to.close('}');
  }
  to.close(']');
}

}  // namespace

const char* name_of(field_kind kind) {
  switch (kind) {
    case field_kind::data: return "data";
    case field_kind::reference: return "reference";
    case field_kind::derived: return "derived";
    case field_kind::transient: return "transient";
    case field_kind::vtable: return "vtable";
    case field_kind::nested: return "nested";
    case field_kind::conservative: return "conservative";
  }
  return "";
}

const char* name_of(scalar_kind kind) {
  switch (kind) {
    case scalar_kind::none: return "none";
    case scalar_kind::boolean: return "boolean";
    case scalar_kind::character: return "character";
    case scalar_kind::signed_integer: return "signed";
    case scalar_kind::unsigned_integer: return "unsigned";
    case scalar_kind::floating: return "floating";
    case scalar_kind::enumeration: return "enumeration";
    case scalar_kind::text: return "text";
  }
  return "";
}

std::string schema_text(const std::vector<const type*>& all) {
  json to;
  to.open('{').key("tenure_schema").value(std::uint64_t{1}).key("types").open('[');
  for (const type* const t : all) {
    to.line().open('{').key("name").value(t->name).key("version").value(std::uint64_t{t->version});
    to.key("size").value(t->size).key("alignment").value(t->alignment).key("fingerprint").value(t->fingerprint);
    if (t->is_conservative) to.key("conservative").value(true);
    if (t->tolerates_stale) to.key("tolerates_stale").value(true);
    if (t->operations != nullptr && t->operations->construct != nullptr) to.key("has_default").value(true);
    if (t->operations != nullptr && t->operations->changes != nullptr) write_changes(to, t->operations->changes());
    to.key("fields").open('[');
    for (const type_field& f : t->fields) write_field(to, f);
    to.close(']').close('}');
  }
  return to.close(']').close('}').take();
}

}  // namespace types

std::string schema() { return types::schema_text(registered_types()); }

}  // namespace tenure
