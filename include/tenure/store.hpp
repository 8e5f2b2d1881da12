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
// After Hosking & Chen, "Mostly-copying reachability-based orthogonal persistence", OOPSLA 1999 (cited as [PM3
// §section]), on recoverable memory (rvm.hpp). A store is a directory with one log and one or more databases. A
// database is a segment that is mapped at the same addresses in every process, so a stored pointer is a pointer. When a
// transaction commits, every object that is reachable from a root becomes persistent. All other objects in the heap are
// transient, and cost nothing on disk.
//
// Errors: every function that is not noexcept may throw tenure::error: errc::closed after close(), errc::forked in the
// child of a fork, errc::read_only for a change to a store that is open for reading, and the codes that are named
// below. After errc::outcome_unknown the store must be closed and opened again. Using a store that was moved from is
// undefined.
//
// Threads: any number of threads may use a store at once. But while one thread opens, closes, moves or destroys the
// store, or creates a database, no other thread may use it. There may be one write transaction at a time, or many read
// transactions. A write transaction keeps readers out from begin() until its commit has fixed its place in the order,
// which is before it is durable. Reading persistent objects outside of any transaction while another thread writes is a
// data race.
//
// Fork: a child has no store. Its calls throw errc::forked.
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
  // The bytes of addresses that are reserved for the database: the limit of its growth. A power of two from 256 MiB to
  // 1 TiB (errc::bad_option). The first 16 MiB are for virtual functions, the rest for objects and their bookkeeping.
  std::uint64_t reservation = std::uint64_t{1} << 40;
  // The address at which the reservation begins: a multiple of its size (errc::misaligned). 0: chosen at random, so
  // that databases of different stores rarely collide. Throws errc::address_taken if something is mapped there.
  std::uint64_t home = 0;
};

// Thresholds for the store's choices between ways to do the same work. The defaults were measured. Tests choose other
// values, to reach with few objects what otherwise takes many.
struct store_tuning {
  std::uint64_t bulk =
      std::uint64_t{8} << 20;               // bytes of new objects from which on a commit writes them to the database
                                            // straight away, not to the log; 0: always
  std::uint32_t refill = 50;                // blocks in use to at most this part, in percent, get new objects again
  std::uint64_t least_hole = 128;           // bytes between two objects that are worth filling
  std::uint64_t most_blocks = 64;           // taken at once for small objects; at least 1
  std::uint64_t old_blocks_at_once = 1024;  // of earlier processes, examined when blocks are needed; at least 1
};

// Whether a commit that destroys objects looks for references to them in all persistent objects.
enum class destroy_check {
  in_debug_builds,  // if the library is a debug build
  never,            // looks only in objects that the transaction has written
  always,           // reads the whole store: about 20 ns an object that is in memory
};

// How a store is opened.
struct store_options {
  rvm::open_mode mode = rvm::open_mode::open_or_create;
  database_options create = {};  // the default database, when the store is created
  // The log and its tuning. Its `mode` is not used. Options for making a log (its size, 64 MiB by default) have an
  // effect when the store is created.
  rvm::options memory = {};
  // false: pages that are written often stay writable between transactions. The next begin() finds a stray write to
  // such a page, takes it back and throws errc::stray_write. true: no page stays writable, so every stray write ends
  // the process where it happens.
  bool strict_tracking = false;
  // Databases of at most this many bytes, and at most a quarter of memory, are read from the disk as a whole, in the
  // background, when the store is first used. Of larger ones, only the touched pages are read, and those that the
  // kernel reads with them. 0: the same for all databases.
  std::uint64_t read_ahead = std::uint64_t{256} << 20;
  // How modified pages are found. For tests and measurements.
  rvm::tracking_mechanism mechanism = rvm::tracking_mechanism::choose;
  destroy_check check_destroyed = destroy_check::in_debug_builds;
  store_tuning tune = {};
};

// The objects of one type that a commit made persistent [PM3 §7.4, figures 7 and 8].
struct type_count {
  std::string type;
  std::uint64_t objects = 0, bytes = 0;  // bytes include headers
};

// Counters since the store was opened. Bytes include headers.
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

// A database of an open store [PM3 §6.1, figure 6]. A light handle: copies name the same database. Valid until the
// store is closed. Threads: as for the store.
class database {
 public:
  [[nodiscard]] const std::string& name() const;
  // Makes an object in this database, where it stays, instead of in the default database. See store::make.
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments);
  // The roots of this database. The functions are those of the store, which are for the roots of the default database.
  template <class T>
  T& root(std::string_view root_name);
  template <class T>
  [[nodiscard]] T* find_root(std::string_view root_name) const;
  void remove_root(std::string_view root_name);
  [[nodiscard]] std::vector<std::string> root_names() const;
  // The address of its first byte, 16 MiB above database_options::home; and its reservation in bytes, as in
  // database_options.
  [[nodiscard]] std::uint64_t home() const;
  [[nodiscard]] std::uint64_t reservation() const;

 private:
  friend class store;
  explicit database(database_state* state) : state_(state) {}
  void* root_object(std::string_view root_name, const type& of, void* (*make_it)(database_state&)) const;
  database_state* state_;
};

