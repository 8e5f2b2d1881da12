// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Errors: exceptions inside the library, codes and a sentence for the program.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <tenure/pobj.h>

namespace tenure::pobj {

class failure : public std::exception {
 public:
  failure(int code, std::string what) : code_(code), what_(std::move(what)) {}
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  int code_;
  std::string what_;
};

// "0x7f0012345678"
[[nodiscard]] std::string hexadecimal(const void* address);

// Stores the message of the exception that is being handled, for pobj_error(), and returns its code.
[[nodiscard]] int note_current_exception(const char* call) noexcept;

// Runs f for a call of the C interface. No exception leaves the library.
template <class F>
int guarded(const char* call, F&& f) noexcept {
  try {
    std::forward<F>(f)();
    return POBJ_OK;
  } catch (...) {
    return note_current_exception(call);
  }
}
// The same for calls that return a pointer.
template <class F>
auto guarded_pointer(const char* call, F&& f) noexcept -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    (void)note_current_exception(call);
    return nullptr;
  }
}

}  // namespace tenure::pobj
