// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/store.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <mutex>
#include <vector>

#include "collection/marking_crew.hpp"
#include "log/invariant.hpp"
#include "log/log_file.hpp"
#include "log/new_file.hpp"
#include "log/unfinished.hpp"
#include "objects/object_text.hpp"
#include "objects/verifier.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/storage_guard.hpp"
#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"
#include "rewrite/switched_files.hpp"
#include "segments/segment.hpp"
#include "store/evacuator.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

// --- Opening and closing -------------------------------------------------------------------------------------------------

namespace {

os::disk& disk_of(const store_options& how) { return how.memory.disk != nullptr ? *how.memory.disk : os::real_disk(); }

// Whether the file is a database to which no transaction was ever committed.
bool is_blank_database(os::disk& disk, const std::string& file) {
  try {
    const rvm::segment_header h = rvm::read_segment_header(disk, file);
    std::vector<std::byte> bytes(records_at + record_page);
    const std::size_t got = disk.open(file, os::access::read_only)->read_at(h.data_offset, bytes);
    return h.tag == database_tag && std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(got),
                                                [](std::byte b) { return b == std::byte{}; });
  } catch (const error&) {
    return false;
  }
}

// Whether a crash has left this database while the store was made, before the log had its name [heap.store.made]. The first
// file of that log is there, and nothing was ever written to it: a log that was lost later had something.
bool is_unfinished(os::disk& disk, const std::string& log, const std::string& main) {
  if (!is_blank_database(disk, main)) return false;
  const rvm::segment_header h = rvm::read_segment_header(disk, main);
  return h.sequence == 1 && h.is_member != 0 &&
         rvm::is_unused_log_file(disk, rvm::log_file_path(disk, log, 1), h.log_id);
}

// Another process may be making the store. It gives the log its name first, and has the database locked before it removes it.
// Durable before the log's file is replaced, without which the database would not be known as what it is.
void remove_unfinished(os::disk& disk, const std::string& log, const std::string& main) {
  const auto file = disk.open(main, os::access::read_write);
  if (!file->try_lock(os::lock_kind::exclusive) || !file->is_current() || disk.exists(log)) return;
  disk.remove(main);
  disk.sync_directory_of(main);
}

}  // namespace

store_state::store_state(const std::string& in, const store_options& options, type_check check)
    : directory(os::absolute_path(in)),
      how(options),
      read_only(options.mode == rvm::open_mode::read_only),
      check_types(check),
      fork_generation(os::fork_generation()),
      collection(*this) {
  evacuator::require_right(how.collection.evacuation);
  require_markers(how.collection.markers);
  if (how.collection.young_bytes != 0 && how.collection.roots != program_roots::handles)
    throw error(errc::bad_option,
                directory +
                    ": collection.young_bytes needs collection.roots = program_roots::handles: commits do "
                    "not stop the program's threads to look for pointers");
  if (how.stabilize == stabilization::copying && how.collection.roots != program_roots::handles)
    throw error(errc::bad_option,
                directory +
                    ": stabilization::copying needs collection.roots = program_roots::handles: commits "
                    "do not stop the program's threads to look for pointers");
  if (!how.record_accesses.empty() && !read_only)
    throw error(errc::bad_option,
                directory + ": record_accesses is for stores that are opened with open_mode::read_only");
  os::disk& disk = disk_of(how);
  if (!how.record_accesses.empty()) {
    how.record_accesses = os::absolute_path(how.record_accesses);      // the program may go to another directory
    const rvm::new_file can_be_made(disk, how.record_accesses, 0666);  // known before everything was recorded
  }
  const std::string log = directory + "/log", main = file_of("main");
  if (read_only)
    rewriting::require_settled(disk, {log, main});
  else
    rewriting::settle(disk, {log, main});
  const bool has_main = disk.exists(main), exists = disk.exists(log);  // in this order: see remove_unfinished
  rvm::require_not_unfinished(disk, log);
  const bool unfinished = !exists && has_main && is_unfinished(disk, log, main);
  if (!exists && has_main && !unfinished)
    throw error(std::make_error_code(std::errc::no_such_file_or_directory),
                log + ": the store's log is missing, though its database " + main +
                    " is there; put the log back; if it is lost, `tenure log renew " + log +
                    "` makes a new one, and says whether the old one had changes that are lost with it");
  if (!exists && (how.mode == rvm::open_mode::open || read_only))
    throw error(std::make_error_code(std::errc::no_such_file_or_directory),
                directory + ": there is no store; open it with open_mode::create or open_or_create to make one");
  how.memory.mode = how.mode;
  rvm::new_segment first{main, {}};
  if (!exists) {
    first.how = database_state::segment_for(nullptr, main, how.create);
    first.how.permissions = how.memory.log.permissions;
    how.memory.first_member = &first;
    if (unfinished) remove_unfinished(disk, log, main);
    disk.make_directory(directory);
  }
  memory = std::make_unique<rvm::memory>(log, how.memory);
  how.memory.first_member = nullptr;
  databases.emplace(*this, *memory, directory, how, check_types == type_check::none);
  const os::storage_guard guard;
  try {
    open_databases();
  } catch (const error&) {
    guard.require_all_read();  // that is why
    throw;
  }
  guard.require_all_read();
  if (!how.record_accesses.empty()) recording.emplace(*databases);
}

