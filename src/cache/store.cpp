// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/cache/store.hpp>

#include <cstddef>
#include <thread>
#include <utility>

#include <tenure/barriers.hpp>
#include <tenure/error.hpp>

#include "cache/open_stores.hpp"
#include "cache/store_state.hpp"
#include "cache/words.hpp"
#include "os/system_error.hpp"

namespace tenure::cache {

// --- What refs call ------------------------------------------------------------------------------------------------------

const void* detail::resolve(std::uint64_t& word, const type& declared, const std::type_info& of) {
  const std::uint64_t known = load_word(reinterpret_cast<const std::byte*>(&word));
  if (is_direct(known)) return reinterpret_cast<const void*>(known);  // another thread was faster
  const std::uint64_t home = is_guarded(known) ? home_of(address_in(known)) : home_in(known);
  if (open_transaction* const tx = transaction_at_home(home)) return tx->of->resolve(*tx, word, declared, of);
  if (const auto store = store_at_home(home))
    throw error(errc::bad_transaction, store->directory() + ": a reference to the object at " + os::hexadecimal(home) +
                                           " is followed outside of a transaction of this thread; begin one");
  throw error(errc::bad_transaction,
              "a reference leads to " + os::hexadecimal(home) +
                  ", which is in no store that this process has in a cache: it was closed, or the "
                  "reference is damaged");
}

bool detail::lock_shared(std::uint64_t address) {
  open_transaction* const tx = locking_transaction();
  return tx != nullptr && object_locks::lock_shared(*tx, guard_of(address));
}

std::uint64_t detail::discover(std::uint64_t& word, const std::type_info& of) noexcept {
  const std::uint64_t known = load_word(reinterpret_cast<const std::byte*>(&word));
  if (!is_identifier(known)) return known;
  const open_transaction* const tx = transaction_at_home(home_in(known));
  return tx == nullptr ? known : tx->of->discover(word, of);
}

std::uint64_t detail::home_of(std::uint64_t word) noexcept {
  if (const auto store = store_with(word)) return store->home_of(word);
  return word;  // of a store that is mapped at home
}

bool detail::is_unstored(const void* at) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const auto store = store_with(address);
  return store != nullptr && store->is_unstored(address);
}

void detail::announce_change(const void* at, std::size_t length) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (announce_in_thread(address, length)) return;
  const auto store = store_with(address);
  if (store == nullptr) return announce_store(at, length);  // of a store that is mapped
  throw error(errc::bad_transaction,
              store->directory() + ": an object is changed outside of a transaction of this thread; begin one");
}

detail::held_object::held_object(const void* resident) {
  const auto address = reinterpret_cast<std::uintptr_t>(resident);
  if (resident == nullptr) return;
  if (const auto found = store_with(address)) store_ = found->keep_open();
  if (store_) object_ = store_->hold(address);
}
detail::held_object& detail::held_object::operator=(held_object&& other) noexcept {
  if (this == &other) return *this;
  reset();
  store_ = std::move(other.store_);
  object_ = std::exchange(other.object_, nullptr);
  return *this;
}
void detail::held_object::reset() noexcept {
  if (object_ != nullptr) store_->let_go(*object_);
  object_ = nullptr;
  store_.reset();
}

// --- Transactions --------------------------------------------------------------------------------------------------------

namespace {

open_transaction& require_open(open_transaction* tx) {
  if (tx == nullptr) throw error(errc::bad_transaction, "the transaction has ended");
  tx->of->require_of_this_process();
  if (tx->thread != std::this_thread::get_id())
    throw error(errc::bad_transaction, tx->of->directory() +
                                           ": a transaction ends in the thread that began it, and this is another "
                                           "one");
  return *tx;
}

}  // namespace

transaction::~transaction() {
  if (state_ != nullptr) state_->of->abort(*state_);
}
transaction& transaction::operator=(transaction&& other) noexcept {
  if (this == &other) return *this;
  if (state_ != nullptr) state_->of->abort(*state_);
  state_ = std::exchange(other.state_, nullptr);
  return *this;
}
ticket transaction::commit(commit_mode mode) {
  open_transaction& tx = require_open(state_);
  const std::shared_ptr<store_state> store = tx.keeps_open;  // which ends with the transaction
  const ticket done = store->commit(tx);
  state_ = nullptr;
  if (mode == commit_mode::durable) store->wait(done);
  return done;
}
void transaction::abort() {
  open_transaction& tx = require_open(state_);
  tx.of->abort(tx);
  state_ = nullptr;
}
void transaction::release() {
  open_transaction& tx = require_open(state_);
  tx.of->release(tx);
}

read_transaction::~read_transaction() {
  if (state_ != nullptr) state_->of->end(*state_);
}
void read_transaction::release() {
  open_transaction& tx = require_open(state_);
  tx.of->release(tx);
}

// --- Stores --------------------------------------------------------------------------------------------------------------

store::store(const std::string& directory, const options& how) : state_(store_state::open(directory, how)) {}
store_state& store::state() const {
  if (state_ == nullptr) throw error(errc::closed, "the store was moved to another object");
  return *state_;
}
store::~store() {
  if (state_ != nullptr && state_->is_of_the_parent()) (void)new std::shared_ptr(std::move(state_));  // stays
}
store::store(store&&) noexcept = default;
store& store::operator=(store&& other) noexcept {
  if (this == &other) return *this;
  const store ended(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

void store::close() { state().close(); }
transaction store::begin() { return transaction(state().begin(true)); }
read_transaction store::begin_read() { return read_transaction(state().begin(false)); }
std::uint64_t store::find_root_word(std::string_view name, std::string_view database, const type& declared,
                                    bool must_be) {
  return state().root_word(name, database, declared, must_be);
}
void store::set_root_to(std::string_view name, std::string_view database, std::uint64_t home, const type& declared) {
  state().set_root(open_here("set a root"), name, database, home, declared);
}
void store::remove_root(std::string_view name, std::string_view database) {
  state().remove_root(open_here("remove a root"), name, database);
}
std::vector<std::string> store::root_names(std::string_view database) const { return state().root_names(database); }
std::vector<std::string> store::databases() const { return state().database_names(); }

open_transaction& store::open_here(const char* to_do) const {
  if (open_transaction* const tx = transaction_in(state())) return *tx;
  throw error(errc::bad_transaction,
              state().directory() + ": cannot " + to_do + " outside of a transaction of this thread; begin one");
}
void* store::make_object(std::string_view database, const type& of) {
  return state().make_object(open_here("make an object"), database, of);
}
void store::require_destroyable(const void* at, const type& of, const std::type_info* dynamic) const {
  state().require_destroyable(open_here("destroy an object"), reinterpret_cast<std::uintptr_t>(at), of, dynamic);
}
void store::end_object(void* at) noexcept { state_->destroy(reinterpret_cast<std::uintptr_t>(at)); }
std::uint64_t store::word_of(const void* at) const { return state().word_of(reinterpret_cast<std::uintptr_t>(at)); }

void store::wait(ticket until) { state().wait(until); }
statistics store::stats() const { return state().stats(); }
void store::check() const { state().check(); }

}  // namespace tenure::cache
