// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "reference_command.hpp"

#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/error.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "object_values.hpp"
#include "objects/object_text.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

using namespace heap;
using json = nlohmann::ordered_json;

namespace {

sound_object object_at(const surveyed_store& store, const std::string& where) {
  const sound_object object = store.find(parse_address(where));
  if (!object) throw error(errc::bad_option, store.set().directory() + ": there is no object at " + where);
  return object;
}

// Calls f(object, offset) for each reference to `wanted` in an object.
void for_each_referrer(const surveyed_store& store, const sound_object& wanted,
                       const std::function<void(address, std::uint64_t)>& f) {
  for (const auto& d : store.set())
    d->map->for_each_persistent(0, d->header().blocks_end, [&](address at) {
      const sound_object from = sound_at(*d, at);
      if (!from) return;
      for_each_reference(*from.type, from.facts(), [&](const reference_field& r) {
        const bool is_inside = store.find(r.to).at == wanted.at;
        if (is_inside || (r.may_be_end && store.find(byte_before(r.to)).at == wanted.at)) f(at, r.offset);
      });
    });
}

}  // namespace

int show_referrers(const std::string& directory, const std::string& where, bool as_json, std::FILE* out) {
  const surveyed_store store(directory);
  const sound_object wanted = object_at(store, where);
  json found = json::array();
  std::uint64_t count = 0;
  const auto add = [&](json one, const std::string& text) {
    ++count;
    if (as_json)
      found.push_back(std::move(one));
    else
      fmt::print(out, "{}\n", text);
  };
  for (const root_facts& root : store.roots("", false))
    if (static_cast<address>(root.object) == wanted.at)
      add({{"root", root.name}, {"database", root.database}}, fmt::format("root {} of {}", root.name, root.database));
  for_each_referrer(store, wanted, [&](address from, std::uint64_t offset) {
    const std::string object = object_text(store.set(), from), field = field_text(store.set(), from, offset);
    add({{"object", object}, {"address", address_text(from)}, {"field", field}}, object + field);
  });
  const std::string what = object_text(store.set(), wanted.at);
  if (as_json)
    fmt::print(out, "{}\n", json_text({{"object", what}, {"address", address_text(wanted.at)}, {"referrers", found}}));
  else
    fmt::print(out, "{} reference{} to {}\n", count, count == 1 ? "" : "s", what);
  return exit_ok;
}

int show_path(const std::string& directory, const std::string& where, bool as_json, std::FILE* out) {
  const surveyed_store store(directory);
  const sound_object wanted = object_at(store, where);
  reachable_objects all(store.set());
  all.search(wanted.at);
  const std::string way = all.path(wanted.at), what = object_text(store.set(), wanted.at);
  if (as_json)
    fmt::print(
        out, "{}\n",
        json_text(
            {{"object", what}, {"address", address_text(wanted.at)}, {"path", way.empty() ? json() : json(way)}}));
  else
    fmt::print(out, "{}\n", way.empty() ? what + ": no root leads there; `tenure gc` would destroy it" : way);
  return exit_ok;
}

}  // namespace tenure::tools
