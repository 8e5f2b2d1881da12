// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/group_pool.hpp"

#include <algorithm>
#include <cassert>

#include "log/invariant.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::rvm {

void group_buffer::clear() {
  used = sizeof(group_header);
  records = last_record = 0;
  is_prepared = false;
  dictionary.clear();
  named_at.clear();
}

constexpr std::size_t groups_in_slab = 8;

struct group_slab {
  std::byte* memory;
  std::vector<std::unique_ptr<group_buffer>> free;  // capacity: all
};

group_pool::group_pool(std::uint32_t group_length, std::size_t kept)
    : group_length_(group_length),
      slab_length_(round_up(groups_in_slab * group_length, os::page_size())),
      kept_(std::max(kept, slab_length_)) {}
group_pool::~group_pool() {
  for (const auto& slab : slabs_) os::unmap(slab->memory, slab_length_);
}
std::size_t group_pool::memory_used() const {
  const std::scoped_lock lock(mutex_);
  return slabs_.size() * slab_length_;
}
void group_pool::check() const {
  const std::scoped_lock lock(mutex_);
  std::size_t with_free = 0, all_free = 0;
  for (const auto& slab : slabs_) {
    with_free += !slab->free.empty();
    all_free += slab->free.size() == groups_in_slab;
    require_invariant(slab->free.empty() || std::ranges::find(with_free_, slab.get()) != with_free_.end(),
                      "a slab with a free buffer is found");
    for (const auto& buffer : slab->free) {
      require_invariant(buffer->of == slab.get() && buffer->bytes >= slab->memory &&
                            buffer->bytes + group_length_ <= slab->memory + slab_length_,
                        "a buffer lies in its slab");
      require_invariant(buffer->used == sizeof(group_header) && buffer->records == 0, "a free buffer has no records");
    }
  }
  require_invariant(with_free == with_free_.size(), "a slab is listed once, if it has a free buffer");
  require_invariant(all_free == all_free_, "slabs without a buffer in use are counted");
  require_invariant(all_free * slab_length_ <= std::max(kept_, slab_length_), "unused memory goes back to the kernel");
}
std::unique_ptr<group_buffer> group_pool::take() {
  const std::scoped_lock lock(mutex_);
  if (with_free_.empty()) {
    slabs_.reserve(slabs_.size() + 1);
    with_free_.reserve(slabs_.capacity());
    auto slab = std::make_unique<group_slab>();
    std::vector<std::unique_ptr<group_buffer>> buffers;
    buffers.reserve(groups_in_slab);
    for (std::size_t i = groups_in_slab; i-- > 0;)
      buffers.push_back(std::make_unique<group_buffer>(slab.get(), nullptr));
    slab->memory = static_cast<std::byte*>(slabs_.empty() ? os::map_anonymous(nullptr, slab_length_)
                                                          : os::map_anonymous_huge(slab_length_));
    os::exclude_from_fork(slab->memory, slab_length_);  // values that were logged are no pointers of the program
    for (std::size_t i = groups_in_slab; i-- > 0;)
      buffers[groups_in_slab - 1 - i]->bytes = slab->memory + i * group_length_;
    slab->free = std::move(buffers);
    with_free_.push_back(slab.get());
    slabs_.push_back(std::move(slab));
    ++all_free_;
  }
  group_slab& from = *with_free_.back();
  if (from.free.size() == groups_in_slab) --all_free_;
  auto buffer = std::move(from.free.back());
  from.free.pop_back();
  if (from.free.empty()) with_free_.pop_back();
  return buffer;
}
void group_pool::give_back(std::unique_ptr<group_buffer> buffer) noexcept {
  buffer->clear();
  group_slab& to = *buffer->of;
  const std::scoped_lock lock(mutex_);
  assert(to.free.size() < groups_in_slab);
  if (to.free.empty()) with_free_.push_back(&to);
  to.free.push_back(std::move(buffer));
  if (to.free.size() < groups_in_slab || (++all_free_) * slab_length_ <= kept_) return;
  --all_free_;
  std::erase(with_free_, &to);
  os::unmap(to.memory, slab_length_);
  std::erase_if(slabs_, [&](const auto& slab) { return slab.get() == &to; });
}

}  // namespace tenure::rvm
