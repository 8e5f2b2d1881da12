// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The public interface: regions.
#include <new>
#include <utility>

#include <tenure/rvm.hpp>

#include "os/virtual_memory.hpp"
#include "regions/region_mapper.hpp"
#include "regions/region_tracker.hpp"

namespace tenure::rvm {

region::region(std::shared_ptr<region_state> state) : state_(std::move(state)) {}

region::~region() {
  try {
    unmap();
  } catch (const std::bad_alloc&) {
    state_->was_left = true;
  } catch (...) {  // busy, or the memory has failed: stays mapped until the memory is destroyed
  }
}

region& region::operator=(region&& other) noexcept {
  if (this != &other) {
    region old(std::move(state_));
    state_ = std::move(other.state_);
  }
  return *this;
}

std::byte* region::data() const noexcept {
  return state_ != nullptr && state_->owner != nullptr ? state_->base : nullptr;
}
std::size_t region::size() const noexcept { return state_ != nullptr ? state_->length.load() : 0; }
std::size_t region::capacity() const noexcept { return state_ != nullptr ? state_->capacity : 0; }
std::uint64_t region::offset() const noexcept { return state_ != nullptr ? state_->offset : 0; }

const std::string& region::segment_path() const {
  check_range(0, 0);
  return state_->segment_path;
}

void region::check_range(std::size_t offset, std::size_t length) const {
  if (state_ == nullptr || state_->owner == nullptr) throw error(errc::closed, "the region is not mapped any more");
  const std::size_t size = state_->length;
  if (offset > size || length > size - offset)
    throw error(errc::partly_mapped, state_->segment_path + ": an object at offset " + std::to_string(offset) +
                                         ", length " + std::to_string(length) +
                                         ", does not lie in the region, which has " + std::to_string(size) + " bytes");
}

void region::read_ahead(std::size_t length) {
  check_range(0, 0);
  state_->owner->read_ahead(*state_, length);
}

std::size_t region::back_with_file(std::size_t offset, std::size_t length) {
  check_range(offset, length);
  return state_->owner->back_with_file(*state_, offset, length);
}

void region::allocate(std::size_t offset, std::size_t length) {
  check_range(offset, length);
  if (length != 0) state_->owner->allocate(*state_->in, state_->offset + offset, length);
}

region_tracker& region::tracker(const void* from, std::size_t length) const {
  check_range(0, 0);
  if (state_->tracker == nullptr)
    throw error(
        errc::wrong_tracking,
        state_->segment_path + ": this region is not tracked automatically; map it with tracking_mode::automatic");
  const auto* const first = static_cast<const std::byte*>(from);
  if (length != 0 && (!state_->contains(first) || length > static_cast<std::size_t>(data() + size() - first)))
    throw error(errc::partly_mapped, state_->segment_path + ": the range does not lie in the region");
  return *state_->tracker;
}

void region::open_untracked(void* address, std::size_t length) {
  region_tracker& tracker = this->tracker(address, length);
  if (const std::size_t page = os::page_size();
      length % page != 0 || reinterpret_cast<std::uintptr_t>(address) % page != 0)
    throw error(errc::misaligned, state_->segment_path + ": only whole pages can be left out of tracking");
  state_->owner->of().require_writable();
  if (length != 0) tracker.open_untracked(static_cast<std::byte*>(address), length);
}

bool region::is_open_untracked(const void* address) const {
  return tracker(address, 1).is_open_untracked(static_cast<const std::byte*>(address));
}

void region::set_change_filter(change_filter* filter) {
  check_range(0, 0);
  if (!state_->owner->of().is_read_only()) tracker(nullptr, 0).set_change_filter(filter);
}

void region::end_change_filter() noexcept {
  if (state_ != nullptr && state_->tracker != nullptr) state_->tracker->set_change_filter(nullptr);
}

void region::unmap() {
  if (state_ == nullptr) return;
  if (state_->owner != nullptr) state_->owner->unmap(*state_);
  state_.reset();
}

}  // namespace tenure::rvm
