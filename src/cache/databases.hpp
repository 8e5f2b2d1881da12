// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The databases of a store, each with its types and its roots.
//
// Guarded by the store's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cache/places.hpp"
#include "cache/stored_database.hpp"
#include "cache/stored_types.hpp"

namespace tenure::cache {

struct open_database {
  open_database(rvm::memory& memory, const rvm::segment_member& member, page_pool& pool, bool is_read_only,
                std::uint64_t typed_from)
      : stored(memory, member, pool, is_read_only), types(stored), free(stored, typed_from) {}

  // Where a root is. {}: there is none of this name.
  [[nodiscard]] std::optional<std::uint64_t> find_root(std::string_view name);
  [[nodiscard]] std::vector<std::string> root_names();

  stored_database stored;
  stored_types types;
  places free;

 private:
  void read_roots();
  bool knows_roots_ = false;
  std::unordered_map<std::string, std::uint64_t> roots_;
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