// All commits up to a ticket are durable when store::wait(ticket) has returned.
using rvm::ticket;

// A write transaction [PM3 §6.1, figure 5]. Can be moved. Belongs to the thread that began it. Destroying an open one
// aborts it; if that fails, the next use of the store reports the error. All functions except is_open throw
// errc::bad_transaction if the transaction has ended.
class transaction {
 public:
  transaction() = default;
  ~transaction();
  transaction(transaction&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  transaction& operator=(transaction&& other) noexcept;

  // Makes everything persistent that is reachable from persistent objects [PM3 §5.1], and ends the transaction. A
  // durable commit returns when it is on the disk. Other threads may begin transactions before that. If it throws, the
  // transaction is still open: it can be aborted, or, if the cause is gone, committed again. The exception is a failure
  // of the log: it ends the transaction, and the store cannot be used until it is opened again. The commit of an inner
  // transaction changes nothing yet, and its ticket is of no use. Throws errc::cannot_persist if an object that the
  // transaction has written, and that is or would become persistent, refers to something that is not in the store, or
  // to a destroyed object. (With store_options::check_destroyed: if any object refers to a destroyed one.) The message
  // has the path from a root, if it is found among the first 100 000 objects. Throws errc::doomed, and errc::too_big if
  // the log may not grow so far.
  ticket commit(commit_mode mode = commit_mode::durable);
  // Gives persistent objects, with their transient fields, the values that they had at begin() or at the last
  // checkpoint(). Objects that the transaction has made are gone. Transient objects that existed before keep what was
  // written to them. Aborting an inner transaction dooms the outer one and restores nothing.
  void abort();
  // Commits, and stays open. No other thread gets in between. Throws errc::bad_transaction in an inner transaction. If
  // it is durable and throws because the log failed, the transaction is open and the store cannot be used.
  ticket checkpoint(commit_mode mode = commit_mode::durable);
  // Commits and begins a new transaction. Other threads may get in between.
  ticket chain(commit_mode mode = commit_mode::durable);
  [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr; }
  // A name that the log's history shows (`tenure log history`). If there are several calls, the last one counts.
  void label(std::string_view name);
  // Announces that `length` bytes are about to be written. This saves the traps. It also lets the kernel write there:
  // without it, read(2) into tracked memory fails with EFAULT. Otherwise it is never needed for correctness.
  void touch(void* address, std::size_t length);

 private:
  friend class store;
  explicit transaction(store_state* state) : state_(state) {}
  store_state* state_ = nullptr;
};

// Keeps writers out while it exists. Belongs to the thread that began it, and is destroyed there. A thread may have
// several.
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
  // Opens the store in a directory, and recovers it if needed. If `mode` permits it, creates the store, and the
  // directory itself, but not its parents. One process at a time may open a store, or several for reading
  // (errc::in_use). Throws errc::schema_mismatch, before anything is changed, if a registered type is stored with
  // another layout. Programs register types with registry.hpp, or by using make and root. Throws errc::address_taken if
  // something else is mapped at a database's home; errc::damaged; errc::wrong_version;
  // std::errc::no_such_file_or_directory if a database or the log is missing: it is not made again; errc::wrong_log if
  // a database or the log belongs to another store, or is an older copy than the others. The message says what to do,
  // and so does docs/guide-stores.md.
  explicit store(const std::string& directory, const store_options& how = {});
  // Closes the store. Errors are ignored.
  ~store();
  store(store&&) noexcept;
  store& operator=(store&&) noexcept;
  // Makes everything committed durable, truncates the log, and unmaps. Every pointer into the store becomes invalid.
  // Throws errc::transactions_open if there are open transactions; then nothing has changed. A second call does
  // nothing.
  void close();

  // Databases. Opening a store opens all of its databases. Creating one commits durably. It is not allowed inside a
  // transaction (errc::bad_transaction), or while another thread uses the store. A name has 1 to 63 letters, digits, -
  // and _ (errc::bad_option). The name must be new (std::errc::file_exists). The default database is named "main".
  [[nodiscard]] database default_database() const;
  [[nodiscard]] std::optional<database> find_database(std::string_view name) const;
  database create_database(std::string_view name, const database_options& how = {});
  [[nodiscard]] std::vector<database> databases() const;

