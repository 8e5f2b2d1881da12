// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The databases of a store, each with its types and its roots.
//
// Guarded by the store's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/places.hpp"
#include "cache/stored_database.hpp"
#include "cache/stored_types.hpp"

namespace tenure::cache {

constexpr std::uint64_t longest_root_name = 4096;

struct open_database {
  open_database(rvm::memory& memory, const rvm::segment_member& member, page_pool& pool, bool is_read_only,
                std::uint64_t typed_from)
      : stored(memory, member, pool, is_read_only), types(stored), free(stored, typed_from) {}

  // As they are committed, by name.
  struct root {
    std::uint64_t object;  // its home address
    std::uint64_t entry;   // its number in the table of roots
  };
  [[nodiscard]] const std::unordered_map<std::string, root>& roots();
  // Whether a root leads to the object with this home address. After roots().
  [[nodiscard]] bool has_root_to(std::uint64_t object) const { return root_objects_.contains(object); }
  // A commit has changed them.
  void roots_changed() { knows_roots_ = false; }

  stored_database stored;
  stored_types types;
  places free;

 private:
  void read_roots();
  bool knows_roots_ = false;
  std::unordered_map<std::string, root> roots_;
  std::unordered_set<std::uint64_t> root_objects_;
};

class open_databases {
 public:
  void add(std::unique_ptr<open_database> opened) { all_.push_back(std::move(opened)); }
  void clear() { all_.clear(); }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }

  // The database at whose addresses this one is. They do not change while the store is open. Needs no mutex.
  [[nodiscard]] open_database* at(std::uint64_t address) const {
    for (const auto& d : all_)
      if (d->stored.contains(address)) return d.get();
    return nullptr;
  }
  [[nodiscard]] open_database* find(std::string_view name) const {
    for (const auto& d : all_)
      if (d->stored.name() == name) return d.get();
    return nullptr;
  }

 private:
  std::vector<std::unique_ptr<open_database>> all_;
};

}  // namespace tenure::cache
