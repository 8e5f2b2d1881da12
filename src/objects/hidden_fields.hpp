// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Fields that are not recoverable, of objects that are becoming persistent. They are logged as zero, and then put back.
#pragma once

#include <cstddef>
#include <cstring>

#include "log/invariant.hpp"
#include "os/cleared_memory.hpp"
#include "os/room_for_one.hpp"

namespace tenure::heap {

// Used by one thread at a time.
class hidden_fields {
 public:
  void hide(std::byte* at, std::size_t length) {
    os::reserve_one_more(fields_);  // a field is listed only if its value is saved
    const std::size_t saved = saved_.size();
    saved_.insert(saved_.end(), at, at + length);
    fields_.push_back({at, length, saved});
    std::memset(at, 0, length);
  }
  void put_back() noexcept {
    for (const field& f : fields_) std::memcpy(f.at, saved_.data() + f.saved, f.length);
    os::clear_all_of(fields_);
    os::clear_all_of(saved_);
  }
  [[nodiscard]] bool empty() const noexcept { return fields_.empty(); }
  // Throws if an invariant does not hold.
  void check() const {
    std::size_t saved = 0;
    for (const field& f : fields_) {
      rvm::require_invariant(f.saved == saved, "the values of hidden fields are kept in their order");
      saved += f.length;
    }
    rvm::require_invariant(saved == saved_.size(), "all that is kept is of hidden fields");
  }

 private:
  struct field {
    std::byte* at;
    std::size_t length, saved;
  };
  os::cleared_vector<field> fields_;
  os::cleared_vector<std::byte> saved_;
};

}  // namespace tenure::heap
