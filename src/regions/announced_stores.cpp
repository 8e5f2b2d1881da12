// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The table is read without a lock, by every store of an instrumented program.
#include "regions/announced_stores.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include <tenure/barriers.hpp>
#include <tenure/error.hpp>

namespace tenure {

std::uintptr_t detail::watched_end = 0;

namespace {

struct slot {
  std::atomic<std::uintptr_t> begin{~std::uintptr_t{0}};  // of no range: no address lies behind it
  std::atomic<std::uintptr_t> end{0};
  std::atomic<rvm::store_listener*> to{nullptr};
  std::atomic<std::uint64_t> ranges{0};  // that it has had
};

std::array<slot, 1024> slots;
// Slots from this index on were never used. Nothing lies outside of [lowest, detail::watched_end).
std::atomic<std::size_t> slots_used{0};
std::atomic<std::uintptr_t> lowest{~std::uintptr_t{0}};

std::atomic<rvm::store_listener*> elsewhere{nullptr};

std::mutex changing;
std::optional<detail::watched_memory> told;  // with the mutex

// With the mutex.
void find_bounds() noexcept {
  std::uintptr_t low = ~std::uintptr_t{0}, high = 0;
  if (elsewhere.load(std::memory_order_relaxed) != nullptr) std::swap(low, high);
  for (const slot& s : slots)
    if (s.to.load(std::memory_order_relaxed) != nullptr) {
      low = std::min(low, s.begin.load(std::memory_order_relaxed));
      high = std::max(high, s.end.load(std::memory_order_relaxed));
    }
  lowest.store(low, std::memory_order_release);
  __atomic_store_n(&detail::watched_end, high, __ATOMIC_RELEASE);
}

// To each range with a part of the bytes.
[[gnu::noinline]] void announce_parts(std::uintptr_t from, std::size_t length, std::size_t used) noexcept {
  for (std::size_t n = 0; n < used; ++n) {
    const slot& s = slots[n];
    const std::uint64_t ranges = s.ranges.load(std::memory_order_acquire);
    const std::uintptr_t begin = s.begin.load(std::memory_order_acquire);
    if (from + length <= begin) continue;
    const std::uintptr_t end = s.end.load(std::memory_order_acquire);
    if (from >= end) continue;
    rvm::store_listener* const to = s.to.load(std::memory_order_acquire);
    if (to == nullptr || s.ranges.load(std::memory_order_acquire) != ranges) continue;
    const std::uintptr_t first = std::max(from, begin), last = std::min(from + length, end);
    if (first < last) to->store_announced(reinterpret_cast<std::byte*>(first), last - first);
  }
}

}  // namespace

void announce_store(const void* at, std::size_t length) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at);
  if (from >= detail::end_of_watched() || from + length <= lowest.load(std::memory_order_relaxed) || length == 0)
    return;
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  // Nearly all stores lie in one range as a whole. Then nothing is left to do behind the call, and no register is saved for it.
  for (std::size_t n = 0; n < used; ++n) {
    const slot& s = slots[n];
    const std::uint64_t ranges = s.ranges.load(std::memory_order_acquire);
    if (from < s.begin.load(std::memory_order_acquire) || from + length > s.end.load(std::memory_order_acquire))
      continue;
    rvm::store_listener* const to = s.to.load(std::memory_order_acquire);
    // The slot may have got another range meanwhile: then that is not the one with these bytes, which is there all the time.
    if (to == nullptr || s.ranges.load(std::memory_order_acquire) != ranges) continue;
    return to->store_announced(static_cast<std::byte*>(const_cast<void*>(at)), length);
  }
  announce_parts(from, length, used);
  if (rvm::store_listener* const to = elsewhere.load(std::memory_order_acquire); to != nullptr)
    to->store_announced(static_cast<std::byte*>(const_cast<void*>(at)), length);
}

void detail::tell_watched_memory(const watched_memory& to) noexcept {
  const std::scoped_lock lock(changing);
  told = to;
  for (const slot& s : slots)
    if (s.to.load(std::memory_order_relaxed) != nullptr) {
      const std::uintptr_t begin = s.begin.load(std::memory_order_relaxed);
      told->begins(reinterpret_cast<const void*>(begin), s.end.load(std::memory_order_relaxed) - begin);
    }
}

namespace rvm {

namespace {

constinit thread_local unsigned own = 0;

}  // namespace

own_stores::own_stores() noexcept { ++own; }
own_stores::~own_stores() { --own; }
bool own_stores::are_made() noexcept { return own != 0; }

void listen_elsewhere(store_listener* to) noexcept {
  const std::scoped_lock lock(changing);
  elsewhere.store(to, std::memory_order_release);
  find_bounds();
}

void announced_range::begin(std::byte* base, std::size_t length, store_listener& to) {
  end();
  const std::scoped_lock lock(changing);
  const auto free =
      std::ranges::find_if(slots, [](const slot& s) { return s.to.load(std::memory_order_relaxed) == nullptr; });
  if (free == slots.end()) throw error(errc::bad_option, "there are too many regions with barriers to have one more");
  slot_ = static_cast<int>(free - slots.begin());
  const auto from = reinterpret_cast<std::uintptr_t>(base);
  free->ranges.fetch_add(1, std::memory_order_release);  // before the rest
  free->end.store(from + length, std::memory_order_release);
  free->to.store(&to, std::memory_order_release);
  free->begin.store(from, std::memory_order_release);
  slots_used.store(std::max(slots_used.load(), static_cast<std::size_t>(slot_) + 1), std::memory_order_release);
  find_bounds();
  if (told) told->begins(base, length);
}

void announced_range::grow(std::size_t length) noexcept {
  if (slot_ < 0) return;
  const std::scoped_lock lock(changing);
  slot& s = slots[static_cast<std::size_t>(slot_)];
  const std::uintptr_t old = s.end.load(std::memory_order_relaxed),
                       now = s.begin.load(std::memory_order_relaxed) + length;
  assert(now >= old);
  s.end.store(now, std::memory_order_release);
  find_bounds();
  if (told && now > old) told->begins(reinterpret_cast<const void*>(old), now - old);
}

void announced_range::end() noexcept {
  if (slot_ < 0) return;
  const std::scoped_lock lock(changing);
  slot& s = slots[static_cast<std::size_t>(std::exchange(slot_, -1))];
  const std::uintptr_t from = s.begin.load(std::memory_order_relaxed), to = s.end.load(std::memory_order_relaxed);
  s.begin.store(~std::uintptr_t{0}, std::memory_order_release);
  s.end.store(0, std::memory_order_release);
  s.to.store(nullptr, std::memory_order_release);
  find_bounds();
  if (told) told->ends(reinterpret_cast<const void*>(from), to - from);
}

}  // namespace rvm

}  // namespace tenure
