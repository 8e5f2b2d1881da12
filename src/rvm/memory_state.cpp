// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rvm/memory_state.hpp"

#include "os/process.hpp"
#include "replay/backup.hpp"
#include "replay/recovery.hpp"

namespace tenure::rvm {

namespace {

void require_sensible(const tuning& how) {
  if (how.truncation_threshold != how.truncation_threshold)
    throw error(errc::bad_option, "truncation_threshold is not a number; give a part of the log, such as 0.5");
}

}  // namespace

memory_state::memory_state(const std::string& path, const options& want)
    : how_(want),
      opening_(os::absolute_path(path), want.mode == open_mode::read_only ? opened_for::reading : opened_for::writing),
      disk_(want.disk != nullptr ? *want.disk : os::real_disk()),
      limits_(want.limits != nullptr ? *want.limits : thresholds{}),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is thrown when memory is short
      not_restored_(errc::outcome_unknown, opening_.path() +
                                               ": memory was short when a transaction was aborted, and shows some of "
                                               "its changes; close this memory and open it again"),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): the same
      still_prepared_(errc::outcome_unknown,
                      opening_.path() +
                          ": memory was short when a prepared transaction was aborted, and its log "
                          "does not say so; close this memory and open it again"),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): the same
      left_in_doubt_(errc::in_doubt,
                     opening_.path() +
                         ": a prepared transaction was left in doubt; close it, and open it again when the "
                         "outcome is known"),
      tune_(want.tune) {
  how_.limits = nullptr;
  checking_.on = want.tune.check_undeclared;
  if (how_.recovery_memory < limits_.least_recovery_memory)
    throw error(errc::bad_option,
                "recovery_memory is " + std::to_string(how_.recovery_memory) + " bytes: at least 8 MiB are needed");
  require_sensible(how_.tune);
  open_log();
}

memory_state::~memory_state() { stop(); }

memory_state::writing::writing(memory_state& of, archive_writer* archive)
    : queue(*of.log_),
      truncation(*of.log_, queue, of.count_, of,
                 {of.tune_.truncation_threshold, of.how_.recovery_memory, of.limits_.fewest_pages, of.how_.background,
                  archive}),
      tracked(of.regions_, truncation, of.count_, queue, of.how_.on_stray_write, of.how_.on_unseen_store, of.limits_),
      writer(*of.log_, truncation, queue, of.count_, of.limits_, of.tune_.spool_limit, of.how_.background),
      transactions({.of = of.opening_,
                    .regions = of.regions_,
                    .log = *of.log_,
                    .queue = queue,
                    .truncation = truncation,
                    .writer = writer,
                    .tracked = tracked,
                    .checking = of.checking_,
                    .count = of.count_,
                    .not_restored = of.not_restored_,
                    .still_prepared = of.still_prepared_,
                    .left_in_doubt = of.left_in_doubt_,
                    .archived = archive != nullptr}) {}

void memory_state::open_log() {
  const std::string& path = opening_.path();
  std::unique_ptr<log_files> made;
  if (how_.mode == open_mode::create || (how_.mode == open_mode::open_or_create && !disk_.exists(path))) try {
      made = how_.first_member != nullptr ? create_log_with_member()
                                          : make_new_log(disk_, path, how_.log, how_.on_progress);
    } catch (const error& e) {  // another process may have made it meanwhile
      if (how_.mode == open_mode::create || e.code() != std::errc::file_exists || !disk_.exists(path)) throw;
    }
  const os::access access = opening_.is_read_only() ? os::access::read_only : os::access::read_write;
  const bool has_member = made != nullptr && how_.first_member != nullptr;
  if (made != nullptr)
    log_.emplace(disk_, path, std::move(made), count_);
  else
    log_.emplace(disk_, path, access, count_, how_.copied);
  const auto make_mapper = [&] {
    const manifest status = log_->status();
    totals_at_open_ = status.totals;
    segments_.emplace(disk_, *log_, status, access);
    mapper_.emplace(opening_, *log_, *segments_, regions_, checking_, count_,
                    region_mapper::settings{disk_, how_.background, limits_, how_.on_progress});
  };
  if (opening_.is_read_only()) {
    const log_part live = find_live_part(*log_, how_.on_progress);
    report_.needed = live.length() != 0;
    report_.first = log_->status().first;
    report_.head = live.from;
    report_.tail = live.to;
    if (const auto found = find_prepared(*log_, live)) in_doubt_ = found->what;
    make_mapper();
    mapper_->only_read(live);
    return;
  }
  if (how_.archive) archive_.emplace(disk_, *how_.archive, *log_, count_, limits_.archive_frame);
  archive_writer* const archive = archive_ ? &*archive_ : nullptr;
  const auto in_doubt = [this](const prepared_transaction& what) { return outcome_of(how_, opening_.path(), what); };
  recovered done =
      recover(*log_, {disk_, how_.recovery_memory, how_.give_up_segments, how_.on_progress, archive, in_doubt});
  report_ = std::move(done.report);
  count_.damaged_pages += report_.damaged.size();
  make_mapper();
  log_->keep_notes([this](manifest& status) { segments_->add_to(status); });
  writing_.emplace(*this, archive);
  mapper_->write_with(
      {writing_->queue, writing_->truncation, writing_->writer, writing_->tracked, writing_->transactions});
  try {
    if (has_member) segments_->open(how_.first_member->path, {}).note_new_member();
    how_.first_member = nullptr;
    if (done.committed) redo_prepared(*done.committed);
  } catch (...) {  // nobody destroys what is not constructed: its threads end here
    stop();
    throw;
  }
}

