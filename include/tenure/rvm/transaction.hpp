// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenure/callback.hpp>
#include <tenure/rvm/commit.hpp>
#include <tenure/rvm/map_options.hpp>
#include <tenure/rvm/paged_segment.hpp>
#include <tenure/rvm/region.hpp>

namespace tenure::rvm {

class participant;
class transaction_state;
struct inner_level;

#pragma GCC visibility push(default)  // libtenure.so exports it

class memory;

// A transaction in a transaction, begun with transaction::begin_inner() [RVM §8]: what it has changed can be undone without the
// rest. Moves. Destroying an open one aborts it, and those that are in it. So does assigning to it: after `in = tx.begin_inner()`,
// with an open `in`, the new one was in the old one, and both have ended. It is used by the thread that uses the outer one, and ends with that.
// Inner transactions have inner ones; they end in the opposite order: errc::bad_transaction.
class inner_transaction {
 public:
  inner_transaction() = default;
  ~inner_transaction();
  inner_transaction(inner_transaction&& other) noexcept = default;
  inner_transaction& operator=(inner_transaction&& other) noexcept;

  // What it has changed is the outer one's from now on. Nothing is logged.
  void commit();
  // Puts back what was there when it began, also where the outer one had changed it before: declared ranges, changes in
  // automatically tracked regions, pages that would be written, cleared or changed when the outer one commits. Pages that
  // were held stay held. std::bad_alloc: memory is too short; nothing was put back, and both are still open. Where a
  // destructor meets that, the outer one can only be aborted.
  void abort();
  // False also when the outer one has ended.
  [[nodiscard]] bool is_open() const noexcept;

 private:
  friend class transaction;
  explicit inner_transaction(std::shared_ptr<inner_level> level) noexcept : level_(std::move(level)) {}
  std::shared_ptr<inner_level> level_;
};

// A transaction [RVM §4.2]. Moves. Destroying an open one aborts it; an open no_restore transaction is forgotten then:
// its changes stay in memory and are never logged.
class transaction {
 public:
  transaction() = default;
  ~transaction();
  transaction(transaction&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  transaction& operator=(transaction&& other) noexcept;

  // Announces that [address, address+length) is about to change. The range must lie in one region
  // (errc::not_mapped, errc::partly_mapped). Call it before the change; again is harmless.
  void set_range(const void* address, std::size_t length);
  template <class T>
  void set_range(T& object) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    set_range(&object, sizeof(T));
  }
  // As set_range, for a range in an automatically tracked region that is about to be written by the kernel, as by read(2):
  // it fails with EFAULT where it meets a page that is closed. Spares the program's own writes their traps, too. In an
  // automatic transaction set_range does no more than this there: what is logged is what changed.
  void touch(const void* address, std::size_t length) { set_range(address, length); }
  // set_range, then copies.
  void modify(void* to, const void* from, std::size_t length);
  template <class T>
  void modify(T& object, const std::type_identity_t<T>& value) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    modify(&object, &value, sizeof(T));
  }

  // Changes whole pages of 4096 bytes without logging their content: when the transaction commits, `from` (the pieces one
  // after the other, together whole pages) is written straight to the segment from where it is, and made durable before
  // the commit is; the log gets a checksum a page. For volumes that would fill the log.
  //
  // The pages, [offset, offset+length) of the region, must be free in the committed image: should the transaction abort or
  // the power fail, their content is arbitrary. No other open transaction may change them. The pieces must stay as they
  // are until the transaction has ended. Memory is not changed: usually the pieces lie in the pages themselves, and
  // otherwise the program sees to it that memory holds what it wants to see there. An abort puts nothing back. Of ranges
  // that the transaction declares in the same pages the values win. Where a page is written twice, the later one holds.
  //
  // With an archive, the bytes go through the log after all, so that the history is whole. Not to be called from
  // participant::prepare.
  void write_bulk(const region& in, std::size_t offset, std::span<const std::span<const std::byte>> from);
  // Gives the disk space of whole pages of 4096 bytes back when the transaction commits: they become zeros in the segment
  // (where the file system cannot give space back, zeros are written). As with write_bulk, the pages must be free in the
  // committed image, and no other open transaction may change them. What memory shows there afterwards is arbitrary, and so
  // is what a restore from a backup and the log leaves there. Before the pages are used again, region::allocate() gets
  // them space: otherwise a full disk can stop truncation. Not to be called from participant::prepare.
  void clear(const region& in, std::size_t offset, std::size_t length);
  // Announces that bytes are about to change and will not be logged: new objects in free pages, or what write_bulk will
  // take. Until the transaction ends, truncation does not drop the process's copies of these pages, not even where they
  // equal the segment at the moment.
  void hold(const void* address, std::size_t length);

