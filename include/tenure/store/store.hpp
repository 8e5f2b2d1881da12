// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The store itself (tenure/store.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tenure/rvm/backup.hpp>
#include <tenure/store/collection.hpp>
#include <tenure/store/database.hpp>
#include <tenure/store/handle.hpp>
#include <tenure/store/options.hpp>
#include <tenure/store/statistics.hpp>
#include <tenure/store/transaction.hpp>

namespace tenure {

struct store_state;

#pragma GCC visibility push(default)  // libtenure.so exports it

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
  // Throws errc::transactions_open if there are open transactions; then nothing has changed. After every other failure
  // the store is closed, and its files are released: opening it again tells what survived. A second call does nothing. Not
  // while another thread uses the store, as in collect().
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
  // a read transaction of this store: that would be an upgrade. In a thread that has an open write transaction of this
  // store: begins an inner one in it, which can be undone without the rest (transaction.hpp). That compares the pages that the
  // outer one has changed so far, and copies the changes and what it has made: about a microsecond for 4 KiB. Throws
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

  // Copies what is committed to a directory, which is made, or is empty, and is not in the store's own, while the store is in use
  // by this process: a store of its own, closed, as it was after one commit, which the report names. Writers wait for nothing
  // meanwhile, but the log grows. The copy has the store's identity and addresses: a process can have only one of the two open.
  // With backup_options::since it is only what was committed since an earlier backup. rvm::restore makes a store from backups
  // again. Any thread may call it.
  rvm::backup_report backup(const std::string& directory, const rvm::backup_options& how = {});

  // Gives the disk space of what is free in the databases back to the file system, in transactions of its own, and returns
  // how many bytes these are. They stay free for new objects: space is allocated before they are used again. So a full
  // disk refuses a new object (std::errc::no_space_on_device), never a commit of what was made, unless that has types that
  // are new to the database: their descriptions are objects, too. A file keeps its size, but uses fewer blocks (`du`). It
  // includes what the databases have grown by and not used yet. Not in an open transaction of this thread
  // (errc::bad_transaction). Any thread.
  std::uint64_t trim(const rvm::progress_callback& on_progress = {});

  // Destroys the objects of the store to which nothing leads any more, neither roots nor the program: garbage collection, while
  // the program goes on [PM3 §4]. No object moves, and no destructors run. What keeps an object: a root; pointers in objects that
  // stay; and any word of the program's writable memory that could be a pointer to it, or into it, or one past its end: in
  // stacks, registers, static data, memory of malloc. A pointer that is nowhere as such keeps nothing: one that is combined with
  // others, compressed, not aligned to 8 bytes, in a file, a kernel structure, another process, another store (docs/caveats.md).
  //
  // First all threads of the process stand still for a moment, which a real-time signal makes them do; so system calls that the
  // kernel does not restart return EINTR. A copy of the process looks for pointers then. Marking goes on beside transactions,
  // which wait for slices of some microseconds (docs/benchmarks.md says what that costs). Then weak references to what was found are
  // cleared (weak.hpp), and transactions of bounded size destroy it. What becomes garbage meanwhile, the next collection finds.
  // Objects that were never persistent are collected, too.
  //
  // Waits until it is done. Any thread that has no transaction of this store (errc::bad_transaction). Throws errc::not_stopped,
  // and has changed nothing, if a thread cannot be stopped: one that blocks the signal. Throws errc::damaged. Should it fail
  // later, some of the garbage is gone, and nothing else.
  collect_report collect(const collection_options& how = {});

  // How much space what takes. Reads the bookkeeping, and the headers of objects that have some. Waits for transactions of others
  // as a read transaction does. Any thread.
  [[nodiscard]] space_report space() const;

  // What refers to the object in which the address lies, one sentence each: roots; fields of objects, transient ones, too, whether
  // these objects can be reached or not; the program's handles. Other pointers of the program are not looked for. Looks at all objects.
  // Throws errc::bad_option if no object is there. Waits as a read transaction does. Any thread.
  [[nodiscard]] std::vector<std::string> who_refers(const void* object) const;

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
  // Of a store that is open for reading: its transaction that is prepared, of which nothing can be seen (transaction::prepare).
  [[nodiscard]] const std::optional<rvm::prepared_transaction>& in_doubt() const;
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

// Checks that a live object of the type starts there, and, if `dynamic` is given, that it is of that class. Returns its
// start.
void* require_object(store_state& in, const void* object, const type& of, const std::type_info* dynamic);
void retire_object(store_state& in, void* object) noexcept;

}  // namespace detail

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
