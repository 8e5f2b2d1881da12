// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects for which something remains to be done when nothing leads to them any more: files to delete, entries elsewhere, a
// connection to close.
//
//     auto& orphans = store.root<tenure::finalization_queue<blob>>("orphans");
//     store.transact([&] { orphans.watch(store.make<blob>(...)); });
//     ...                                                            // a collection finds that nothing leads to it
//     store.transact([&] {
//       while (blob* gone = orphans.take()) remove_file(gone->name);
//     });
//
// Nothing is called at a collection: the program reads the messages when it likes to, in transactions of its own.
#pragma once

#include <cstdint>

#include <tenure/persist.hpp>
#include <tenure/store/weak_cell.hpp>

namespace tenure {

// A queue of messages about objects that it watches. It is an object of a store, or a member of one; it cannot be copied or
// moved. All calls need a write transaction (errc::bad_transaction), save where a comment says otherwise.
template <class T>
class finalization_queue {
 public:
  finalization_queue() = default;

  // From now on the object is watched. When a collection finds that nothing else leads to it, weak references to it are cleared,
  // and it is put in the queue, which keeps it, and all that it refers to. There is one message; whoever wants another one
  // watches it again. Only a queue that is persistent and kept gets messages, and about persistent objects only; one that becomes
  // persistent while a collection goes on gets none about what that has found already. Of objects that destroy() ends there is no message, nor is one left. Throws errc::bad_weak_reference as weak(T*) does, or if the queue is
  // in no store or in another one; and what store::make() throws.
  void watch(T* object) { list_.watch(object); }
  // The next message, which the queue forgets; nullptr: there is none. It is of no object that this transaction has destroyed.
  [[nodiscard]] T* take() { return static_cast<T*>(list_.take()); }
  // The number of messages. In any transaction. One of an object that the open transaction has destroyed counts until the commit.
  [[nodiscard]] std::uint64_t size() const noexcept { return list_.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

 private:
  detail::finalization_list list_;

 public:
  static constexpr auto persistent = members<&finalization_queue::list_>{};
};

}  // namespace tenure
