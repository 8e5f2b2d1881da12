// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The interface between the parts that write records and the part that keeps the log. A log is a sequence of whole
// blocks, addressed by LSN. Its users append blocks at a tail that they name, read from a position, and free what lies before a
// position. The log does not know what the blocks contain or who needs them. `local_log` is the log in files of this
// machine. A log on another machine would implement the same functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "log/format.hpp"
#include "os/file.hpp"

namespace tenure::rvm {

// The live part of the log: it is durable, and not freed yet.
struct log_window {
  lsn head, tail;
  [[nodiscard]] std::uint64_t used() const { return tail - head; }
};

// The marks in every block that one opening of the log writes.
struct log_stamp {
  identity log_id;
  std::uint32_t generation;  // counts openings for writing
  std::uint32_t block_size;
};

// The functions for reading.
class readable_log {
 public:
  [[nodiscard]] virtual const identity& id() const = 0;
  [[nodiscard]] virtual const std::string& path() const = 0;
  // The size of a block in bytes. Positions and lengths of appended data are multiples of it.
  [[nodiscard]] virtual std::uint32_t block() const = 0;
  // Bytes from here on have no place yet.
  [[nodiscard]] virtual lsn end() const = 0;
  // Where an LSN is stored, for messages: "/bank/log.2, offset 4711".
  [[nodiscard]] virtual std::string place(lsn at) const = 0;
  // Reads [at, at+into.size()).
  virtual void read(lsn at, os::bytes into) const = 0;
  // Advice: these bytes will be read soon.
  virtual void read_ahead(lsn at, std::uint64_t length) const noexcept = 0;

 protected:
  ~readable_log() = default;
};

// Thread-safe. One thread at a time appends, or prepares to append.
class durable_log : public readable_log {
 public:
  // The head may be older than the true one, but never newer.
  [[nodiscard]] virtual log_window window() const noexcept = 0;
  [[nodiscard]] virtual const log_stamp& stamp() const noexcept = 0;
  // The bytes of all the space that it has.
  [[nodiscard]] virtual std::uint64_t length() const noexcept = 0;
  // The same, or the space that it usually takes if that is more.
  [[nodiscard]] virtual std::uint64_t capacity() const noexcept = 0;
  // The largest capacity that it may have.
  [[nodiscard]] virtual std::uint64_t max_capacity() const noexcept = 0;
  // The number of bytes that can be appended now.
  [[nodiscard]] virtual std::uint64_t room() const noexcept = 0;
  // The head at which there is room for this many bytes; at most the tail.
  [[nodiscard]] virtual lsn head_for(std::uint64_t bytes) const = 0;

  // Called before the first append or extension: the manifest says durably that the log is in use. A process that opens a log
  // which was closed cleanly, and closes it again without appending, writes nothing.
  virtual void note_use() = 0;
  // Appends whole blocks if the tail is still `seen`. There must be room. Returns true when the blocks are durable.
  // Returns false if another user has appended in between; then nothing was written. If it throws, the blocks may be
  // durable or not.
  [[nodiscard]] virtual bool append(lsn seen, std::span<const os::const_bytes> blocks) = 0;
  // Frees the log before `head`, which is not beyond the tail. Durable on return. The space is used again only after
  // that, and only if nobody holds it.
  virtual void free_up_to(lsn head) = 0;
  // Whether somebody reads the log from a position on, and needs every change since (log_hold.hpp).
  [[nodiscard]] virtual bool is_held() const = 0;
  // From now on readers must know this feature of the format (format.hpp). Durable on return.
  virtual void require_feature(std::uint32_t feature) = 0;
  // Makes all space free from the tail on, unless somebody holds some of it. The log is empty, and nobody appends
  // meanwhile.
  virtual void rewind() = 0;
  // Whether it has this many bytes. From now on, and until let_shrink(), truncation leaves it so many, also of those that
  // it gets only then: otherwise it gives back what it has beyond its usual size when that is free.
  [[nodiscard]] virtual bool keep(std::uint64_t bytes) = 0;
  virtual void let_shrink() noexcept = 0;
  // Takes more space, unless what it has is enough for this capacity. Returns whether it did. If it throws, nothing has
  // changed, except after errc::outcome_unknown.
  virtual bool extend(std::uint64_t capacity) = 0;

 protected:
  ~durable_log() = default;
};

// The part that frees space in the log. The part that appends calls it.
class log_space {
 public:
  // Returns when this many bytes are free.
  virtual void make_room(std::uint64_t bytes) = 0;
  // Called after an append.
  virtual void appended() = 0;

 protected:
  ~log_space() = default;
};

}  // namespace tenure::rvm
