// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/store_state.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <tenure/error.hpp>

#include "cache/open_stores.hpp"
#include "cache/type_check.hpp"
#include "cache/words.hpp"
#include "log/invariant.hpp"
#include "log/unfinished.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/system_error.hpp"
#include "rewrite/switched_files.hpp"

namespace tenure::cache {

// --- Opening and closing -------------------------------------------------------------------------------------------------

namespace {

constexpr const char* main_file = "/main.db";
constexpr std::uint64_t most_pool_pages = std::uint64_t{1} << 32;

[[nodiscard]] bool is_sound(std::uint64_t pool_pages) { return pool_pages != 0 && pool_pages <= most_pool_pages; }

os::disk& disk_of(const options& how) { return how.memory.disk != nullptr ? *how.memory.disk : os::real_disk(); }

std::unique_ptr<rvm::memory> open_memory(const std::string& directory, const options& how) {
  if (how.mode != rvm::open_mode::open && how.mode != rvm::open_mode::read_only)
    throw error(errc::bad_option,
                directory + ": a store is made by tenure::store; open it in a cache with open_mode::open or read_only");
  if (!is_sound(how.pool_pages))
    throw error(errc::bad_option, directory + ": the cache needs at least one page, and at most 2^32: pool_pages is " +
                                      std::to_string(how.pool_pages));
  os::disk& disk = disk_of(how);
  const rewriting::store_files files{directory + "/log", directory + main_file};
  if (how.mode == rvm::open_mode::read_only)
    rewriting::require_settled(disk, files);
  else
    rewriting::settle(disk, files);
  rvm::require_not_unfinished(disk, files.log);
  if (!disk.exists(files.log))
    throw error(std::make_error_code(std::errc::no_such_file_or_directory),
                directory + ": there is no store, or its log is missing; tenure::store makes stores");
  rvm::options memory = how.memory;
  memory.mode = how.mode;
  return std::make_unique<rvm::memory>(files.log, memory);
}

}  // namespace

store_state::store_state(const std::string& directory, const options& how)
    : directory_(os::absolute_path(directory)),
      is_read_only_(how.mode == rvm::open_mode::read_only),
      locks_objects_(how.transactions == concurrency::object_locks),
      number_(locks_objects_ ? given_number::take(given_number::purpose::store) : nullptr),
      fork_generation_(os::fork_generation()),
      pool_(is_sound(how.pool_pages) ? how.pool_pages : 1),  // open_memory refuses it
      memory_(open_memory(directory_, how)),
      objects_(how.object_bytes, locks_objects_ ? std::optional(number()) : std::nullopt),
      loader_(databases_, objects_),
      door_(
          [this] {
            const std::scoped_lock lock(mutex_);
            return objects_.is_crowded();
          },
          [this] {
            const std::scoped_lock lock(mutex_);
            objects_.evict();
          }) {
  open_all(disk_of(how), how.typed_from);
}

std::shared_ptr<store_state> store_state::open(const std::string& directory, const options& how) {
  const auto made = std::make_shared<store_state>(directory, how);
  std::shared_ptr<store_state> opened(made.get(), [state = made](store_state*) mutable {
    const auto last = std::move(state);  // it knows what this belongs to, which would keep it
    last->nobody_keeps_it_open();
  });
  made->kept_open_ = opened;
  add_open(made);
  return opened;
}

// Others may be looking at it.
void store_state::nobody_keeps_it_open() noexcept {
  if (is_of_the_parent()) return;
  const std::scoped_lock lock(mutex_);
  close_files();
}

void store_state::close_files() noexcept {
  remove_open(*this);
  if (closed_.exchange(true)) return;
  try {
    for (const auto& d : databases_) d->stored.segment() = {};
    if (memory_) memory_->close();
  } catch (...) {  // close() reports errors; a destructor cannot
  }
}

// A member is pending if a crash may have come before its first transaction.
void store_state::open_all(os::disk& disk, std::uint64_t typed_from) {
  std::vector<rvm::segment_member> members = memory_->members();
  std::stable_partition(members.begin(), members.end(),
                        [&](const auto& m) { return m.path == directory_ + main_file; });
  std::array<std::uint8_t, 16> store_id{};
  for (const rvm::segment_member& member : members) {
    if (member.is_pending && !databases_.empty() && !disk.exists(member.path)) continue;
    auto opened = std::make_unique<open_database>(*memory_, member, pool_, is_read_only_, typed_from);
    if (opened->stored.is_blank()) {
      if (member.is_pending && !databases_.empty()) continue;
      throw error(errc::damaged, member.path +
                                     ": nothing was ever committed to this database, or it was lost; opened as a "
                                     "tenure::store, the store is completed or says what to do");
    }
    opened->stored.require_right_header();
    if (databases_.empty()) store_id = opened->stored.header().database_id;
    if (opened->stored.header().store_id != store_id)
      throw error(errc::wrong_log, member.path + ": belongs to another store");
    opened->types.read();
    opened->types.require_registered();
    databases_.add(std::move(opened));
  }
  if (databases_.empty()) throw error(errc::damaged, directory_ + ": the store has no database");
}

void store_state::require_other_homes(const store_state& other) const {
  for (const auto& mine : databases_)
    for (const auto& its : other.databases_) {
      if (!mine->stored.shares_homes(its->stored)) continue;
      if (mine->stored.file() == its->stored.file())
        throw error(errc::in_use, directory_ + ": this process has it in a cache already; use that one");
      throw error(errc::address_taken, mine->stored.file() + ": its home addresses are those of " + its->stored.file() +
                                           ", which this process has in a cache; `tenure rebase` gives a store "
                                           "others");
    }
}

bool store_state::is_of_the_parent() const { return os::fork_generation() != fork_generation_; }

void store_state::require_of_this_process() const {
  if (is_of_the_parent())
    throw error(errc::forked,
                directory_ + ": was opened by the parent of this process; open it here after the parent has closed it");
}

void store_state::require_usable() const {
  require_of_this_process();
  if (closed_.load()) throw error(errc::closed, directory_ + ": has been closed");
}

void store_state::close() {
  if (closed_.load()) return;
  require_of_this_process();
  const bool is_empty = door_.is_empty();  // the door's mutex comes first
  const std::scoped_lock lock(mutex_);
  if (!is_empty || pins_ != 0)
    throw error(errc::transactions_open,
                directory_ + ": has open transactions, or objects that are pinned; end them before it is closed");
  closed_ = true;
  remove_open(*this);
  memory_->close();  // and the segments with it
}

open_database& store_state::database(std::string_view name) {
  open_database* const found = databases_.find(name);
  if (found == nullptr) throw error(errc::bad_option, directory_ + ": has no database \"" + std::string(name) + "\"");
  return *found;
}

// --- Reading -------------------------------------------------------------------------------------------------------------

// An object that is loaded may unite groups. Whoever has a lock of one of them has one of all then. So this transaction first
// gets locks of all of them, each as strong as the strongest that it has of any [cache.locks.united].
loader::reached store_state::reach_and_lock(std::unique_lock<std::mutex>& lock, open_transaction& tx,
                                            std::uint64_t home, const type& declared) {
  for (;;) {
    cached_object* missing = nullptr;
    lock_mode mode = lock_mode::shared;
    const auto may_unite = [&](const std::vector<cached_object*>& with) {
      for (const cached_object* const object : with)
        mode = std::max(mode, object_locks::lock_of(tx, *object).value_or(lock_mode::shared));
      for (cached_object* const object : with)
        if (missing == nullptr && !object_locks::try_acquire(tx, *object, mode)) missing = object;
      return missing == nullptr;
    };
    const loader::reached found = loader_.reach(home, &declared, may_unite);
    if (missing != nullptr) {
      (void)locks_.acquire(lock, tx, *missing, mode);  // what is gone is looked for again
      continue;
    }
    if (found.was_loaded) locks_.united();
    if (locks_.acquire(lock, tx, *found.object, lock_mode::shared)) return found;
  }
}

// Of what a guarded word leads to.
std::uint64_t store_state::home_in_memory(std::uintptr_t address) const {
  if (const cached_object* const object = objects_.find_at(address)) return object->home;
  throw error(errc::damaged, directory_ +
                                 ": a reference leads to an object that was destroyed, or whose making was "
                                 "aborted; no ref to it may be left");
}

const void* store_state::resolve(open_transaction& tx, std::uint64_t& word, const type& declared,
                                 const std::type_info& of) {
  std::unique_lock lock(mutex_);
  auto* const at = reinterpret_cast<std::byte*>(&word);
  const std::uint64_t known = load_word(at);
  if (is_direct(known)) return reinterpret_cast<const void*>(known);  // another thread was faster
  ++counts_.faults;
  const std::uint64_t home = is_guarded(known) ? home_in_memory(address_in(known)) : home_in(known);
  const auto [object, offset, loaded] =
      locks_objects_ ? reach_and_lock(lock, tx, home, declared) : loader_.reach(home, &declared);
  if (object->state == object_state::destroyed)
    throw error(errc::bad_transaction, object->text() + ", was destroyed in this transaction");
  // What holds at the begin of one object of a type holds for all.
  if (offset != 0 || !object->type.was_reached_by(of)) {
    if (!contains_at(*object->type.program, object->bytes, offset, declared))
      throw error(errc::wrong_type, object->text() + ", has no " + declared.name + " at offset " +
                                        std::to_string(offset) +
                                        ", where a ref to one leads; if the ref was not converted to another type, "
                                        "`tenure verify` says what else is damaged");
    if (offset == 0) {
      require_one_description(object->type, declared);
      object->type.reached_by.push_back(&of);
    }
  }
  if (!locks_objects_ || offset == 0) store_word(at, objects_.word_to(*object) + offset);
  return object->bytes + offset;
}

std::uint64_t store_state::discover(std::uint64_t& word, const std::type_info& of) noexcept {
  const std::scoped_lock lock(mutex_);
  auto* const at = reinterpret_cast<std::byte*>(&word);
  const std::uint64_t known = load_word(at);
  if (!is_identifier(known)) return known;
  const cached_object* const object = objects_.find(home_in(known));
  if (object == nullptr || !object->type.was_reached_by(of)) return known;
  const std::uint64_t found = objects_.word_to(*object);
  store_word(at, found);
  ++counts_.discovered;
  return found;
}

bool store_state::has_at(std::uintptr_t address) const {
  const std::scoped_lock lock(mutex_);
  return objects_.find_at(address) != nullptr;
}

bool store_state::is_unstored(std::uintptr_t address) const {
  const std::scoped_lock lock(mutex_);
  const cached_object* const object = objects_.find_at(address);
  return object != nullptr && object->state == object_state::made;
}

std::uint64_t store_state::home_of(std::uintptr_t address) const {
  const std::scoped_lock lock(mutex_);
  const cached_object* const object = objects_.find_at(address);
  return object == nullptr ? 0 : object->home + (address - object->at());
}

cached_object* store_state::hold(std::uintptr_t address) {
  const std::scoped_lock lock(mutex_);
  cached_object* const object = objects_.find_at(address);
  if (object == nullptr) return nullptr;
  object_table::hold(*object);
  ++object->pins;
  ++pins_;
  return object;
}

void store_state::let_go(cached_object& object) noexcept {
  if (is_of_the_parent()) return;
  const std::scoped_lock lock(mutex_);
  object_table::let_go(object);
  --object.pins;
  --pins_;
}

std::vector<std::string> store_state::database_names() const {
  require_usable();
  std::vector<std::string> names;
  for (const auto& d : databases_) names.push_back(d->stored.name());
  return names;
}

statistics store_state::stats() const {
  require_of_this_process();
  const std::scoped_lock lock(mutex_);
  statistics s = counts_;
  s.objects = objects_.size();
  s.object_bytes = objects_.used();
  s.loaded = loader_.loaded();
  s.discovered += loader_.discovered();
  s.evicted = objects_.evicted();
  s.evictions = objects_.evictions();
  s.lock_waits = locks_.waits();
  s.deadlocks = locks_.deadlocks();
  s.page_hits = pool_.hits();
  s.page_reads = pool_.reads();
  return s;
}

void store_state::check() const {
  require_of_this_process();
  const std::scoped_lock lock(mutex_);
  if (closed_.load()) return;
  objects_.check();
  pool_.check();
  rvm::require_invariant(objects_.used() <= objects_.room(), "the cache keeps to its room");
  memory_->check();
}

}  // namespace tenure::cache
