// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds out which addresses are handles, and to which object an address belongs. So no pointer of the program is
// followed before it is known to be good [pobj.address.known], and pointers into the middle of objects are understood
// [pobj 7].
//
// There is a bitmap for each page of the address space that has handles, with one bit for 8 bytes. Objects that may
// reach beyond the next page are also in an ordered map. The store's lock guards it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <unordered_map>

#include "pobj/object.hpp"

namespace tenure::pobj {

class address_map {
 public:
  explicit address_map(std::pmr::memory_resource* in) : pages_(in), large_(in) {}

  // Adds an object whose header is in place. Nothing else is known in its memory. If it throws, nothing has changed.
  void add(object o);
  // A garbage collector may have taken this memory without notice: forgets the objects in it.
  void forget(object o);
  void remove(object o);
  [[nodiscard]] bool is_handle(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at % 8 != 0) return false;
    const page_bits* const bits = look_up(at >> page_shift);
    return bits != nullptr && ((*bits)[at % 4096 / 512] >> at / 8 % 64 & 1) != 0;
  }
  // The object that contains the address, or that ends just before it; none if there is none.
  [[nodiscard]] object find(const void* address) const {
    if (is_handle(address)) return {static_cast<std::byte*>(const_cast<void*>(address))};
    return find_around(reinterpret_cast<std::uintptr_t>(address));
  }
  [[nodiscard]] std::size_t size() const { return count_; }
  // Calls f for each object, in no order. f may not add or remove objects.
  template <class F>
  void for_each(F&& call) const {
    for (const auto& [page, bits] : pages_)
      for (std::size_t w = 0; w < words; ++w)
        for (std::uint64_t left = bits[w]; left != 0; left &= left - 1)
          call(object{reinterpret_cast<std::byte*>(page << page_shift | (w * 64 + std::countr_zero(left)) * 8)});
  }

 private:
  static constexpr unsigned page_shift = 12;
  static constexpr std::size_t words = 8;  // of 64 bits, for 4096 bytes
  using page_bits = std::array<std::uint64_t, words>;

  [[nodiscard]] const page_bits* look_up(std::uintptr_t page) const {
    return page == last_page_ && last_bits_ != nullptr ? last_bits_ : look_up_anew(page);
  }
  [[nodiscard]] const page_bits* look_up_anew(std::uintptr_t page) const;
  [[nodiscard]] object find_around(std::uintptr_t at) const;
  // The last handle in the page whose bit is not above `last`; none if there is none.
  [[nodiscard]] object last_in(std::uintptr_t page, std::size_t last) const;

  std::pmr::unordered_map<std::uintptr_t, page_bits> pages_;
  std::pmr::map<std::uintptr_t, std::uint64_t> large_;  // handle / 8, which no collector takes for a pointer; size
  std::size_t count_ = 0;
  // Neighbours come one after the other.
  mutable std::uintptr_t last_page_ = 0;
  mutable const page_bits* last_bits_ = nullptr;
};

}  // namespace tenure::pobj
