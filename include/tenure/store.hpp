// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores: ordinary C++ objects and pointers that outlive the process.
//
//     struct package {
//       tenure::string name;
//       tenure::vector<package*> depends;
//     };
//     tenure::store store{"packages"};                              // creates, or opens and recovers
//     auto& by_name = store.root<tenure::map<tenure::string, package*>>("by-name");
//     store.transact([&] {
//       auto* p = store.make<package>();
//       p->name = "libc6";
//       by_name[p->name] = p;
//     });                                                           // durable here
//
// After Hosking & Chen, "Mostly-copying reachability-based orthogonal persistence", OOPSLA 1999 (cited as [PM3 §section]),
// on recoverable memory (rvm.hpp). A store is a directory with one log and one or more databases; a database is a segment
// that is mapped at the same addresses in every process, so that a stored pointer is a pointer. What is reachable from a
// root when a transaction commits is persistent from then on; any other object in the heap is transient, and costs nothing
// on disk.
//
// Errors: every function that is not noexcept may throw tenure::error: errc::closed after close(), errc::forked in the child
// of a fork, errc::read_only where something would change in a store that is open for reading, and what is said below. After
// errc::outcome_unknown the store must be closed and opened again. Using a store that was moved from is undefined.
//
// Threads: a store may be used by many, except to open, close, move and destroy it and to create databases: no other thread may
// use the store meanwhile. One write transaction at a time, many read transactions; a write transaction keeps
// readers out from begin() until its commit has fixed its place, which is before it is durable. Reading persistent objects
// outside of any transaction while another thread writes is a data race.
//
// Fork: a child has no store: its calls throw errc::forked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenure/allocation.hpp>
#include <tenure/error.hpp>
#include <tenure/fields.hpp>
#include <tenure/registry.hpp>
#include <tenure/rvm/commit.hpp>
#include <tenure/rvm/map_options.hpp>
#include <tenure/rvm/options.hpp>
#include <tenure/rvm/statistics.hpp>
#include <tenure/type.hpp>

namespace tenure {

struct store_state;
struct database_state;

#pragma GCC visibility push(default)  // libtenure.so exports it

class store;
class database;
class transaction;

enum class commit_mode {
  durable,  // on the disk when commit returns
  lazy,     // atomic and ordered, but on the disk only with a later durable commit, wait() or close
};

// How a database is made.
struct database_options {
  // Bytes of addresses that are kept for it: how large it can ever become. A power of two from 256 MiB to 1 TiB
  // (errc::bad_option). The first 16 MiB are for virtual functions, the rest for objects and their bookkeeping.
  std::uint64_t reservation = std::uint64_t{1} << 40;
  // The address at which they begin: a multiple of the reservation (errc::misaligned). 0: chosen at random, so that databases
  // of different stores rarely collide. errc::address_taken if something is mapped there.
  std::uint64_t home = 0;
};

// Thresholds that decide when the store works in which way; what it does is the same. The defaults were measured; tests draw
// others, to meet with few objects what otherwise takes many.
struct store_tuning {
  std::uint64_t bulk =
      std::uint64_t{8} << 20;               // bytes of new objects from which on a commit writes them to the database
                                            // straight away, not to the log; 0: always
  std::uint32_t refill = 50;                // blocks in use to at most this part, in percent, get new objects again
  std::uint64_t least_hole = 128;           // bytes between two objects that are worth filling
  std::uint64_t most_blocks = 64;           // that are taken at once for small objects; at least 1
  std::uint64_t old_blocks_at_once = 1024;  // of earlier processes, looked at when blocks are wanted; at least 1
};

// Whether a commit that destroys objects looks for references to them in all persistent objects.
enum class destroy_check {
  in_debug_builds,  // of the library
  never,            // only in those that the transaction has written
  always,           // reads the whole store: about 20 ns an object that is in memory
};

// How a store is opened.
struct store_options {
  rvm::open_mode mode = rvm::open_mode::open_or_create;
  database_options create = {};  // the default database, when the store is created
  // The log and its tuning; `mode` in it is not used. What is said of the log when it is made (its size, 64 MiB by default)
  // counts when the store is created.
  rvm::options memory = {};
  // false: pages that are written often stay writable between transactions, and a stray write to them is found at the next
  // begin(), which takes it back and throws errc::stray_write. true: none stays writable, so every stray write ends the
  // process where it happens.
  bool strict_tracking = false;
  // Databases of at most this many bytes that fit a quarter of memory are read from the disk as a whole, in the background,
  // when the store is first used; of larger ones, what is touched and what the kernel reads with it. 0: of all.
  std::uint64_t read_ahead = std::uint64_t{256} << 20;
  // How modified pages are found; for tests and measurements.
  rvm::tracking_mechanism mechanism = rvm::tracking_mechanism::choose;
  destroy_check check_destroyed = destroy_check::in_debug_builds;
  store_tuning tune = {};
};

// What a commit made persistent, for each type [PM3 §7.4, figures 7 and 8].
struct type_count {
  std::string type;
  std::uint64_t objects = 0, bytes = 0;  // bytes: with headers
};

// Counters since the store was opened; bytes are with headers.
struct store_statistics {
  std::uint64_t write_transactions = 0, read_transactions = 0, commits = 0, aborts = 0;
  std::uint64_t objects_made = 0, bytes_made = 0;              // by make() and containers
  std::uint64_t objects_stabilized = 0, bytes_stabilized = 0;  // became persistent
  std::uint64_t objects_destroyed = 0;                         // persistent ones
  std::uint64_t bulk_bytes = 0;                                // written to databases without the log
  std::uint64_t conservative_objects = 0;                      // stabilized, with unknown layout
  std::vector<type_count> last_commit;                         // of the last commit that stabilized something
  std::vector<type_count> total;                               // since the store was opened
  rvm::statistics memory;
};

// A database of an open store [PM3 §6.1, figure 6]. A light handle: copies name the same database. Valid until the store is
// closed; threads as for the store.
class database {
 public:
  [[nodiscard]] const std::string& name() const;
  // Makes an object here instead of in the default database, and keeps it here. See store::make.
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments);
  // Its own roots, as those of the store, which are those of the default database.
  template <class T>
  T& root(std::string_view root_name);
  template <class T>
  [[nodiscard]] T* find_root(std::string_view root_name) const;
  void remove_root(std::string_view root_name);
  [[nodiscard]] std::vector<std::string> root_names() const;
  // The address of its first byte, 16 MiB above database_options::home; and bytes, as in database_options.
  [[nodiscard]] std::uint64_t home() const;
  [[nodiscard]] std::uint64_t reservation() const;

