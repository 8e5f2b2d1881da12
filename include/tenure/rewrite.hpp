// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores are written anew, object by object, while no program has them open: denser, in another order, at other addresses, or
// as a store of their own. What no root leads to is left out.
//
//     tenure::compact("designs");                            // half of it was garbage and holes
//     tenure::compact("designs", {.order = tenure::object_order::depth_first});
//     tenure::clone("designs", "designs-of-today");          // both can be open in one process
//
// Every pointer of the store is rewritten: into objects, derived ones behind their ends, between databases, in containers, to virtual
// functions. Nothing else is: a store with objects of unknown layout in which a word looks like a pointer is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tenure/rvm/log_options.hpp>

namespace tenure::os {
class disk;
}

namespace tenure {

// In which order objects lie in the new store. Those of one type and size still have pages of their own: there the order
// decides which of them share a page.
enum class object_order : std::uint8_t {
  breadth_first,  // from the roots; what is near to a root lies together
  depth_first,    // what is reached through an object lies behind it
  by_address,     // as it was. The fastest for stores that are larger than memory
  by_type,        // one type after the other, and within a type as it was
  by_access,  // by the first use of the part of the store that they were in, as a program has recorded; the rest as it was
};

struct rewrite_options {
  object_order order = object_order::breadth_first;
  // With by_access: the file that a program has made (store_options::record_accesses) that has read this store, as it is now: since
  // it was written anew, or a collection has moved objects, other objects may be there.
  std::string accesses = {};
  // The addresses that databases get, as database_options::home; the others keep theirs, or, of a clone, get random ones.
  struct database_home {
    std::string database;
    std::uint64_t home;
  };
  std::vector<database_home> homes = {};
  // The reservation of the new databases, as in database_options. 0: as it was.
  std::uint64_t reservation = 0;
  rvm::progress_callback on_progress = {};  // phases "searching", "copying"
  os::disk* disk = nullptr;
};

struct rewrite_report {
  std::uint64_t objects = 0, bytes = 0;             // that were copied; bytes without headers
  std::uint64_t left_out = 0;                       // objects to which no root leads
  std::uint64_t weak_cleared = 0;                   // weak references to those
  std::uint64_t bytes_before = 0, bytes_after = 0;  // of the databases' files
  // With by_access: the kernel has refused the recording program more mappings. What it used after that is not in the file.
  bool accesses_cut_short = false;
  double seconds = 0;
};

// What was found in a damaged store, and what a repair does about it.
struct repair_finding {
  enum class kind : std::uint8_t {
    page,           // of a database's file: it cannot be read, or fails its checksum
    bookkeeping,    // says something that cannot be so
    lost_object,    // lies on such a page, or what is known of it makes no sense
    lost_elements,  // of a large array: they were on such a page, and become zero
    lost_root,      // a name whose object is lost; the name goes
    cut_reference,  // led to what is lost, or to nothing; is null now
    container,      // has lost entries, and was put in order
  } what;
  std::string text;           // says what and where, with types, addresses, and the path from a root where there is one
  std::uint64_t address = 0;  // of the page, the object, the reference, the container; of a root 0
};

struct repair_options {
  std::string to = {};   // a new directory for the repaired store; empty: in place
  bool dry_run = false;  // only says what would happen
  object_order order = object_order::by_address;
  // Called for each finding, in the order in which they are found.
  std::function<void(const repair_finding&)> on_finding = {};
  rvm::progress_callback on_progress = {};  // phases "verifying", "salvaging", and those of a rewriting
  os::disk* disk = nullptr;
};

struct repair_report {
  std::uint64_t pages = 0, bookkeeping = 0, lost_objects = 0, lost_elements = 0, lost_roots = 0, cut_references = 0,
                containers = 0;            // findings of each kind
  std::vector<repair_finding> first = {};  // at most 100
  rewrite_report rewritten = {};           // nothing, if nothing was written
  [[nodiscard]] bool is_damaged() const {
    return pages + bookkeeping + lost_objects + lost_elements + lost_roots + cut_references + containers != 0;
  }
};

#pragma GCC visibility push(default)  // libtenure.so exports it

// Writes the store anew, beside its files, and switches to the new ones at once. Until then, and whatever interrupts it, the
// store is what it was; what a crash has left is removed by the next one. Needs as much space as the new files take. Addresses
// stay those of the store, but objects have other ones; identities stay, but for that of the log: archives and incremental
// backups begin anew with a full backup.
//
// Throws errc::in_use if the store is open anywhere, or a backup of it goes on; errc::bad_type, with the type's name, if an
// object of unknown layout has a word that may be a pointer, or if a container's order depends on addresses and cannot be
// rebuilt; errc::out_of_memory if a reservation is too small; errc::damaged; errc::bad_option.
rewrite_report compact(const std::string& store, const rewrite_options& how = {});

// Writes it to a new directory, with identities and addresses of its own. The original is only read. If it fails, or is
// interrupted, nothing in `directory` opens. Throws the same, and std::errc::file_exists if `directory` is not empty.
rewrite_report clone(const std::string& store, const std::string& directory, const rewrite_options& how = {});

// Writes a damaged store anew without the objects that are lost, and without references to them: those become null, and each is
// reported. Containers keep what can be reached without passing a lost object. In place as compact() does, or to a new
// directory, with the same addresses. A store in which nothing is wrong is not written. Values that are no references are
// not checked, unless their page fails its checksum.
//
// Throws what compact() throws, and errc::damaged if that is lost without which nothing can be found: the header of a
// database, or descriptions of types; then only a backup helps.
repair_report repair(const std::string& store, const repair_options& how = {});

#pragma GCC visibility pop

}  // namespace tenure
