// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes a database of format 1 one of today's, in place, in a copy that nobody else uses. Objects of programs stay where
// they are, and keep their headers: their zones remain, as headed ones (objects/format.hpp). What is made anew are the
// descriptions of types, which were shorter, and the header.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "segments/segment.hpp"

namespace tenure::upgrading {

using database_id = std::array<std::uint8_t, 16>;

struct upgraded_database {
  bool is_blank = false;  // nothing was ever committed to it
  database_id store{}, id{};
  // Of a store's default database: its other ones, which nothing else lists.
  struct entry {
    std::string name;
    database_id id;
  };
  std::vector<entry> databases;
};

// Durable on return. Throws errc::damaged, errc::wrong_version.
upgraded_database upgrade_database(rvm::segment& of);

}  // namespace tenure::upgrading
