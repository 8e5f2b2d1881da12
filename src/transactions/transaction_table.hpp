// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The transactions of a memory: open ones, and objects of ended ones, which are reused.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "regions/opening.hpp"
#include "regions/region_mapper.hpp"
#include "transactions/automatic_transaction.hpp"
#include "transactions/transaction_state.hpp"

namespace tenure::rvm {

class transaction_table final : public region_users {
 public:
  // The parts of the memory that transactions use.
  struct memory_parts {
    const opening& of;
    const region_table& regions;
    durable_log& log;
    page_queue& queue;
    truncator& truncation;
    log_writer& writer;
    tracked_regions& tracked;
    const checking_mode& checking;
    counters& count;
    const error& not_restored;    // set if an abort could not put everything back
    const error& still_prepared;  // set if the log could not be told that a prepared transaction was aborted
    const error& left_in_doubt;   // set if a prepared transaction stays so
    bool archived;                // data that is written in bulk must go through the log
  };
  explicit transaction_table(const memory_parts& parts) : parts_(parts) {}

  [[nodiscard]] const memory_parts& parts() const { return parts_; }
  // Guards the list, and the parts of transactions that other threads read. An innermost lock.
  [[nodiscard]] std::mutex& list_lock() const { return list_mutex_; }

  [[nodiscard]] transaction_state& begin(restore_mode mode);
  // Waits while another automatic transaction has the automatic right.
  [[nodiscard]] transaction_state& begin_automatic();

  [[nodiscard]] std::vector<std::uint64_t> open_ids() const;  // sorted
  // The transactions that use the region; all if it is nullptr.
  [[nodiscard]] std::vector<open_transaction> describe_open(const region_state* in) const;
  // Adds the transactions' counts.
  void add_to(statistics& s) const;
  // Calls f for each open transaction. The list's lock is held.
  template <class F>
  void for_each_open(F&& f) const {
    for_each([&](transaction_state& tx) {
      if (tx.is_open()) f(tx);
    });
  }
  // The program has released the memory while transactions are open. The last of them destroys it.
  void outlive(const std::shared_ptr<void>& memory);

  // Throws errc::undeclared_write, once, if a store was announced that no transaction, or one of several, was to declare.
  void require_declared_stores();

  // Throws if an invariant does not hold. Called while nobody uses a transaction.
  void check() const;

  // region_users
  [[nodiscard]] std::size_t users_of(const region_state& what) const override;
  [[nodiscard]] page_set referenced_pages() override;
  void declare_store(region_state& in, std::byte* at, std::size_t length, write_barriers how) noexcept override;

  [[nodiscard]] std::uint64_t last_id() const { return last_id_.load(std::memory_order_relaxed); }

 private:
  template <class T>
  using list = std::vector<std::unique_ptr<T>>;

  template <class F>
  void for_each(F&& f) const {
    for (const auto& tx : explicit_) f(*tx);
    for (const auto& tx : automatic_) f(*tx);
  }
  // An object that no transaction uses, for a new one.
  template <class T>
  [[nodiscard]] T& claim(list<T>& all);
  // The newest of the open transactions that the calling thread has begun, and their number.
  struct own_transactions {
    transaction_state* newest = nullptr;
    std::size_t count = 0;
  };
  [[nodiscard]] own_transactions find_own() const;
  [[nodiscard]] std::uint64_t next_id() { return last_id_.fetch_add(1, std::memory_order_relaxed) + 1; }

  const memory_parts parts_;
  std::atomic<std::uint64_t> last_id_{0};
  mutable std::mutex list_mutex_;
  list<explicit_transaction> explicit_;
  list<automatic_transaction> automatic_;
  // Of a region with write_barriers::checking: the first announced store since the last commit that was in no transaction, or
  // in several. Guarded by the list's lock.
  std::atomic<bool> has_misplaced_{false};
  std::string misplaced_;
};

}  // namespace tenure::rvm
