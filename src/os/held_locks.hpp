// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptors of files that are locked. A lock belongs to what was opened, which a child of a fork shares: it would outlive
// the parent. So children close these descriptors [os.file.locks-not-inherited].
#pragma once

#include <atomic>

namespace tenure::os {

// In every later child of a fork the descriptor is closed, and -1. Until forget_lock(). Any thread.
void note_lock(std::atomic<int>& descriptor);
void forget_lock(const std::atomic<int>& descriptor) noexcept;

}  // namespace tenure::os
