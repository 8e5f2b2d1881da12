// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments without a memory, for tests of the classes below it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "segments/segment.hpp"
#include "sim/disk.hpp"

namespace tenure::support {

struct segments_on_sim {
  // `count` segments of `length` bytes, named s0, s1, … with `extra` more characters; the last one raw if so wanted.
  segments_on_sim(std::size_t count, std::uint64_t length, bool last_raw = false, std::size_t extra = 0) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = "s" + std::to_string(i) + std::string(extra, 'n'), path = "/d/" + name;
      const bool raw = last_raw && i + 1 == count;
      if (raw)
        disk.install(path, std::vector<std::byte>(length));
      else
        rvm::segment::create(disk, path, {.length = length});
      all.push_back(std::make_unique<rvm::segment>(disk, path, name, os::access::read_write, raw));
    }
  }
  [[nodiscard]] rvm::segment* find(const std::string& logged_path) const {
    for (const auto& s : all)
      if (s->logged_path() == logged_path) return s.get();
    return nullptr;
  }

  sim::disk disk;
  std::vector<std::unique_ptr<rvm::segment>> all;
};

}  // namespace tenure::support
