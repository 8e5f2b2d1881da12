// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Packages that depend on each other, in a pool of libpmemobj, whose interface is C's.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <libpmemobj.h>

namespace {

struct package {
  std::uint64_t kib;
  PMEMoid depends[3];
};
struct catalog {
  std::uint64_t count;
  PMEMoid packages;  // an array of PMEMoid
};

void check(bool fine) {
  if (fine) return;
  std::fprintf(stderr, "%s\n", pmemobj_errormsg());
  std::exit(1);
}

template <class T>
T* at(PMEMoid object) {
  return static_cast<T*>(pmemobj_direct(object));
}

void fill(PMEMobjpool* pool, catalog* all, std::uint64_t count) {
  check(pmemobj_tx_begin(pool, nullptr, TX_PARAM_NONE) == 0);
  check(pmemobj_tx_add_range_direct(all, sizeof *all) == 0);
  all->packages = pmemobj_tx_zalloc(count * sizeof(PMEMoid), 1);
  all->count = count;
  auto* const packages = at<PMEMoid>(all->packages);
  for (std::uint64_t i = 0; i < count; ++i) {
    packages[i] = pmemobj_tx_zalloc(sizeof(package), 2);
    auto* const p = at<package>(packages[i]);
    p->kib = i % 1000;
    for (std::uint64_t j = 1; j <= 3 && j <= i; ++j) p->depends[j - 1] = packages[i - j];
  }
  pmemobj_tx_commit();
  check(pmemobj_tx_end() == 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  PMEMobjpool* pool = pmemobj_create(argv[1], "packages", std::size_t{1} << 28, 0644);
  check(pool != nullptr);
  auto* const all = at<catalog>(pmemobj_root(pool, sizeof(catalog)));
  fill(pool, all, std::strtoull(argv[2], nullptr, 10));
  std::vector<PMEMoid> reached{at<PMEMoid>(all->packages)[all->count - 1]};
  std::uint64_t kib = 0;
  for (std::size_t i = 0; i < reached.size() && reached.size() < 1000; ++i) {
    const auto* const p = at<package>(reached[i]);
    kib += p->kib;
    for (const PMEMoid& next : p->depends)
      if (!OID_IS_NULL(next)) reached.push_back(next);
  }
  pmemobj_close(pool);
  std::printf("%llu KiB in a closure\n", static_cast<unsigned long long>(kib));
}
