// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "transactions/checking.hpp"

#include <algorithm>
#include <cstring>

#include "os/virtual_memory.hpp"

namespace tenure::rvm {

void require_declared_writes_only(const transaction_table& all, const transaction_state& committing) {
  const std::scoped_lock lock(all.list_lock());
  for (const auto& r : all.parts().regions.all()) {
    if (r->shadow == nullptr) continue;
    std::vector<transaction_state::declared> allowed;
    all.for_each_open([&](const transaction_state& tx) {
      for (const auto& d : tx.ranges())
        if (d.in == r.get()) allowed.push_back(d);
      for (const auto& b : tx.bulk())
        if (b.in == r.get()) allowed.push_back({r->base + b.offset, b.length, r.get()});
    });
    std::ranges::sort(allowed, {}, &transaction_state::declared::from);

    const auto complain = [&](const std::byte* from, const std::byte* to) {
      ++all.parts().count.undeclared_writes;
      const auto offset = r->offset + static_cast<std::uint64_t>(from - r->base);
      throw error(errc::undeclared_write,
                  "transaction " + std::to_string(committing.id()) +
                      (committing.label().empty() ? "" : " (" + committing.label() + ")") + ": bytes " +
                      std::to_string(offset) + " to " + std::to_string(offset + static_cast<std::uint64_t>(to - from)) +
                      " of " + r->segment_path +
                      " were changed, but no open transaction has declared them; call set_range before the change");
    };
    const auto compare = [&](const std::byte* from, const std::byte* to) {
      const std::byte* const shadow = r->shadow + (from - r->base);
      if (from >= to || std::memcmp(from, shadow, static_cast<std::size_t>(to - from)) == 0) return;
      const auto length = to - from;
      const auto first = std::mismatch(from, to, shadow).first;
      auto last = first;
      for (const std::byte* at = first; at < from + length; ++at)
        if (*at != shadow[at - from])
          last = at;
        else if (at - last > 64)
          break;  // one message for changes that lie close together
      complain(first, last + 1);
    };
    const auto compare_run = [&](os::page_run run) {
      const std::byte* at = run.address;
      // A raw region may end within a page, the rest of which is nobody's.
      const std::byte* const end = std::min<const std::byte*>(run.address + run.length, r->base + r->length);
      for (const auto& d : allowed) {
        if (d.end() <= at) continue;
        if (d.from >= end) break;
        compare(at, std::min<const std::byte*>(d.from, end));
        at = std::max<const std::byte*>(at, d.end());
      }
      compare(at, end);
    };
    if (r->backed_by_file)
      os::for_each_private_copy(r->base, r->length, compare_run);
    else
      compare_run({r->base, r->length});
  }
}

void update_shadows(const transaction_state& committed) noexcept {
  for (const auto& d : committed.ranges())
    if (d.in->shadow != nullptr) std::memcpy(d.in->shadow + (d.from - d.in->base), d.from, d.length);
  accept_bulk(committed.bulk());
}

void accept_bulk(std::span<const transaction_state::bulk_write> which) noexcept {
  for (const auto& b : which)
    if (b.in->shadow != nullptr) std::memcpy(b.in->shadow + b.offset, b.in->base + b.offset, b.length);
}

}  // namespace tenure::rvm
