// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stops all other threads of the process for a moment, also those that never met the library: wherever they are, in a
// system call, in malloc, in a signal handler. Each gets a real-time signal, whose handler waits. The kernel has put all of a
// thread's registers on its stack then, so whoever reads the process's writable memory sees them, too.
//
// A thread that the signal does not reach is named: one that blocks it, or that gets no processor [os.threads.stopped].
#pragma once

#include <cstddef>
#include <string>

namespace tenure::os {

// Used by one thread at a time.
class stopped_threads {
 public:
  stopped_threads() = default;
  ~stopped_threads() { resume(); }
  stopped_threads(const stopped_threads&) = delete;
  stopped_threads& operator=(const stopped_threads&) = delete;

  // Chooses a real-time signal that the program does not use, and sets its handler, once in a process. Throws if there is
  // none. Called before stop().
  static void prepare();

  // Returns whether all others are stopped; then they stay so until resume(). Otherwise none is, and why_not() tells. From
  // here to resume() the caller must not allocate memory, nor take a lock that another thread may have.
  [[nodiscard]] bool stop() noexcept;
  void resume() noexcept;
  [[nodiscard]] bool are_stopped() const noexcept { return stopped_; }

  // Which thread could not be stopped, and why. Called when none is stopped.
  [[nodiscard]] std::string why_not() const;

 private:
  enum class obstacle { none, blocks_the_signal, does_not_run, too_many, cannot_send, signal_taken, no_list };
  [[nodiscard]] obstacle try_to_stop() noexcept;
  [[nodiscard]] obstacle wait_for(std::size_t threads) noexcept;

  bool stopped_ = false;
  obstacle met_ = obstacle::none;
  int thread_ = 0;  // that was met
};

}  // namespace tenure::os