 private:
  friend class store;
  explicit database(database_state* state) : state_(state) {}
  void* root_object(std::string_view root_name, const type& of, void* (*make_it)(database_state&)) const;
  database_state* state_;
};

// Commits up to it are durable when store::wait(ticket) has returned.
using rvm::ticket;

// A write transaction [PM3 §6.1, figure 5]. Moves; belongs to the thread that began it. Destroying an open one aborts it; of
// an error then, the next use of the store tells. All functions but is_open throw errc::bad_transaction if it has ended.
class transaction {
 public:
  transaction() = default;
  ~transaction();
  transaction(transaction&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  transaction& operator=(transaction&& other) noexcept;

  // Makes everything reachable from persistent objects persistent [PM3 §5.1], and ends the transaction. Durable: returns when
  // it is on the disk, other threads being let in before. If it throws, the transaction is still open: it can be aborted or,
  // where the cause is gone, committed again; but not after a failure of the log, which ends it and makes the store unusable
  // until it is opened again. An inner transaction's commit changes nothing yet, and its ticket is of no use.
  // errc::cannot_persist: an object that the transaction has written, and that is or would become persistent, refers to
  // something that is not in the store, or to a destroyed object (store_options::check_destroyed: any object that does); the
  // message has the way from a root, if it is found among the first 100 000 objects. errc::doomed. errc::too_big: the log may not grow so far.
  ticket commit(commit_mode mode = commit_mode::durable);
  // Persistent objects are as they were at begin() or the last checkpoint(), and so are their transient fields; objects that
  // the transaction has made are gone. Transient objects that were there before keep what was written to them. Of an inner
  // transaction: dooms the outer one, and puts nothing back.
  void abort();
  // Commits, and stays open without letting anybody in. errc::bad_transaction in an inner one. If it is durable and throws
  // because the log failed, the transaction is open and the store unusable.
  ticket checkpoint(commit_mode mode = commit_mode::durable);
  // Commits and begins a new transaction; others may get in between.
  ticket chain(commit_mode mode = commit_mode::durable);
  [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr; }
  // A name that the log's history shows (`tenure log history`). The last one counts.
  void label(std::string_view name);
  // Announces that `length` bytes are about to be written: saves the traps, and lets the kernel write there (read(2) into memory
  // that is tracked fails with EFAULT otherwise). Never needed for correctness elsewhere.
  void touch(void* address, std::size_t length);

 private:
  friend class store;
  explicit transaction(store_state* state) : state_(state) {}
  store_state* state_ = nullptr;
};

// Keeps writers out while it lives. Belongs to the thread that began it, and is destroyed there. A thread may have several.
class read_transaction {
 public:
  explicit read_transaction(store_state* state) : state_(state) {}
  ~read_transaction();
  read_transaction(read_transaction&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  read_transaction& operator=(read_transaction&&) = delete;

 private:
  store_state* state_;
};

class store {
 public:
  // Opens the store in a directory, or creates it there if `mode` says so, the directory (not those above it) included;
  // recovers. One process at a time, except read-only ones (errc::in_use). errc::schema_mismatch, before any harm, if a type
  // that the program has registered (registry.hpp), as it does by using make and root, is stored with another layout.
  // errc::address_taken: something else is mapped at a database's home. errc::damaged, errc::wrong_version, and
  // std::errc::no_such_file_or_directory as they say: a database or the log that is missing is not made anew. errc::wrong_log:
  // a database or the log is another store's, or an older copy than the others. What to do is in the message, and in
  // docs/guide-stores.md.
  explicit store(const std::string& directory, const store_options& how = {});
  // Closes; errors are swallowed.
  ~store();
  store(store&&) noexcept;
  store& operator=(store&&) noexcept;
  // Makes everything committed durable, truncates the log, unmaps. Every pointer into the store is invalid then. Throws
  // errc::transactions_open, and nothing has changed, if there are any. Does nothing the second time.
  void close();