  // Changes bytes of a segment that is open for pages: `offset` counts from the begin of its data. The bytes are read from
  // where they are when the transaction commits, and must stay there until then; where changes overlap, the later one holds.
  // An abort forgets them: it puts nothing back, because memory is the program's own. Until the transaction ends, the pages
  // stop incremental truncation, as those of declared ranges do. errc::wrong_tracking in a transaction that was begun with
  // begin_automatic(); errc::segment_too_short where the segment has no such bytes.
  void change(const paged_segment& in, std::uint64_t offset, std::span<const std::byte> from);

  // Begins an inner transaction. It costs nothing but, in an automatic one, a comparison of the pages that have been written so
  // far. The transaction cannot commit while it has an open one. errc::cannot_abort for no_restore.
  [[nodiscard]] inner_transaction begin_inner();
  // The number of inner transactions that are open.
  [[nodiscard]] std::size_t inner_depth() const;
  // Runs f(), or f(inner), in an inner transaction and commits it; aborts it and rethrows if f throws.
  template <class F>
  void transact_inner(F&& f) {
    inner_transaction inner = begin_inner();
    if constexpr (std::is_invocable_v<F, inner_transaction&>)
      std::forward<F>(f)(inner);
    else
      std::forward<F>(f)();
    if (inner.is_open()) inner.commit();
  }

  // Ends the transaction; its new values are read from memory here. If it throws, the transaction is still open and can
  // be aborted or, where the cause is gone (errc::undeclared_write, errc::too_big), committed again; after
  // errc::outcome_unknown it can only be aborted.
  ticket commit(commit_mode mode = commit_mode::flush);
  // Puts the old values back. errc::cannot_abort for no_restore. Of a prepared transaction: if its outcome cannot be written, the
  // memory has failed, as the next call says, and the transaction is in doubt when it is opened again.
  void abort();

  // The first phase of a two-phase commit [RVM §8]: makes durable what the transaction would log, and all commits before it, and
  // keeps the transaction open. It can still be committed and aborted, and nothing else. Until then no other transaction of
  // the memory can commit: errc::in_doubt. If the process ends before, the memory cannot be opened for writing until its outcome is
  // said (options::in_doubt; `tenure resolve`). `global_id` names the transaction to whoever decides: 1 to 255 printable
  // bytes (errc::bad_option). Memory must not be written until the transaction has ended: the outcome would depend on whether
  // the process has survived. Where an error is thrown, nothing is prepared, and the transaction is open as before;
  // errc::cannot_abort for no_restore. But after errc::outcome_unknown the transaction may be found in doubt: it can only be
  // aborted, and so must be what its coordinator says; then this memory must be closed.
  void prepare(std::string_view global_id);
  [[nodiscard]] bool is_prepared() const;
  // For a participant that cannot learn the outcome: ends the transaction here, in memory as abort() does, and leaves it prepared.
  // The memory cannot be used any more (errc::in_doubt): close it, and open it again when the outcome is known.
  void leave_in_doubt();

  [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr; }
  [[nodiscard]] std::uint64_t id() const;
  // A name that the log's history shows: at most 255 bytes of it are kept.
  void label(std::string_view name);
  // --- For layers above (participant.hpp) ---
  //
  // Takes part in this transaction's end. Joining twice is joining once. The participant must outlive the transaction.
  void join(participant& who);
  // Finds now what the transaction has changed in automatically tracked regions, in ascending order, for a layer above that
  // decides by it what else to log. It needs none of the locks of commit. Until commit(), which does not search again, the
  // program must not write to automatically tracked regions, and set_range() means what it means in participant::prepare.
  // After a commit that throws, or discard_changes(), everything is as before.
  std::span<const memory_range> collect_changes();
  void discard_changes() noexcept;
  // After collect_changes(): calls f with each page that it has compared. All that the program may have written to lies
  // there, also where it has written what was there before.
  void for_each_written_page(const callback<void(const memory_range&)>& f) const;
  // After collect_changes(): what [address, address+length), in an automatically tracked region, was before the transaction.
  void read_committed(const void* address, std::size_t length, void* into) const;
  // What collect_changes() has found.
  [[nodiscard]] std::span<const memory_range> changes() const;

 private:
  friend class memory;
  explicit transaction(transaction_state* state) : state_(state) {}
  [[nodiscard]] transaction_state& of_memory_of(const region& in) const;
  transaction_state* state_ = nullptr;
};

// An open transaction, as query shows it.
struct open_transaction {
  std::uint64_t id;
  std::string label;
  restore_mode mode;
  std::uint64_t ranges, bytes;  // declared so far
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
