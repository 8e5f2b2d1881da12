// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The public interface: segments that are open for pages.
#include <utility>

#include <tenure/rvm.hpp>

#include "regions/paged_state.hpp"
#include "regions/region_mapper.hpp"

namespace tenure::rvm {

paged_segment::paged_segment(std::shared_ptr<paged_state> state) : state_(std::move(state)) {}

paged_segment::~paged_segment() {
  try {
    close();
  } catch (...) {  // busy, or the memory has failed: stays open until the memory is destroyed
  }
}

paged_segment& paged_segment::operator=(paged_segment&& other) noexcept {
  if (this != &other) {
    const paged_segment old(std::move(state_));
    state_ = std::move(other.state_);
  }
  return *this;
}

paged_state& paged_segment::require_open() const {
  if (state_ == nullptr || state_->owner() == nullptr)
    throw error(errc::closed, "the segment is not open for pages any more");
  state_->owner()->of().require_usable();
  return *state_;
}

const std::string& paged_segment::segment_path() const { return require_open().path(); }
std::uint64_t paged_segment::size() const { return require_open().size(); }
void paged_segment::read(std::uint64_t page, std::span<std::byte> into) const { require_open().read(page, into); }

void paged_segment::allocate(std::uint64_t offset, std::uint64_t length) {
  paged_state& state = require_open();
  state.require(offset, length);
  if (length != 0) state.owner()->allocate(state.in(), offset, length);
}

void paged_segment::close() {
  if (state_ != nullptr && state_->owner() != nullptr) state_->owner()->close_pages(*state_);
}

}  // namespace tenure::rvm