  // Makes a new object in the default database, T(arguments...) or T{arguments...} [PM3 §2.1, §5], in zeroed memory. It
  // is transient until a commit finds it reachable from a root. May be called inside or outside of transactions, by any
  // thread. If the transaction that made the object aborts, the object is gone. If T's constructor throws, so does
  // make(), and there is no object. Throws errc::out_of_memory if the reservation is used up, or if T has more bytes
  // than half of it; std::errc::no_space_on_device; errc::schema_mismatch if T is stored with another layout. Types
  // that cannot persist do not compile (docs/types.md).
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments) {
    return default_database().make<T>(std::forward<Arguments>(arguments)...);
  }
  // Ends an object that make() made, persistent or not, in a write transaction (errc::bad_transaction). Its destructor
  // runs now. Its memory is free after the commit. No reference to the object may be left: the commit fails if an
  // object that the transaction has written has one. store_options::check_destroyed says whether other objects are
  // examined, too. T is the type of the object, or a base with a virtual destructor. nullptr does nothing. If the
  // transaction aborts, a persistent object is what it was before; an object that was transient before the transaction
  // must not be used any more. Throws errc::bad_free if no object of the store starts there, if it was destroyed
  // already, if it has another type, or if it is an array of a container: only the container ends its elements.
  template <class T>
  void destroy(T* object);

  // The object with this root name, which has 1 to 4096 bytes (errc::bad_option). If there is none, makes it with T{};
  // if no transaction is open, in a durable transaction for that alone (errc::bad_transaction in a read transaction).
  // Throws errc::wrong_type if the object is of another type; errc::schema_mismatch. Everything that is reachable from
  // roots persists [PM3 §6.1].
  template <class T>
  T& root(std::string_view name) {
    return default_database().root<T>(name);
  }
  // The object with this root name; nullptr if there is none. Throws as root() does.
  template <class T>
  [[nodiscard]] T* find_root(std::string_view name) const {
    return default_database().find_root<T>(name);
  }
  // Removes the name. The object stays. Needs a transaction or makes one, as root() does. Throws errc::no_such_root.
  void remove_root(std::string_view name) { default_database().remove_root(name); }
  // The names of all roots, in no particular order.
  [[nodiscard]] std::vector<std::string> root_names() const { return default_database().root_names(); }

  // Begins a write transaction. Waits for other transactions to end. Throws errc::bad_transaction in a thread that has
  // a read transaction of this store: that would be an upgrade. Nested calls in one thread join the open transaction.
  // An abort or an exception in an inner transaction dooms the outer one, whose commit then throws errc::doomed. Throws
  // errc::stray_write if something was written since the last transaction. The write has been taken back, and begin()
  // may be called again.
  [[nodiscard]] transaction begin();
  // Begins a read transaction. Waits for an open write transaction to end, unless this thread has it.
  [[nodiscard]] read_transaction begin_read() const;
  // Runs f() in a write transaction, commits it and returns the result of f, by value. If f or the commit throws,
  // aborts and throws the same exception.
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

  // The ticket of everything committed so far, by any thread. A program that has read data may have read results of
  // lazy commits. It must wait for this ticket before it tells anybody outside.
  [[nodiscard]] ticket last_commit() const;
  // Returns when everything up to the ticket is durable. Writes it if no other thread does. Throws
  // errc::outcome_unknown if that failed.
  void wait(ticket until);
  void flush() { wait(last_commit()); }

  // Everything that is wrong in the store: stored bytes that fail their checksums, bookkeeping that is inconsistent,
  // pointers that lead to no object. Each sentence names the object, its type and how it is reached. Empty: nothing is
  // wrong. Reads the whole store, in a read transaction if the thread has no transaction.
  [[nodiscard]] std::vector<std::string> verify() const;
  // Whether a commit has found the object reachable. `object` may point into the object. false if the address is in no
  // database.
  [[nodiscard]] bool is_persistent(const void* object) const;
  [[nodiscard]] store_statistics stats() const;
  // What the opening has recovered.
  [[nodiscard]] const rvm::recovery_report& recovery() const;
  // The absolute path of its directory.
  [[nodiscard]] const std::string& directory() const;

 private:
  friend struct store_state;
  // The only owner of the state.
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

// Makes an object of `bytes` zero bytes in the database, with a header that names its type. Its constructor has not run
// yet.
void* make_object(database_state& in, const type& of, std::uint64_t bytes);
// Called when the constructor has run: replaces the vtable pointers by those that mean the same in every process.
void constructed(database_state& in, const type& of, void* object) noexcept;
// Called when the constructor has thrown.
void unmake_object(database_state& in, void* object) noexcept;
// Checks that a live object of the type starts there, and, if `dynamic` is given, that it is of that class. Returns its
// start.
void* require_object(store_state& in, const void* object, const type& of, const std::type_info* dynamic);
void retire_object(store_state& in, void* object) noexcept;

// Types that a program makes or looks for are registered when the program starts (registry.hpp). So their virtual
// functions work in every store from the beginning, and their layouts are compared when a store is opened.
template <class T>
struct registration {
  static inline const tenure::register_type<T> of_type{};
};

// The description of T. Does not compile if T cannot persist; the message says why.
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