// Whether anything was ever in the log. Then the first transaction, which makes the default database, is complete.
bool store_state::log_was_used() const { return memory->recovery().tail != memory->recovery().first; }

store_state::~store_state() {
  if (!closed) {
    try {
      close();
    } catch (...) {  // close() reports errors; a destructor cannot
    }
  }
  if (!closed) abandon();
}

void store_state::abandon() noexcept {
  collection.stop();
  transaction_ended(*this);
  store_closed(*this);
  tx = {};
  levels.clear();
  recording.reset();
  databases->clear();
  memory.reset();
  closed = true;
}

// The manifest says which databases the store has. The default database completes the store: as long as it is pending, a
// crash may have interrupted the creation, and nothing was ever in the log.
void store_state::open_databases() {
  std::vector<rvm::segment_member> members = memory->members();
  std::stable_partition(members.begin(), members.end(), [&](const auto& m) { return m.path == file_of("main"); });
  for (const rvm::segment_member& member : members) {
    const bool is_main = databases->size() == 0, may_be_gone = member.is_pending && !(is_main && log_was_used());
    if (!disk_of(how).exists(member.path)) {
      if (!may_be_gone) throw is_missing(member.path);
      if (is_main && read_only) throw was_never_used();
      if (!read_only) memory->drop_member(member.path);
      continue;
    }
    // One that was never completed need not have an address that is free.
    if (member.is_pending && !is_main && !read_only && is_blank_database(disk_of(how), member.path)) {
      drop_database(member.path);
      continue;
    }
    database_state& d = open_database(member, may_be_gone);
    if (d.is_blank() && !os::storage_guard::noted_in(d.region.data(), os::page_size()).empty())
      throw error(errc::damaged, d.file + ": its header cannot be read; restore the store from a backup");
    if (d.is_blank() && !may_be_gone)
      throw error(errc::damaged, d.file +
                                     ": is empty, though the store has used it: it was lost, or is the file of another "
                                     "store; put the right one back, or restore " +
                                     directory + " from a backup, with all its files");
    if (is_main && read_only && d.is_blank()) throw was_never_used();
    if (!d.is_blank()) {
      d.read();
      if (d.header().store_id != databases->front().header().database_id)
        throw error(errc::wrong_log, d.file + ": belongs to another store");
      if (member.is_pending && !read_only) memory->confirm_member(d.file);
    } else if (is_main) {
      initialize(d);
    } else {
      const std::string file = d.file;
      databases->remove_last();
      if (!read_only) drop_database(file);
    }
  }
  if (databases->size() == 0) {
    if (log_was_used()) throw is_missing(file_of("main"));
    if (read_only) throw was_never_used();
    create_database("main", how.create);
  }
  if (check_types == type_check::registered)
    for (const auto& d : *databases) d->types->compare_registered();
}

