// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/store.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <mutex>
#include <vector>

#include "log/invariant.hpp"
#include "objects/object_text.hpp"
#include "objects/verifier.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/system_error.hpp"
#include "segments/segment.hpp"
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
    std::vector<std::byte> bytes(starts_at);
    const std::size_t got = disk.open(file, os::access::read_only)->read_at(h.data_offset, bytes);
    return h.tag == database_tag && std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(got),
                                                [](std::byte b) { return b == std::byte{}; });
  } catch (const error&) {
    return false;
  }
}

}  // namespace

store_state::store_state(const std::string& in, const store_options& options)
    : directory(os::absolute_path(in)),
      how(options),
      read_only(options.mode == rvm::open_mode::read_only),
      fork_generation(os::fork_generation()) {
  os::disk& disk = disk_of(how);
  const std::string log = directory + "/log", main = file_of("main");
  const bool exists = disk.exists(log);
  if (!exists && disk.exists(main))
    throw error(std::make_error_code(std::errc::no_such_file_or_directory),
                log + ": the store's log is missing, though its database " + main +
                    " is there; put the log back; if it is lost, `tenure log renew " + log +
                    "` makes a new one, and says whether the old one had changes that are lost with it");
  if (!exists && (how.mode == rvm::open_mode::open || read_only))
    throw error(std::make_error_code(std::errc::no_such_file_or_directory),
                directory + ": there is no store; open it with open_mode::create or open_or_create to make one");
  if (!exists) disk.make_directory(directory);
  how.memory.mode = how.mode;
  memory = std::make_unique<rvm::memory>(log, how.memory);
  databases.emplace(*this, *memory, directory, how);
  // The default database completes a store. If it is missing, a crash may have interrupted the creation; then nothing
  // was ever in the log.
  const bool has_main = disk.exists(main);
  if (!has_main && (read_only || log_was_used()))
    throw error(std::make_error_code(std::errc::no_such_file_or_directory),
                main + ": the store's default database is missing; put it back, or restore " + directory +
                    " from a backup, with all its files");
  if (!has_main)
    create_database("main", how.create);
  else
    open_databases();
}

// Whether anything was ever in the log. Then the first transaction, which makes the default database, is complete.
bool store_state::log_was_used() const {
  return memory->recovery().tail != memory->stats().log_size || memory->totals().log_grown != 0;
}

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
  transaction_ended(*this);
  store_closed(*this);
  tx = {};
  databases->clear();
  memory.reset();
  closed = true;
}

void store_state::open_databases() {
  database_state& main = databases->add(std::make_unique<database_state>(*databases, "main", file_of("main")));
  if (main.is_blank() && log_was_used())
    throw error(errc::damaged, main.file +
                                   ": is empty, though the store's log was used: it is the file of another store, or "
                                   "was lost; put the right one back, or restore " +
                                   directory + " from a backup, with all its files");
  if (!read_only && main.is_blank()) {
    // Its first transaction never became durable.
    initialize(main, {});
  } else {
    main.read();
  }
  if (main.header().store_id != main.header().database_id)
    throw error(errc::wrong_log, main.file + ": belongs to another store");
  if (main.header().databases != stored_address::none) {
    const heap::database_table& others = main.database_table();
    for (std::uint64_t n = 0; n < others.count; ++n) {
      const database_entry& e = others.entries[n];
      const std::string name(e.name.text, e.name.length);
      if (!disk_of(how).exists(file_of(name)))
        throw error(std::make_error_code(std::errc::no_such_file_or_directory),
                    file_of(name) + ": the store's database \"" + name + "\" is missing; put it back, or restore " +
                        directory + " from a backup, with all its files");
      database_state& d = databases->add(std::make_unique<database_state>(*databases, name, file_of(name)));
      d.read();
      if (!std::equal(std::begin(e.database_id), std::end(e.database_id), d.header().database_id.begin()))
        throw error(errc::wrong_log,
                    d.file + ": is not the database \"" + name + "\" of this store, but another one's file");
    }
  }
  for (const auto& d : *databases) d->types->compare_registered();
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
  // A crash may come after a file is made and before the transaction that adds it to the table. Such a file is all
  // zeros.
  if (disk.exists(file)) {
    if (!is_blank_database(disk, file))
      throw error(std::make_error_code(std::errc::file_exists),
                  file + ": is there already, and is a database, though not one of this store: move it away");
    disk.remove(file);
    disk.sync_directory_of(file);
  }
  database_state::create_file(*memory, file, options);
  database_state& made = databases->add(std::make_unique<database_state>(*databases, std::string(name), file));
  try {
    initialize(made, name);
  } catch (...) {
    databases->remove_last();
    throw;
  }
  return made;
}

