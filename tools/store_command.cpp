// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store_command.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/error.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "object_picture.hpp"
#include "object_values.hpp"
#include "objects/object_text.hpp"
#include "objects/verifier.hpp"
#include "output.hpp"
#include "progress_line.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

using namespace heap;
using json = nlohmann::ordered_json;

namespace {

// Names may be any bytes.
void print(std::FILE* out, const json& what) { fmt::print(out, "{}\n", json_text(what)); }

std::string size_text(std::uint64_t bytes) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 10 << 10) return fmt::format("{} bytes", bytes);
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(units); ++unit) size /= 1024;
  return fmt::format("{:.1f} {}", size, units[unit]);
}

// A name as it is; quoted where that could be misread.
std::string name_text(const std::string& name) {
  const std::string with_quotes = quoted(name);
  const bool plain = !name.empty() && with_quotes.size() == name.size() + 2 && name.find(' ') == std::string::npos;
  return plain ? name : with_quotes;
}

}  // namespace

// --- info -----------------------------------------------------------------------------------------------------------------

int show_store(const std::string& directory, bool as_json, std::FILE* out) {
  const surveyed_store store(directory);
  const log_facts log = store.log();
  const auto databases = store.databases();
  if (as_json) {
    json j{{"store", store.set().directory()},
           {"log",
            {{"path", log.path},
             {"size", log.size},
             {"used", log.used},
             {"recovery_needed", log.recovery_needed},
             {"transactions", log.transactions},
             {"in_doubt", log.in_doubt.empty() ? json() : json(log.in_doubt)}}},
           {"databases", json::array()}};
    for (const database_facts& d : databases)
      j["databases"].push_back({{"name", d.name},
                                {"file", d.file},
                                {"id", d.id},
                                {"home", address_text(d.home)},
                                {"reservation", d.reservation},
                                {"length", d.length},
                                {"objects", d.objects},
                                {"bytes", d.bytes},
                                {"used_blocks", d.used_blocks},
                                {"free_blocks", d.free_blocks},
                                {"block_size", block_size},
                                {"roots", d.roots},
                                {"types", d.types},
                                {"conservative_types", d.conservative_types},
                                {"conservative_objects", d.conservative_objects}});
    print(out, j);
    return exit_ok;
  }
  fmt::print(out, "store          {}\n", store.set().directory());
  fmt::print(out, "log            {}, {} of {} in use\n", log.path, size_text(log.used), size_text(log.size));
  fmt::print(out, "state          {}\n",
             log.recovery_needed
                 ? fmt::format("not closed: opening it will recover; {} transactions wait in the log", log.transactions)
                 : "closed cleanly");
  if (!log.in_doubt.empty())
    fmt::print(out, "in doubt       {}: it can only be read until `tenure resolve`, or a program, says the outcome\n",
               quoted(log.in_doubt));
  for (const database_facts& d : databases) {
    fmt::print(out, "\ndatabase       {}\n", d.name);
    fmt::print(out, "  file         {}, {}\n", d.file, size_text(d.length));
    fmt::print(out, "  identity     {}\n", d.id);
    fmt::print(out, "  home         {}, {} reserved\n", address_text(d.home), size_text(d.reservation));
    fmt::print(out, "  objects      {}, {}\n", d.objects, size_text(d.bytes));
    fmt::print(out, "  blocks       {} in use, {} free, of {}\n", d.used_blocks, d.free_blocks, size_text(block_size));
    fmt::print(out, "  roots        {}\n", d.roots);
    fmt::print(out, "  types        {}\n", d.types);
    fmt::print(out, "  conservative {}\n",
               d.conservative_types == 0
                   ? "nothing"
                   : fmt::format("{} objects of {} types", d.conservative_objects, d.conservative_types));
  }
  return exit_ok;
}

// --- roots ----------------------------------------------------------------------------------------------------------------

