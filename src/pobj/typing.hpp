// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Types objects word by word, for the calls that set fields. The store's lock is held.
#pragma once

#include <cstdint>
#include <vector>

#include "pobj/transaction.hpp"

namespace tenure::pobj {

// Makes the word at `offset` a reference, or no reference, in the object's type and its image. Throws POBJ_ETYPE if the
// object's type is a defined one and says otherwise.
void set_reference(transaction& t, object o, std::uint64_t offset, bool is_reference);
// The same for words of an object, together with something else that may fail: unless done() is called, they are what they
// were. As above, it throws POBJ_ETYPE.
class change_of_words {
 public:
  change_of_words(transaction& t, object o) : t_(t), o_(o) {}
  ~change_of_words();
  change_of_words(const change_of_words&) = delete;
  change_of_words& operator=(const change_of_words&) = delete;
  void set(std::uint64_t offset, bool is_reference);
  // Words with a byte in [from, to) are no references any more.
  void unflag(std::uint64_t from, std::uint64_t to);
  void done() noexcept { changed_.clear(); }

 private:
  struct changed {
    std::uint64_t offset, image;  // what the image had there
  };
  transaction& t_;
  const object o_;
  std::vector<changed> changed_;
};
// The address of a field that will hold a reference. Throws POBJ_ERANGE.
[[nodiscard]] std::uint64_t reference_offset(object o, const void* field);

}  // namespace tenure::pobj
