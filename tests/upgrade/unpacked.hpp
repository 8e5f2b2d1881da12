// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Fixtures, as they are found on a disk.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <tenure/store.hpp>
#include <tenure/upgrade.hpp>

#include "fixtures/content.hpp"
#include "fixtures/packed.hpp"
#include "sim/disk.hpp"
#include "store/open_stores.hpp"

namespace tenure::upgrade_tests {

// `name`: "1-closed" and so on.
inline fixtures::packed_files fixture(const std::string& name) {
  return fixtures::decode(fixtures::bytes_of_file(std::string(TENURE_FIXTURES) + "/" + name + ".packed"));
}

inline void unpack(const fixtures::packed_files& files, sim::disk& disk, const std::string& directory) {
  for (const auto& [name, file] : files) {
    std::string bytes(file.length, '\0');
    for (const auto& [at, part] : file.stretches) bytes.replace(at, part.size(), part);
    disk.install(directory + "/" + name, std::as_bytes(std::span(bytes)));
  }
}

inline void unpack(const fixtures::packed_files& files, const std::string& directory) {
  std::filesystem::create_directory(directory);
  for (const auto& [name, file] : files) {
    const std::string path = directory + "/" + name;
    std::ofstream out(path, std::ios::binary);
    for (const auto& [at, part] : file.stretches) {
      out.seekp(static_cast<std::streamoff>(at));
      out << part;
    }
    out.close();
    std::filesystem::resize_file(path, file.length);
  }
}

inline store_options opening(os::disk* disk = nullptr) {
  store_options how;
  how.mode = rvm::open_mode::open;
  how.memory.background = false;
  how.memory.disk = disk;
  how.tune.typed_from = 64;
  return how;
}

inline void expect_whole(const store& s, bool was_changed) {
  EXPECT_EQ(fixtures::wrong_in(s, was_changed), "");
  const auto wrong = s.verify();
  for (std::size_t n = 0; n < std::min<std::size_t>(wrong.size(), 10); ++n) ADD_FAILURE() << wrong[n];
  EXPECT_NO_THROW(check_store_at(reinterpret_cast<const void*>(s.default_database().home())));
}

}  // namespace tenure::upgrade_tests
