// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/declared_changes.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "types/field_path.hpp"
#include "types/numbers.hpp"

namespace tenure::types {

using detail::field_change;
using detail::version_changes;

declared_changes::declared_changes(const type_changes* all, std::uint32_t stored_version) {
  if (all == nullptr) return;
  for (const version_changes& v : all->versions)
    if (v.since >= stored_version) versions_.push_back(&v);
}

declared_changes::source declared_changes::source_of(std::string path) const {
  for (auto v = versions_.rbegin(); v != versions_.rend(); ++v) {
    for (const field_change& change : (*v)->fields)
      if (change.what == field_change::kind::added && change.field == path) return {path, &change};
    const std::string before = renamed(**v, path, &field_change::to, &field_change::field);
    // A field of the same name is a new one if the old one was removed, or has another name now.
    const bool is_gone = removes(**v, path) || renamed(**v, path, &field_change::field, &field_change::to) != path;
    if (before == path && is_gone) return {};
    path = before;
  }
  return {path};
}

bool declared_changes::is_removed(std::string path) const {
  for (const version_changes* v : versions_) {
    if (removes(*v, path)) return true;
    path = renamed(*v, path, &field_change::field, &field_change::to);
  }
  return false;
}

std::string declared_changes::new_name(std::string path) const {
  bool is_renamed = false;
  for (const version_changes* v : versions_) {
    is_renamed = is_renamed || std::ranges::any_of(v->fields, [&](const field_change& change) {
                   return change.what == field_change::kind::renamed && change.field == path;
                 });
    path = renamed(*v, path, &field_change::field, &field_change::to);
  }
  return is_renamed ? path : std::string();
}

bool declared_changes::has_function_after_renaming(std::string path) const {
  bool has_function = false;
  for (const version_changes* v : versions_) {
    has_function = has_function || v->convert != nullptr;
    const std::string now = renamed(*v, path, &field_change::field, &field_change::to);
    if (now != path) has_function = false;
    path = now;
  }
  return has_function;
}

bool declared_changes::takes_apart(std::string path) const {
  for (const version_changes* v : versions_) {
    for (const field_change& change : v->fields)
      if (change.what != field_change::kind::added && change.what != field_change::kind::narrowed &&
          leads_into(change.field, path))
        return true;
    path = renamed(*v, path, &field_change::field, &field_change::to);
  }
  return false;
}

bool declared_changes::is_narrowed(std::string path) const {
  for (auto v = versions_.rbegin(); v != versions_.rend(); ++v) {
    for (const field_change& change : (*v)->fields)
      if (change.what == field_change::kind::narrowed && change.field == path) return true;
    path = renamed(**v, path, &field_change::to, &field_change::field);
  }
  return false;
}

bool declared_changes::leads_to_parts_of(std::string path) const {
  for (auto v = versions_.rbegin(); v != versions_.rend(); ++v) {
    for (const field_change& change : (*v)->fields)
      if (leads_into(change.what == field_change::kind::renamed ? change.to : change.field, path)) return true;
    path = renamed(**v, path, &field_change::to, &field_change::field);
  }
  return false;
}

std::vector<const version_changes*> declared_changes::functions() const {
  std::vector<const version_changes*> found;
  std::ranges::copy_if(versions_, std::back_inserter(found),
                       [](const version_changes* v) { return v->convert != nullptr; });
  return found;
}

bool declared_changes::removes(const version_changes& in, std::string_view path) {
  return std::ranges::any_of(in.fields, [&](const field_change& change) {
    return change.what == field_change::kind::removed && (path == change.field || leads_into(path, change.field));
  });
}

std::string declared_changes::renamed(const version_changes& in, const std::string& path,
                                      std::string field_change::*from, std::string field_change::*to) {
  const field_change* best = nullptr;
  for (const field_change& change : in.fields) {
    if (change.what != field_change::kind::renamed) continue;
    const std::string& name = change.*from;
    const bool fits = path == name || leads_into(path, name) || (name.ends_with("::") && path.starts_with(name));
    if (fits && (best == nullptr || name.size() > (best->*from).size())) best = &change;
  }
  return best == nullptr ? path : best->*to + path.substr((best->*from).size());
}

bool declared_changes::is_known(std::string path, std::span<const version_changes* const> later, const type& program) {
  for (const version_changes* v : later) {
    if (removes(*v, path)) return true;
    path = renamed(*v, path, &field_change::field, &field_change::to);
  }
  return find_field(program, path).field != nullptr;
}

std::vector<std::string> declared_changes::mistakes(const type& program) const {
  std::vector<std::string> found;
  for (std::size_t n = 0; n < versions_.size(); ++n) {
    const version_changes& v = *versions_[n];
    const std::string since = "since(" + std::to_string(v.since) + ").";
    if (v.has_second_function)
      found.push_back(since + "converted(...) is declared twice: one function must do what both do");
    std::set<std::string_view> added;
    for (const field_change& change : v.fields) {
      if (change.what != field_change::kind::added) continue;
      const std::string declaration = since + "added(\"" + change.field + "\", VALUE)";
      if (!added.insert(change.field).second)
        found.push_back(declaration + " is declared twice");
      else if (!is_known(change.field, std::span(versions_).subspan(n + 1), program))
        found.push_back(declaration + " is declared, and there is no such field");
    }
  }
  return found;
}

std::vector<std::byte> bytes_of_added(const field_change& added, const type_field& field, std::string& problem) {
  if (!added.value_type) return {};
  const type& of = added.value_type();
  const number_type has = number_of(of.fields.size() == 1 ? of.fields[0].scalar : scalar_kind::none, of.size, of.name);
  const number_type wanted = number_of(field.scalar, field.size / field.count, field.type_name);
  if (field.kind == field_kind::data && is_number(has) && is_number(wanted)) {
    std::vector<std::byte> bytes(field.size);
    for (std::uint64_t n = 0; n < field.count; ++n)
      if (!convert_number(has, added.value.data(), wanted, bytes.data() + n * wanted.size))
        problem = ": the value that was declared for it does not fit";
    return bytes;
  }
  if (field.count == 1 && field.kind == field_kind::nested && field.of().name == of.name && field.size == of.size)
    return added.value;
  problem = " is a " + field.type_name + ", and the value that was declared for it a " + of.name;
  return {};
}

}  // namespace tenure::types
