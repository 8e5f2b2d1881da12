// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Backups of a segment that was removed while its log was closed, and made again under its name.
#include <gtest/gtest.h>

#include <string>

#include <tenure/rvm/backup.hpp>

#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

class segment_made_again : public ::testing::Test {
 protected:
  sim::disk disk;

  // Calls then(memory) before the memory is closed.
  template <class F>
  void commit(const std::string& text, F&& then) {
    options how = small_log(&disk);
    how.archive.emplace();
    memory m("/d/log", how);
    region r = m.map("/d/seg", {.create_length = 64 * kib});
    put(m, r, 0, text);
    then(m);
    m.close();
  }
  std::string restored(const std::string& directory) {
    memory m(directory + "/log", small_log(&disk, open_mode::open));
    EXPECT_TRUE(m.verify_segment(directory + "/seg").empty());
    return get(m.map(directory + "/seg"), 0, 6);
  }
};

TEST_F(segment_made_again, is_backed_up) {
  commit("first ", [](memory&) {});
  disk.remove("/d/seg");
  commit("second", [](memory& m) { (void)m.backup("/full"); });
  (void)restore("/full", "/copy", {.disk = &disk});
  EXPECT_EQ(restored("/copy"), "second");
}

TEST_F(segment_made_again, is_restored_in_place_of_the_removed_one) {
  commit("first ", [](memory& m) { (void)m.backup("/full"); });
  const auto removed = disk.current_bytes("/d/seg");
  disk.remove("/d/seg");
  commit("second", [](memory& m) { (void)m.backup("/since", {.since = "/full"}); });
  (void)restore("/full", "/of_both", {.increments = {"/since"}, .disk = &disk});
  EXPECT_EQ(restored("/of_both"), "second");
  (void)restore("/full", "/of_log", {.log = "/d/log", .disk = &disk});
  EXPECT_EQ(restored("/of_log"), "second");
  (void)restore("/full", "/before", {.disk = &disk});
  EXPECT_EQ(restored("/before"), "first ");
  // The removed one is not the one that the log has used last.
  disk.install("/d/seg", removed);
  memory m("/d/log", small_log(&disk, open_mode::open));
  expect_error(errc::wrong_log, {"/d/seg", "is not the file that the log"}, [&] { (void)m.backup("/other"); });
}

}  // namespace
}  // namespace tenure::rvm
