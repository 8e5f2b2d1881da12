// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds the holder of a file's lock, for messages.
#pragma once

#include <sys/types.h>

#include <istream>
#include <string>

namespace tenure::os {

// The holder of flock's lock on the file with this number, as the subject of a sentence: "another process, 71 (bank),"
// or "another `object` of this process"; "" if the kernel does not say. Never throws if something cannot be read.
[[nodiscard]] std::string lock_holders(dev_t device, ino_t number, const std::string& object);
// The same, with the text of /proc/locks.
[[nodiscard]] std::string lock_holders(std::istream& locks, dev_t device, ino_t number, const std::string& object);

}  // namespace tenure::os
