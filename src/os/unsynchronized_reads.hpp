// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory that is read while another thread may write to it, on purpose: by whoever can tell afterwards that what was read made
// no sense, or that somebody else will say what was missed. ThreadSanitizer is told so; otherwise it costs nothing.
#pragma once

#include "os/sanitizers.hpp"

#if TENURE_THREAD_SANITIZER
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace tenure::os {

class unsynchronized_reads {
 public:
#if TENURE_THREAD_SANITIZER
  unsynchronized_reads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~unsynchronized_reads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  unsynchronized_reads() noexcept = default;
  ~unsynchronized_reads() = default;
#endif
  unsynchronized_reads(const unsynchronized_reads&) = delete;
  unsynchronized_reads& operator=(const unsynchronized_reads&) = delete;
};

}  // namespace tenure::os