memory_state::writing& memory_state::writable() {
  if (!writing_) opening_.require_writable();  // throws
  return *writing_;
}

void memory_state::require_usable() const {
  opening_.require_usable();
  if (writing_) writing_->writer.require_usable();
}

std::vector<std::uint64_t> memory_state::open_ids() const {
  return writing_ ? writing_->transactions.open_ids() : std::vector<std::uint64_t>();
}

std::vector<open_transaction> memory_state::open_transactions(const region_state* in) const {
  return writing_ ? writing_->transactions.describe_open(in) : std::vector<open_transaction>();
}

void memory_state::flush() {
  opening_.require_usable();
  ++count_.flush_calls;
  if (writing_) writing_->writer.wait(writing_->writer.last_commit());
}

ticket memory_state::last_commit() const {
  opening_.require_usable();
  return writing_ ? writing_->writer.last_commit() : ticket{};
}

void memory_state::wait(ticket until) {
  opening_.require_usable();
  if (writing_) writing_->writer.wait(until);
}

backup_report memory_state::backup(const std::string& directory, const backup_options& how) {
  flush();
  // Where the segments are that were renamed, and not changed since.
  if (manifest now = log_->status(); writing_ && segments_->note_names(now))
    change_list([&](manifest& in) { (void)segments_->note_names(in); });
  backup_options all = how;
  if (all.archive.empty() && how_.archive) all.archive = how_.archive->path;
  return back_up(disk_, opening_.path(), directory, all);
}

void memory_state::truncate() {
  opening_.require_writable();
  ++count_.truncate_calls;
  writing_->writer.wait(writing_->writer.last_commit());
  writing_->truncation.truncate_all();
}

std::uint64_t memory_state::truncate_incrementally(std::uint64_t bytes) {
  opening_.require_writable();
  writing_->writer.require_usable();
  return writing_->truncation.incremental(bytes);
}

tuning memory_state::tune() const {
  const std::scoped_lock lock(tuning_mutex_);
  return tune_;
}

void memory_state::set_tuning(const tuning& how) {
  opening_.require_usable();
  require_sensible(how);
  {
    const std::scoped_lock lock(tuning_mutex_);
    tune_ = how;
    checking_.on = how.check_undeclared;
    if (!writing_) return;
    writing_->writer.set_spool_limit(how.spool_limit);
    writing_->truncation.set_threshold(how.truncation_threshold);
  }
  writing_->truncation.wake_if_due();
}

void memory_state::check() {
  if (opening_.is_closed()) return;
  segments_->check();
  regions_.check();
  if (!writing_) return;
  writing_->truncation.with_lock([this] {  // the head and the page queue do not change meanwhile
    log_->check();
    // After a failure half way through a truncation the head is ahead of the queue. Nobody truncates any more.
    if (!writing_->writer.has_failed()) writing_->queue.check();
    mapper_->check_pages();
  });
  writing_->writer.check();
  writing_->transactions.check();
}

void memory_state::pages_damaged(const std::vector<page_ref>& pages) noexcept {
  count_.damaged_pages += pages.size();
  try {
    for (const page_ref& page : pages)
      if (how_.on_damage) how_.on_damage({page.in->path(), page.page * redo_page});
  } catch (...) {  // the pages are marked, and counted
  }
}

void memory_state::pages_written(const std::vector<dirty_page>& pages) noexcept {
  mapper_->forget_written_pages(pages);
  try {
    mapper_->drop_private_copies(pages);
    writing_->tracked.pages_written(pages);
  } catch (...) {  // no harm: some memory is not given back
  }
}

void memory_state::close() {
  opening_.require_own_process();
  if (opening_.is_closed()) return;
  if (const auto open = open_ids(); !open.empty())
    throw error(errc::transactions_open, opening_.path() + ": transaction " + std::to_string(open.back()) +
                                             (open.size() > 1 ? " and others are" : " is") +
                                             " still open; commit or abort first");
  // The files are released in any case. After a failure, opening them again tells what survived.
  struct releaser {
    memory_state& owner;
    ~releaser() { owner.let_go(); }
  } const release{*this};
  if (!writing_) return;
  writing_->writer.require_usable();
  writing_->writer.finish(opening_.closed_error());
  writing_->truncation.stop();
  writing_->writer.stop();
  writing_->truncation.truncate_all();
  segments_->note_not_in_log();
  log_->close(totals_to_store());
}

void memory_state::stop() noexcept {
  opening_.close();
  if (writing_) {
    writing_->truncation.stop();
    writing_->writer.stop();
  }
  if (mapper_) mapper_->abandon();
}

void memory_state::let_go() noexcept {
  stop();
  regions_.clear();
  segments_->clear();
  archive_.reset();
  log_->let_go();
}

void memory_state::leave(std::unique_ptr<memory_state> state) noexcept {
  state->let_go();
  if (!state->writing_) return;
  transaction_table& open = state->writing_->transactions;
  open.outlive(std::shared_ptr<memory_state>(std::move(state)));
}

}  // namespace tenure::rvm
