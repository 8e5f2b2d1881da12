// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Regions, and the table that finds the region of an address without a lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <tenure/rvm/options.hpp>
#include <tenure/rvm/region.hpp>

#include "os/fault.hpp"
#include "os/room_for_one.hpp"
#include "regions/read_ahead.hpp"
#include "segments/interval_set.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

class declared_stores;
class region_mapper;
class region_tracker;

struct region_state {
  region_state();
  ~region_state();
  region_state(const region_state&) = delete;
  region_state& operator=(const region_state&) = delete;
  region_mapper* owner = nullptr;  // nullptr once unmapped
  segment* in = nullptr;
  std::string segment_path;
  std::uint64_t offset = 0;  // in the segment's data
  std::byte* base = nullptr;
  std::atomic<std::size_t> length{0};  // that can be used; grows
  std::size_t capacity = 0;            // address space
  bool grows = false;                  // with its segment
  fresh_space fresh = fresh_space::file;
  bool backed_by_file = true;  // false: copied in
  interval_set anonymous;  // parts that the file does not back; guarded by the truncation lock. With a tracker: its own
  std::atomic<bool> closing{false};
  std::atomic<bool> was_left{false};  // nobody has it any more, and there was no memory to unmap it
  os::fault_range explained;
  std::byte* shadow = nullptr;  // checking mode: the committed image
  std::unique_ptr<region_tracker>
      tracker;  // automatic tracking; kept when unmapped, because a fault handler may be in it
  std::unique_ptr<declared_stores> declares;  // with barriers, if ranges are declared
  std::once_flag asked_ahead;
  ahead_reader reading_ahead;

  [[nodiscard]] bool contains(const std::byte* at) const {
    return at >= base && at < base + length.load(std::memory_order_acquire);
  }
  // Whether this page of the segment is in it.
  [[nodiscard]] bool holds(const segment* of, std::uint64_t page) const {
    return in == of && page * redo_page >= offset && page * redo_page < offset + length;
  }
  // For checking mode: the committed image, which is what memory has now.
  void make_shadow();
};

// Sorted by address. Changes are rare: each makes a new table, and old ones are kept until the end because a reader may be
// in them.
class region_table {
 public:
  using table = std::vector<std::shared_ptr<region_state>>;

  region_table() { publish({}); }  // which clear() goes back to

  // The region that holds the address, or nullptr. Any thread.
  [[nodiscard]] region_state* find(const std::byte* at) const {
    const auto& regions = *current_.load(std::memory_order_acquire);
    const auto after =
        std::ranges::upper_bound(regions, at, {}, [](const auto& r) { return static_cast<const std::byte*>(r->base); });
    if (after == regions.begin()) return nullptr;
    region_state* const found = std::prev(after)->get();
    return found->contains(at) ? found : nullptr;
  }

  // Throws if an invariant does not hold. While nobody maps or unmaps.
  void check() const;

  // Some may be mapped no more: they have no bytes, and no owner.
  [[nodiscard]] const table& all() const { return *current_.load(std::memory_order_acquire); }
  // One thread at a time, as for the others.
  void add(const std::shared_ptr<region_state>& made) {
    table next = all();
    std::erase_if(next, [](const auto& r) { return r->owner == nullptr; });
    next.insert(std::ranges::upper_bound(next, made->base, {}, &region_state::base), made);
    publish(std::move(next));
  }
  // Without memory it stays in the table until another one is added.
  void remove(const region_state& which) noexcept {
    try {
      table next = all();
      std::erase_if(next, [&](const auto& r) { return r.get() == &which; });
      publish(std::move(next));
    } catch (const std::bad_alloc&) {
    }
  }
  void clear() noexcept { current_.store(kept_.front().get(), std::memory_order_release); }

 private:
  void publish(table next) {
    os::reserve_one_more(kept_);
    kept_.push_back(std::make_unique<const table>(std::move(next)));
    current_.store(kept_.back().get(), std::memory_order_release);
  }

  std::vector<std::unique_ptr<const table>> kept_;
  std::atomic<const table*> current_;
};

}  // namespace tenure::rvm
