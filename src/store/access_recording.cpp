// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/access_recording.hpp"

#include "rewrite/access_order.hpp"

namespace tenure {

access_recording::access_recording(const database_set& store) : store_(store) {
  for (const auto& d : store)
    traces_.emplace_back(reinterpret_cast<std::byte*>(d->home), d->region.size(),
                         os::access_trace::unit_for(d->region.size()), d->file);
}

void access_recording::write(os::disk& disk, const std::string& file) const {
  std::vector<rewriting::used_parts> all;
  for (std::size_t n = 0; n < store_.size(); ++n) {
    std::vector<std::uint32_t> used = traces_[n].used();
    all.push_back(
        {store_[n].header().database_id, os::access_trace::unit_for(store_[n].region.size()), std::move(used)});
  }
  rewriting::write_accesses(disk, file, all);
}

}  // namespace tenure
