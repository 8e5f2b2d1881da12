// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What OO1 asks of a system. Objects run the one program of objects.hpp; systems of records that of records.hpp.
//
// Order of calls: create; then, if it is persistent in another process, open … close. Operations run between begin and
// commit. Everything throws on failure.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "oo1/graph.hpp"
#include "worlds/breakdown.hpp"

namespace tenure::bench::oo1 {

class contender {
 public:
  contender(const std::filesystem::path& directory, int parts) : directory_(directory), parts_(parts) {}
  virtual ~contender() = default;
  contender(const contender&) = delete;
  contender& operator=(const contender&) = delete;

  [[nodiscard]] virtual std::string setting() const = 0;
  [[nodiscard]] virtual bool persistent() const { return true; }
  // Makes the parts 1 … n with their connections, and leaves them open.
  virtual void create() = 0;
  virtual void open() = 0;
  virtual void close() = 0;
  virtual void begin() = 0;
  virtual void commit() = 0;  // durable where anything is
  // The same in two phases, for those that have them.
  virtual std::optional<commit_phases> commit_in_phases() {
    commit();
    return {};
  }

  virtual answer look_up(std::span<const int> ids) = 0;
  // Depth first over seven hops. Those that is_updated() says have x and y incremented; percent 0: nothing is written.
  virtual answer traverse(int from, int percent) = 0;
  virtual answer traverse_reverse(int from) = 0;
  // New parts with these ids, just above the others, connected as plan_part() says for all of them.
  virtual void insert(int first, int count) = 0;
  // Those again.
  virtual void remove(int first, int count) = 0;
  // Sum of x and y of all parts, and their number as `visited`.
  virtual answer sum() = 0;
  [[nodiscard]] virtual breakdown_counts breakdown() const { return {}; }

 protected:
  std::filesystem::path directory_;
  int parts_;
};

using make_contender = std::unique_ptr<contender>(const std::filesystem::path& directory, int parts);

struct contender_kind {
  std::string name;
  make_contender* make;                // a null pointer where it is not built
  const char* build_environment = "";  // a variable that is set to 1 while databases are made
  bool only_if_named = false;          // not among those that are run if nothing is said
};
// All that there are, the floor first.
[[nodiscard]] std::span<const contender_kind> all_contenders();

}  // namespace tenure::bench::oo1