  // Databases. Opening a store opens all of its databases. Creating one commits durably; not inside a transaction
  // (errc::bad_transaction), nor while another thread uses the store. A name has 1 to 63 letters, digits, - and _
  // (errc::bad_option), and is not taken (std::errc::file_exists). The default one is named "main".
  [[nodiscard]] database default_database() const;
  [[nodiscard]] std::optional<database> find_database(std::string_view name) const;
  database create_database(std::string_view name, const database_options& how = {});
  [[nodiscard]] std::vector<database> databases() const;

  // A new object in the default database, T(arguments...) or T{arguments...} [PM3 §2.1, §5]: transient until it is reachable
  // from a root at a commit. Inside or outside of transactions, by any thread. If the transaction that made it aborts, it is
  // gone; in memory whose bytes were zero. Throws what T's constructor throws, and then there is no object;
  // errc::out_of_memory: the reservation is used up, or T has more bytes than half of it; std::errc::no_space_on_device.
  // errc::schema_mismatch: T is stored with another layout. Types that cannot persist do not compile (docs/types.md).
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments) {
    return default_database().make<T>(std::forward<Arguments>(arguments)...);
  }
  // Ends an object that make() made, persistent or not, in a write transaction (errc::bad_transaction): its destructor runs
  // now, its memory is free after the commit. A reference to it must not be left: the commit fails if an object that the
  // transaction has written has one, others are looked at where store_options::check_destroyed says so. T: its type, or a base
  // with a virtual destructor. nullptr does nothing. If the transaction aborts, a persistent object is what it was; one that was
  // transient before the transaction must not be used any more. errc::bad_free: no object of the store starts there, it was
  // destroyed already, has another type, or is an array of a container, whose elements are the container's to end.
  template <class T>
  void destroy(T* object);

  // The object that a name of 1 to 4096 bytes (errc::bad_option) stands for; made, by T{}, if there is none: in a durable
  // transaction of its own if none is open (errc::bad_transaction in a read transaction). errc::wrong_type if it is of another
  // type; errc::schema_mismatch. Everything that is reachable from roots persists [PM3 §6.1].
  template <class T>
  T& root(std::string_view name) {
    return default_database().root<T>(name);
  }
  // The same, but nullptr if there is none.
  template <class T>
  [[nodiscard]] T* find_root(std::string_view name) const {
    return default_database().find_root<T>(name);
  }
  // The name stands for nothing any more; the object stays. In a transaction like root(). errc::no_such_root.
  void remove_root(std::string_view name) { default_database().remove_root(name); }
  // In no particular order.
  [[nodiscard]] std::vector<std::string> root_names() const { return default_database().root_names(); }

  // Waits for other transactions. errc::bad_transaction in a thread that has a read transaction of this store: an upgrade.
  // Nested calls of a thread join the transaction that is open; an inner abort or exception dooms the outer one, whose commit
  // throws errc::doomed. errc::stray_write: something was written since the last transaction, and has been taken back; begin
  // again.
  [[nodiscard]] transaction begin();
  // Waits for the write transaction that is open, unless it is this thread's.
  [[nodiscard]] read_transaction begin_read() const;
  // Runs f() in a transaction, commits it and returns what f returned, by value; aborts and rethrows if f or the commit throws.
  template <class F>
  decltype(auto) transact(F&& f, commit_mode mode = commit_mode::durable) {
    transaction tx = begin();
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      f();
      tx.commit(mode);
    } else {
      auto result = f();
      tx.commit(mode);
      return result;
    }
  }
  // Runs f() in a read transaction and returns what it returns.
  template <class F>
  decltype(auto) read(F&& f) const {
    const read_transaction tx = begin_read();
    return f();
  }

