// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "epvm/parts.hpp"

#include <fstream>
#include <stdexcept>

namespace tenure::bench::epvm {
namespace {
constexpr const char* homes_file = "homes";
}  // namespace

template <class Part>
void make_parts(const std::filesystem::path& directory, int parts) {
  store_options how;
  how.tune.typed_from = 1;  // no part lies in two pages
  store made((directory / "store").string(), how);
  std::vector<std::uint64_t> homes;
  made.transact([&] {
    auto& all = made.root<all_parts<Part>>("parts");
    for (int id = 1; id <= parts; ++id) all.by_id.push_back(made.make<Part>());
    for (int id = 1; id <= parts; ++id)
      fill(*all.by_id[static_cast<std::size_t>(id) - 1], id, parts,
           [&](int to) { return all.by_id[static_cast<std::size_t>(to) - 1]; });
    for (const Part* const each : all.by_id) homes.push_back(reinterpret_cast<std::uintptr_t>(each));
  });
  made.close();
  std::ofstream file(directory / homes_file, std::ios::binary);
  file.write(reinterpret_cast<const char*>(homes.data()), static_cast<std::streamsize>(homes.size() * sizeof homes[0]));
  if (!file.flush()) throw std::runtime_error("cannot write " + (directory / homes_file).string());
}
template void make_parts<small_part>(const std::filesystem::path& directory, int parts);
template void make_parts<wide_part>(const std::filesystem::path& directory, int parts);

std::vector<std::uint64_t> read_homes(const std::filesystem::path& directory) {
  const auto path = directory / homes_file;
  std::vector<std::uint64_t> homes(std::filesystem::file_size(path) / sizeof(std::uint64_t));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(homes.data()), static_cast<std::streamsize>(homes.size() * sizeof homes[0]));
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return homes;
}

}  // namespace tenure::bench::epvm
