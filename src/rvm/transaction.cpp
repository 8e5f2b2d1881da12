// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <functional>

#include "os/process.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

namespace {

std::string address_text(const void* at) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (auto value = reinterpret_cast<std::uintptr_t>(at); value != 0; value /= 16)
    text.insert(text.begin(), digits[value % 16]);
  return "0x" + (text.empty() ? "0" : text);
}

}  // namespace

region_state& transaction_state::region_of(const std::byte* from, std::size_t length) {
  region_state* in = last_region != nullptr && last_region->contains(from) ? last_region : owner->regions.find(from);
  if (in == nullptr)
    throw error(errc::not_mapped, "transaction " + std::to_string(id) + ": the range at " + address_text(from) +
                                      ", length " + std::to_string(length) +
                                      ", is in no mapped region; map its segment first");
  if (length > static_cast<std::size_t>(in->base + in->length - from))
    throw error(errc::partly_mapped,
                "transaction " + std::to_string(id) + ": the range at " + address_text(from) + ", length " +
                    std::to_string(length) + ", goes " +
                    std::to_string(length - static_cast<std::size_t>(in->base + in->length - from)) +
                    " bytes beyond its region, which ends at " + address_text(in->base + in->length) +
                    "; declare the parts in each region for themselves");
  return *in;
}

bool transaction_state::is_declared(const std::byte* from, std::size_t length) const {
  const auto covers = [&](const declared& d) { return d.from <= from && from + length <= d.end(); };
  // The newest first: the same object is often declared several times in a row.
  constexpr std::size_t few = 16;
  const std::size_t tail = std::min(ranges.size() - merged, few);
  for (std::size_t i = 0; i < tail; ++i)
    if (covers(ranges[ranges.size() - 1 - i])) return true;
  const auto end = ranges.begin() + static_cast<std::ptrdiff_t>(merged);
  const auto after =
      std::upper_bound(ranges.begin(), end, from, [](const std::byte* at, const declared& d) { return at < d.from; });
  return after != ranges.begin() && covers(*std::prev(after));
}

void transaction_state::set_range(std::byte* from, std::size_t length) {
  // In checking mode other threads' commits look at the declarations.
  std::unique_lock<std::mutex> lock;
  if (owner->checking) lock = std::unique_lock(owner->open_mutex);
  region_state& in = region_of(from, length);
  ranges_declared.store(ranges_declared.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  bytes_declared.store(bytes_declared.load(std::memory_order_relaxed) + length, std::memory_order_relaxed);
  if (length == 0 || is_declared(from, length)) return;

  if (last_region != &in && std::ranges::find(regions, &in) == regions.end()) {
    // Counted before it is looked at whether the region is being unmapped; unmap() does it the other way round.
    in.transactions.fetch_add(1, std::memory_order_seq_cst);
    if (in.closing.load(std::memory_order_seq_cst)) {
      in.transactions.fetch_sub(1, std::memory_order_seq_cst);
      throw error(errc::not_mapped, "transaction " + std::to_string(id) + ": the region at " + address_text(in.base) +
                                        " is being unmapped");
    }
    if (!lock) lock = std::unique_lock(owner->open_mutex);  // query reads it
    regions.push_back(&in);
    if (!owner->checking) lock.unlock();
  }
  last_region = &in;

  // References before the old values are read: from then on truncation leaves the pages alone [rvm.page.reserved].
  const std::uint64_t offset = in.offset + static_cast<std::uint64_t>(from - in.base);
  for (std::uint64_t page = offset / redo_page; page <= (offset + length - 1) / redo_page; ++page) {
    if (!touched.empty() && touched.back().page == page && touched.back().in == in.in) continue;
    in.in->pages().add_reference(page);
    touched.push_back({in.in, page});
  }
  if (mode == restore_mode::restore) {
    undo.push_back({from, length, saved.size()});
    saved.insert(saved.end(), from, from + length);
  }
  if (ranges.size() > merged && ranges.back().end() == from && ranges.back().in == &in)
    ranges.back().length += length;
  else
    ranges.push_back({from, length, &in});
  // Merging when the unsorted part is as long as the sorted one keeps the cost of n declarations at n log n.
  if (ranges.size() - merged > std::max<std::size_t>(merged, 64)) merge();
}

// Intra-transaction optimization [RVM §5.2]: duplicate, overlapping and adjacent ranges become one.
void transaction_state::merge() {
  const auto middle = ranges.begin() + static_cast<std::ptrdiff_t>(merged);
  const auto by_address = [](const declared& a, const declared& b) { return std::less<>{}(a.from, b.from); };
  std::sort(middle, ranges.end(), by_address);
  std::inplace_merge(ranges.begin(), middle, ranges.end(), by_address);
  std::size_t last = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].from <= ranges[last].end() && ranges[i].in == ranges[last].in)
      ranges[last].length = static_cast<std::size_t>(std::max(ranges[last].end(), ranges[i].end()) - ranges[last].from);
    else
      ranges[++last] = ranges[i];
  }
  if (!ranges.empty()) ranges.resize(last + 1);
  merged = ranges.size();
}

