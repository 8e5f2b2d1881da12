// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Fences for protocols with one frequent side and one rare side. If one thread does "store A, light_fence, load B", and
// another does "store B, heavy_fence, load A", then at least one of them sees the other's store. The light fence costs
// nothing if the kernel can interrupt all threads of the process for the heavy one, membarrier(2). Otherwise both are
// full fences.
#pragma once

#include <atomic>

namespace tenure::os {

namespace fences {
extern std::atomic<bool> asymmetric;
void full() noexcept;
}  // namespace fences

inline void light_fence() noexcept {
  if (fences::asymmetric.load(std::memory_order_relaxed)) [[likely]]
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    fences::full();
}

// Takes some microseconds. Returns false if the kernel refuses a call that it allowed before, for example because a
// filter was installed. Then nothing is known yet, but from now on light fences are full fences, and the next call
// succeeds.
[[nodiscard]] bool heavy_fence() noexcept;

}  // namespace tenure::os
