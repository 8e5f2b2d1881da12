// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The public surface: memory and region.
#include <cassert>

#include "os/process.hpp"
#include "os/virtual_memory.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

void memory_state::require_own_process() const {
  if (os::fork_generation() != fork_generation)
    throw error(errc::forked,
                path +
                    ": this process is the child of a fork and has no part in its parent's recoverable memory; "
                    "open the log here after the parent has closed it");
}

void memory_state::require_usable() const {
  require_own_process();
  if (closed) throw error(errc::closed, path + ": this memory has been closed");
}

void memory_state::require_writable() const {
  require_usable();
  if (read_only)
    throw error(errc::read_only,
                path + ": the log was opened for reading only; open it with another open_mode to change anything");
}

void memory::create_log(const std::string& path, const log_options& how, const progress_callback& progress,
                        os::disk* disk) {
  os::disk& on = disk != nullptr ? *disk : os::real_disk();
  const std::string absolute = os::absolute_path(path);
  if (on.exists(absolute))
    throw error(std::make_error_code(std::errc::file_exists),
                absolute + ": there is a file already; remove it, or open it if it is a log");
  (void)log_file::create(on, absolute, how, progress);
}

namespace {

memory_state& require(const std::unique_ptr<memory_state>& state) {
  if (state == nullptr) throw error(errc::closed, "this memory was moved from");
  return *state;
}

}  // namespace

memory::memory(const std::string& log_path, const options& how)
    : state_(std::make_unique<memory_state>(log_path, how)) {}

memory::~memory() {
  if (state_ == nullptr) return;
  // In the child of a fork nothing of it is ours; with transactions open, their objects still point here.
  if (os::fork_generation() != state_->fork_generation) {
    (void)state_.release();
    return;
  }
  try {
    if (!state_->open_ids().empty() && !state_->read_only && !state_->closed) flush();  // close() refuses
    state_->close();
  } catch (...) {  // what could not be written stays in the log
  }
  if (!state_->open_ids().empty()) {
    state_->let_go();
    (void)state_.release();  // goes with the last of its transactions
  }
}

memory::memory(memory&&) noexcept = default;

memory& memory::operator=(memory&& other) noexcept {
  if (this != &other) {
    this->~memory();
    new (this) memory(std::move(other));
  }
  return *this;
}

void memory::close() { require(state_).close(); }

void memory::create_segment(const std::string& path, const segment_options& how) {
  require(state_).require_writable();
  segment::create(state_->disk, os::absolute_path(path), how);
}

std::uint64_t memory::grow_segment(const std::string& path, std::uint64_t length) {
  return require(state_).grow_segment(path, length);
}

segment_info memory::describe_segment(const std::string& path) {
  memory_state& state = require(state_);
  state.require_usable();
  const std::scoped_lock lock(state.map_mutex);
  segment& s = state.open_segment(path, false);
  const memory_state::segment_user user{state, s};
  segment_info info = s.info();
  info.is_of_this_log = state.is_of_this_log(s);
  return info;
}

std::uint64_t memory::segment_length(const std::string& path, bool raw) {
  memory_state& state = require(state_);
  state.require_usable();
  const std::scoped_lock lock(state.map_mutex);
  segment& s = state.open_segment(path, raw);
  const memory_state::segment_user user{state, s};
  return round_down(s.length(), redo_page);
}

std::vector<std::uint64_t> memory::verify_segment(const std::string& path) {
  memory_state& state = require(state_);
  state.require_usable();
  if (!state.read_only) truncate();
  const std::scoped_lock lock(state.map_mutex);
  segment& s = state.open_segment(path, false);
  const memory_state::segment_user user{state, s};
  std::vector<std::uint64_t> bad;
  const auto verify = [&] { bad = s.verify(state.how.on_progress); };
  // Truncation would change pages and checksums meanwhile.
  if (state.read_only) {
    verify();
    if (!bad.empty()) state.forget_pages_in_log(s, bad);
  } else {
    state.truncation->exclusively(verify);
  }
  return bad;
}

region memory::map(const std::string& segment_path, const map_options& how) {
  return region(require(state_).map(segment_path, how));
}

transaction memory::begin(restore_mode mode) { return transaction(require(state_).begin(mode)); }
transaction memory::begin_automatic() { return transaction(require(state_).begin_automatic()); }

void memory::require_usable() const {
  const memory_state& state = require(state_);
  state.require_usable();
  if (state.writer) state.writer->require_usable();
}

void memory::flush() {
  memory_state& state = require(state_);
  state.require_usable();
  ++state.count.flush_calls;
  if (!state.read_only) state.writer->wait(state.writer->last_commit());
}

ticket memory::last_commit() const {
  const memory_state& state = require(state_);
  state.require_usable();
  return state.read_only ? ticket{} : state.writer->last_commit();
}

void memory::wait(ticket until) {
  memory_state& state = require(state_);
  state.require_usable();
  if (!state.read_only) state.writer->wait(until);
}

void memory::truncate() {
  memory_state& state = require(state_);
  state.require_writable();
  ++state.count.truncate_calls;
  state.writer->wait(state.writer->last_commit());
  state.truncation->everything();
}

