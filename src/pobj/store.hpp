// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An open store, and what this process knows about its objects.
//
// One lock guards all of it, with the headers of objects. It is held for work that needs no disk: commits wait without
// it. The program's memory managers are called without it, too, since a garbage collector may run finalizers there
// [pobj.lock].
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <tenure/pobj.h>

#include <tenure/rvm.hpp>

#include "os/file.hpp"
#include "os/process.hpp"
#include "pobj/address_map.hpp"
#include "pobj/control_memory.hpp"
#include "pobj/object_memory.hpp"
#include "pobj/slot_table.hpp"
#include "pobj/space.hpp"
#include "pobj/static_table.hpp"
#include "pobj/type_table.hpp"

namespace tenure::pobj {

// pobj_options with all defaults filled in.
struct settings {
  std::string path, program;
  pobj_allocator objects = {};  // none: the pool
  pobj_allocator control = {&std::malloc, &std::calloc, &std::free};
  unsigned flags;
  std::uint64_t initial_size, max_size, log_size;
  os::disk* disk;
  bool background;
};

// For tests: a simulated disk (nullptr: the machine's own), and lower limits.
struct test_hooks {
  static inline os::disk* disk = nullptr;
  static inline bool background = true;
  // A transaction with this many bytes of whole pages writes them straight to the segment. That costs two more syncs,
  // and the bytes need not go through the log.
  static inline std::uint64_t bulk_bytes = std::uint64_t{4} << 20;
  // Free slots up to this length are taken whole. Longer ones are cut.
  static inline std::uint64_t small_area = std::uint64_t{64} << 10;
  // The bytes that a transaction takes at a time once it has taken much.
  static inline std::uint64_t largest_area = std::uint64_t{16} << 20;
  // The number of the first traversal. Numbers begin again when they have no bits left.
  static inline std::uint16_t first_mark = 0;
  // Ends the process's store as a crash would: writes nothing, and only gives back the objects' memory.
  static void crash() noexcept;
};

class store_lock;
class transaction;

struct store {
  // Opens or makes the store, and reconstructs its objects. If it throws, only the files remain.
  explicit store(const settings& how);
  // Gives nothing back to the program's memory managers; close() and discard() do.
  ~store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;

  // Throws while transactions are open.
  void require_closable() const;
  // Frees the finalized objects, makes references right that an end has missed, and closes the files.
  void close();
  // Gives back the objects' memory. The store may not be used afterwards.
  void discard() noexcept;

  // --- Checks of a program's arguments. The lock is held. ---

  [[nodiscard]] object object_of(const void* handle) const;
  // The offset of a field of `length` bytes. Throws POBJ_ERANGE.
  [[nodiscard]] static std::uint64_t offset_of(object o, const void* field, std::uint64_t length);
  // A collector is taking the object: forgets it. May be called during any other call.
  void finalize(const void* handle);
  // The lock is held.
  void finalize(object o) noexcept;
  [[nodiscard]] bool is_strict() const { return (how.flags & POBJ_STRICT) != 0; }

  [[nodiscard]] const store_header& header() const { return region.at<store_header>(0); }

  settings how;
  const std::uint32_t fork_generation = os::fork_generation();
  mutable std::mutex mutex;
  control_memory control;
  object_memory object_blocks;
  rvm::memory memory;
  rvm::region region;
  space free;
  address_map addresses;
  slot_table slots;
  type_table types;
  static_table statics;
  // Words of images that refer to a transient object, by its inverted handle. Used when the object becomes persistent.
  std::unordered_map<std::uintptr_t, std::set<position>> waiting;
  // Those of them that an open transaction has written, in images that it has not made.
  std::unordered_map<position, const transaction*> written_words;
  // Words that a commit would have changed to refer to an image, if transactions had not been open. They are examined
  // when these end.
  std::set<position> late_words;
  // The end of a transaction found no memory to make references right. Any word that waits may be one of them.
  bool has_missed_references = false;
  // Commits that have updated words of other transactions' images and are not over. No image is changed meanwhile
  // [pobj.link].
  int linking_commits = 0;
  std::condition_variable_any linked;
  void wait_for_links(store_lock& lock);
  std::map<position, position> owned;  // areas of open transactions: begin, end
  std::vector<object> to_finalize;     // by the thread that holds the lock
  // Slots of objects that a collector has taken. The next commit frees them.
  struct finalized_slot {
    position slot;
    std::uint64_t type;  // in use until then
  };
  std::list<finalized_slot> finalized;
  std::uint64_t execution = 0;
  std::uint16_t mark = test_hooks::first_mark;  // of the last traversal
  std::atomic<std::uint64_t> open_transactions = 0;
  pobj_report report = {};

 private:
  [[nodiscard]] rvm::memory open_memory() const;
  [[nodiscard]] rvm::region open_region();
  void initialize();
  void begin_execution();
  void note_execution(const std::vector<position>& old);
  [[nodiscard]] position keep_type(std::uint32_t number, const type_description& t, position instead);
  // reconstruction.cpp
  void reconstruct();
  void scan();
  void load_type(position slot, slot_word word);
  void load_static(position slot, slot_word word);
  void make_objects(void** blocks, std::vector<position>& old);
  void bind_statics();
};

// The store's lock. A garbage collector may run finalizers when the library allocates memory for itself. Finalizers in
// a thread that holds the lock wait until it releases the lock.
class store_lock {
 public:
  explicit store_lock(store& of) : of_(of) { lock(); }
  ~store_lock() {
    if (held_) unlock();
  }
  store_lock(const store_lock&) = delete;
  store_lock& operator=(const store_lock&) = delete;
  void lock();
  void unlock();

 private:
  store& of_;
  bool held_ = false;
};

// The process's store; nullptr: none is open. Only pobj_init and pobj_close change it.
[[nodiscard]] store* open_store() noexcept;
// The same, but throws POBJ_ESTATE if there is none, or in the child of a fork.
[[nodiscard]] store& the_store();

}  // namespace tenure::pobj