int show_roots(const std::string& directory, const std::string& database, bool with_sizes, bool as_json,
               std::FILE* out) {
  const surveyed_store store(directory);
  const auto roots = store.roots(database, with_sizes);
  const bool damaged = std::ranges::any_of(roots, [](const root_facts& r) { return r.type.empty(); });
  if (as_json) {
    json j{{"roots", json::array()}};
    for (const root_facts& r : roots) {
      json root{{"database", r.database},
                {"name", r.name},
                {"type", r.type.empty() ? json() : json(r.type)},
                {"address", address_text(r.object)}};
      if (with_sizes) {
        root["reachable_objects"] = r.reachable;
        root["reachable_bytes"] = r.reachable_bytes;
      }
      j["roots"].push_back(std::move(root));
    }
    print(out, j);
    return damaged ? exit_damaged : exit_ok;
  }
  std::size_t width = 0;
  for (const root_facts& r : roots) width = std::max(width, name_text(r.name).size());
  for (const root_facts& r : roots) {
    fmt::print(out, "{:{}}  {} at {}, in {}", name_text(r.name), width, r.type.empty() ? "DAMAGED: no object" : r.type,
               address_text(r.object), r.database);
    if (with_sizes) fmt::print(out, "; reachable: {} objects, {}", r.reachable, size_text(r.reachable_bytes));
    fmt::print(out, "\n");
  }
  return damaged ? exit_damaged : exit_ok;
}

// --- types ----------------------------------------------------------------------------------------------------------------

namespace {

constexpr const char* kind_names[] = {"data", "reference", "derived", "transient", "vtable", "nested", "conservative"};
constexpr const char* scalar_names[] = {"none",     "boolean",  "character",   "signed",
                                        "unsigned", "floating", "enumeration", "text"};

json field_json(const type_field& f) {
  json j{{"name", f.name},
         {"offset", f.offset},
         {"size", f.size},
         {"count", f.count},
         {"kind", kind_names[static_cast<std::size_t>(f.kind)]},
         {"type", f.type_name}};
  if (f.kind == field_kind::data) j["scalar"] = scalar_names[static_cast<std::size_t>(f.scalar)];
  if (f.only_if)
    j["only_if"] = {{"offset", f.only_if->offset}, {"width", f.only_if->width}, {"value", f.only_if->value}};
  return j;
}

void print_field(std::FILE* out, const type_field& f) {
  fmt::print(out, "    {:>6}  {:12}  {}{}{}", f.offset, kind_names[static_cast<std::size_t>(f.kind)], f.type_name,
             f.type_name.empty() ? "" : " ", f.name);
  if (f.count > 1) fmt::print(out, "[{}]", f.count);
  fmt::print(out, ", {} bytes", f.size);
  if (f.only_if)
    fmt::print(out, ", if the {} bytes at {} hold {}", f.only_if->width, f.only_if->offset, f.only_if->value);
  fmt::print(out, "\n");
}

}  // namespace

int show_types(const std::string& directory, const type_selection& which, bool as_json, std::FILE* out) {
  const surveyed_store store(directory);
  auto types = store.types(which.database);
  std::erase_if(types, [&](const type_facts& t) { return t.of->name.find(which.name) == std::string::npos; });
  if (as_json) {
    json j{{"types", json::array()}};
    for (const type_facts& t : types) {
      json one{{"database", t.database},
               {"index", t.index},
               {"name", t.of->name},
               {"size", t.of->size},
               {"alignment", t.of->alignment},
               {"version", t.of->version},
               {"fingerprint", fmt::format("{:016x}", t.of->fingerprint)},
               {"exact", !t.of->is_conservative},
               {"objects", t.objects},
               {"bytes", t.bytes}};
      if (which.with_fields) {
        one["fields"] = json::array();
        for (const type_field& f : t.of->fields) one["fields"].push_back(field_json(f));
      }
      j["types"].push_back(std::move(one));
    }
    print(out, j);
    return exit_ok;
  }
  const std::string* database = nullptr;
  for (const type_facts& t : types) {
    if (database == nullptr || *database != t.database) {
      fmt::print(out, "{}database {}\n index      size  version       fingerprint     objects         bytes  name\n",
                 database == nullptr ? "" : "\n", t.database);
      database = &t.database;
    }
    fmt::print(out, "{:6}  {:8}  {:7}  {:016x}  {:10}  {:12}  {}{}\n", t.index, t.of->size, t.of->version,
               t.of->fingerprint, t.objects, t.bytes, t.of->name, t.of->is_conservative ? "  (conservative)" : "");
    if (which.with_fields)
      for (const type_field& f : t.of->fields) print_field(out, f);
  }
  return exit_ok;
}