std::uint64_t memory::truncate_incrementally(std::uint64_t bytes) {
  memory_state& state = require(state_);
  state.require_writable();
  state.writer->require_usable();
  return state.truncation->incremental(bytes);
}

std::vector<open_transaction> memory::open_transactions(const region* in) const {
  const memory_state& state = require(state_);
  state.require_usable();
  const std::scoped_lock lock(state.open_mutex);
  std::vector<open_transaction> all;
  state.for_each_open([&](const transaction_state& tx) {
    if (in != nullptr && (in->state_ == nullptr || !tx.uses(*in->state_))) return;
    const open_transaction seen{tx.id, tx.label, tx.mode, tx.ranges_declared.get(), tx.bytes_declared.get()};
    if (tx.open && tx.id == seen.id) all.push_back(seen);  // else it ended meanwhile
  });
  return all;
}

statistics memory::stats() const { return require(state_).stats(); }
log_totals memory::totals() const { return require(state_).totals(); }
const recovery_report& memory::recovery() const { return require(state_).report; }
const std::string& memory::log_path() const { return require(state_).path; }

tuning memory::tune() const {
  const memory_state& state = require(state_);
  const std::scoped_lock lock(state.open_mutex);
  return state.tune;
}

void memory::set_tuning(const tuning& how) {
  memory_state& state = require(state_);
  state.require_usable();
  memory_state::require_sensible(how);
  {
    const std::scoped_lock lock(state.open_mutex);
    state.tune = how;
  }
  state.checking = how.check_undeclared;
  if (state.read_only) return;
  state.writer->set_spool_limit(how.spool_limit);
  state.truncation->set_threshold(how.truncation_threshold);
}

region::region(std::shared_ptr<region_state> state) : state_(std::move(state)) {}

region::~region() {
  try {
    unmap();
  } catch (...) {  // busy, or the memory has failed: stays mapped until the memory goes
  }
}

region& region::operator=(region&& other) noexcept {
  if (this != &other) {
    region old(std::move(state_));
    state_ = std::move(other.state_);
  }
  return *this;
}

std::byte* region::data() const noexcept { return state_ != nullptr ? state_->base : nullptr; }
std::size_t region::size() const noexcept { return state_ != nullptr ? state_->length.load() : 0; }
std::size_t region::capacity() const noexcept { return state_ != nullptr ? state_->capacity : 0; }
std::uint64_t region::offset() const noexcept { return state_ != nullptr ? state_->offset : 0; }

const std::string& region::segment_path() const {
  check_range(0, 0);
  return state_->segment_path;
}

void region::check_range(std::size_t offset, std::size_t length) const {
  if (state_ == nullptr || state_->owner == nullptr) throw error(errc::closed, "the region is not mapped any more");
  const std::size_t size = state_->length;
  if (offset > size || length > size - offset)
    throw error(errc::partly_mapped, state_->segment_path + ": an object at offset " + std::to_string(offset) +
                                         ", length " + std::to_string(length) +
                                         ", does not lie in the region, which has " + std::to_string(size) + " bytes");
}

void region::read_ahead(std::size_t length) {
  check_range(0, 0);
  state_->owner->read_ahead(*state_, length);
}

std::size_t region::back_with_file(std::size_t offset, std::size_t length) {
  check_range(offset, length);
  return state_->owner->back_with_file(*state_, offset, length);
}

region_tracker& region::tracker(const void* from, std::size_t length) const {
  check_range(0, 0);
  if (state_->tracker == nullptr)
    throw error(
        errc::wrong_tracking,
        state_->segment_path + ": this region is not tracked automatically; map it with tracking_mode::automatic");
  const auto* const first = static_cast<const std::byte*>(from);
  if (length != 0 && (!state_->contains(first) || length > static_cast<std::size_t>(data() + size() - first)))
    throw error(errc::partly_mapped, state_->segment_path + ": the range does not lie in the region");
  return *state_->tracker;
}

void region::open_untracked(void* address, std::size_t length) {
  region_tracker& tracker = this->tracker(address, length);
  if (const std::size_t page = os::page_size();
      length % page != 0 || reinterpret_cast<std::uintptr_t>(address) % page != 0)
    throw error(errc::misaligned, state_->segment_path + ": only whole pages can be left out of tracking");
  state_->owner->require_writable();
  if (length != 0) tracker.open_untracked(static_cast<std::byte*>(address), length);
}

bool region::is_open_untracked(const void* address) const {
  return tracker(address, 1).is_open_untracked(static_cast<const std::byte*>(address));
}

void region::set_change_filter(change_filter* filter) {
  check_range(0, 0);
  if (!state_->owner->read_only) tracker(nullptr, 0).set_change_filter(filter);
}

void region::on_stray_write(stray_write_judge judge, void* context) {
  check_range(0, 0);
  if (!state_->owner->read_only) tracker(nullptr, 0).on_stray_write(judge, context);
}

void region::unmap() {
  if (state_ == nullptr) return;
  if (state_->owner != nullptr) state_->owner->unmap(*state_);
  state_.reset();
}

}  // namespace tenure::rvm
