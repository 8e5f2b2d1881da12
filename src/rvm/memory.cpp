// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The public interface: memory.
#include <utility>

#include "log/log_files.hpp"
#include "log/unfinished.hpp"
#include "os/process.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

void memory::create_log(const std::string& path, const log_options& how, const progress_callback& progress,
                        os::disk* disk) {
  (void)make_new_log(disk != nullptr ? *disk : os::real_disk(), os::absolute_path(path), how, progress);
}

std::unique_ptr<log_files> make_new_log(os::disk& disk, const std::string& path, const log_options& how,
                                        const progress_callback& progress) {
  if (disk.exists(path))
    throw error(std::make_error_code(std::errc::file_exists),
                path + ": there is a file already; remove it, or open it if it is a log");
  require_not_unfinished(disk, path);
  return log_files::create(disk, path, how, progress);
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
  // In the child of a fork, nothing of the memory belongs to this process, but objects of open transactions may still
  // refer to it.
  if (!state_->of().is_of_this_process()) {
    (void)state_.release();
    return;
  }
  try {
    if (!state_->open_ids().empty() && !state_->of().is_read_only() && !state_->of().is_closed())
      flush();  // close() refuses
    state_->close();
  } catch (...) {  // commits that could not be written stay in the log
  }
  if (!state_->open_ids().empty()) memory_state::leave(std::move(state_));
}

memory::memory(memory&&) noexcept = default;

memory& memory::operator=(memory&& other) noexcept {
  if (this != &other) {
    const memory closed(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

void memory::close() { require(state_).close(); }

void memory::create_segment(const std::string& path, const segment_options& how) {
  require(state_).create_segment(path, how);
}

std::uint64_t memory::grow_segment(const std::string& path, std::uint64_t length) {
  return require(state_).mapper().grow_segment(path, length);
}

backup_report memory::backup(const std::string& directory, const backup_options& how) {
  return require(state_).backup(directory, how);
}

std::vector<segment_member> memory::members() const { return require(state_).members(); }
void memory::confirm_member(const std::string& path, bool durably) { require(state_).confirm_member(path, durably); }
void memory::drop_member(const std::string& path) { require(state_).drop_member(path); }

segment_info memory::describe_segment(const std::string& path) { return require(state_).mapper().describe(path); }

std::uint64_t memory::segment_length(const std::string& path, bool raw) {
  return require(state_).mapper().length_of(path, raw);
}

std::vector<std::uint64_t> memory::verify_segment(const std::string& path) {
  memory_state& state = require(state_);
  state.of().require_usable();
  if (!state.of().is_read_only()) state.truncate();
  return state.mapper().verify(path);
}

region memory::map(const std::string& segment_path, const map_options& how) {
  return region(require(state_).mapper().map(segment_path, how));
}

paged_segment memory::open_pages(const std::string& segment_path) {
  return paged_segment(require(state_).mapper().open_pages(segment_path));
}

transaction memory::begin(restore_mode mode) { return transaction(&require(state_).begin(mode)); }
transaction memory::begin_automatic() { return transaction(&require(state_).begin_automatic()); }

void memory::require_usable() const { require(state_).require_usable(); }
void memory::flush() { require(state_).flush(); }
ticket memory::last_commit() const { return require(state_).last_commit(); }
void memory::wait(ticket until) { require(state_).wait(until); }
void memory::truncate() { require(state_).truncate(); }

std::uint64_t memory::truncate_incrementally(std::uint64_t bytes) {
  return require(state_).truncate_incrementally(bytes);
}

std::vector<open_transaction> memory::open_transactions(const region* in) const {
  const memory_state& state = require(state_);
  state.of().require_usable();
  if (in != nullptr && in->state_ == nullptr) return {};
  return state.open_transactions(in != nullptr ? in->state_.get() : nullptr);
}

void memory::check() const { require(state_).check(); }

statistics memory::stats() const { return require(state_).stats(); }
std::uint64_t memory::stray_writes() const { return require(state_).stray_writes(); }
std::uint64_t memory::last_transaction() const { return require(state_).last_transaction(); }
log_totals memory::totals() const { return require(state_).totals(); }
const recovery_report& memory::recovery() const { return require(state_).report(); }
const std::optional<prepared_transaction>& memory::in_doubt() const { return require(state_).in_doubt(); }
const std::string& memory::log_path() const { return require(state_).of().path(); }
tuning memory::tune() const { return require(state_).tune(); }
void memory::set_tuning(const tuning& how) { require(state_).set_tuning(how); }

}  // namespace tenure::rvm
