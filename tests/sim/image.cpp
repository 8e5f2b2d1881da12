// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "sim/image.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace tenure::sim {

void image::resize(std::uint64_t size) {
  if (size < size_) {
    blocks_.resize(std::min<std::uint64_t>(blocks_.size(), (size + block_bytes - 1) / block_bytes));
    const std::uint64_t tail = size % block_bytes;
    if (const block* last = tail == 0 ? nullptr : get(size / block_bytes)) {
      auto cut = std::make_shared<block>(*last);
      std::fill(cut->begin() + static_cast<std::ptrdiff_t>(tail), cut->end(), std::byte{0});
      blocks_.back() = std::move(cut);
    }
  }
  size_ = size;
}

void image::write(std::uint64_t offset, os::const_bytes from) {
  if (offset >= size_) return;
  from = from.first(std::min<std::uint64_t>(from.size(), size_ - offset));
  if (from.empty()) return;
  const std::uint64_t needed = (offset + from.size() + block_bytes - 1) / block_bytes;
  if (blocks_.size() < needed) blocks_.resize(needed);
  while (!from.empty()) {
    const std::uint64_t start = offset % block_bytes;
    const std::uint64_t length = std::min<std::uint64_t>(from.size(), block_bytes - start);
    auto& slot = blocks_[offset / block_bytes];
    auto changed = slot ? std::make_shared<block>(*slot) : std::make_shared<block>();
    std::memcpy(changed->data() + start, from.data(), length);
    slot = std::move(changed);
    offset += length;
    from = from.subspan(length);
  }
}

void image::read(std::uint64_t offset, os::bytes into) const {
  while (!into.empty()) {
    const std::uint64_t start = offset % block_bytes;
    const std::uint64_t length = std::min<std::uint64_t>(into.size(), block_bytes - start);
    // Bytes of the last block beyond the size are zero: resize() sees to it.
    if (const block* source = get(offset / block_bytes)) {
      std::memcpy(into.data(), source->data() + start, length);
    } else {
      std::memset(into.data(), 0, length);
    }
    offset += length;
    into = into.subspan(length);
  }
}

void image::copy_to(int descriptor) const {
  std::array<iovec, 64> run{};
  for (std::size_t i = 0; i < blocks_.size();) {
    std::size_t count = 0;
    std::size_t total = 0;
    while (count < run.size() && i + count < blocks_.size() && blocks_[i + count]) {
      run[count] = {const_cast<std::byte*>(blocks_[i + count]->data()), block_bytes};
      total += block_bytes;
      ++count;
    }
    if (count == 0) {
      ++i;
      continue;
    }
    const auto offset = static_cast<off_t>(i * block_bytes);
    if (::pwritev(descriptor, run.data(), static_cast<int>(count), offset) != static_cast<ssize_t>(total)) {
      throw std::system_error(errno, std::generic_category(), "sim: cannot fill a memfd");
    }
    i += count;
  }
  if (::ftruncate(descriptor, static_cast<off_t>(size_)) != 0) {
    throw std::system_error(errno, std::generic_category(), "sim: cannot size a memfd");
  }
}

void write_fully(int descriptor, std::uint64_t offset, os::const_bytes from) {
  if (from.empty()) return;
  if (::pwrite(descriptor, from.data(), from.size(), static_cast<off_t>(offset)) != static_cast<ssize_t>(from.size())) {
    throw std::system_error(errno, std::generic_category(), "sim: cannot write to a memfd");
  }
}

void read_fully(int descriptor, std::uint64_t offset, os::bytes into) {
  if (into.empty()) return;
  if (::pread(descriptor, into.data(), into.size(), static_cast<off_t>(offset)) != static_cast<ssize_t>(into.size())) {
    throw std::system_error(errno, std::generic_category(), "sim: cannot read from a memfd");
  }
}

}  // namespace tenure::sim