error store_state::is_missing(const std::string& file) const {
  return {std::make_error_code(std::errc::no_such_file_or_directory),
          file + ": this database of the store is missing; put it back, or restore " + directory +
              " from a backup, with all its files"};
}

error store_state::was_never_used() const {
  return {errc::damaged, directory +
                             ": nothing was ever committed to this store: a crash interrupted its creation, or it was "
                             "copied meanwhile; opening it for writing completes it, and a copy of it has nothing to "
                             "keep"};
}

database_state& store_state::open_database(const rvm::segment_member& member, bool may_be_gone) {
  const std::string name = std::filesystem::path(member.path).stem();
  if (memory->describe_segment(member.path).id != member.id)
    throw error(errc::wrong_log, member.path + ": is not the database \"" + name +
                                     "\" of this store, but another one's file, or an older one; put the right one "
                                     "back, or restore " +
                                     directory + " from a backup, with all its files");
  std::unique_ptr<database_state> mapped;
  try {
    mapped = std::make_unique<database_state>(*databases, name, member.path);
  } catch (const error& e) {
    // Its addresses are taken by something else in this process. If it has nothing, the next opening takes others.
    if (e.code() == errc::address_taken && may_be_gone && !read_only && is_blank_database(disk_of(how), member.path))
      drop_database(member.path);
    throw;
  }
  return databases->add(std::move(mapped));
}

// One to which no transaction was committed.
void store_state::drop_database(const std::string& file) {
  memory->drop_member(file);
  os::disk& disk = disk_of(how);
  disk.remove(file);
  disk.sync_directory_of(file);
}

database_state& store_state::create_database(std::string_view name, const database_options& options) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (name.empty() || name.size() > 63 || !std::ranges::all_of(name, is_plain))
    throw error(errc::bad_option, directory + ": \"" + std::string(name) +
                                      "\" cannot name a database: 1 to 63 letters, digits, - and _ can");
  if (databases->find(name) != nullptr)
    throw error(std::make_error_code(std::errc::file_exists),
                directory + ": has a database \"" + std::string(name) + "\" already");
  const std::string file = file_of(name);
  os::disk& disk = disk_of(how);
  // A crash may come after a file is made and before the manifest lists it, and a first transaction may fail.
  if (disk.exists(file)) {
    if (!is_blank_database(disk, file))
      throw error(std::make_error_code(std::errc::file_exists),
                  file + ": is there already, and is a database, though not one of this store: move it away");
    drop_database(file);
  }
  memory->create_segment(file, database_state::segment_for(&*databases, file, options));
  disk.take_owner_of(file, memory->log_path());
  std::unique_ptr<database_state> mapped;
  try {
    mapped = std::make_unique<database_state>(*databases, std::string(name), file);
  } catch (...) {  // its addresses are taken by something else in this process
    drop_database(file);
    throw;
  }
  database_state& made = databases->add(std::move(mapped));
  try {
    initialize(made);
  } catch (...) {
    databases->remove_last();
    throw;
  }
  return made;
}

// The first transaction of a database. With it the database belongs to the store.
void store_state::initialize(database_state& made) {
  std::array<std::uint8_t, 16> id;
  os::random_bytes(std::as_writable_bytes(std::span(id)));
  begin();
  try {
    made.initialize(tx, id);
    made.types->compare_registered();
    memory->wait(commit());
  } catch (...) {
    if (is_writer()) abort();
    throw;
  }
  // Of the default database the log says as much: it is used. See open_databases().
  try {
    memory->confirm_member(made.file, databases->size() > 1);
  } catch (const std::bad_alloc&) {  // it belongs to the store: the next opening confirms it, as after a crash
  }
}

void store_state::require_usable() const {
  if (os::fork_generation() != fork_generation)
    throw error(errc::forked,
                directory + ": was opened by the parent of this process; open it here after the parent has closed it");
  if (closed) throw error(errc::closed, directory + ": has been closed");
}