  // Names everything committed so far, by whatever thread: what lazy commits have written may have been read, and has to be
  // waited for before the world is told.
  [[nodiscard]] ticket last_commit() const;
  // Returns when everything up to the ticket is durable; writes it if nobody does. errc::outcome_unknown if that failed.
  void wait(ticket until);
  void flush() { wait(last_commit()); }

  // Everything that is wrong in the store: stored bytes that fail their checksums, bookkeeping that does not fit, pointers
  // to nothing; each says which object, of which type, reachable how. Empty: nothing. Reads all of it, in a read transaction if
  // the thread has none.
  [[nodiscard]] std::vector<std::string> verify() const;
  // Whether the object was reachable at a commit. `object` may point into it; false for what is in no database.
  [[nodiscard]] bool is_persistent(const void* object) const;
  [[nodiscard]] store_statistics stats() const;
  // What opening it has recovered.
  [[nodiscard]] const rvm::recovery_report& recovery() const;
  // Its absolute path.
  [[nodiscard]] const std::string& directory() const;

 private:
  friend struct store_state;
  // The only owner of it.
  class owner {
   public:
    explicit owner(store_state* state) noexcept : state_(state) {}
    owner(owner&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    owner& operator=(owner other) noexcept {
      std::swap(state_, other.state_);
      return *this;
    }
    ~owner();
    store_state* get() const noexcept { return state_; }
    store_state& operator*() const noexcept { return *state_; }
    store_state* operator->() const noexcept { return state_; }

   private:
    store_state* state_;
  };
  owner state_;
};

namespace detail {

// The object of `bytes` zero bytes behind a header that names its type, in the database. Its constructor has yet to run.
void* make_object(database_state& in, const type& of, std::uint64_t bytes);
// The constructor has run: its vtable pointers become those that mean the same in every process.
void constructed(database_state& in, const type& of, void* object) noexcept;
// The constructor has thrown.
void unmake_object(database_state& in, void* object) noexcept;
// Checks that a live object of the type starts there, and has the class `dynamic` if that is given; gives its start.
void* require_object(store_state& in, const void* object, const type& of, const std::type_info* dynamic);
void retire_object(store_state& in, void* object) noexcept;

// What a program makes or looks for is registered when it starts (registry.hpp): so its virtual functions work in every store
// from the beginning, and its layout is compared when a store is opened.
template <class T>
struct registration {
  static inline const tenure::register_type<T> of_type{};
};

// T may persist: or the compiler says why not.
template <class T>
const type& stored_type_of() {
  static_assert(!std::is_reference_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T>,
                "name the plain type of the object");
  static_assert(alignof(T) <= 16384, "tenure: objects of a store can be aligned to at most 16384 bytes");
  (void)&registration<T>::of_type;
  return type_of<T>();
}

}  // namespace detail

template <class T, class... Arguments>
T* database::make(Arguments&&... arguments) {
  const type& of = detail::stored_type_of<T>();
  void* const memory = detail::make_object(*state_, of, sizeof(T));
  T* object;
  if constexpr (std::is_nothrow_constructible_v<T, Arguments...>) {
    object = ::new (memory) T(std::forward<Arguments>(arguments)...);
  } else {
    try {
      if constexpr (std::is_constructible_v<T, Arguments...>)
        object = ::new (memory) T(std::forward<Arguments>(arguments)...);
      else
        object = ::new (memory) T{std::forward<Arguments>(arguments)...};
    } catch (...) {
      detail::unmake_object(*state_, memory);
      throw;
    }
  }
  detail::constructed(*state_, of, memory);
  return object;
}

template <class T>
T& database::root(std::string_view root_name) {
  const auto make_it = [](database_state& in) -> void* { return database(&in).make<T>(); };
  return *static_cast<T*>(root_object(root_name, detail::stored_type_of<T>(), make_it));
}

template <class T>
T* database::find_root(std::string_view root_name) const {
  return static_cast<T*>(root_object(root_name, detail::stored_type_of<T>(), nullptr));
}

template <class T>
void store::destroy(T* object) {
  if (object == nullptr) return;
  void* start;
  if constexpr (std::is_polymorphic_v<T>)
    start = detail::require_object(*state_, dynamic_cast<void*>(object), detail::stored_type_of<T>(), &typeid(*object));
  else
    start = detail::require_object(*state_, object, detail::stored_type_of<T>(), nullptr);
  object->~T();
  detail::retire_object(*state_, start);
}

#pragma GCC visibility pop

}  // namespace tenure