void transaction_state::put_back_old_values() noexcept {
  for (auto old = undo.rbegin(); old != undo.rend(); ++old)
    std::memcpy(old->at, saved.data() + old->saved, old->length);
}

void transaction_state::drop_references() noexcept {
  if (!holds_references) return;
  for (const page_ref& page : touched) page.in->pages().drop_reference(page.page);
  references_gone();
}

void transaction_state::references_gone() noexcept {
  holds_references = false;
  if (owner->truncation) owner->truncation->unblocked();
}

void transaction_state::reset() {
  label.clear();
  ranges.clear();
  merged = 0;
  undo.clear();
  // A large transaction's buffers are not kept for the next.
  if (saved.capacity() > (1 << 20)) std::vector<std::byte>().swap(saved);
  saved.clear();
  touched.clear();
  regions.clear();
  last_region = nullptr;
  participants.clear();
  prepared = 0;
  undo_before_prepare = saved_before_prepare = not_prepared;
  values.clear();
  holds_references = true;
  ranges_declared.store(0, std::memory_order_relaxed);
  bytes_declared.store(0, std::memory_order_relaxed);
}

namespace {

// A transaction object for the duration of a call, which does not end the transaction.
class borrowed {
 public:
  explicit borrowed(transaction&& handle) : handle_(std::move(handle)) {}
  ~borrowed() { transaction_state::let_go(handle_); }
  borrowed(const borrowed&) = delete;
  borrowed& operator=(const borrowed&) = delete;
  operator transaction&() { return handle_; }

 private:
  transaction handle_;
};

}  // namespace

void transaction_state::let_go(transaction& handle) noexcept { handle.state_ = nullptr; }

commit_image transaction_state::prepare(bool lazy) {
  undo_before_prepare = undo.size();
  saved_before_prepare = saved.size();
  try {
    for (prepared = 0; prepared < participants.size();) {
      borrowed self{transaction(this)};
      participants[prepared++]->prepare(self);
    }
    {
      std::unique_lock<std::mutex> lock;
      if (owner->checking) lock = std::unique_lock(owner->open_mutex);
      merge();
    }
    if (owner->checking) owner->require_declared_writes_only(*this);
  } catch (...) {
    undo_prepare();
    throw;
  }
  values.clear();
  for (const declared& d : ranges)
    values.push_back({d.in->in, d.in->offset + static_cast<std::uint64_t>(d.from - d.in->base), d.from, d.length});
  return {id, os::wall_clock_ns(), label, lazy, values};
}

void transaction_state::undo_prepare() noexcept {
  if (prepared == 0) return;  // nobody has added anything; what prepare() noted may be of an earlier transaction
  while (prepared != 0) {
    borrowed self{transaction(this)};
    participants[--prepared]->undo_prepare(self);
  }
  // What they shared with other transactions is theirs to restore: an abort must not put it back over later commits.
  if (undo_before_prepare < undo.size()) undo.resize(undo_before_prepare);
  if (saved_before_prepare < saved.size()) saved.resize(saved_before_prepare);
  undo_before_prepare = saved_before_prepare = not_prepared;
}

void transaction_state::captured() noexcept {
  if (owner->shadows) owner->update_shadow(*this);  // even while checking is switched off
  for (const page_ref& page : touched) page.in->pages().commit_reference(page.page);
  references_gone();
}

