// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/paged_state.hpp"

#include <cassert>
#include <cstring>

#include "log/invariant.hpp"

namespace tenure::rvm {

void paged_state::require(std::uint64_t offset, std::uint64_t length) const {
  if (const std::uint64_t all = size(); offset > all || length > all - offset)
    throw error(errc::segment_too_short, path_ + ": bytes " + std::to_string(offset) + " to " +
                                             std::to_string(offset + length) + " are wanted, but the segment has " +
                                             std::to_string(all) + "; make it longer with memory::grow_segment");
}

// --- Reading ---------------------------------------------------------------------------------------------------------

template <class Check>
bool paged_state::read_page(std::uint64_t page, os::bytes into, Check&& is_sound) const {
  const shard& in = shard_of(page);
  const std::scoped_lock lock(in.mutex);
  const auto found = in.pages.find(page);
  const kept_page* const kept = found != in.pages.end() ? found->second.get() : nullptr;
  if (kept != nullptr && kept->changed.contains(0, redo_page)) {
    std::memcpy(into.data(), kept->bytes.data(), redo_page);
    return true;
  }
  in_->read(page * redo_page, into);
  if (!(kept != nullptr && kept->needs_no_proof) && !is_sound(os::const_bytes(into))) return false;
  if (kept == nullptr) return true;
  std::uint32_t from = 0;
  const auto copy = [&](std::uint32_t to) { std::memcpy(into.data() + from, kept->bytes.data() + from, to - from); };
  kept->changed.for_each_missing(0, redo_page, [&](std::uint32_t begin, std::uint32_t end) {
    copy(begin);
    from = end;
  });
  copy(redo_page);
  return true;
}

void paged_state::read(std::uint64_t page, os::bytes into) const {
  if (into.size() % redo_page != 0)
    throw error(errc::misaligned, path_ + ": " + std::to_string(into.size()) +
                                      " bytes are to be read, which is no multiple of a page, " +
                                      std::to_string(redo_page));
  if (page > size() / redo_page) require(size(), redo_page);  // throws; the offset may not be a number
  require(page * redo_page, into.size());
  for (; !into.empty(); into = into.subspan(redo_page), ++page) {
    const os::bytes one = into.first(redo_page);
    if (read_page(page, one, [&](os::const_bytes bytes) { return in_->matches_checksum(page, bytes); })) continue;
    // Truncation writes a page before its checksum. When it is not at work, the page must match [rvm.pages.checked].
    bool sound = false;
    when_quiet_([&] {
      sound = read_page(page, one,
                        [&](os::const_bytes bytes) { return in_->check(page, bytes) == segment::page_state::sound; });
    });
    if (!sound)
      throw error(errc::damaged, path_ + ": the page at offset " + std::to_string(page * redo_page) +
                                     " of the data does not match its checksum; restore the segment from a backup, or "
                                     "repair the store");
  }
}

// --- Commits ---------------------------------------------------------------------------------------------------------

// Who enters looks whether use has ended; who ends it looks whether somebody has entered. At least one sees the other.
bool paged_state::enter() noexcept {
  users_.fetch_add(1);
  if (!ending_) return true;
  users_.fetch_sub(1);
  return false;
}

bool paged_state::end_use() noexcept {
  ending_ = true;
  if (users_ == 0) return true;
  ending_ = false;
  return false;
}

paged_state::kept_page& paged_state::keep(shard& in, std::uint64_t page) {
  auto& kept = in.pages[page];
  if (kept != nullptr) return *kept;
  try {
    kept = std::make_unique<kept_page>();
  } catch (...) {
    in.pages.erase(page);
    throw;
  }
  kept_.fetch_add(1, std::memory_order_relaxed);
  return *kept;
}

void paged_state::forget(shard& in, std::uint64_t page) noexcept {
  in.pages.erase(page);
  kept_.fetch_sub(1, std::memory_order_relaxed);
}

void paged_state::prepare(std::uint64_t page) {
  shard& in = shard_of(page);
  const std::scoped_lock lock(in.mutex);
  ++keep(in, page).preparing;
}

void paged_state::cancel(std::uint64_t page) noexcept {
  shard& in = shard_of(page);
  const std::scoped_lock lock(in.mutex);
  const auto found = in.pages.find(page);
  assert(found != in.pages.end() && found->second->preparing != 0);
  kept_page& kept = *found->second;
  if (--kept.preparing == 0 && (kept.changed.empty() || kept.is_written)) forget(in, page);
}

void paged_state::kept_page::set(std::uint64_t offset, os::const_bytes value) noexcept {
  const auto from = static_cast<std::uint32_t>(offset % redo_page);
  std::memcpy(bytes.data() + from, value.data(), value.size());
  changed.insert(from, from + static_cast<std::uint32_t>(value.size()));
}

void paged_state::capture(std::uint64_t page, std::span<const new_value> values) noexcept {
  shard& in = shard_of(page);
  const std::scoped_lock lock(in.mutex);
  kept_page& kept = *in.pages.find(page)->second;
  for (const new_value& value : values) kept.set(value.offset, {value.from, static_cast<std::size_t>(value.length)});
  --kept.preparing;
  kept.is_written = false;
}

void paged_state::add(const redo& values) {
  values.for_each([&](segment& of, std::uint64_t offset, os::const_bytes value) {
    const std::uint64_t page = offset / redo_page;
    if (&of != in_) return;
    kept_page& kept = keep(shard_of(page), page);
    kept.needs_no_proof = values.makes_sound(of, page);
    kept.set(offset, value);
  });
}

// A commit that is about to be captured has made room. One that was captured has noted its batch with the page before: the
// batch is not published yet, or the page is in the queue.
void paged_state::written(std::uint64_t page, const page_queue& queue) noexcept {
  shard& in = shard_of(page);
  const std::scoped_lock lock(in.mutex);
  const auto found = in.pages.find(page);
  if (found == in.pages.end() || !queue.is_in_segment({in_, page})) return;
  if (found->second->preparing == 0)
    forget(in, page);
  else
    found->second->is_written = true;
}

void paged_state::check(const page_queue& queue) const {
  std::uint64_t all = 0;
  for (const shard& each : shards_) {
    const std::scoped_lock lock(each.mutex);
    all += each.pages.size();
    for (const auto& [page, kept] : each.pages) {
      require_invariant(kept->preparing == 0 && !kept->changed.empty(), "what is kept of a page was committed");
      require_invariant(!queue.is_in_segment({in_, page}), "what is kept of a page is not in the segment");
    }
  }
  require_invariant(all == kept_, "the pages of which something is kept are counted");
}

}  // namespace tenure::rvm
