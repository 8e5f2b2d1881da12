// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// For layers above, which keep their own bookkeeping in recoverable memory, or other things beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tenure/rvm/map_options.hpp>

namespace tenure::rvm {

class transaction_state;

#pragma GCC visibility push(default)  // libtenure.so exports it

// A transaction that is ending, as its participants see it: they may declare ranges in it, while it is being prepared.
class commit_scope {
 public:
  explicit commit_scope(transaction_state& of) : of_(of) {}
  commit_scope(const commit_scope&) = delete;
  commit_scope& operator=(const commit_scope&) = delete;

  [[nodiscard]] std::uint64_t id() const;
  // What an automatic transaction has changed in automatically tracked regions, in ascending order.
  [[nodiscard]] std::span<const memory_range> changes() const;
  // As in transaction.
  void set_range(const void* address, std::size_t length);
  template <class T>
  void set_range(T& object) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    set_range(&object, sizeof(T));
  }
  void modify(void* to, const void* from, std::size_t length);
  template <class T>
  void modify(T& object, const std::type_identity_t<T>& value) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    modify(&object, &value, sizeof(T));
  }

 private:
  transaction_state& of_;
};

// Layers above that keep their own bookkeeping in recoverable memory (allocators) take part in a transaction's end.
// prepare() runs inside commit, with commits of other transactions kept out: it may write and declare ranges, nothing else.
// If the commit then fails before anything was logged, undo_prepare() must put back what prepare() wrote. Either is
// followed by another attempt, or by committed() or aborted(), which come once, without locks.
//
// In an automatic transaction prepare() finds the changes in commit_scope::changes(), and set_range() means there: log these
// bytes as they are when the last participant is done, whether they differ from the committed image or not.
class participant {
 public:
  virtual ~participant() = default;
  virtual void prepare(commit_scope& tx) = 0;
  virtual void undo_prepare(commit_scope& tx) noexcept = 0;
  // The order of commits is fixed and the values are copied; nothing is durable yet. In an automatic transaction: before
  // the next one may begin. Commits of others are kept out: neither wait nor begin, commit or abort here.
  virtual void captured(commit_scope& /*tx*/) noexcept {}
  virtual void committed(commit_scope& tx) noexcept = 0;
  virtual void aborted(commit_scope& tx) noexcept = 0;
  // An inner transaction has ended; its level, 1 for one that is in no other. It may have begun before the participant joined.
  // inner_aborted() comes when memory is as it was when that began. If it cannot be made so, only aborted() comes.
  virtual void inner_committed(commit_scope& /*tx*/, std::size_t /*level*/) noexcept {}
  virtual void inner_aborted(commit_scope& /*tx*/, std::size_t /*level*/) noexcept {}
};

// Decides what of an automatically tracked page is recoverable, for layers that keep other things on the same pages. Bytes
// that it leaves out are never logged and never count as stray writes.
class change_filter {
 public:
  virtual ~change_filter() = default;
  // Asked for pages that differ from the committed image, by one thread at a time, at the begin, commit and abort of
  // automatic transactions. Appends to `kept` the parts of `page` that are recoverable: in ascending order, disjoint,
  // within the page.
  virtual void recoverable_parts(const memory_range& page, std::vector<memory_range>& kept) = 0;
  // The same for the parts that an abort puts back to what they were at begin; that of an inner transaction, too.
  virtual void restorable_parts(const memory_range& page, std::vector<memory_range>& kept) {
    recoverable_parts(page, kept);
  }
  // Whether all changes of the page are announced by participants, with set_range. Whatever else changes there is a mistake,
  // and is taken back when it is found.
  [[nodiscard]] virtual bool is_announced(const memory_range& /*page*/) const noexcept { return false; }
  // Whether the byte at `address` is not recoverable: then it may be written outside of transactions. Asked in a signal
  // handler when a closed page is written there; if so, the page is opened, and compared when the next transaction begins.
  // Only async-signal-safe functions may be called. Any thread, several at a time.
  [[nodiscard]] virtual bool allows_stray_write(const std::byte* /*address*/) const noexcept { return false; }
  // What lies there, for a message about a write; "" if it is not known. Asked by the thread that commits.
  [[nodiscard]] virtual std::string describe(const std::byte* /*address*/) const { return {}; }
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
