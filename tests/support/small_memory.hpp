// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Short ways to open memories that are small enough for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <tenure/rvm.hpp>

#include "os/virtual_memory.hpp"

namespace tenure::support {

inline constexpr std::uint64_t kib = 1024, mib = 1024 * kib;
inline const std::size_t page = os::page_size();

inline rvm::options small_log(os::disk* disk = nullptr, rvm::open_mode mode = rvm::open_mode::open_or_create) {
  rvm::options how;
  how.mode = mode;
  how.log.size = mib;
  how.recovery_memory = 8 * mib;
  how.disk = disk;
  return how;
}
inline rvm::options reading(os::disk* disk = nullptr) { return small_log(disk, rvm::open_mode::read_only); }

// An address where `length` bytes are free: in the middle of a large hole, so that what others allocate meanwhile does
// not come to lie there.
inline void* free_address(std::size_t length) {
  const std::size_t hole = (std::size_t{1} << 32) + length;
  auto* const at = static_cast<std::byte*>(os::map_anonymous(nullptr, hole));
  os::unmap(at, hole);
  return at + (std::size_t{1} << 31);
}

// Commits a text at an offset of the region.
inline void put(rvm::memory& memory, rvm::region& in, std::size_t offset, std::string_view text,
                rvm::commit_mode mode = rvm::commit_mode::flush) {
  memory.transact([&](rvm::transaction& tx) { tx.modify(in.data() + offset, text.data(), text.size()); }, mode);
}
inline std::string get(const rvm::region& in, std::size_t offset, std::size_t length) {
  return {reinterpret_cast<const char*>(in.data()) + offset, length};
}

}  // namespace tenure::support
