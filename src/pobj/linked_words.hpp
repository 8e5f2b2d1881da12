// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Words of others' images that a commit changes to refer to new images [pobj.link]. They are changed with the store's lock
// held, and declared when recoverable memory prepares the commit. It forgets what is declared there if the commit fails. So an
// abort that follows puts nothing back over what others have written since. The transaction has joined this, and holds the
// pages.
#pragma once

#include <vector>

#include <tenure/rvm/participant.hpp>

#include "os/room_for_one.hpp"
#include "pobj/space.hpp"

namespace tenure::pobj {

class linked_words final : public rvm::participant {
 public:
  explicit linked_words(const space& in) : in_(in) {}

  [[nodiscard]] bool empty() const { return all_.empty(); }
  // If it throws, nothing has changed.
  void change(position word, reference to) {
    os::reserve_one_more(all_);
    all_.push_back({word, load_word(in_.at(word)), to.bits});
    store_word(in_.at(word), to.bits);
  }
  void clear() noexcept { all_.clear(); }
  // Puts back what was there, unless the place has got another use: is_in_image(position).
  template <class F>
  void undo(F&& is_in_image) noexcept {
    for (const changed& each : all_)
      if (load_word(in_.at(each.word)) == each.now && is_in_image(each.word))
        store_word(in_.at(each.word), each.before);
    all_.clear();
  }

  void prepare(rvm::commit_scope& tx) override {
    for (const changed& each : all_) tx.set_range(in_.at(each.word), 8);
  }
  // undo() does it, with the store's lock held.
  void undo_prepare(rvm::commit_scope&) noexcept override {}
  void committed(rvm::commit_scope&) noexcept override {}
  void aborted(rvm::commit_scope&) noexcept override {}

 private:
  struct changed {
    position word;
    std::uint64_t before, now;
  };
  const space& in_;
  std::vector<changed> all_;
};

}  // namespace tenure::pobj