// --- dump -----------------------------------------------------------------------------------------------------------------

namespace {

void begin(const surveyed_store& store, const dump_selection& which, reaching& all) {
  if (!which.address.empty()) {
    const sound_object object = store.find(parse_address(which.address));
    if (!object) throw error(errc::bad_option, store.set().directory() + ": there is no object at " + which.address);
    all.begin_at(object, "");
    return;
  }
  bool found = false;
  for (const root_facts& r : store.roots("", false)) {
    if (!which.root.empty() && r.name != which.root) continue;
    found = true;
    all.begin_at(store.find(r.object), r.name);
  }
  if (!found && !which.root.empty())
    throw error(errc::no_such_root, store.set().directory() + ": has no root named \"" + which.root +
                                        "\"; tenure roots shows those there are");
}

std::string how_reached(const reaching& all, const reached_object& r) {
  return (r.root.empty() ? "given address" : "root " + name_text(r.root)) + (r.from != 0 ? " " + all.way_to(r) : "");
}

std::string heading(const sound_object& o) {
  return fmt::format("{}{} at {}, {} bytes", o.count() > 1 ? fmt::format("{} x ", o.count()) : "", o.type->of->name,
                     address_text(o.at), o.size);
}

json object_json(const reaching& all, const reached_object& r, const shown_value& value) {
  json j{{"address", address_text(r.object.at)},
         {"type", r.object.type->of->name},
         {"count", r.object.count()},
         {"bytes", r.object.size},
         {"database", r.object.in->name},
         {"depth", r.depth}};
  json reached{{"root", r.root.empty() ? json() : json(r.root)}, {"way", all.way_to(r)}};
  if (r.from != 0) reached["from"] = address_text(r.from);
  j["reached"] = std::move(reached);
  j["value"] = json_of(value);
  return j;
}

// Lines for what does not fit on one.
void print_value(std::FILE* out, const shown_value& value, const std::string& indent) {
  constexpr std::size_t line = 100;
  std::size_t width = 0, number = 0;
  const bool is_list = value.is == shown_value::kind::list;
  for (const auto& part : value.parts) width = std::max(width, std::min<std::size_t>(part.first.size(), 24));
  if (value.parts.empty() || (is_list && text_of(value).size() <= line)) {
    fmt::print(out, "{}{}\n", indent, text_of(value));
    return;
  }
  for (const auto& [name, part] : value.parts) {
    const std::string shown_name = is_list ? fmt::format("[{}]", number++) : name;
    const std::string text = text_of(part);
    if (text.size() <= line || part.parts.empty()) {
      fmt::print(out, "{}{:{}}  {}\n", indent, shown_name, width, text);
    } else {
      fmt::print(out, "{}{}\n", indent, shown_name);
      print_value(out, part, indent + "  ");
    }
  }
  if (value.left_out != 0) fmt::print(out, "{}... {} more\n", indent, value.left_out);
}

}  // namespace

