// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Linked around a program's calls of tenure::rvm::transaction (ld --wrap), writes them to the file that TENURE_TRACE names:
// "r ADDRESS LENGTH" for each declared range, then "f", "n" or "a" for the transaction's end. Ends the process after
// TENURE_TRACE_TRANSACTIONS of them.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <tenure/rvm.hpp>

using tenure::rvm::commit_mode;
using tenure::rvm::ticket;
using tenure::rvm::transaction;

namespace {

std::string waiting;

void note_range(const void* at, std::size_t length) {
  waiting += "r " + std::to_string(reinterpret_cast<std::uintptr_t>(at)) + " " + std::to_string(length) + "\n";
}

void note_end(char how) {
  static std::FILE* const out = [] {
    const char* const name = std::getenv("TENURE_TRACE");
    return name != nullptr ? std::fopen(name, "w") : nullptr;
  }();
  static long left = std::atol(
      std::getenv("TENURE_TRACE_TRANSACTIONS") != nullptr ? std::getenv("TENURE_TRACE_TRANSACTIONS") : "1000");
  if (out != nullptr) std::fprintf(out, "%s%c\n", waiting.c_str(), how);
  waiting.clear();
  if (--left != 0) return;
  if (out != nullptr) std::fclose(out);
  std::_Exit(0);
}

}  // namespace

// Names of the member functions, as the linker knows them. No C program calls them.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wreturn-type-c-linkage"
#endif
extern "C" {
void __real__ZN6tenure3rvm11transaction9set_rangeEPKvm(transaction* tx, const void* at, std::size_t length);
void __real__ZN6tenure3rvm11transaction6modifyEPvPKvm(transaction* tx, void* to, const void* from, std::size_t length);
ticket __real__ZN6tenure3rvm11transaction6commitENS0_11commit_modeE(transaction* tx, commit_mode mode);
void __real__ZN6tenure3rvm11transaction5abortEv(transaction* tx);

void __wrap__ZN6tenure3rvm11transaction9set_rangeEPKvm(transaction* tx, const void* at, std::size_t length) {
  note_range(at, length);
  __real__ZN6tenure3rvm11transaction9set_rangeEPKvm(tx, at, length);
}
void __wrap__ZN6tenure3rvm11transaction6modifyEPvPKvm(transaction* tx, void* to, const void* from, std::size_t length) {
  note_range(to, length);
  __real__ZN6tenure3rvm11transaction6modifyEPvPKvm(tx, to, from, length);
}
ticket __wrap__ZN6tenure3rvm11transaction6commitENS0_11commit_modeE(transaction* tx, commit_mode mode) {
  const ticket done = __real__ZN6tenure3rvm11transaction6commitENS0_11commit_modeE(tx, mode);
  note_end(mode == commit_mode::flush ? 'f' : 'n');
  return done;
}
void __wrap__ZN6tenure3rvm11transaction5abortEv(transaction* tx) {
  __real__ZN6tenure3rvm11transaction5abortEv(tx);
  note_end('a');
}
}