void store_state::require_writable() const {
  require_usable();
  if (read_only) throw error(errc::read_only, directory + ": was opened for reading");
  if (is_writer()) require_changeable("change the store");
}

void store_state::close() {
  if (closed) return;
  if (os::fork_generation() != fork_generation) {
    closed = true;
    return;
  }
  collection.require_other_thread("close the store");
  collection.stop();
  if (access.in_use()) {
    collection.go_on();
    throw error(errc::transactions_open, directory + ": has open transactions; end them before it is closed");
  }
  // Also where that fails: the memory is closed then, and its regions are gone.
  const auto let_go = [&]() noexcept {
    closed = true;
    recording.reset();
    store_closed(*this);
    databases->clear();
  };
  std::exception_ptr not_written;
  try {
    if (recording) recording->write(disk_of(how), how.record_accesses);
  } catch (...) {
    not_written = std::current_exception();
  }
  try {
    if (!read_only)
      for (const auto& d : *databases) d->region.set_change_filter(nullptr);
    memory->close();
  } catch (...) {
    let_go();
    throw;
  }
  let_go();
  if (not_written) std::rethrow_exception(not_written);
}

namespace {

store_state* opened(const std::string& directory, const store_options& how) {
  if (how.evolve == schema_change::refuse || how.mode == rvm::open_mode::read_only)
    return new store_state(directory, how);
  try {
    return new store_state(directory, how);
  } catch (const error& e) {
    if (e.code() != errc::schema_mismatch) throw;
  }
  convert_store(directory, how);
  return new store_state(directory, how);
}

}  // namespace

store::store(const std::string& directory, const store_options& how) : state_(opened(directory, how)) {
  store_opened(*state_);
}

store::owner::~owner() {
  if (state_ == nullptr) return;
  // Of the parent of this process: what waited for its locks there would be waited for, and is not here.
  if (os::fork_generation() != state_->fork_generation) return;
  state_->collection.stop();  // it may have a transaction
  if (!state_->access.in_use()) {
    delete state_;
    return;
  }
  // Its open transactions refer to the state, and find it closed. Never destroyed: they may end at any time.
  static std::vector<store_state*>& abandoned = *new std::vector<store_state*>;
  static std::mutex mutex;
  state_->abandon();
  try {
    const std::scoped_lock lock(mutex);
    abandoned.push_back(state_);
  } catch (...) {  // out of memory: a leak finder will see it
  }
}
store::~store() = default;
store::store(store&&) noexcept = default;
store& store::operator=(store&&) noexcept = default;

void store::close() { state_->close(); }

// --- Databases -----------------------------------------------------------------------------------------------------------

database store::default_database() const {
  state_->require_usable();
  return database(&state_->databases->front());
}

std::optional<database> store::find_database(std::string_view name) const {
  state_->require_usable();
  database_state* const found = state_->databases->find(name);
  return found != nullptr ? std::optional(database(found)) : std::nullopt;
}

database store::create_database(std::string_view name, const database_options& how) {
  state_->require_writable();
  if (state_->is_writer() || state_->access.is_reader())
    throw error(errc::bad_transaction, state_->directory + ": a database cannot be created inside a transaction");
  state_->collection.require_other_thread("create a database");
  const auto paused = state_->collection.pause();
  return database(&state_->create_database(name, how));
}

std::vector<database> store::databases() const {
  state_->require_usable();
  std::vector<database> all;
  for (const auto& d : *state_->databases) all.push_back(database(d.get()));
  return all;
}

void store_state::read_ahead() {
  constexpr std::uint64_t least = 256 << 10;  // shorter databases are as fast without reading ahead
  for (const auto& d : *databases) {
    if (d->header().blocks_end == 0) continue;  // new: the first touch would read all of its empty file
    const std::uint64_t length = std::min<std::uint64_t>(d->header().blocks_end * block_size, d->region.size());
    d->region.read_ahead(length >= least && length <= how.read_ahead ? static_cast<std::size_t>(length) : 0);
  }
}

