// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/object_text.hpp"

#include "objects/database_set.hpp"
#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::heap {

namespace {

// nullptr: it is unknown.
const known_type* type_at(const database_set& store, address object, std::uint64_t& size) {
  const database_state* const in = store.at(reinterpret_cast<const void*>(object));
  if (in == nullptr) return nullptr;
  const found_object found = in->map->find_start(object);
  if (!found && !has_blocks(in->map->kind_of_zone(in->map->block_of(object) / blocks_in_zone))) return nullptr;
  const object_facts facts = found ? in->map->facts(found) : in->map->facts(object);
  size = facts.size;
  return in->types->find(facts.type);
}

}  // namespace

std::string object_text(const database_set& store, address object) {
  const std::string where = " at " + os::hexadecimal(reinterpret_cast<const void*>(object));
  std::uint64_t size = 0;
  const known_type* const type = type_at(store, object, size);
  if (type == nullptr) return "an object of no known type" + where;
  const std::uint64_t count = type->of->size == 0 ? 1 : size / type->of->size;
  return (count > 1 ? std::to_string(count) + " x " : "") + type->of->name + where;
}

std::string field_text(const database_set& store, address object, std::uint64_t offset) {
  std::uint64_t size = 0;
  const known_type* const type = type_at(store, object, size);
  if (type == nullptr || type->of->size == 0) return "[byte " + std::to_string(offset) + "]";
  std::string text;
  if (size > type->of->size) text = "[" + std::to_string(offset / type->of->size) + "]";
  const std::string field = pointer_map::path_of(*type->of, offset % type->of->size);
  return field.empty() ? text : text + "." + field;
}

std::string describe_address(const void* at) {
  if (const database_set* const store = open_set_with(at)) return "in " + store->at(at)->file + ", ";
  const auto page = reinterpret_cast<std::uintptr_t>(at) / os::page_size() * os::page_size();
  const std::string there = os::occupant(reinterpret_cast<const void*>(page), os::page_size());
  if (there.empty()) return "";
  if (there == "[stack]") return "on the stack, ";
  if (there == "[heap]" || there == "anonymous memory") return "in memory of new or malloc, or on a thread's stack, ";
  return "in code or static data (" + there + "), ";
}

}  // namespace tenure::heap
