// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Archives what truncation takes out of the log, in a thread of its own: while truncation collects values, writes pages and
// syncs segments, the stretch is read, compressed and synced.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "records/archive_writer.hpp"

namespace tenure::rvm {

// Used by one thread at a time, but for stop(), which may come at any time.
class archiver {
 public:
  // `background`: otherwise finish() does it all.
  archiver(archive_writer& to, const readable_log& log, bool background);
  ~archiver() { stop(); }
  archiver(const archiver&) = delete;
  archiver& operator=(const archiver&) = delete;

  // Begins with the groups of [from, to), which are durable in the log.
  void begin(lsn from, lsn to) noexcept;
  // Returns when they are durable in the archive. Throws as archive_writer::append does, which it also calls for what was not begun.
  void finish(lsn from, lsn to);
  // Ends the thread, when it has done what it has begun. From then on finish() does it all.
  void stop() noexcept;

 private:
  void run(const std::stop_token& stop) noexcept;

  archive_writer& to_;
  const readable_log& log_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  lsn from_ = 0, until_ = 0;  // what is to be done; equal: nothing
  bool is_running_;           // the thread does it
  std::exception_ptr failure_;
  std::jthread thread_;  // the last member: the thread ends before the others do
};

}  // namespace tenure::rvm
