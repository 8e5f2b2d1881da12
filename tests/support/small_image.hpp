// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A small store of two databases on a simulated disk, closed: to be damaged. It has all that a store can have, and is laid out
// in the same way each time.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <variant>

#include <tenure/allocator.hpp>
#include <tenure/tenure.hpp>

#include "sim/disk.hpp"

namespace tenure::support {

namespace image_types {

struct shape {
  virtual ~shape() = default;
  [[nodiscard]] virtual long corners() const { return 0; }
  static constexpr auto persistent = members<>{};
};
struct polygon final : shape {
  long count = 0;
  [[nodiscard]] long corners() const override { return count; }
  static constexpr auto persistent = bases<shape>{} + members<&polygon::count>{};
};
struct part {
  std::uint64_t number;
  part* next;
  tenure::string name;
  tenure::vector<part*> uses;
  std::optional<part*> twin;
  std::variant<std::uint64_t, part*> origin;
  shape* drawn;
  polygon outline[2];
  transient<std::uint64_t> cached;
};
struct sheet {
  char bytes[40000];
};
struct catalog {
  tenure::map<tenure::string, part*> by_name;
  tenure::hash_map<std::uint64_t, part*> by_number;
  tenure::std_map<std::uint64_t, part*> in_order;
  tenure::std_unordered_map<std::uint64_t, part*> hashed;
  tenure::std_vector<part*> all;
  sheet* large;
};

}  // namespace image_types

inline constexpr std::uint64_t image_reservation = std::uint64_t{1} << 28;
inline constexpr const char* image_path = "/store";

// `home`: of the first of two reservations.
inline store_options image_options(sim::disk& disk, std::uint64_t home) {
  store_options how;
  how.create = {.reservation = image_reservation, .home = home};
  how.memory.log.size = 256 << 10;
  how.memory.background = false;
  how.memory.disk = &disk;
  how.tune.typed_from = 600;  // two parts
  return how;
}

inline void make_image(sim::disk& disk, std::uint64_t home) {
  using namespace image_types;
  store s(image_path, image_options(disk, home));
  database more = s.create_database("more", {.reservation = image_reservation, .home = home + image_reservation});
  s.transact([&] {
    catalog& all = s.root<catalog>("catalog");
    part& first = more.root<part>("first");
    part* last = &first;
    for (std::uint64_t n = 1; n <= 12; ++n) {
      part* const p = n % 3 == 0 ? more.make<part>() : s.make<part>();
      p->number = n;
      p->name = "part " + std::to_string(n) + (n % 2 == 0 ? ", with a name that takes memory of its own" : "");
      p->uses.assign({last, &first});
      if (n % 2 == 0) p->twin = last;
      if (n % 4 == 0) p->origin = last;
      p->outline[1].count = 3;
      if (n % 3 == 0) {
        auto* const drawn = s.make<polygon>();
        drawn->count = static_cast<long>(n);
        p->drawn = drawn;
      }
      last->next = p;
      last = p;
      all.by_name[p->name] = p;
      all.by_number[n] = p;
      all.in_order[n] = p;
      all.hashed[n] = p;
      all.all.push_back(p);
    }
    all.large = s.make<sheet>();
    std::memset(all.large->bytes, 's', sizeof all.large->bytes);
  });
  s.close();
}

}  // namespace tenure::support
