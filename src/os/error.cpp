// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "tenure/error.hpp"

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <new>
#include <utility>

#include "os/system_error.hpp"

namespace tenure {
namespace {

const char* text_of(errc code) {
  switch (code) {
    case errc::damaged: return "stored data is damaged";
    case errc::wrong_version: return "the format version or the kind of machine does not match";
    case errc::not_a_log: return "the file is not a log";
    case errc::not_a_segment: return "the file is not a segment of the kind that was asked for";
    case errc::segment_missing: return "a segment that the log has changes for is missing";
    case errc::segment_too_short: return "a segment's file is too short";
    case errc::wrong_log: return "the segment has changes waiting in another log";
    case errc::in_use: return "the file is in use";
    case errc::read_only: return "it was opened for reading";
    case errc::misaligned: return "an offset, length or address is not a multiple of the page size";
    case errc::region_overlap: return "part of the segment is mapped already";
    case errc::address_taken: return "something else is mapped at the address";
    case errc::not_mapped: return "the range is in no mapped region";
    case errc::partly_mapped: return "the range reaches out of its region";
    case errc::region_busy: return "the region has uncommitted transactions";
    case errc::bad_transaction: return "the transaction has ended or belongs to another memory";
    case errc::cannot_abort: return "a no_restore transaction cannot be rolled back";
    case errc::transactions_open: return "transactions are open";
    case errc::too_big: return "the transaction does not fit into the log";
    case errc::undeclared_write: return "memory changed outside of every declared range";
    case errc::outcome_unknown: return "the log could not be written: reopen to learn what survived";
    case errc::log_stuck: return "the log is full and cannot be truncated";
    case errc::forked: return "the child of a fork uses its parent's memory";
    case errc::closed: return "the object has been closed";
    case errc::bad_option: return "an option's value makes no sense";
    case errc::out_of_memory: return "the recoverable heap is full";
    case errc::bad_free: return "the pointer does not name a live object of this heap";
    case errc::schema_mismatch: return "a type is stored with another layout";
    case errc::wrong_type: return "the root is of another type";
    case errc::no_such_root: return "there is no such root";
    case errc::cannot_persist: return "a persistent object refers to something that cannot persist";
    case errc::doomed: return "an inner transaction was aborted";
    case errc::segment_full: return "the segment may not grow so far";
    case errc::wrong_tracking: return "the region's changes are found in another way";
    case errc::stray_write: return "recoverable memory was written outside of any transaction";
    case errc::copied: return "a copy of files that were in use";
    case errc::unseen_store: return "a write that was not announced";
    case errc::not_stopped: return "the program's references could not be found";
    case errc::bad_weak_reference: return "a weak reference leads to no object of its own";
    case errc::cache_full: return "an object cache has no room beside the objects that must stay";
    case errc::deadlock: return "the transaction would have waited in a circle";
    case errc::in_doubt: return "a prepared transaction waits for its outcome";
    case errc::no_history: return "a part of the past that is not there";
    case errc::bad_type: return "what a class says about itself does not fit it";
  }
  return "unknown error";
}

class tenure_category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "tenure"; }
  [[nodiscard]] std::string message(int code) const override { return text_of(static_cast<errc>(code)); }
};

}  // namespace

const std::error_category& category() noexcept {
  // Never destroyed, because errors may be thrown and read while static objects are being destroyed. Nor allocated: the first
  // error may be that memory is short.
  alignas(tenure_category) static std::byte memory[sizeof(tenure_category)];
  static const tenure_category* const the_category = ::new (memory) tenure_category;
  return *the_category;
}

std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), category()}; }

namespace {

// what() ends at the first zero, and a name of the program's may have one.
std::string without_zeros(const std::string& text) {
  std::string out;
  for (const char c : text) c == '\0' ? out.append("\\0") : out.append(1, c);
  return out;
}

}  // namespace

error::error(std::error_code code, const std::string& what) : std::system_error(code), what_(without_zeros(what)) {}

namespace os {
namespace {

const char* usual_advice(int code) {
  switch (code) {
    case ENOSPC: return "free some space and try again";
    case EDQUOT: return "free some space or raise the quota, and try again";
    case EACCES:
    case EPERM: return "check the permissions of the file and of the directories above it";
    case EROFS: return "the file system is mounted read-only";
    case EIO: return "the storage may be failing: look into the kernel's log (dmesg)";
    case EMFILE: return "close some files or raise the limit of open files (ulimit -n)";
    case EFBIG: return "the limit is the file system's or the process's (ulimit -f)";
    default: return "";
  }
}

}  // namespace

void throw_system_error(int code, const std::string& what, const std::string& advice) {
  const std::error_code reason(code, std::generic_category());
  const std::string then = advice.empty() ? usual_advice(code) : advice;
  throw error(reason, what + ": " + reason.message() + (then.empty() ? "" : "; " + then));
}

std::string place(std::uint64_t length, std::uint64_t offset, const std::string& path) {
  return std::to_string(length) + " bytes at offset " + std::to_string(offset) + " of " + path;
}

std::string hexadecimal(std::uintptr_t address) {
  char digits[2 * sizeof address];
  const auto end = std::to_chars(digits, digits + sizeof digits, address, 16).ptr;
  return "0x" + std::string(digits, end);
}

std::string hexadecimal(const void* address) { return hexadecimal(reinterpret_cast<std::uintptr_t>(address)); }

}  // namespace os
}  // namespace tenure
