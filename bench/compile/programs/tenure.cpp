// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A catalog of packages that depend on each other, in a store: what std.cpp does in memory that does not last.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <tenure/tenure.hpp>

namespace packages {

struct package {
  tenure::string name, version;
  std::uint64_t kib = 0;
  tenure::vector<package*> depends;
};

class maintainer {
 public:
  maintainer() = default;
  explicit maintainer(std::string_view name) : name_(name) {}
  void take_over(package* p) { packages_.push_back(p); }
  [[nodiscard]] const tenure::vector<package*>& packages() const { return packages_; }

 private:
  tenure::string name_;
  tenure::vector<package*> packages_;

 public:
  static constexpr auto persistent = tenure::members<&maintainer::name_, &maintainer::packages_>{};
};

struct release {
  std::uint32_t number = 0;
  std::uint32_t year = 0;
  package* first = nullptr;
};

struct catalog {
  tenure::map<tenure::string, package*> by_name;
  tenure::hash_map<std::uint64_t, maintainer*> maintainers;
  tenure::vector<release> releases;
};

package* find_or_add(tenure::store& store, catalog& all, std::string_view name) {
  package*& p = all.by_name[name];
  if (p == nullptr) {
    p = store.make<package>();
    p->name = name;
  }
  return p;
}

void fill(tenure::store& store, catalog& all, std::uint64_t count) {
  char name[32];
  for (std::uint64_t i = 0; i < count; ++i) {
    std::snprintf(name, sizeof name, "package-%llu", static_cast<unsigned long long>(i));
    package* p = find_or_add(store, all, name);
    p->version = "1.0";
    p->kib = i % 1000;
    for (std::uint64_t j = 1; j <= 3 && j <= i; ++j) {
      std::snprintf(name, sizeof name, "package-%llu", static_cast<unsigned long long>(i - j));
      p->depends.push_back(find_or_add(store, all, name));
    }
    maintainer*& owner = all.maintainers[i % 100];
    if (owner == nullptr) owner = store.make<maintainer>(std::string_view("somebody"));
    owner->take_over(p);
    if (i % 1000 == 0) all.releases.push_back({static_cast<std::uint32_t>(i / 1000), 2000, p});
  }
}

// Kilobytes of a package and of all that it needs.
std::uint64_t closure(const catalog& all, std::string_view name) {
  const auto found = all.by_name.find(name);
  if (found == all.by_name.end()) return 0;
  std::vector<const package*> reached{found->second};
  std::uint64_t kib = 0;
  for (std::size_t i = 0; i < reached.size() && reached.size() < 1000; ++i) {
    kib += reached[i]->kib;
    for (const package* p : reached[i]->depends) reached.push_back(p);
  }
  return kib;
}

}  // namespace packages

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  tenure::store store(argv[1]);
  auto& all = store.root<packages::catalog>("catalog");
  store.transact([&] { packages::fill(store, all, std::strtoull(argv[2], nullptr, 10)); });
  std::uint64_t kib = 0, owned = 0;
  for (const auto& [name, p] : all.by_name) kib += p->kib;
  for (const auto& [id, owner] : all.maintainers) owned += owner->packages().size();
  std::printf("%zu packages, %llu owned, %llu KiB, %llu in a closure, %zu releases\n", all.by_name.size(),
              static_cast<unsigned long long>(owned), static_cast<unsigned long long>(kib),
              static_cast<unsigned long long>(packages::closure(all, "package-7")), all.releases.size());
}
