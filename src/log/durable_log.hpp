// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The seam between what is logged and where the log is kept. A log is a ring of whole blocks, addressed by LSN. Its users
// append if the tail is what they saw, read from a position, and free what lies before one. What the blocks contain, and
// who needs them, is not the log's business. `local_log` is the log in a file of this machine; a log elsewhere would
// implement the same functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "log/format.hpp"
#include "os/file.hpp"

namespace tenure::rvm {

// The live part: durable, and not freed yet.
struct log_window {
  lsn head, tail;
  [[nodiscard]] std::uint64_t used() const { return tail - head; }
};

// What every block of an opening carries.
struct log_stamp {
  identity log_id;
  std::uint32_t generation;  // counts openings for writing
  std::uint32_t block_size;
};

// Reading.
class readable_log {
 public:
  [[nodiscard]] virtual const identity& id() const = 0;
  [[nodiscard]] virtual const std::string& path() const = 0;
  // Bytes. Positions and lengths of what is appended are multiples of it.
  [[nodiscard]] virtual std::uint32_t block() const = 0;
  // How many bytes it has room for.
  [[nodiscard]] virtual std::uint64_t area() const = 0;
  // Where an LSN is stored, for messages.
  [[nodiscard]] virtual std::uint64_t file_offset(lsn at) const = 0;
  // Reads [at, at+into.size()).
  virtual void read(lsn at, os::bytes into) const = 0;
  // These bytes will be read soon.
  virtual void read_ahead(lsn at, std::uint64_t length) const noexcept = 0;

 protected:
  ~readable_log() = default;
};

// Thread-safe; one thread at a time appends, grows, or prepares to append.
class durable_log : public readable_log {
 public:
  // The head may be behind, never ahead.
  [[nodiscard]] virtual log_window window() const noexcept = 0;
  [[nodiscard]] virtual const log_stamp& stamp() const noexcept = 0;
  // How large its area may become.
  [[nodiscard]] virtual std::uint64_t max_area() const noexcept = 0;

  // Before the first append: the log says, durably, that it is in use. Whoever opens a log that was closed cleanly, and
  // closes it again, does not write to it.
  virtual void note_use() = 0;
  // Appends whole blocks, for which there is room, if the tail is `seen`. Durable if it returns true. False: somebody else
  // has appended, and nothing was written. If it throws, the blocks' fate is unknown.
  [[nodiscard]] virtual bool append(lsn seen, std::span<const os::const_bytes> blocks) = 0;
  // What lies before `head` is needed no more; `head` is not beyond the tail. Durable on return, and only then is the space
  // used again.
  virtual void free_up_to(lsn head) = 0;
  // Readers must know this feature of the format from now on (format.hpp). Durable on return.
  virtual void require_feature(std::uint32_t feature) = 0;
  // Makes room for `needed` bytes, at most max_area(). The log must be empty.
  virtual void grow(std::uint64_t needed) = 0;

 protected:
  ~durable_log() = default;
};

// Who frees space in the log. Called by whoever appends.
class log_space {
 public:
  // Returns when so many bytes are free.
  virtual void make_room(std::uint64_t bytes) = 0;
  // Something was appended.
  virtual void appended() = 0;
  // Empties the log, and calls f before anything else can be freed.
  virtual void empty(const std::function<void()>& f) = 0;

 protected:
  ~log_space() = default;
};

}  // namespace tenure::rvm