// The first transaction of a database: it makes the file a database, and adds it to the store.
void store_state::initialize(database_state& made, std::string_view name) {
  std::array<std::uint8_t, 16> id;
  os::random_bytes(std::as_writable_bytes(std::span(id)));
  begin();
  try {
    made.initialize(tx, id);
    if (&made != &databases->front()) add_to_table(made, name);
    memory->wait(*commit());
  } catch (...) {
    if (is_writer()) abort();
    throw;
  }
  made.types->compare_registered();
}

void store_state::add_to_table(const database_state& made, std::string_view name) {
  database_state& main = databases->front();
  if (main.header().databases == stored_address::none) {
    tx.set_range(main.header().databases);
    main.header().databases = stored_address_of(main.make_array<heap::database_table>(1));
  }
  heap::database_table& table = main.database_table();
  if (table.count == table.capacity) {
    const std::uint64_t capacity = std::max<std::uint64_t>(4, 2 * table.capacity);
    auto* const larger = main.make_array<database_entry>(capacity);
    std::copy_n(table.entries, table.count, larger);
    if (table.entries != nullptr) main.retire(table.entries);
    table.entries = larger;
    table.capacity = capacity;
  }
  assert(table.count < table.capacity);
  database_entry& e = table.entries[table.count];
  e.name = main.make_text(name);
  e.home = made.home;
  e.reservation = made.reservation;
  std::ranges::copy(made.header().database_id, e.database_id);
  ++table.count;
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
}

void store_state::close() {
  if (closed) return;
  if (os::fork_generation() != fork_generation) {
    closed = true;
    return;
  }
  if (access.in_use())
    throw error(errc::transactions_open, directory + ": has open transactions; end them before it is closed");
  // Also where that fails: the memory is closed then, and its regions are gone.
  const auto let_go = [&]() noexcept {
    closed = true;
    store_closed(*this);
    databases->clear();
  };
  try {
    if (!read_only)
      for (const auto& d : *databases) d->region.set_change_filter(nullptr);
    memory->close();
  } catch (...) {
    let_go();
    throw;
  }
  let_go();
}

store::store(const std::string& directory, const store_options& how) : state_(new store_state(directory, how)) {
  store_opened(*state_);
}

store::owner::~owner() {
  if (state_ == nullptr) return;
  const bool of_the_parent = os::fork_generation() != state_->fork_generation;
  if (!(of_the_parent ? state_->access.was_in_use() : state_->access.in_use())) {
    delete state_;
    return;
  }
  if (of_the_parent) return;  // open transactions may refer to it, and end in the parent only
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
  if (state_->is_writer())
    throw error(errc::bad_transaction, state_->directory + ": a database cannot be created inside a transaction");
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
    const std::uint64_t length = std::min<std::uint64_t>(d->header().blocks_end * block_size, d->region.size());
    d->region.read_ahead(length >= least && length <= how.read_ahead ? static_cast<std::size_t>(length) : 0);
  }
}

// --- Transactions --------------------------------------------------------------------------------------------------------

transaction store::begin() {
  state_->begin();
  return transaction(state_.get());
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
  require_invariant(is_open || (depth == 0 && !doomed && label.empty()), "what belongs to a transaction ends with it");
  require_invariant(hidden.empty(), "fields that are not recoverable are hidden while a commit captures the values");
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

const rvm::recovery_report& store::recovery() const { return state_->memory->recovery(); }
const std::string& store::directory() const { return state_->directory; }

}  // namespace tenure
