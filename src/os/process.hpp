// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The process and its surroundings: forks, clocks, randomness, the executable's own paths.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tenure::os {

// The number of forks between the first use of this library and this process: 0 until a fork, then larger in the child.
// An object that stores the value when it is made can find out that it is used in a child. Costs one load.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

// Calls before() before each fork of the program, and after() behind it, in the parent and in the child. Returns 0, or an errno.
int around_forks(void (*before)(), void (*after)()) noexcept;

// Nanoseconds since 1970, accurate to some milliseconds. For people only: nothing depends on it.
[[nodiscard]] std::int64_t wall_clock_ns() noexcept;
// "2026-11-21 08:50:04.500000000 UTC", of ns since 1970.
[[nodiscard]] std::string utc_text(std::int64_t ns);

// From the kernel's generator.
void random_bytes(std::span<std::byte> into);

// A write beyond the limit on the size of files (RLIMIT_FSIZE) is an error like others from now on, and does not end the process.
void survive_large_files() noexcept;
// A standard stream with which the process was started closed stays useless. Else the next file that is opened would be it, and
// get what is printed.
void keep_standard_streams_apart() noexcept;

// The file name by which the program was started, without its directory.
[[nodiscard]] std::string program_name();

// The absolute, normalised form of a path (symbolic links are kept).
[[nodiscard]] std::string absolute_path(const std::string& path);
// The same, without symbolic links, as far as the path exists.
[[nodiscard]] std::string path_behind_links(const std::string& path);

}  // namespace tenure::os
