// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What an inner transaction must be able to put back, and recoverable memory does not know: the bytes of objects that only the
// outermost commit makes persistent [heap.inner.bytes].
#pragma once

#include <cstddef>

#include <tenure/rvm.hpp>

#include "objects/address_lists.hpp"
#include "objects/database_state.hpp"
#include "os/cleared_memory.hpp"

namespace tenure {

struct store_state;

// Used by the writer.
class saved_objects {
 public:
  // Copies what the open transaction has made so far, and what else is transient and can be reached from that and from persistent
  // objects that it has written to. After the transaction's changes were compared (for_each_written_page).
  void save(const store_state& of);
  void put_back(const store_state& of) const noexcept;
  // Of which the memory can be used once more in the same transaction.
  [[nodiscard]] std::size_t capacity() const noexcept { return bytes_.capacity(); }

 private:
  // It is not of this transaction.
  struct attached {
    const database_state* in;
    heap::address object;
    std::uint32_t type;
  };
  [[nodiscard]] static bool is_there(const attached& which, const rvm::memory_range& range);

  os::cleared_vector<rvm::memory_range> ranges_;
  std::size_t own_ = 0;  // of these; what comes then is of what is attached, in the same order
  heap::address_list<attached> attached_;
  os::cleared_bytes bytes_;  // one after the other
};

}  // namespace tenure