int dump_objects(const std::string& directory, const dump_selection& which, dump_form form, std::FILE* out,
                 std::FILE* notes) {
  const surveyed_store store(directory);
  reaching all(store);
  begin(store, which, all);
  const value_limits limits{.elements = which.elements};
  std::uint64_t shown = 0;
  bool more = false;
  object_picture picture(store);
  json objects = json::array();
  all.go(which.depth, [&](const reached_object& r) {
    if (r.object.type->of->name.find(which.type) == std::string::npos) return true;
    if (shown == which.limit) {
      more = true;
      return false;
    }
    const shown_value value = value_of(store.set(), r.object, limits);
    if (form == dump_form::json) {
      objects.push_back(object_json(all, r, value));
    } else if (form == dump_form::dot) {
      picture.add(r, value);
    } else {
      fmt::print(out, "{}{}\n  {}\n", shown == 0 ? "" : "\n", heading(r.object), how_reached(all, r));
      print_value(out, value, "    ");
    }
    ++shown;
    return true;
  });
  const char* const ended_by = more ? "limit" : all.ended_at_depth() ? "depth" : nullptr;
  if (form == dump_form::json) {
    print(out, {{"store", store.set().directory()},
                {"objects", objects},
                {"more", ended_by != nullptr},
                {"ended_by", ended_by != nullptr ? json(ended_by) : json()}});
  } else if (form == dump_form::dot) {
    picture.draw(out, more);
  } else if (more) {
    fmt::print(out, "\n... and more; --limit N shows others\n");
  }
  // Who lets a program read it does not see the end.
  if (more && form != dump_form::text && notes != nullptr) {
    std::fflush(out);
    say(notes, "tenure",
        fmt::format("the first {} objects are shown, and there are more; --limit N shows others", shown).c_str());
  }
  return exit_ok;
}

// --- verify ---------------------------------------------------------------------------------------------------------------

namespace {

// Whether the error says that the store's files are not as they should be, rather than that they cannot be looked at.
bool is_about_damage(const error& e) {
  for (const errc code : {errc::damaged, errc::not_a_log, errc::not_a_segment, errc::segment_missing,
                          errc::segment_too_short, errc::wrong_log})
    if (e.code() == code) return true;
  return false;
}

// What can be said of a store whose tables cannot be trusted: which pages of its files fail their checksums.
void verify_pages(const std::string& directory, const rvm::progress_callback& progress,
                  std::vector<std::string>& wrong) {
  rvm::options how;
  how.mode = rvm::open_mode::read_only;
  how.background = false;
  how.on_progress = progress;
  try {
    rvm::memory memory(directory + "/log", how);
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      if (entry.path().extension() == ".db") files.push_back(entry.path().string());
    std::ranges::sort(files);
    for (const std::string& file : files) {
      try {
        for (const std::uint64_t offset : memory.verify_segment(file))
          wrong.push_back(fmt::format("{}: the page at offset {} is damaged", file, offset));
      } catch (const std::exception& e) {
        if (std::ranges::find(wrong, e.what()) == wrong.end()) wrong.emplace_back(e.what());
      }
    }
  } catch (const std::exception& e) {
    if (std::ranges::find(wrong, e.what()) == wrong.end()) wrong.emplace_back(e.what());
  }
}

}  // namespace

int verify_store(const std::string& directory, bool as_json, std::FILE* out, progress_line* progress) {
  std::vector<std::string> wrong;
  std::uint64_t objects = 0;
  const auto show = [&](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  try {
    surveyed_store store(directory, show);
    wrong = heap::verify(store.set(), heap::verified_by::reader);
    for (const database_facts& d : store.databases()) objects += d.objects;
  } catch (const error& e) {
    // Damage can look like another version.
    if (!is_about_damage(e) && e.code() != errc::wrong_version) throw;
    if (is_about_damage(e)) wrong.emplace_back(e.what());
    verify_pages(directory, show, wrong);
    if (wrong.empty()) throw;
  }
  if (progress != nullptr) progress->hide();
  if (as_json) {
    print(out, {{"store", directory}, {"objects", objects}, {"wrong", wrong}});
  } else {
    for (const std::string& what : wrong) fmt::print(out, "DAMAGED: {}\n", what);
    fmt::print(out, "{}: {}\n", directory,
               wrong.empty() ? fmt::format("{} objects, nothing is wrong", objects)
                             : fmt::format("{} things are wrong", wrong.size()));
  }
  return wrong.empty() ? exit_ok : exit_damaged;
}

}  // namespace tenure::tools
