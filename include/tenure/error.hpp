// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Errors. Every failure is a tenure::error. It has a code for programs, and a sentence for people, which says what
// happened, where (file, offset, address, transaction), and what to do. Errors of the operating system have their errno
// as the code, in std::generic_category. The library's own errors have a code of errc.
#pragma once

#include <stdexcept>
#include <string>
#include <system_error>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

enum class errc {
  damaged = 1,         // stored bytes fail their checksum or are inconsistent
  wrong_version,       // written by another version of the format, or on a machine of another kind
  not_a_log,           // the file is no log
  not_a_segment,       // the file is no segment of the requested kind
  segment_missing,     // the log has changes for a segment whose file is not there
  segment_too_short,   // a segment's file ends before the end of the region or of a logged change
  wrong_log,           // the segment has changes waiting in another log
  in_use,              // another process, or another object in this one, uses the file
  read_only,           // a change to something that was opened for reading
  misaligned,          // an offset, length or address is not a multiple of the page size
  region_overlap,      // part of the segment is mapped already
  address_taken,       // something else is mapped at the address
  not_mapped,          // the range is in no mapped region
  partly_mapped,       // the range begins in a region and ends outside of it
  region_busy,         // the region has uncommitted transactions
  bad_transaction,     // the transaction has ended, or belongs to another memory
  cannot_abort,        // a no_restore transaction cannot be rolled back
  transactions_open,   // the memory was closed while transactions were open
  too_big,             // the transaction does not fit into a log that may not grow
  undeclared_write,    // checking mode: memory changed outside of every declared range
  outcome_unknown,     // the log could not be written or synced: reopen to learn what survived
  log_stuck,           // the log is full and cannot be truncated
  forked,              // the child of a fork uses its parent's memory
  closed,              // the object has been closed
  bad_option,          // an option has an impossible value
  out_of_memory,       // a recoverable heap has no room for the object
  bad_free,            // the pointer does not name a live object of this heap
  schema_mismatch,     // a type is stored with another layout than the program's
  wrong_type,          // a root is of another type than the requested one
  no_such_root,        // no root has this name
  cannot_persist,      // a persistent object refers to something that cannot persist
  doomed,              // an inner transaction could not be undone, so the outer one cannot commit
  segment_full,        // the segment may not grow so far
  wrong_tracking,      // the region's changes are found in another way
  stray_write,         // an automatically tracked region was written outside of any automatic transaction
  bad_type,            // a class's description of itself does not fit the class
  copied,              // the files were copied while they were in use
  no_history,          // the log and its archive do not have that part of the past
  unseen_store,        // memory with barriers was written, and no store was announced
  not_stopped,         // a collection could not find out what the program's threads refer to
  bad_weak_reference,  // a weak reference leads to no object of its own
  cache_full,          // an object cache has no room beside the objects that must stay
  deadlock,            // the transaction would have waited in a circle: abort it, and run it again
  in_doubt,            // a prepared transaction waits for its outcome: commit or abort it first
};

[[nodiscard]] const std::error_category& category() noexcept;
[[nodiscard]] std::error_code make_error_code(errc code) noexcept;

class error : public std::system_error {
 public:
  // `what` is the whole sentence that what() returns. The text of the code is not appended.
  error(std::error_code code, const std::string& what);
  error(errc code, const std::string& what) : error(make_error_code(code), what) {}
  [[nodiscard]] const char* what() const noexcept override { return what_.what(); }

 private:
  std::runtime_error what_;  // holds the text, because copies of an exception must not fail
};

#pragma GCC visibility pop

}  // namespace tenure

template <>
struct std::is_error_code_enum<tenure::errc> : std::true_type {};
