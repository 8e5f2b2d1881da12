// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How times, identities and bytes are written.
#pragma once

#include <cstdint>
#include <string>

#include "os/file.hpp"
#include "records/format.hpp"

namespace tenure::tools {

[[nodiscard]] std::string hex_text(os::const_bytes bytes);
// The bytes that hexadecimal digits stand for. Throws errc::bad_option.
[[nodiscard]] std::string from_hex(const std::string& digits);
[[nodiscard]] inline std::string identity_text(const rvm::identity& id) { return hex_text(id); }
// Lines of 16 bytes, in hexadecimal and as characters, each with its offset.
[[nodiscard]] std::string dump_text(os::const_bytes bytes, std::uint64_t offset, const std::string& indent);

}  // namespace tenure::tools