// --- Transactions --------------------------------------------------------------------------------------------------------

transaction store::begin() {
  state_->require_usable();
  state_->end_abandoned();
  if (state_->is_writer()) return {state_.get(), state_->begin_inner()};
  state_->begin();
  return {state_.get(), nullptr};
}

read_transaction store::begin_read() const {
  state_->require_usable();
  state_->memory->require_usable();
  state_->access.lock_shared();
  state_->use();
  {
    const std::scoped_lock lock(state_->statistics_mutex);
    ++state_->counts.read_transactions;
  }
  return read_transaction(state_.get());
}

read_transaction::~read_transaction() {
  if (state_ != nullptr) state_->access.unlock_shared();
}

ticket store::last_commit() const { return state_->memory->last_commit(); }
collect_report store::collect(const collection_options& how) {
  state_->require_writable();
  if (state_->is_writer() || state_->access.is_reader())
    throw error(errc::bad_transaction,
                state_->directory + ": collect() waits for all transactions to end; end this thread's before");
  return state_->collection.collect(how);
}

void store::wait(ticket until) { state_->memory->wait(until); }

// --- Looking at it -------------------------------------------------------------------------------------------------------

std::vector<std::string> store::verify() const {
  state_->require_usable();
  if (state_->is_writer()) return heap::verify(*state_->databases, verified_by::writer);
  const reading_scope reading(*state_);
  return heap::verify(*state_->databases, verified_by::reader);
}

void store_state::check_heap() const {
  using rvm::require_invariant;
  if (closed) return;
  access.check();
  databases->check();
  hidden.check();
  const bool is_open = tx.is_open();
  require_invariant(!is_open || access.in_use(), "a write transaction has the access lock");
  require_invariant(is_open || (levels.empty() && !doomed && label.empty()),
                    "what belongs to a transaction ends with it");
  require_invariant(hidden.empty(), "fields that are not recoverable are hidden while a commit captures the values");
  for (const auto& d : *databases)
    require_invariant(d->birth == nullptr || d->birth->levels() == levels.size(),
                      "all levels are open in all databases");
  for (const auto& d : *databases)
    require_invariant(is_open || (d->destroyed.empty() && d->retired.empty()), "only transactions remove objects");
}

void store_state::check() const {
  if (closed) return;
  check_heap();
  memory->check();
}

bool store::is_persistent(const void* object) const {
  const database_state* const in = state_->databases->at(object);
  if (in == nullptr) return false;
  return in->find(object).is_persistent;
}

store_statistics store::stats() const {
  if (os::fork_generation() != state_->fork_generation) return {};  // a thread that is not here may have the mutex
  std::unique_lock lock(state_->statistics_mutex);
  store_statistics s = state_->counts;
  for (const auto& d : *state_->databases) {
    const auto made = d->birth->made();
    s.objects_made += made.objects;
    s.bytes_made += made.bytes;
    for (std::uint32_t n = 1; n < d->types->count(); ++n)
      if (const known_type* const t = d->types->find(n); t != nullptr && t->objects != 0)
        s.total.push_back({t->of->name, t->objects, t->bytes});
  }
  lock.unlock();
  s.memory = state_->memory->stats();
  s.bulk_bytes = s.memory.bulk_bytes;
  return s;
}

void require_outside(const std::string& store, const std::string& directory) {
  const std::string in = os::path_behind_links(store), to = os::path_behind_links(directory);
  if (to == in || to.starts_with(in + "/"))
    throw error(errc::bad_option, to + ": is in the directory of the store; choose a place outside of it");
}

rvm::backup_report store::backup(const std::string& to, const rvm::backup_options& how) {
  state_->require_writable();
  require_outside(state_->directory, to);
  return state_->memory->backup(to, how);
}

const rvm::recovery_report& store::recovery() const { return state_->memory->recovery(); }
const std::optional<rvm::prepared_transaction>& store::in_doubt() const { return state_->memory->in_doubt(); }
const std::string& store::directory() const { return state_->directory; }

}  // namespace tenure
