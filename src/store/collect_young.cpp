// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transient garbage at commits [heap.collection.young].
#include <tenure/error.hpp>

#include "collection/young_objects.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

void store_state::collect_young() noexcept try {
  const std::uint64_t often = how.collection.young_bytes;
  if (often == 0) return;
  std::uint64_t made = 0;
  for (const auto& d : *databases) made += d->birth->made().bytes;
  if (made - made_at_last_young < often) return;
  // A cycle has a snapshot of these objects, and takes them itself.
  const collector::gate_lock collecting = collection.pass_gate();
  if (collecting) return;
  made_at_last_young = made;
  young_objects young(*databases);
  if (!young.mark()) return;
  if (weak.has_made_any()) weak.take_young([&](const void* object) { return young.keeps(object); });
  const birth::counts gone = young.sweep();
  const std::scoped_lock lock(statistics_mutex);
  ++counts.young_collections;
  counts.young_objects += gone.objects;
  counts.young_bytes += gone.bytes;
} catch (...) {  // there is no memory for it: the commit is done all the same, and another one tries again
}

}  // namespace tenure
