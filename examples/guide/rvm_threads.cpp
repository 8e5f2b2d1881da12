// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-recoverable-memory.md: several threads.
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include <tenure/rvm.hpp>

namespace rvm = tenure::rvm;

int main() {
  try {
    rvm::memory memory{"counters.log"};
    rvm::region region = memory.map("counters.seg", {.create_length = 4096});
    auto& sum = region.at<std::uint64_t>(0);
    std::mutex lock;  // isolation is the program's business

    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          rvm::ticket done;
          {
            const std::scoped_lock guard(lock);  // from before the change until after the commit
            done = memory.transact([&](rvm::transaction& tx) { tx.modify(sum, sum + 1); }, rvm::commit_mode::no_flush);
          }
          memory.wait(done);  // durable here; the threads share the syncs
        }
      });
    threads.clear();
    std::printf("%llu, with %llu syncs\n", static_cast<unsigned long long>(sum),
                static_cast<unsigned long long>(memory.stats().syncs));
  } catch (const tenure::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
