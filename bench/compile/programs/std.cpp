// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A catalog of packages that depend on each other, in memory that does not last: what tenure.cpp does in a store.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace packages {

struct package {
  std::string name, version;
  std::uint64_t kib = 0;
  std::vector<package*> depends;
};

class maintainer {
 public:
  maintainer() = default;
  explicit maintainer(std::string_view name) : name_(name) {}
  void take_over(package* p) { packages_.push_back(p); }
  [[nodiscard]] const std::vector<package*>& packages() const { return packages_; }

 private:
  std::string name_;
  std::vector<package*> packages_;
};

struct release {
  std::uint32_t number = 0;
  std::uint32_t year = 0;
  package* first = nullptr;
};

struct catalog {
  std::map<std::string, std::unique_ptr<package>, std::less<>> by_name;
  std::unordered_map<std::uint64_t, std::unique_ptr<maintainer>> maintainers;
  std::vector<release> releases;
};

package* find_or_add(catalog& all, std::string_view name) {
  const auto found = all.by_name.find(name);
  if (found != all.by_name.end()) return found->second.get();
  auto made = std::make_unique<package>();
  made->name = name;
  return all.by_name.emplace(name, std::move(made)).first->second.get();
}

void fill(catalog& all, std::uint64_t count) {
  char name[32];
  for (std::uint64_t i = 0; i < count; ++i) {
    std::snprintf(name, sizeof name, "package-%llu", static_cast<unsigned long long>(i));
    package* p = find_or_add(all, name);
    p->version = "1.0";
    p->kib = i % 1000;
    for (std::uint64_t j = 1; j <= 3 && j <= i; ++j) {
      std::snprintf(name, sizeof name, "package-%llu", static_cast<unsigned long long>(i - j));
      p->depends.push_back(find_or_add(all, name));
    }
    auto& owner = all.maintainers[i % 100];
    if (owner == nullptr) owner = std::make_unique<maintainer>("somebody");
    owner->take_over(p);
    if (i % 1000 == 0) all.releases.push_back({static_cast<std::uint32_t>(i / 1000), 2000, p});
  }
}

// Kilobytes of a package and of all that it needs.
std::uint64_t closure(const catalog& all, std::string_view name) {
  const auto found = all.by_name.find(name);
  if (found == all.by_name.end()) return 0;
  std::vector<const package*> reached{found->second.get()};
  std::uint64_t kib = 0;
  for (std::size_t i = 0; i < reached.size() && reached.size() < 1000; ++i) {
    kib += reached[i]->kib;
    for (const package* p : reached[i]->depends) reached.push_back(p);
  }
  return kib;
}

}  // namespace packages

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  packages::catalog all;
  packages::fill(all, std::strtoull(argv[1], nullptr, 10));
  std::uint64_t kib = 0, owned = 0;
  for (const auto& [name, p] : all.by_name) kib += p->kib;
  for (const auto& [id, owner] : all.maintainers) owned += owner->packages().size();
  std::printf("%zu packages, %llu owned, %llu KiB, %llu in a closure, %zu releases\n", all.by_name.size(),
              static_cast<unsigned long long>(owned), static_cast<unsigned long long>(kib),
              static_cast<unsigned long long>(packages::closure(all, "package-7")), all.releases.size());
}
