// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The state that the classic interface has once in a process: the log, the options, the regions.
//
// A transaction takes no lock of this layer except its own record's [classic.lock-free]. Two atomics say whether the
// library runs, and with which log. All other state changes rarely and has one mutex.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <string>

#include <tenure/rvm.hpp>

#include <rvm/rvm.h>

#include "os/file.hpp"
#include "os/process.hpp"

namespace tenure::classic {

enum class phase { before, running, over };
inline constinit std::atomic<phase> current_phase{phase::before};

// The open log, or nullptr. It is never deleted, even when it was closed or when the process ends. Calls that come too
// late find it closed, and a process that simply exits leaves a log that the next process recovers [classic.exit].
inline constinit std::atomic<rvm::memory*> open_log{nullptr};

[[nodiscard]] inline bool is_running() { return current_phase.load(std::memory_order_acquire) == phase::running; }
[[nodiscard]] inline rvm::memory* log() { return open_log.load(std::memory_order_acquire); }

// A region that rvm_map has made. Lengths and offsets are those of the mapping.
struct mapped_region {
  rvm::region memory;
  std::string device;
};

struct library {
  std::mutex mutex;       // guards the fields below, and changes of the two atomics
  rvm_options_t options;  // its log_dev, tid_array are nullptr
  std::list<mapped_region> regions;
  std::uint32_t fork_generation = 0;  // of the process that has called rvm_initialize
  os::disk* disk = &os::real_disk();  // tests put a simulated one here before they begin

  library();
  // Whether this is the child of a fork of a process that has the library in use.
  [[nodiscard]] bool is_of_a_parent() const {
    return current_phase != phase::before && fork_generation != os::fork_generation();
  }
  // Checks and stores options, and opens the log if they name one.
  rvm_return_t set_options(const rvm_options_t& wanted);
  // The region that contains the address. The mutex must be held.
  [[nodiscard]] mapped_region* find(const void* address);
};

// Made at the first use and never destroyed.
[[nodiscard]] library& the_library();

// Checks a file name as a program gives it.
[[nodiscard]] rvm_return_t check_name(const char* name, rvm_return_t if_missing);
// rvm_map and rvm_unmap with the library's mutex held.
[[nodiscard]] rvm_return_t map_region(library& in, rvm_region_t& region, const rvm_options_t* options);
[[nodiscard]] rvm_return_t unmap_region(library& in, const rvm_region_t& region);

}  // namespace tenure::classic
