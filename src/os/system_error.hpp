// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Failed system calls as sentences: what was tried, on what object, why the system refused, and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenure::os {

// Throws tenure::error with `code` (an errno) in std::generic_category. `what` is the beginning of the sentence, as in
// "cannot write 10 bytes at offset 0 of FILE". The system's text follows, then `advice`, or the usual advice for this
// code if there is one.
[[noreturn]] void throw_system_error(int code, const std::string& what, const std::string& advice = "");

// "10 bytes at offset 0 of FILE"
[[nodiscard]] std::string place(std::uint64_t length, std::uint64_t offset, const std::string& path);

// "0x550000000000"
[[nodiscard]] std::string hexadecimal(std::uintptr_t address);
[[nodiscard]] std::string hexadecimal(const void* address);

}  // namespace tenure::os
