// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/access_trace.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::os {

std::size_t access_trace::unit_for(std::size_t length) {
  constexpr std::size_t most_parts = 16'384;  // each may be a mapping, of which a process has 65 530
  std::size_t unit = page_size();
  while (length / unit > most_parts) unit *= 2;
  return unit;
}

access_trace::access_trace(std::byte* begin, std::size_t length, std::size_t unit, const std::string& name)
    : begin_(begin),
      length_(length),
      unit_(unit),
      is_used_((length + unit - 1) / unit),
      order_(is_used_.size()),
      range_(begin, length, name, 0, this) {
  if (::mprotect(begin, length, PROT_NONE) != 0) throw_system_error(errno, name + ": cannot record what is used of it");
}

access_trace::~access_trace() { (void)::mprotect(begin_, length_, PROT_READ); }

// In the signal handler. Several threads may come to one part at once: the first notes it.
bool access_trace::on_access(std::byte* at, bool is_write) noexcept {
  const auto part = static_cast<std::size_t>(at - begin_) / unit_;
  const bool is_first = is_used_[part].exchange(1) == 0;
  if (!is_first && is_write) return false;
  if (is_first && !is_cut_short_) order_[noted_.fetch_add(1)] = static_cast<std::uint32_t>(part + 1);
  std::byte* const from = begin_ + part * unit_;
  if (::mprotect(from, std::min(unit_, length_ - part * unit_), PROT_READ) == 0) return true;
  is_cut_short_ = true;
  return ::mprotect(begin_, length_, PROT_READ) == 0;
}

std::vector<std::uint32_t> access_trace::used() const {
  std::vector<std::uint32_t> parts;
  const std::size_t noted = noted_;
  for (std::size_t n = 0; n < noted; ++n)
    if (const std::uint32_t part = order_[n]; part != 0) parts.push_back(part - 1);
  return parts;
}

}  // namespace tenure::os
