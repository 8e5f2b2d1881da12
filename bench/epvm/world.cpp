// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "epvm/world.hpp"

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "epvm/architectures.hpp"
#include "epvm/client.hpp"
#include "epvm/parts.hpp"

namespace tenure::bench::epvm {
namespace {

// The compiler must not know that it does nothing.
[[gnu::noinline]] void null_procedure(int x, int y) { asm volatile("" : : "r"(x), "r"(y) : "memory"); }

template <class Part, class Version>
class traversal {
 public:
  traversal(Version& by, const workload& how) : by_(by), how_(how) {}
  visits run(typename Version::pointer from, int hops) {
    visit(from, hops);
    return done_;
  }

 private:
  int read(typename Version::pointer& of, std::size_t offset) {
    int value;
    std::memcpy(&value, by_.at(of) + offset, sizeof value);
    return value;
  }
  void visit(typename Version::pointer of, int hops) {
    by_.open(of);
    null_procedure(read(of, offsetof(Part, x)), read(of, offsetof(Part, y)));
    const int build = read(of, offsetof(Part, build));
    ++done_.number;
    done_.checksum += static_cast<std::uint64_t>(build);
    if (how_.draws_numbers) (void)::random();
    if (how_.percent != 0 && oo1::is_updated(build, how_.percent)) update(of);
    if (hops != 0)
      for (std::size_t n = 0; n < 3; ++n) visit(by_.next(of, offsetof(Part, to) + n * sizeof(void*)), hops - 1);
    by_.close(of);
  }
  void update(typename Version::pointer& of) {
    const auto increment = [&](std::size_t offset, std::size_t count) {
      by_.update(of, offset, count * sizeof(int), [&](std::byte* at) {
        for (std::size_t n = 0; n < count; ++n, at += sizeof(int)) {
          int value;
          std::memcpy(&value, at, sizeof value);
          ++value;
          std::memcpy(at, &value, sizeof value);
        }
      });
    };
    ++done_.updated;
    if (how_.numbers == 0)
      increment(offsetof(Part, x), 2);
    else  // each is an update of its own
      for (int n = 0; n < how_.numbers; ++n)
        increment(offsetof(Part, numbers) + static_cast<std::size_t>(n) * sizeof(int), 1);
  }
  Version& by_;
  const workload& how_;
  visits done_;
};

template <class Part, class Version>
class local_world : public world {
 public:
  template <class Argument>
  explicit local_world(const Argument& of) : version_(of) {}
  void begin() override { version_.begin(); }
  void commit() override { version_.commit(); }
  visits traverse(int from, int hops, const workload& how) override {
    return traversal<Part, Version>(version_, how).run(version_.start(start(from)), hops);
  }
  std::uint64_t page_reads() const override { return 0; }
  std::uint64_t log_bytes() const override { return 0; }

 protected:
  virtual std::uint64_t start(int id) const { return static_cast<std::uint64_t>(id); }
  Version version_;
};

template <class Part>
class mapped_world final : public local_world<Part, mapped<Part>> {
 public:
  explicit mapped_world(const std::filesystem::path& directory)
      : local_world<Part, mapped<Part>>(directory), homes_(read_homes(directory)) {}

 private:
  std::uint64_t start(int id) const override { return homes_[static_cast<std::size_t>(id) - 1]; }
  const std::vector<std::uint64_t> homes_;
};

template <class Part, class Version>
class client_world final : public world {
 public:
  client_world(const std::filesystem::path& directory, std::size_t pool_pages)
      : homes_(read_homes(directory)), client_(directory, pool_pages), version_(client_) {
    for (const std::uint64_t home : homes_)
      if (client_.place_of(home) + sizeof(Part) > client::page_length)
        throw std::runtime_error("a part lies in two pages, which these versions do not know");
  }
  void begin() override { version_.begin(); }
  void commit() override { version_.commit(); }
  visits traverse(int from, int hops, const workload& how) override {
    return traversal<Part, Version>(version_, how)
        .run(version_.start(homes_[static_cast<std::size_t>(from) - 1]), hops);
  }
  std::uint64_t page_reads() const override { return client_.page_reads(); }
  std::uint64_t log_bytes() const override { return client_.log_bytes(); }

