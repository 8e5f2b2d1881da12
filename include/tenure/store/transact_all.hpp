// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One transaction in several stores of the process: all of them commit, or none [RVM §8].
//
//     tenure::store accounts{"accounts"};
//     tenure::store_options how;
//     how.memory.in_doubt = tenure::outcomes_of(accounts);      // what a crash has left is decided when it is opened
//     tenure::store orders{"orders", how};
//     tenure::transact_all(accounts, orders, [&] { ... });      // durable in both here
//
// The first store is the coordinator. The others are prepared; then the first one commits, and with it the outcome; then the
// others commit. A participant that a crash leaves prepared asks the coordinator: what that does not know as committed was
// aborted. The coordinator keeps one number for each participant, in its root "tenure.outcomes", so the same stores must stay
// coordinator and participant as long as one is in doubt.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenure/callback.hpp>
#include <tenure/rvm/prepared.hpp>
#include <tenure/store/store.hpp>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

// The answers of a coordinator, for rvm::options::in_doubt of its participants. They throw errc::in_doubt for a transaction that
// another one coordinates, and if the store is not open when they are asked for; it may have been moved. errc::closed: it is not
// open now.
[[nodiscard]] callback<rvm::outcome(const rvm::prepared_transaction&)> outcomes_of(store& coordinator);

namespace detail {

// Write transactions of several stores, of this thread. The first is the coordinator's.
class all_transactions {
 public:
  // Begins them in an order that all threads share.
  explicit all_transactions(std::span<store* const> stores);
  // In two phases. If it throws, nothing was committed anywhere; but see transact_all.
  void commit();

 private:
  void commit_participants();
  void leave_in_doubt(std::size_t which) noexcept;
  std::vector<store*> stores_;
  std::vector<transaction> transactions_;
  std::vector<bool> is_in_doubt_;  // decided, and not committed there
};

}  // namespace detail

// transact_all(coordinator, others..., f): runs f() in a write transaction of each of these stores, and commits all of them,
// durably; aborts all and rethrows if f throws, or if one of them cannot commit. errc::bad_option: a store occurs twice;
// errc::bad_transaction: the thread has a transaction of one of them already. Costs one sync for the
// coordinator, and one or two for each other store: its commit becomes durable with its next one, which waits for that first.
// Until then it can be found in doubt.
//
// Only with errc::outcome_unknown it may be committed. If the coordinator's log fails while the outcome is written, the others are
// left in doubt: all of these stores must be closed, and opened again, the coordinator first. If a participant cannot commit
// what was decided, it alone is left in doubt, the message names it, and it must be closed, and opened again.
template <class... Rest>
void transact_all(store& coordinator, Rest&&... rest) {
  static_assert(sizeof...(Rest) >= 2, "give the stores, and then what to do");
  constexpr std::size_t others = sizeof...(Rest) - 1;
  const std::tuple<Rest&&...> all(std::forward<Rest>(rest)...);
  const auto with = [&]<std::size_t... N>(std::index_sequence<N...>) {
    return std::array<store*, others + 1>{&coordinator, &std::get<N>(all)...};
  };
  detail::all_transactions open(with(std::make_index_sequence<others>()));
  std::get<others>(all)();
  open.commit();
}

#pragma GCC visibility pop

}  // namespace tenure
