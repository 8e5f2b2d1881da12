// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The public interface: transactions, and the view that participants have of them.
#include <cstring>
#include <utility>

#include <tenure/rvm.hpp>
#include <tenure/rvm/participant.hpp>

#include "regions/announced_stores.hpp"
#include "transactions/transaction_table.hpp"

namespace tenure::rvm {

namespace {

[[noreturn]] void refuse(const transaction_state* state) {
  if (state == nullptr)
    throw error(errc::bad_transaction, "the transaction has ended, or was never begun; begin one with memory::begin()");
  const opening& of = state->owner().parts().of;
  of.require_own_process();
  throw error(errc::closed,
              "transaction " + std::to_string(state->id()) + ": its memory, " + of.path() + ", has been closed");
}

transaction_state& require_open(transaction_state* state) {
  if (state == nullptr) [[unlikely]]
    refuse(state);
  const opening& of = state->owner().parts().of;
  if (!of.is_of_this_process() || of.is_closed()) [[unlikely]]
    refuse(state);
  return *state;
}

}  // namespace

transaction::~transaction() {
  if (state_ == nullptr) return;
  const opening& of = state_->owner().parts().of;
  if (!of.is_of_this_process()) return;
  if (!of.is_closed()) {
    state_->drop();
    return;
  }
  // The transaction has outlived its memory. The last such transaction destroys the memory.
  const std::shared_ptr<void> memory = state_->take_kept();
  state_->let_go();
}

transaction& transaction::operator=(transaction&& other) noexcept {
  if (this != &other) {
    const transaction ended(std::move(*this));
    state_ = std::exchange(other.state_, nullptr);
  }
  return *this;
}

void transaction::set_range(const void* address, std::size_t length) {
  require_open(state_).set_range(static_cast<std::byte*>(const_cast<void*>(address)), length);
}

void transaction::modify(void* to, const void* from, std::size_t length) {
  set_range(to, length);
  const own_stores unannounced;  // the thread may have begun another transaction since, which must not have them too
  if (length != 0) std::memmove(to, from, length);
}

inner_transaction transaction::begin_inner() { return inner_transaction(require_open(state_).begin_inner()); }

std::size_t transaction::inner_depth() const { return require_open(state_).inner_depth(); }

ticket transaction::commit(commit_mode mode) {
  const ticket done = require_open(state_).commit(mode);
  state_ = nullptr;
  return done;
}

void transaction::abort() {
  require_open(state_).abort();
  state_ = nullptr;
}

void transaction::prepare(std::string_view global_id) { require_open(state_).prepare(global_id); }
bool transaction::is_prepared() const { return require_open(state_).is_prepared(); }

void transaction::leave_in_doubt() {
  require_open(state_).leave_in_doubt();
  state_ = nullptr;
}

void transaction::hold(const void* address, std::size_t length) {
  require_open(state_).hold(static_cast<std::byte*>(const_cast<void*>(address)), length);
}

transaction_state& transaction::of_memory_of(const region& in) const {
  transaction_state& tx = require_open(state_);
  in.check_range(0, 0);
  if (&in.state_->owner->of() != &tx.owner().parts().of)
    throw error(errc::not_mapped, "transaction " + std::to_string(tx.id()) + ": the region of " +
                                      in.state_->segment_path + " belongs to another memory");
  return tx;
}

void transaction::write_bulk(const region& in, std::size_t offset, std::span<const std::span<const std::byte>> from) {
  of_memory_of(in).write_bulk(*in.state_, offset, from);
}

void transaction::clear(const region& in, std::size_t offset, std::size_t length) {
  of_memory_of(in).clear(*in.state_, offset, length);
}

void transaction::change(const paged_segment& in, std::uint64_t offset, std::span<const std::byte> from) {
  transaction_state& tx = require_open(state_);
  if (&in.require_open().owner()->of() != &tx.owner().parts().of)
    throw error(errc::not_mapped, "transaction " + std::to_string(tx.id()) + ": the segment " + in.segment_path() +
                                      " is open for pages in another memory");
  tx.change(in.state_, offset, from);
}

std::uint64_t transaction::id() const { return require_open(state_).id(); }
void transaction::label(std::string_view name) { require_open(state_).set_label(name); }
std::span<const memory_range> transaction::changes() const { return require_open(state_).changes(); }
std::span<const memory_range> transaction::collect_changes() { return require_open(state_).collect_changes(); }
void transaction::for_each_written_page(const callback<void(const memory_range&)>& f) const {
  require_open(state_).for_each_written_page(f);
}

void transaction::read_committed(const void* address, std::size_t length, void* into) const {
  require_open(state_).read_committed(static_cast<const std::byte*>(address), length, static_cast<std::byte*>(into));
}

void transaction::discard_changes() noexcept {
  if (state_ != nullptr) state_->discard_changes();
}

void transaction::join(participant& who) { require_open(state_).join(who); }

// --- Inner transactions ---

bool inner_transaction::is_open() const noexcept { return level_ != nullptr && level_->of != nullptr; }

inner_transaction::~inner_transaction() {
  if (!is_open()) return;
  const opening& of = level_->of->owner().parts().of;
  if (of.is_of_this_process() && !of.is_closed()) level_->of->drop_inner(*level_);
}

inner_transaction& inner_transaction::operator=(inner_transaction&& other) noexcept {
  if (this != &other) {
    const inner_transaction ended(std::move(*this));
    level_ = std::move(other.level_);
  }
  return *this;
}

void inner_transaction::commit() { require_open(level_ == nullptr ? nullptr : level_->of).commit_inner(*level_); }

void inner_transaction::abort() { require_open(level_ == nullptr ? nullptr : level_->of).abort_inner(*level_); }

// --- For participants ---

std::uint64_t commit_scope::id() const { return of_.id(); }
std::span<const memory_range> commit_scope::changes() const { return of_.changes(); }

void commit_scope::set_range(const void* address, std::size_t length) {
  of_.set_range(static_cast<std::byte*>(const_cast<void*>(address)), length);
}

void commit_scope::modify(void* to, const void* from, std::size_t length) {
  set_range(to, length);
  const own_stores unannounced;  // the thread may have begun another transaction since, which must not have them too
  if (length != 0) std::memmove(to, from, length);
}

}  // namespace tenure::rvm
