// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How much space what takes in a store.
#include "objects/address_lists.hpp"
#include "store/store_state.hpp"
#include "store/sweep.hpp"

namespace tenure {

using namespace heap;

space_report store::space() const {
  store_state& s = *state_;
  s.require_usable();
  space_report all;
  start_bits everything;
  for (std::size_t n = 0; n < start_bits::words; ++n) everything.word(n) = ~std::uint64_t{0};
  sweep counted(s, [&](const database_state&, std::uint64_t) { return everything; });
  const reading_scope reading(s);
  address_list<address> none;
  std::uint64_t used_bytes = 0;
  for (const auto& d : *s.databases) {
    const std::uint64_t end = d->header().blocks_end;
    for (std::uint64_t block = 0; block < end; ++block) {
      counted.look_at(*d, block, none);
      const zone_kind kind = d->map->kind_of_zone(block / blocks_in_zone);
      all.bookkeeping_bytes += has_blocks(kind) && d->map->is_bookkeeping(block) ? block_size : 0;
    }
    if (d->birth != nullptr)
      d->birth->for_each_transient([&](address object) {
        const object_facts facts = d->map->facts(d->map->find_start(object));
        ++all.transient;
        all.transient_bytes += facts.end - facts.begin;
      });
    used_bytes += end * block_size;
    all.file_bytes += d->region.size();
  }
  counted.finish_report();
  collect_report& report = counted.report();
  all.objects = report.kept;
  all.object_bytes = report.kept_bytes;
  all.types = std::move(report.kept_types);
  const std::uint64_t taken = all.object_bytes + all.bookkeeping_bytes;
  all.free_bytes = used_bytes > taken ? used_bytes - taken : 0;
  all.quarantined = s.collection.in_quarantine().objects();
  all.quarantined_bytes = s.collection.in_quarantine().bytes();
  all.garbage_estimate = s.collection.estimate_garbage(all.object_bytes);
  return all;
}

}  // namespace tenure
