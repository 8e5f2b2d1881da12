// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "faulting/stored_objects.hpp"

#include <algorithm>
#include <stdexcept>

#include "objects/format.hpp"

namespace tenure::bench::faulting {
namespace {

rvm::options read_only() {
  rvm::options how;
  how.mode = rvm::open_mode::read_only;
  return how;
}

constexpr std::array<kind, kinds> all_kinds{kind::text,   kind::part,      kind::index_node,
                                            kind::method, kind::behaviour, kind::database};

}  // namespace

stored_objects::stored_objects(const std::filesystem::path& store, std::uint64_t pool_pages)
    : pool_(pool_pages),
      memory_((store / "log").string(), read_only()),
      database_(memory_, memory_.members().at(0), pool_, true, 0) {
  database_.stored.require_right_header();
  database_.types.read();
  for (std::uint32_t type = 0; type < database_.types.count(); ++type) {
    const auto found = std::ranges::find_if(
        all_kinds, [&](kind each) { return layout_of(each).type == database_.types.name_of(type); });
    kinds_.push_back(found == all_kinds.end() ? nullptr : &*found);
  }
  const auto root = database_.roots().find("database");
  if (root == database_.roots().end()) throw std::runtime_error(store.string() + ": has no parts");
  root_ = root->second.object;
}

const kind* stored_objects::kind_of(std::uint32_t type) { return type < kinds_.size() ? kinds_[type] : nullptr; }

stored_objects::object stored_objects::find(std::uint64_t home) {
  const auto found = database_.stored.find(home);
  const kind* const of = found && found.at == home ? kind_of(found.type) : nullptr;
  if (of == nullptr) throw std::runtime_error("the database has no object of ours at " + std::to_string(home));
  return {home, *of};
}

void stored_objects::find_with_neighbours(std::uint64_t home, granularity which, std::vector<object>& found) {
  if (which == granularity::object) return found.push_back(find(home));
  const std::uint64_t length = which == granularity::logical_segment ? logical_segment : heap::block_size;
  const std::uint64_t from = home - (home - database_.stored.home()) % length;
  find_between(from, from + length, found);
}

void stored_objects::find_all(std::vector<object>& found) {
  const std::uint64_t home = database_.stored.home(), length = database_.stored.segment().size();
  for (std::uint64_t from = 0; from < length; from += heap::block_size)
    find_between(home + from, home + from + heap::block_size, found);
}

// Within one block.
void stored_objects::find_between(std::uint64_t from, std::uint64_t to, std::vector<object>& found) {
  const std::uint64_t block = (from - database_.stored.home()) / heap::block_size;
  const std::uint64_t start = database_.stored.home() + block * heap::block_size;
  const heap::start_bits starts = database_.stored.record(block).starts;  // find() may replace the record
  std::uint64_t last = 0;
  starts.for_each([&](std::uint64_t granule) {
    const std::uint64_t at = start + granule * heap::granule;
    if (at + heap::granule <= from || at >= to) return;
    const auto known = database_.stored.find(at + heap::granule - 1);
    if (!known || known.at < from || known.at >= to || known.at == last) return;
    last = known.at;
    if (const kind* const of = kind_of(known.type)) found.push_back({known.at, *of});
  });
}

}  // namespace tenure::bench::faulting
