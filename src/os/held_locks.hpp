// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The descriptors of locked files. A lock belongs to the open file, which a child of a fork shares with its parent. So
// the lock would outlive the parent. Therefore children close these descriptors [os.file.locks-not-inherited].
#pragma once

#include <atomic>

namespace tenure::os {

// Every later child of a fork closes the descriptor and sets it to -1, until forget_lock(). May be called by any
// thread.
void note_lock(std::atomic<int>& descriptor);
void forget_lock(const std::atomic<int>& descriptor) noexcept;

}  // namespace tenure::os
