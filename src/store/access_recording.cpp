// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/access_recording.hpp"

#include "log/manifest.hpp"
#include "rewrite/access_order.hpp"

namespace tenure {

access_recording::access_recording(const database_set& store) : store_(store) {
  std::size_t all = 0;
  for (const auto& d : store) all += d->region.size();
  unit_ = os::access_trace::unit_for(all);  // the kernel counts those of all databases together
  for (const auto& d : store)
    traces_.emplace_back(reinterpret_cast<std::byte*>(d->home), d->region.size(), unit_, d->file);
}

void access_recording::write(os::disk& disk, const std::string& file) const {
  rewriting::used_parts_of_store all;
  all.log = rvm::manifest_file::open_unlocked(disk, store_.memory().log_path()).current().log_id;
  for (std::size_t n = 0; n < store_.size(); ++n)
    all.databases.push_back({store_[n].header().database_id, unit_, traces_[n].used(), traces_[n].is_cut_short()});
  rewriting::write_accesses(disk, file, all);
}

}  // namespace tenure
