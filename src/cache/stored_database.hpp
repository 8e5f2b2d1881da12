// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A database that is not mapped: its bytes come from the page pool, by the addresses that they would have at home. Finds the
// object that an address belongs to, as block_map does where the database is mapped.
//
// Damage never leads outside of the segment: everything that is read from the bookkeeping is checked before it is used.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>

#include <tenure/error.hpp>
#include <tenure/rvm.hpp>

#include "cache/page_pool.hpp"
#include "objects/block_map.hpp"

namespace tenure::cache {

// What a pointer in an object of the heap's own says, as it is stored.
[[nodiscard]] inline std::uint64_t address_of(const void* stored) { return reinterpret_cast<std::uintptr_t>(stored); }

class stored_database {
 public:
  // Opens the segment for pages and checks the database's header.
  stored_database(rvm::memory& memory, const rvm::segment_member& member, page_pool& pool, bool is_read_only);
  stored_database(const stored_database&) = delete;
  stored_database& operator=(const stored_database&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::uint64_t home() const { return home_; }
  [[nodiscard]] bool contains(std::uint64_t address) const { return address - home_ < capacity_; }
  [[nodiscard]] bool shares_homes(const stored_database& other) const {
    return home_ < other.home_ + other.capacity_ && other.home_ < home_ + capacity_;
  }
  // Whether nothing was ever committed to it.
  [[nodiscard]] bool is_blank();
  // Throws errc::damaged or errc::wrong_version.
  void require_right_header();
  [[nodiscard]] heap::database_header header();
  [[nodiscard]] rvm::paged_segment& segment() { return segment_; }

  struct stored_object {
    std::uint64_t at = 0;  // 0: none
    std::uint32_t type = 0;
    std::uint64_t size = 0;  // bytes; they lie in the segment
    [[nodiscard]] explicit operator bool() const { return at != 0; }
  };
  // The object in which the address lies.
  [[nodiscard]] stored_object find(std::uint64_t address);
  // Copies bytes; what() says whose they are. Throws errc::damaged if the database has no such bytes, or if a page of
  // them is damaged.
  template <std::invocable What>
  void read(std::uint64_t address, std::span<std::byte> into, What&& what) {
    if (!contains(address) || !has(address - home_, into.size()))
      throw damaged(what() + " does not lie in the database");
    try {
      pool_.read(segment_, address - home_, into);
    } catch (const error& e) {
      throw error(e.code(), what() + " cannot be read: " + e.what());
    }
  }
  void read(std::uint64_t address, std::span<std::byte> into, const std::string& what) {
    read(address, into, [&]() -> const std::string& { return what; });
  }
  void read(std::uint64_t address, std::span<std::byte> into, const char* what) {
    read(address, into, std::string(what));
  }
  // Bytes of the heap's bookkeeping. Where the segment ends before, zeros.
  template <class T>
  [[nodiscard]] T at(std::uint64_t offset) {
    T value{};
    if (has(offset, sizeof value)) pool_.read(segment_, offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  [[nodiscard]] heap::zone_kind kind_of_zone(std::uint64_t zone) {
    return at<heap::zone_kind>(heap::zone_kinds_at + zone);
  }
  // What is stored of a block. Valid until the next call.
  struct block_record {
    heap::zone_kind zone = heap::zone_kind::unused;
    heap::block_entry entry;
    heap::page_words pages;
    heap::start_bits starts;
  };
  [[nodiscard]] const block_record& record(std::uint64_t block);
  // Of the reservation.
  [[nodiscard]] std::uint64_t blocks() const { return capacity_ / heap::block_size; }
  // Of the segment, in bytes, for what is about to be stored there.
  void grow(std::uint64_t length);
  // A commit has changed what is stored of blocks.
  void bookkeeping_changed() { known_ = {}; }

  // The bytes were committed.
  void committed(std::uint64_t address, std::span<const std::byte> bytes) {
    pool_.committed(segment_, address - home_, bytes);
  }

  // "FILE: is damaged: WHAT; restore it from a backup"
  [[nodiscard]] error damaged(const std::string& what) const;

 private:
  [[nodiscard]] bool has(std::uint64_t offset, std::uint64_t length) const {
    return offset <= length_ && length <= length_ - offset;
  }
  [[nodiscard]] std::uint64_t head_of(std::uint64_t block);
  [[nodiscard]] stored_object headed_object(std::uint64_t offset);

  rvm::memory& memory_;
  page_pool& pool_;
  const std::string file_, name_;
  std::uint64_t home_ = 0, capacity_ = 0;
  std::uint64_t length_ = 0;  // of the segment
  bool is_read_only_;
  rvm::paged_segment segment_;

  // The records that were used last, by the lowest bits of the block.
  struct known_record {
    std::uint64_t block = ~std::uint64_t{0};
    block_record record{};
  };
  std::array<known_record, 16> known_;
};

}  // namespace tenure::cache
