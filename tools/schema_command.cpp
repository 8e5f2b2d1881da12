// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "schema_command.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/error.hpp>
#include <tenure/evolve.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "rewrite/changed_keys.hpp"
#include "store_survey.hpp"
#include "types/differences.hpp"
#include "types/evolution.hpp"
#include "types/schema_text.hpp"

namespace tenure::tools {

namespace {

// Types, and what they are kept in.
struct found_schema {
  std::vector<const type*> types;
  std::set<std::string> without_objects;  // of types in a store
  std::map<std::string, types::evolution::told> told;
  std::unique_ptr<surveyed_store> store;
  std::unique_ptr<std::deque<type>> read, of_values;
};

template <class Kind, std::size_t N>
Kind kind_named(const std::string& name, const std::array<Kind, N>& all) {
  const auto found = std::ranges::find(all, name, [](Kind kind) { return std::string(types::name_of(kind)); });
  if (found == all.end()) throw std::invalid_argument("there is no kind \"" + name + "\"");
  return *found;
}
field_kind field_kind_named(const std::string& name) {
  constexpr std::array all{field_kind::data,   field_kind::reference, field_kind::derived,     field_kind::transient,
                           field_kind::vtable, field_kind::nested,    field_kind::conservative};
  return kind_named(name, all);
}
scalar_kind scalar_kind_named(const std::string& name) {
  constexpr std::array all{scalar_kind::none,
                           scalar_kind::boolean,
                           scalar_kind::character,
                           scalar_kind::signed_integer,
                           scalar_kind::unsigned_integer,
                           scalar_kind::floating,
                           scalar_kind::enumeration,
                           scalar_kind::text};
  return kind_named(name, all);
}

type_field field_in(const nlohmann::json& j, const std::map<std::string, const type*>& by_name) {
  type_field f;
  f.name = j.at("name");
  f.kind = field_kind_named(j.at("kind"));
  f.scalar = scalar_kind_named(j.value("scalar", "none"));
  f.type_name = j.at("type");
  f.offset = j.at("offset");
  f.size = j.at("size");
  f.count = j.value("count", std::uint64_t{1});
  f.row = j.value("row", std::uint64_t{1});
  f.subobject = j.value("subobject", 0U);
  if (f.count == 0) throw std::invalid_argument("a field has no elements");
  if (f.kind == field_kind::nested) f.of = by_name.at(j.at("of"));
  if (const auto guard = j.find("only_if"); guard != j.end())
    f.only_if = field_guard{guard->at("offset"), guard->at("width"), guard->at("value")};
  return f;
}

// The value of a field that was added. Schemas of earlier versions have none.
void read_value(const nlohmann::json& in, const std::string& field, detail::field_change& to, std::deque<type>& types) {
  const auto found = std::ranges::find_if(in, [&](const auto& each) { return each.at("field") == field; });
  if (found == in.end()) return;
  for (const auto& byte : found->at("bytes")) to.value.push_back(std::byte{byte.template get<std::uint8_t>()});
  type& of = types.emplace_back();
  of.name = found->at("type");
  of.size = to.value.size();
  type_field& value = of.fields.emplace_back();
  value.scalar = scalar_kind_named(found->value("scalar", "none"));
  value.size = of.size;
  to.value_type = &of;
}

type_changes changes_in(const nlohmann::json& j, std::deque<type>& types) {
  using kind = detail::field_change::kind;
  type_changes made;
  for (const auto& name : j.value("was_named", nlohmann::json::array())) made.old_names.push_back(name);
  for (const auto& v : j.value("changes", nlohmann::json::array())) {
    detail::version_changes& since = made.since(v.at("since"));
    for (const auto& pair : v.at("renamed")) since.fields.push_back({kind::renamed, pair.at(0), pair.at(1)});
    for (const auto& [what, list] :
         {std::pair{kind::removed, "removed"}, {kind::added, "added"}, {kind::narrowed, "narrowed"}})
      for (const auto& field : v.at(list)) {
        since.fields.push_back({what, field});
        if (what == kind::added)
          read_value(v.value("values", nlohmann::json::array()), field, since.fields.back(), types);
      }
    since.has_second_function = v.value("converted_twice", false);
    if (v.at("converted"))
      since.convert = [](void (*)(), const old_object&, void*, conversion&) {};  // it is not called
  }
  return made;
}

found_schema read_schema(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw error(std::make_error_code(std::errc::no_such_file_or_directory), path + ": there is no such schema");
  found_schema found;
  found.read = std::make_unique<std::deque<type>>();
  found.of_values = std::make_unique<std::deque<type>>();
  try {
    const nlohmann::json all = nlohmann::json::parse(file);
    if (all.at("tenure_schema") != 1) throw std::invalid_argument("it is of another version");
    std::map<std::string, const type*> by_name;
    for (const auto& j : all.at("types")) {
      type& t = found.read->emplace_back();
      t.name = j.at("name");
      t.version = j.at("version");
      t.size = j.at("size");
      t.alignment = j.at("alignment");
      t.fingerprint = j.at("fingerprint");
      t.is_conservative = j.value("conservative", false);
      t.tolerates_stale = j.value("tolerates_stale", false);
      by_name[t.name] = &t;
      found.types.push_back(&t);
      found.told[t.name] = {j.value("has_default", false), changes_in(j, *found.of_values)};
    }
    std::size_t n = 0;
    for (const auto& j : all.at("types")) {
      for (const auto& f : j.at("fields")) (*found.read)[n].fields.push_back(field_in(f, by_name));
      ++n;
    }
  } catch (const std::exception& e) {
    throw error(errc::damaged,
                path + ": is no schema, as tenure::schema() and `tenure schema export` write them: " + e.what());
  }
  return found;
}

found_schema schema_at(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return read_schema(path);
  found_schema found;
  found.store = std::make_unique<surveyed_store>(path);
  const std::vector<type_facts> all = found.store->types("");
  for (const type_facts& each : all)
    if (!each.of->name.starts_with("tenure::heap::")) found.types.push_back(each.of);
  for (const type_facts& each : all)
    if (each.objects == 0) found.without_objects.insert(each.of->name);
  for (const type_facts& each : all)  // another database may have some
    if (each.objects != 0) found.without_objects.erase(each.of->name);
  return found;
}

}  // namespace

int export_schema(const std::string& schema, std::FILE* out) {
  fmt::print(out, "{}\n", types::schema_text(schema_at(schema).types));
  return exit_ok;
}

int show_schema_difference(const std::string& one, const std::string& other, bool as_json, std::FILE* out) {
  const found_schema a = schema_at(one), b = schema_at(other);
  std::map<std::string, std::pair<const type*, const type*>> both;
  for (const type* const t : a.types) both[t->name].first = t;
  for (const type* const t : b.types) both[t->name].second = t;
  std::vector<std::string> lines;
  for (const auto& [name, found] : both) {
    const auto& [was, is] = found;
    if (was == nullptr) lines.push_back(fmt::format("{}: is only in {}", name, other));
    if (is == nullptr) lines.push_back(fmt::format("{}: is only in {}", name, one));
    if (was == nullptr || is == nullptr) continue;
    for (std::string& line : types::differences(*was, *is)) lines.push_back(std::move(line));
  }
  if (as_json)
    fmt::print(out, "{}\n", json_text({{"one", one}, {"other", other}, {"differences", lines}}));
  else
    for (const std::string& line : lines) fmt::print(out, "{}\n", line);
  return lines.empty() ? exit_ok : exit_damaged;
}

int check_schema(const std::string& store, const std::string& program, bool as_json, std::FILE* out) {
  const found_schema stored = schema_at(store), wanted = schema_at(program);
  types::evolution plan(wanted.types, wanted.told);
  plan.look_at(stored.types);
  std::vector<std::string> converted, problems;
  for (const type* const was : stored.types) {
    const type* const is = plan.program_type_of(*was);
    if (is == nullptr || !types::evolution::differ(*was, *is)) continue;
    converted.push_back(is->name);
    (void)plan.plan(*was, *is, problems);
  }
  plan.find_other_problems(stored.types, problems);
  for (const auto& [node, why] : rewriting::nodes_with_changed_keys(stored.types, plan))
    if (!stored.without_objects.contains(node)) problems.push_back(why);
  for (const auto& [name, why] : plan.unknown_with_changes(stored.types))
    if (!stored.without_objects.contains(name)) problems.push_back(why);
  if (as_json) {
    fmt::print(out, "{}\n",
               json_text({{"store", store}, {"program", program}, {"converted", converted}, {"problems", problems}}));
  } else if (!problems.empty()) {
    fmt::print(out, "{}: a program with {} cannot open or convert this store\n", store, program);
    for (const std::string& each : problems) fmt::print(out, "  {}\n", each);
  } else if (!converted.empty()) {
    fmt::print(out, "{}: is converted by a program with {} (store_options::evolve); other layouts have\n", store,
               program);
    for (const std::string& each : converted) fmt::print(out, "  {}\n", each);
  } else {
    fmt::print(out, "{}: a program with {} opens it as it is\n", store, program);
  }
  return problems.empty() ? exit_ok : exit_damaged;
}

}  // namespace tenure::tools
