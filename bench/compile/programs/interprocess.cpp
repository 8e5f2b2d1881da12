// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A catalog of packages that depend on each other, in a mapped file of Boost.Interprocess: what tenure.cpp does in a store,
// but for the transaction.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/interprocess/containers/map.hpp>
#include <boost/interprocess/containers/string.hpp>
#include <boost/interprocess/containers/vector.hpp>
#include <boost/interprocess/managed_mapped_file.hpp>
#include <boost/unordered_map.hpp>

namespace packages {

namespace bip = boost::interprocess;
using file = bip::managed_mapped_file;
using memory = file::segment_manager;
template <class T>
using allocator = bip::allocator<T, memory>;
template <class T>
using pointer = bip::offset_ptr<T>;
template <class T>
using vector = bip::vector<T, allocator<T>>;
using string = bip::basic_string<char, std::char_traits<char>, allocator<char>>;

struct package {
  explicit package(memory* in) : name(in), version(in), depends(in) {}
  string name, version;
  std::uint64_t kib = 0;
  vector<pointer<package>> depends;
};

class maintainer {
 public:
  maintainer(std::string_view name, memory* in) : name_(name.data(), name.size(), in), packages_(in) {}
  void take_over(package* p) { packages_.push_back(p); }
  [[nodiscard]] const vector<pointer<package>>& packages() const { return packages_; }

 private:
  string name_;
  vector<pointer<package>> packages_;
};

struct release {
  std::uint32_t number = 0;
  std::uint32_t year = 0;
  pointer<package> first;
};

struct catalog {
  explicit catalog(memory* in)
      : by_name(std::less<string>(), in),
        maintainers(16, boost::hash<std::uint64_t>(), std::equal_to<std::uint64_t>(), in),
        releases(in) {}
  bip::map<string, pointer<package>, std::less<string>, allocator<std::pair<const string, pointer<package>>>> by_name;
  boost::unordered_map<std::uint64_t, pointer<maintainer>, boost::hash<std::uint64_t>, std::equal_to<std::uint64_t>,
                       allocator<std::pair<const std::uint64_t, pointer<maintainer>>>>
      maintainers;
  vector<release> releases;
};

package* find_or_add(file& in, catalog& all, std::string_view name) {
  pointer<package>& p = all.by_name[string(name.data(), name.size(), in.get_segment_manager())];
  if (p == nullptr) {
    p = in.construct<package>(bip::anonymous_instance)(in.get_segment_manager());
    p->name.assign(name.data(), name.size());
  }
  return p.get();
}

void fill(file& in, catalog& all, std::uint64_t count) {
  char name[32];
  for (std::uint64_t i = 0; i < count; ++i) {
    std::snprintf(name, sizeof name, "package-%llu", static_cast<unsigned long long>(i));
    package* p = find_or_add(in, all, name);
    p->version = "1.0";
    p->kib = i % 1000;
    for (std::uint64_t j = 1; j <= 3 && j <= i; ++j) {
      std::snprintf(name, sizeof name, "package-%llu", static_cast<unsigned long long>(i - j));
      p->depends.push_back(find_or_add(in, all, name));
    }
    pointer<maintainer>& owner = all.maintainers[i % 100];
    if (owner == nullptr)
      owner = in.construct<maintainer>(bip::anonymous_instance)(std::string_view("somebody"), in.get_segment_manager());
    owner->take_over(p);
    if (i % 1000 == 0) all.releases.push_back({static_cast<std::uint32_t>(i / 1000), 2000, p});
  }
}

// Kilobytes of a package and of all that it needs.
std::uint64_t closure(const catalog& all, std::string_view name) {
  const auto found = all.by_name.find(string(name.data(), name.size(), all.by_name.get_allocator()));
  if (found == all.by_name.end()) return 0;
  std::vector<const package*> reached{found->second.get()};
  std::uint64_t kib = 0;
  for (std::size_t i = 0; i < reached.size() && reached.size() < 1000; ++i) {
    kib += reached[i]->kib;
    for (const auto& p : reached[i]->depends) reached.push_back(p.get());
  }
  return kib;
}

}  // namespace packages

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  packages::file in(packages::bip::open_or_create, argv[1], std::size_t{1} << 28);
  auto& all = *in.find_or_construct<packages::catalog>("catalog")(in.get_segment_manager());
  packages::fill(in, all, std::strtoull(argv[2], nullptr, 10));
  std::uint64_t kib = 0, owned = 0;
  for (const auto& [name, p] : all.by_name) kib += p->kib;
  for (const auto& [id, owner] : all.maintainers) owned += owner->packages().size();
  std::printf("%zu packages, %llu owned, %llu KiB, %llu in a closure, %zu releases\n", all.by_name.size(),
              static_cast<unsigned long long>(owned), static_cast<unsigned long long>(kib),
              static_cast<unsigned long long>(packages::closure(all, "package-7")), all.releases.size());
}
