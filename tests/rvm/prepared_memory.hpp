// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A memory in which transactions are prepared, and processes that end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/rvm.hpp>

#include "sim/disk.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm::testing {

struct prepared_memory : ::testing::Test {
  std::vector<std::unique_ptr<sim::disk>> disks;  // of processes that have ended
  std::unique_ptr<sim::disk> disk = std::make_unique<sim::disk>();
  std::optional<memory> m{std::in_place, "/log", support::small_log(disk.get())};
  region r = m->map("/segment", {.create_length = 64 * support::kib});

  static void write(transaction& tx, const region& in, std::size_t at, const std::string& text) {
    tx.modify(in.data() + at, text.data(), text.size());
  }
  void write(transaction& tx, std::size_t at, const std::string& text) const { write(tx, r, at, text); }
  // The process ends with all that is durable, and no more.
  void crash() {
    disks.push_back(std::exchange(disk, disk->crash(1, sim::policy::drop_all)));
    std::optional<memory> old = std::move(m);
    m.reset();
    region gone = std::move(r);
    leaked.push_back({std::move(old), std::move(gone)});
  }
  void open(options how) {
    how.disk = disk.get();
    m.emplace("/log", how);
    r = m->map("/segment");
  }
  void open(outcome said) {
    options how = support::small_log();
    how.in_doubt = [this, said](const prepared_transaction& what) {
      asked.push_back(what);
      return said;
    };
    open(how);
  }
  std::vector<prepared_transaction> asked;

 private:
  struct left {
    std::optional<memory> of;
    region in;
  };
  std::vector<left> leaked;
};

}  // namespace tenure::rvm::testing
