// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/storage_guard.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::os {

namespace {

// The handler must not allocate memory, as the first use of an ordinary thread-local variable of a library may.
[[gnu::tls_model("initial-exec")]] thread_local storage_guard* guard_of_thread = nullptr;

}  // namespace

storage_guard::storage_guard() noexcept {
  if (guard_of_thread == nullptr) guard_of_thread = this;
}

storage_guard::~storage_guard() {
  if (guard_of_thread == this) guard_of_thread = nullptr;
}

bool storage_guard::replace(std::uintptr_t address, const char* file, std::uint64_t offset) noexcept {
  storage_guard* const guard = guard_of_thread;
  if (guard == nullptr || guard->count_ == most_pages) return false;
  const std::uintptr_t page = address - address % page_size();
  if (::mmap(reinterpret_cast<void*>(page), page_size(), PROT_READ | PROT_WRITE,
             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
    return false;
  if (guard->count_ == 0) {
    std::strncpy(guard->file_.data(), file, guard->file_.size() - 1);
    guard->offset_ = offset - (address - page);
  }
  guard->pages_[guard->count_++] = page;
  return true;
}

std::string storage_guard::text() const {
  if (count_ == 0) return {};
  return std::string(file_.data()) + ": the page at offset " + std::to_string(offset_) + " cannot be read";
}

void storage_guard::require_all_read() const {
  if (count_ != 0) throw_system_error(EIO, text() + "; repair the store, or restore it from a backup");
}

std::vector<std::uintptr_t> storage_guard::noted_in(const void* begin, std::size_t length) {
  std::vector<std::uintptr_t> found;
  if (guard_of_thread == nullptr) return found;
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  std::ranges::copy_if(std::span(guard_of_thread->pages_).first(guard_of_thread->count_), std::back_inserter(found),
                       [&](std::uintptr_t page) { return page >= from && page < from + length; });
  return found;
}

}  // namespace tenure::os