 private:
  const std::vector<std::uint64_t> homes_;
  client client_;
  Version version_;
};

template <class Part>
std::unique_ptr<world> make(const std::string& name, const std::filesystem::path& directory, int parts,
                            const pool_sizes& pools) {
  const auto of = [&]<class Version>(std::type_identity<Version>, std::size_t pages) -> std::unique_ptr<world> {
    return std::make_unique<client_world<Part, Version>>(directory, pages);
  };
  if (name == "transient") return std::make_unique<local_world<Part, transient<Part>>>(parts);
  if (name == "mapped") return std::make_unique<mapped_world<Part>>(directory);
  if (name == "esm") return of(std::type_identity<esm<Part>>(), pools.pages);
  if (name == "epvm1-unswizzled") return of(std::type_identity<epvm_1<Part, false>>(), pools.pages);
  if (name == "epvm1") return of(std::type_identity<epvm_1<Part, true>>(), pools.pages);
  if (name == "epvm2-objects-small-pool")
    return of(std::type_identity<object_caching<Part, true, logging::range>>(), pools.small);
  if (name == "epvm2-objects") return of(std::type_identity<object_caching<Part, true, logging::range>>(), pools.pages);
  if (name == "epvm2-objects-unswizzled")
    return of(std::type_identity<object_caching<Part, false, logging::range>>(), pools.pages);
  if (name == "epvm2-whole-objects")
    return of(std::type_identity<object_caching<Part, true, logging::whole>>(), pools.pages);
  if (name == "epvm2-differences")
    return of(std::type_identity<object_caching<Part, true, logging::differences>>(), pools.pages);
  if (name == "epvm2-pages") return of(std::type_identity<page_caching<Part, true, logging::range>>(), pools.small);
  if (name == "epvm2-pages-unswizzled")
    return of(std::type_identity<page_caching<Part, false, logging::range>>(), pools.small);
  if (name == "epvm2-whole-pages")
    return of(std::type_identity<page_caching<Part, true, logging::whole>>(), pools.small);
  throw std::invalid_argument("there is no version " + name + "; --list names them");
}

}  // namespace

std::span<const version> all_versions() {
  static const version all[] = {
      {"transient", "plain C++ objects, which nothing keeps"},
      {"mapped", "the mapped heap, in the place of ObjectStore: plain pointers, differences logged at the commit"},
      {"esm", "a pin and an unpin for each visit; a log record for each update"},
      {"epvm1-unswizzled", "objects in the pool, found by a hash table at each access; a log record for each update"},
      {"epvm1", "the same; local variables are swizzled"},
      {"epvm2-objects-small-pool",
       "objects are copied, references swizzled on discovery; ranges logged at the commit; a small pool"},
      {"epvm2-objects", "the same with a large pool"},
      {"epvm2-pages",
       "whole pages are copied, references swizzled on discovery; ranges logged at the commit; a small pool"},
      {"epvm2-pages-unswizzled", "the same, never swizzled"},
      {"epvm2-objects-unswizzled", "as epvm2-objects, never swizzled"},
      {"epvm2-whole-objects", "as epvm2-objects, all of each changed object is logged"},
      {"epvm2-differences", "as epvm2-objects, the words that differ are logged"},
      {"epvm2-whole-pages", "as epvm2-pages, all of each changed page is logged, as ObjectStore did"}};
  return all;
}

visits planned_traversal(int from, int hops, int parts, int percent) {
  const oo1::planned_part plan = oo1::plan_part(from, parts);
  visits planned{1, static_cast<std::uint64_t>(plan.build),
                 percent != 0 && oo1::is_updated(plan.build, percent) ? 1U : 0U};
  if (hops == 0) return planned;
  for (const auto& next : plan.out) {
    const visits further = planned_traversal(next.to, hops - 1, parts, percent);
    planned.number += further.number;
    planned.checksum += further.checksum;
    planned.updated += further.updated;
  }
  return planned;
}

std::unique_ptr<world> make_world(const std::string& name, const std::filesystem::path& directory, int parts,
                                  bool are_wide, const pool_sizes& pools) {
  return are_wide ? make<wide_part>(name, directory, parts, pools) : make<small_part>(name, directory, parts, pools);
}

}  // namespace tenure::bench::epvm
