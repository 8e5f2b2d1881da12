// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/held_locks.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace tenure::os {
namespace {

struct registry {
  std::mutex mutex;
  std::vector<std::atomic<int>*> descriptors;
};

// Never destroyed, because static objects may still have files.
registry& all() {
  static registry* const the_registry = new registry;
  return *the_registry;
}

// Then no thread is in the middle of a change when a fork copies the table.
void before_fork() { all().mutex.lock(); }
void in_parent() { all().mutex.unlock(); }
void in_child() {
  for (std::atomic<int>* const descriptor : all().descriptors) {
    ::close(descriptor->load(std::memory_order_relaxed));
    descriptor->store(-1, std::memory_order_relaxed);
  }
  all().descriptors.clear();
  all().mutex.unlock();
}

[[maybe_unused]] const int fork_handlers = pthread_atfork(before_fork, in_parent, in_child);

}  // namespace

void note_lock(std::atomic<int>& descriptor) {
  const std::scoped_lock lock(all().mutex);
  auto& known = all().descriptors;
  if (std::ranges::find(known, &descriptor) == known.end()) known.push_back(&descriptor);
}

void forget_lock(const std::atomic<int>& descriptor) noexcept {
  const std::scoped_lock lock(all().mutex);
  std::erase(all().descriptors, &descriptor);
}

}  // namespace tenure::os
