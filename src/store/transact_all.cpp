// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The coordinator of transactions over several stores. What it has committed is an ordinary object of its store: for each
// participant, the number of the last transaction of both that has committed [heap.prepared.outcomes].
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <numeric>
#include <string>
#include <string_view>

#include <tenure/barriers.hpp>
#include <tenure/error.hpp>
#include <tenure/store/transact_all.hpp>
#include <tenure/vector.hpp>

#include "objects/format.hpp"
#include "store/open_stores.hpp"
#include "store/store_state.hpp"

namespace tenure {

namespace detail {

using store_identity = std::array<std::uint8_t, 16>;

struct stored_outcome {
  store_identity participant;
  std::uint64_t last;  // what was committed; one that is in doubt has this number, or the next one
};
struct stored_outcomes {
  tenure::vector<stored_outcome> all;

  [[nodiscard]] std::uint64_t last_of(const store_identity& participant) const {
    const auto found = std::ranges::find(all, participant, &stored_outcome::participant);
    return found == all.end() ? 0 : found->last;
  }
  void committed(const store_identity& participant, std::uint64_t number) {
    const auto found = std::ranges::find(all, participant, &stored_outcome::participant);
    if (found == all.end())
      all.push_back({participant, number});
    else
      change(all[static_cast<std::size_t>(found - all.begin())]).last = number;
  }
};

namespace {

constexpr std::string_view root_name = "tenure.outcomes";
constexpr std::string_view prefix = "tenure:";

const store_identity& identity_of(const store& of) {
  return reinterpret_cast<const heap::database_header*>(of.default_database().home())->store_id;
}

std::string text_of(const store_identity& id) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : id) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

// "tenure:COORDINATOR:PARTICIPANT:NUMBER"
std::string global_id(const store& coordinator, const store_identity& participant, std::uint64_t number) {
  return std::string(prefix) + text_of(identity_of(coordinator)) + ":" + text_of(participant) + ":" +
         std::to_string(number);
}

// Thrown where memory is too short for the text that says more. Made while there is memory.
const error& is_unknown() {
  static const error made(errc::outcome_unknown,
                          "a transaction in several stores: memory was short for its outcome, and for a message that "
                          "names the stores; close all of them and open them again, the coordinator first");
  return made;
}

template <class F>
[[noreturn]] void throw_unknown(F&& text) {
  try {
    throw error(errc::outcome_unknown, text());
  } catch (const std::bad_alloc&) {
    throw error(is_unknown());
  }
}

// A coordinator, wherever its store object is moved. Its database is `in` as long as the store is open.
struct asked_coordinator {
  std::string directory;
  store_identity identity;
  database in;
  const void* home;
};

rvm::outcome outcome_in(const asked_coordinator& coordinator, const rvm::prepared_transaction& what) {
  const auto refuse = [&](const std::string& why) {
    return error(errc::in_doubt, coordinator.directory + ": the transaction \"" + what.global_id + "\" " + why);
  };
  store_state* const open = store_at(coordinator.home);
  if (open == nullptr || open->closed ||
      static_cast<const heap::database_header*>(coordinator.home)->store_id != coordinator.identity)
    throw refuse("is in doubt, and its coordinator is not open any more; open it first, and leave it open");
  const std::string of = std::string(prefix) + text_of(coordinator.identity) + ":";
  const std::string_view id = what.global_id;
  constexpr std::size_t participant_length = 2 * sizeof(store_identity);
  if (!id.starts_with(of) || id.size() <= of.size() + participant_length)
    throw refuse("is in doubt, and this store does not coordinate it; give its coordinator");
  store_identity participant{};
  for (std::size_t n = 0; n < participant.size(); ++n)
    (void)std::from_chars(id.data() + of.size() + 2 * n, id.data() + of.size() + 2 * n + 2, participant[n], 16);
  std::uint64_t number = 0;
  (void)std::from_chars(id.data() + of.size() + participant_length + 1, id.data() + id.size(), number);
  const reading_scope reading(*open);
  const auto* const outcomes = coordinator.in.find_root<stored_outcomes>(root_name);
  const std::uint64_t last = outcomes == nullptr ? 0 : outcomes->last_of(participant);
  if (last > number)
    throw refuse(
        "is in doubt in an older copy of the participant, which has gone on since; use the right one, or say the "
        "outcome "
        "with `tenure resolve`");
  if (last + 1 < number)
    throw refuse(
        "is in doubt, and this store is an older copy, which lacks its outcome; give the right one, or say the outcome "
        "with `tenure resolve`");
  return last == number ? rvm::outcome::committed : rvm::outcome::aborted;
}

}  // namespace

all_transactions::all_transactions(std::span<store* const> stores)
    : stores_(stores.begin(), stores.end()), transactions_(stores.size()), is_in_doubt_(stores.size()) {
  (void)is_unknown();
  std::vector<std::size_t> order(stores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::less<>{}, [&](std::size_t n) { return stores_[n]; });
  for (std::size_t n = 1; n < order.size(); ++n)
    if (stores_[order[n]] == stores_[order[n - 1]])
      throw error(errc::bad_option, stores_[order[n]]->directory() + ": is given twice to transact_all");
  for (const std::size_t n : order) {
    transactions_[n] = stores_[n]->begin();
    if (transactions_[n].is_inner())
      throw error(errc::bad_transaction, stores_[n]->directory() +
                                             ": this thread has an open transaction, and transact_all commits durably; "
                                             "end it first");
  }
}

void all_transactions::commit() {
  store& coordinator = *stores_[0];
  std::vector<std::string> ids;
  auto& outcomes = coordinator.root<stored_outcomes>(root_name);
  for (std::size_t n = 1; n < stores_.size(); ++n) {
    const store_identity& participant = identity_of(*stores_[n]);
    const std::uint64_t number = outcomes.last_of(participant) + 1;
    outcomes.committed(participant, number);
    ids.push_back(global_id(coordinator, participant, number));
  }
  // Were it in doubt itself, as a participant of another transaction, two stores could wait for each other's outcome
  // [heap.prepared.order].
  coordinator.flush();
  for (std::size_t n = 1; n < stores_.size(); ++n) transactions_[n].prepare(ids[n - 1]);
  const ticket outcome = transactions_[0].commit(commit_mode::lazy);
  try {
    coordinator.wait(outcome);
  } catch (const std::exception& e) {
    for (std::size_t n = 1; n < stores_.size(); ++n) leave_in_doubt(n);
    throw_unknown([&] {
      return coordinator.directory() +
             ": the outcome could not be written, so the other stores are in doubt; close all of them and open them "
             "again, this one first: " +
             e.what();
    });
  } catch (...) {
    for (std::size_t n = 1; n < stores_.size(); ++n) leave_in_doubt(n);
    throw;
  }
  commit_participants();
}

// Each for itself: it is decided, and nobody aborts from here on. So what needs memory comes when all have ended.
void all_transactions::commit_participants() {
  std::exception_ptr failure;
  for (std::size_t n = 1; n < stores_.size(); ++n) try {
      transactions_[n].commit(commit_mode::lazy);
    } catch (...) {
      if (!failure) failure = std::current_exception();
      leave_in_doubt(n);
      is_in_doubt_[n] = true;
    }
  if (failure) try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      throw_unknown([&] {
        std::string which;
        for (std::size_t n = 1; n < stores_.size(); ++n)
          if (is_in_doubt_[n]) which += (which.empty() ? "" : ", ") + stores_[n]->directory();
        return which + ": the transaction is committed, but is in doubt here; close this store " +
               "and open it again, with outcomes_of(" + stores_[0]->directory() + "): " + e.what();
      });
    }
}

void all_transactions::leave_in_doubt(std::size_t which) noexcept {
  try {
    transactions_[which].leave_in_doubt();
  } catch (...) {  // its log has failed already, and it stays prepared
  }
}

}  // namespace detail

callback<rvm::outcome(const rvm::prepared_transaction&)> outcomes_of(store& coordinator) {
  const database in = coordinator.default_database();
  return [asked = detail::asked_coordinator{coordinator.directory(), detail::identity_of(coordinator), in,
                                            reinterpret_cast<const void*>(in.home())}](
             const rvm::prepared_transaction& what) { return detail::outcome_in(asked, what); };
}

}  // namespace tenure
