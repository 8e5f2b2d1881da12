// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Gives the objects of a new database their places, one behind the other, and keeps its bookkeeping. The rules are those
// of births (objects/birth.hpp): objects of one type and size lie in typed pages if there are enough of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "objects/birth.hpp"
#include "objects/block_map.hpp"

namespace tenure::rewriting {

using heap::address;

class new_space {
 public:
  // `name`: of the database, for messages. `typed_from`: as in store_tuning.
  new_space(std::string name, address home, std::uint64_t capacity, std::uint64_t typed_from);

  // The place of a new object. Throws errc::out_of_memory if the database has no room.
  [[nodiscard]] address place(const heap::new_object& what);
  // Whether an object has a header before it.
  [[nodiscard]] bool has_header(address object) const;

  [[nodiscard]] address home() const { return home_; }
  // How much of the database is used, in bytes; and in blocks.
  [[nodiscard]] std::uint64_t length() const { return blocks_end_ * heap::block_size; }
  [[nodiscard]] std::uint64_t blocks_end() const { return blocks_end_; }

  // Calls f(offset from home, bytes) for each page of the bookkeeping, but for the one with the database's header.
  template <class F>
  void for_each_page(F&& f) const;

 private:
  using zone_records = std::vector<heap::block_record>;
  // Objects of one type and size.
  struct object_class {
    std::uint64_t with_headers = 0;  // bytes
    address next = 0, limit = 0;     // of the page that is being filled
  };

  [[nodiscard]] address place_typed(object_class& in, heap::page_word word);
  [[nodiscard]] address place_small(std::uint64_t size, std::uint64_t alignment);
  [[nodiscard]] address place_large(std::uint64_t size, std::uint64_t alignment);
  [[nodiscard]] std::uint64_t take_block();
  // Consecutive blocks of a zone, or of several if they do not fit into one.
  [[nodiscard]] std::uint64_t take_blocks(std::uint64_t count);
  void use_zone(std::uint64_t zone, heap::zone_kind kind);
  [[nodiscard]] heap::block_record& record(std::uint64_t block) const;
  void set_start(address object);
  [[nodiscard]] std::uint64_t block_of(address at) const { return (at - home_) / heap::block_size; }
  [[nodiscard]] address start_of(std::uint64_t block) const { return home_ + block * heap::block_size; }

  const std::string name_;
  const address home_;
  const std::uint64_t blocks_, typed_from_;
  std::vector<heap::zone_kind> kinds_;
  std::vector<std::unique_ptr<zone_records>> zones_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> left_;  // rests of zones: first block, blocks
  std::uint64_t unused_from_ = heap::bookkeeping_blocks, blocks_end_ = heap::bookkeeping_blocks;
  std::unordered_map<std::uint64_t, object_class> classes_;  // by type and size
  address next_ = 0, limit_ = 0;                             // the block for objects with headers
  std::uint64_t typed_block_ = 0;                            // in which the next typed page will be
  std::size_t next_page_ = heap::pages_in_block;
};

template <class F>
void new_space::for_each_page(F&& f) const {
  using namespace heap;
  for (std::uint64_t at = 0; at < kinds_.size(); at += record_page) {
    const std::uint64_t length = std::min<std::uint64_t>(record_page, kinds_.size() - at);
    f(zone_kinds_at + at, std::as_bytes(std::span(kinds_).subspan(at, length)));
  }
  for (std::uint64_t zone = 0; zone < zones_.size(); ++zone) {
    if (zones_[zone] == nullptr) continue;
    const std::span<const block_record> records = *zones_[zone];
    for (std::uint64_t n = 0; n < records.size(); n += records_in_page)
      f(zone * zone_size + record_offset(n),
        std::as_bytes(records.subspan(n, std::min<std::uint64_t>(records_in_page, records.size() - n))));
  }
}

}  // namespace tenure::rewriting
