// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "reference_command.hpp"

#include <string>

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
  for (const referrer& r : find_referrers(store.set(), wanted.at)) {
    const std::string object = r.from == 0 ? "" : object_text(store.set(), r.from),
                      field = r.from == 0 ? "" : field_text(store.set(), r.from, r.offset);
    if (r.from == 0)
      add({{"root", r.root}, {"database", r.in->name}}, fmt::format("root {} of {}", r.root, r.in->name));
    else
      add({{"object", object}, {"address", address_text(r.from)}, {"field", field}}, object + field);
  }
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
