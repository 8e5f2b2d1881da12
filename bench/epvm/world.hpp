// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Traversals by each version, which is chosen by name while the program runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace tenure::bench::epvm {

struct version {
  std::string name, what;
};
// The paper's, then what is not in it; transient objects first.
[[nodiscard]] std::span<const version> all_versions();

// What a traversal does besides visiting parts.
struct workload {
  int percent = 0;             // of the parts it updates, always the same
  int numbers = 0;             // that an update changes of a part; 0: x and y
  bool draws_numbers = false;  // random(3) at each part, as the paper's program does
};
struct visits {
  std::uint64_t number = 0, checksum = 0, updated = 0;
  bool operator==(const visits&) const = default;
};
[[nodiscard]] visits planned_traversal(int from, int hops, int parts, int percent);

class world {
 public:
  virtual ~world() = default;
  virtual void begin() = 0;
  virtual void commit() = 0;  // durable
  [[nodiscard]] virtual visits traverse(int from, int hops, const workload& how) = 0;
  // Of the storage manager; 0 for those without one.
  [[nodiscard]] virtual std::uint64_t page_reads() const = 0;
  [[nodiscard]] virtual std::uint64_t log_bytes() const = 0;
};

struct pool_sizes {
  std::size_t pages = 1280, small = 384;  // 5 MiB, and 1.5 MiB
};
// In the directory: what make_parts() has made, of small or of wide parts.
[[nodiscard]] std::unique_ptr<world> make_world(const std::string& version, const std::filesystem::path& directory,
                                                int parts, bool are_wide, const pool_sizes& pools);

}  // namespace tenure::bench::epvm
