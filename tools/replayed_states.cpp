// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replayed_states.hpp"

#include <algorithm>
#include <cstring>

#include "os/file.hpp"

namespace tenure::tools {

using rvm::redo_page;

template <class Apply, class End>
void replayed_states::walk(Apply&& apply, End&& end) {
  past_.walk({}, [&](const rvm::group_view& group, os::const_bytes) {
    std::vector<const database*> in;
    for (const rvm::segment_name& name : group.segments()) {
      const auto found =
          std::ranges::find_if(databases_, [&](const database& d) { return d.segment.is(name, past_.log_path()); });
      in.push_back(found == databases_.end() ? nullptr : &*found);
    }
    for (const rvm::transaction_view& tx : group.transactions()) {
      for (const rvm::range_view& range : tx.ranges) {
        const database* const d = in[range.segment];
        if (d == nullptr || range.offset >= d->memory.size()) continue;
        const std::size_t length = std::min<std::size_t>(range.value.size(), d->memory.size() - range.offset);
        apply(d->memory.subspan(range.offset, length), range.value.first(length));
      }
      if ((tx.flags & rvm::record_last) != 0 && !end(tx, group.header().lsn + tx.at)) return false;
    }
    return true;
  });
}

replayed_states::replayed_states(const surveyed_store& of, history& past) : past_(past) {
  for (const auto& d : of.set())
    databases_.push_back({named_segment::look_at(os::real_disk(), d->file, false),
                          {reinterpret_cast<std::byte*>(d->map->home()), d->region.size()}});
  std::unordered_map<std::byte*, rvm::page_bytes> known;
  std::vector<rvm::lsn> lsns;
  walk(
      [&](std::span<std::byte> memory, os::const_bytes value) {
        while (!memory.empty()) {
          const auto from = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(memory.data()) % redo_page);
          std::byte* const page = memory.data() - from;
          const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(memory.size(), redo_page - from));
          rvm::page_bytes& here = known[page];
          here.for_each_missing(from, from + length, [&](std::uint32_t begin, std::uint32_t end) {
            std::memcpy(page + begin, value.data() + (begin - from), end - begin);
          });
          here.insert(from, from + length);
          memory = memory.subspan(length);
          value = value.subspan(length);
        }
      },
      [&](const rvm::transaction_view& tx, rvm::lsn at) {
        if (lsns.empty()) first_time_ = tx.time;
        lsns.push_back(at);
        return true;
      });
  transactions_ = lsns.size();
  for (const rvm::archive_gap& gap : past_.gaps())
    behind_gaps_.push_back(static_cast<std::size_t>(std::ranges::lower_bound(lsns, gap.to) - lsns.begin()) + 1);
  for (const auto& [page, bytes] : known) begin_.emplace_back(page, std::vector<std::byte>(page, page + redo_page));
}

void replayed_states::go_to_begin() {
  for (const auto& [page, bytes] : begin_) std::memcpy(page, bytes.data(), redo_page);
}

void replayed_states::go_on(const change_seen& changed, const state_seen& seen) {
  std::size_t state = 1;
  walk(
      [&](std::span<std::byte> memory, os::const_bytes value) {
        const auto at = reinterpret_cast<heap::address>(memory.data());
        if (changed.before) changed.before(state, at, value);
        std::memcpy(memory.data(), value.data(), value.size());
        if (changed.behind) changed.behind(state, at, memory.size());
      },
      [&](const rvm::transaction_view& tx, rvm::lsn at) {
        const bool goes_on = !seen || seen(state, tx, at);
        ++state;
        return goes_on;
      });
}

}  // namespace tenure::tools
