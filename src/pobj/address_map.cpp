// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/address_map.hpp"

namespace tenure::pobj {

namespace {

constexpr std::uint64_t large_size = 4096;

}  // namespace

const address_map::page_bits* address_map::look_up_anew(std::uintptr_t page) const {
  const auto at = pages_.find(page);
  if (at == pages_.end()) return nullptr;
  last_page_ = page;
  return last_bits_ = &at->second;  // elements of the map do not move
}

void address_map::forget(object o) {
  const std::uintptr_t from = o.address() - sizeof(object_header),
                       to = o.address() + std::max<std::uint64_t>(o.header().size, 1);
  for (std::uintptr_t page = from >> page_shift; page <= (to - 1) >> page_shift; ++page) {
    auto* const bits = const_cast<page_bits*>(look_up(page));
    if (bits == nullptr) continue;
    const std::size_t first = page == from >> page_shift ? from % 4096 / 8 : 0;
    const std::size_t last = page == (to - 1) >> page_shift ? (to - 1) % 4096 / 8 : 511;
    for (std::size_t w = first / 64; w <= last / 64; ++w) {
      std::uint64_t mask = ~std::uint64_t{0};
      if (w == first / 64) mask &= ~std::uint64_t{0} << first % 64;
      if (w == last / 64) mask &= ~std::uint64_t{0} >> (63 - last % 64);
      if (((*bits)[w] & mask) == 0) continue;
      count_ -= static_cast<std::size_t>(std::popcount((*bits)[w] & mask));
      (*bits)[w] &= ~mask;
    }
  }
  if (!large_.empty()) large_.erase(large_.lower_bound(round_to_8(from) / 8), large_.lower_bound(round_to_8(to) / 8));
}

void address_map::add(object o) {
  const std::uintptr_t at = o.address();
  const std::uintptr_t page = at >> page_shift;
  const bool is_large = o.header().size >= large_size;
  if (is_large) large_.emplace(at / 8, std::uint64_t{o.header().size});
  auto* bits = const_cast<page_bits*>(look_up(page));
  if (bits == nullptr) {
    try {
      bits = &pages_.try_emplace(page).first->second;
    } catch (...) {
      if (is_large) large_.erase(at / 8);
      throw;
    }
    last_page_ = page;
    last_bits_ = bits;
  }
  (*bits)[at % 4096 / 512] |= std::uint64_t{1} << at / 8 % 64;
  ++count_;
}

void address_map::remove(object o) {
  const std::uintptr_t at = o.address();
  auto* const bits = const_cast<page_bits*>(look_up(at >> page_shift));
  std::uint64_t& word = (*bits)[at % 4096 / 512];
  word &= ~(std::uint64_t{1} << at / 8 % 64);
  --count_;
  if (o.header().size >= large_size) large_.erase(at / 8);
  if (*bits == page_bits{}) {
    if (last_page_ == at >> page_shift) last_bits_ = nullptr;
    pages_.erase(at >> page_shift);
  }
}

object address_map::last_in(std::uintptr_t page, std::size_t last) const {
  const page_bits* const bits = look_up(page);
  if (bits == nullptr) return {};
  for (std::size_t w = last / 64 + 1; w-- > 0;) {
    std::uint64_t word = (*bits)[w];
    if (w == last / 64) word &= ~std::uint64_t{0} >> (63 - last % 64);
    if (word != 0)
      return {reinterpret_cast<std::byte*>(page << page_shift | (w * 64 + 63 - std::countl_zero(word)) * 8)};
  }
  return {};
}

object address_map::find_around(std::uintptr_t at) const {
  const auto holds = [&](object o) { return at - o.address() <= o.header().size; };
  const std::uintptr_t page = at >> page_shift;
  object o = last_in(page, at % 4096 / 8);
  if (!o && page != 0) o = last_in(page - 1, 511);
  if (o) return holds(o) ? o : object{};
  const auto above = large_.upper_bound(at / 8);
  if (above == large_.begin()) return {};
  o = {reinterpret_cast<std::byte*>(std::prev(above)->first * 8)};
  return holds(o) ? o : object{};
}

}  // namespace tenure::pobj