transaction_state* memory_state::begin(restore_mode mode) {
  require_writable();
  writer->require_usable();
  const std::scoped_lock lock(open_mutex);
  if (spare.empty()) {
    all_transactions.push_back(std::make_unique<transaction_state>());
    spare.push_back(all_transactions.back().get());
  }
  transaction_state* tx = spare.back();
  spare.pop_back();
  tx->owner = this;
  tx->id = ++last_id;
  tx->mode = mode;
  tx->next = open;
  tx->previous = nullptr;
  if (open != nullptr) open->previous = tx;
  open = tx;
  ++begun;
  return tx;
}

void memory_state::end(transaction_state& tx, std::optional<commit_mode> committed) noexcept {
  tx.drop_references();
  for (region_state* in : tx.regions) in->transactions.fetch_sub(1, std::memory_order_seq_cst);
  const std::scoped_lock lock(open_mutex);
  remove_from_open(tx);
  if (committed) {
    ++(*committed == commit_mode::flush ? flush_commits : no_flush_commits);
    ranges_declared += tx.ranges_declared.load(std::memory_order_relaxed);
    bytes_declared += tx.bytes_declared.load(std::memory_order_relaxed);
    ranges_merged += tx.ranges.size();
    for (const auto& range : tx.ranges) bytes_merged += range.length;
  }
  tx.reset();
  spare.push_back(&tx);
}

void memory_state::remove_from_open(transaction_state& tx) noexcept {
  (tx.previous != nullptr ? tx.previous->next : open) = tx.next;
  if (tx.next != nullptr) tx.next->previous = tx.previous;
}

void memory_state::end_orphan(transaction_state& tx) noexcept {
  bool last;
  {
    const std::scoped_lock lock(open_mutex);
    remove_from_open(tx);
    last = open == nullptr;
  }
  if (last) delete this;
}

namespace {

transaction_state& require_open(transaction_state* state) {
  if (state == nullptr)
    throw error(errc::bad_transaction, "the transaction has ended, or was never begun; begin one with memory::begin()");
  state->owner->require_own_process();
  if (state->owner->closed)
    throw error(errc::closed, "transaction " + std::to_string(state->id) + ": its memory, " + state->owner->path +
                                  ", has been closed");
  return *state;
}

}  // namespace

transaction::~transaction() {
  if (state_ == nullptr) return;
  memory_state& owner = *state_->owner;
  if (os::fork_generation() != owner.fork_generation) return;
  if (owner.closed) {
    owner.end_orphan(*state_);
    return;
  }
  if (state_->mode == restore_mode::restore) {
    abort();
  } else {
    state_->undo_prepare();
    for (participant* p : state_->participants) p->aborted(*this);
    owner.end(*state_, std::nullopt);
  }
}

transaction& transaction::operator=(transaction&& other) noexcept {
  if (this != &other) {
    this->~transaction();
    state_ = other.state_;
    other.state_ = nullptr;
  }
  return *this;
}

void transaction::set_range(const void* address, std::size_t length) {
  require_open(state_).set_range(static_cast<std::byte*>(const_cast<void*>(address)), length);
}

void transaction::modify(void* to, const void* from, std::size_t length) {
  set_range(to, length);
  if (length != 0) std::memmove(to, from, length);
}

ticket transaction::commit(commit_mode mode) {
  transaction_state& tx = require_open(state_);
  memory_state& owner = *tx.owner;
  const ticket done = owner.writer->commit(tx, mode);
  for (participant* p : tx.participants) p->committed(*this);
  owner.end(tx, mode);
  state_ = nullptr;
  return done;
}

void transaction::abort() {
  transaction_state& tx = require_open(state_);
  if (tx.mode == restore_mode::no_restore)
    throw error(
        errc::cannot_abort,
        "transaction " + std::to_string(tx.id) +
            " was begun no_restore: its old values were not kept; begin it with restore_mode::restore to abort");
  tx.undo_prepare();  // where a commit failed after its values were captured
  tx.put_back_old_values();
  for (participant* p : tx.participants) p->aborted(*this);
  ++tx.owner->count.aborts;
  tx.owner->end(tx, std::nullopt);
  state_ = nullptr;
}

std::uint64_t transaction::id() const { return require_open(state_).id; }

void transaction::label(std::string_view name) {
  transaction_state& tx = require_open(state_);
  const std::scoped_lock lock(tx.owner->open_mutex);  // query reads it
  tx.label = name.substr(0, 255);
}

void transaction::join(participant& who) {
  auto& all = require_open(state_).participants;
  if (std::ranges::find(all, &who) == all.end()) all.push_back(&who);
}

}  // namespace tenure::rvm
