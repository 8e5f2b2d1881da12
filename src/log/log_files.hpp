// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The files of a log: its manifest, and the chain of files that have its bytes [rvm.log.chain].
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "log/durable_log.hpp"
#include "log/log_file.hpp"
#include "log/manifest.hpp"

namespace tenure::rvm {

// Reading and writing bytes of the log is thread-safe, also while the chain changes: the caller reads and writes only
// bytes that are not freed. All other functions have one user at a time.
class log_files final : public readable_log {
 public:
  // Makes a new log. There must be none at the path (std::errc::file_exists). It appears whole or not at all, and is
  // returned locked.
  // `adjust`, if given, changes what the new manifest says before the log's files are made. `beside`, if given, writes a
  // file that the manifest then names, in the log's directory. It is durable, and has its name, when the log has; a crash
  // may leave one of the two.
  static std::unique_ptr<log_files> create(os::disk& disk, const std::string& path, const log_options& how,
                                           const progress_callback& progress,
                                           const std::function<void(manifest&)>& adjust = {},
                                           const std::function<std::unique_ptr<new_file>(manifest&)>& beside = {});
  // Opens, locks and validates.
  static std::unique_ptr<log_files> open(os::disk& disk, const std::string& path, os::access access);
  // The same without a lock, for looking at a log that may be in use. Reads only.
  static std::unique_ptr<log_files> open_unlocked(os::disk& disk, const std::string& path);
  // Throws errc::damaged if the chain lacks the file that was changed last. open() has done it; after open_unlocked() it may also
  // be that files were changed while they were opened.
  void require_last_change() const;

  [[nodiscard]] const identity& id() const override { return log_id_; }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::uint32_t block() const override { return block_; }
  [[nodiscard]] lsn end() const override;
  [[nodiscard]] std::string place(lsn at) const override;
  void read(lsn at, os::bytes into) const override;
  void read_ahead(lsn at, std::uint64_t length) const noexcept override;
  // The oldest LSN that the chain still has.
  [[nodiscard]] lsn begin() const;

  // Writes the pieces one after the other, from a block boundary on. All are whole blocks. Durable on return.
  void write_durably(lsn at, std::span<const os::const_bytes> from);
  // Writes the stored bytes once more. They are durable then, even if the first write was not.
  void make_durable(lsn from, lsn to);

  [[nodiscard]] const manifest& status() const { return manifest_.current(); }
  [[nodiscard]] bool copy_valid(int copy) const { return manifest_.copy_valid(copy); }
  // See manifest_file.
  void write_status(const manifest& status) { manifest_.write(status); }
  void set_status(manifest status) noexcept { manifest_.set(std::move(status)); }
  // If the log was in use when these files were copied, they are of several moments. Returns one that is not where the
  // manifest says; "": all are in their places, or the log was closed [rvm.log.places].
  [[nodiscard]] std::string find_copy() const;
  // Makes the manifest say where the files are now. Segments that are not open may be anywhere.
  void note_places(manifest& status) const;
  // Makes the names of all files durable, and what they say of themselves.
  void make_names_durable();

  // The bytes of all files.
  [[nodiscard]] std::uint64_t length() const;
  // The head at which reclaim() makes room for this many bytes behind the tail; at most the tail.
  [[nodiscard]] lsn head_for(std::uint64_t bytes, lsn tail) const;
  // Adds a file at the end of the chain, as a step towards this capacity. `status` is written, with the file in it. If
  // the file cannot be made, nothing has changed.
  void extend(std::uint64_t capacity, manifest status);
  // Whether reclaim() would do anything.
  [[nodiscard]] bool may_reclaim(lsn needed) const;
  // Makes files for free ones that alone are longer than `keep`, if less would be left without them: reclaim() removes those then.
  // Returns whether there are such. If a file cannot be made, nothing else has changed.
  bool replace_long(lsn needed, std::uint64_t keep);
  // Files that only have bytes before `needed` are moved to the end of the chain, durably. They are removed instead
  // while at least `keep` bytes are left; then `status` is written, without them. std::bad_alloc: nothing has changed, or files are
  // left for the next time.
  void reclaim(lsn needed, std::uint64_t keep, manifest status);
  // Makes all files have bytes from `at` on, durably. The manifest says that the log is empty, and ends there. Files longer than `keep`
  // are removed instead while so many bytes are left; then `status` is written, without them.
  void rewind(lsn at, std::uint64_t keep, manifest status);
  // Replaces all files by copies of them in which everything from `end` on is zeros. `status` is written, with the new
  // files in it: a crash leaves either the old ones or the new ones.
  void cut(lsn end, manifest status);
  // Removes files of this log that the manifest does not name: a crash has left them.
  void remove_left_overs();
  // Throws if an invariant does not hold.
  void check() const;

 private:
  struct link {
    lsn base, end;
    std::shared_ptr<log_file> file;
  };
  using chain = std::vector<link>;

  log_files(os::disk& disk, std::string path, manifest_file of, os::access access);
  log_files(os::disk& disk, std::string path, manifest_file of, std::vector<std::shared_ptr<log_file>> files);
  void build_chain(std::vector<std::shared_ptr<log_file>> files);
  [[nodiscard]] std::shared_ptr<const chain> now() const;
  void set(std::shared_ptr<const chain> next) noexcept;
  // The link that has the byte.
  [[nodiscard]] const link& find(const chain& in, lsn at) const;
  [[nodiscard]] std::vector<std::shared_ptr<log_file>> all_files() const;
  [[nodiscard]] std::uint64_t next_sequence() const;
  // The first number from `from` on that no file has which is needed.
  [[nodiscard]] std::uint32_t free_number(const manifest& status, std::uint32_t from) const;
  [[nodiscard]] std::uint64_t next_length(std::uint64_t has, std::uint64_t size) const;
  // At the end of the chain. `status` is written, with the file in it.
  void add_file(std::uint64_t length, manifest status);
  void remove(const std::string& file) noexcept;

  os::disk& disk_;
  const std::string path_;
  manifest_file manifest_;
  const identity log_id_;
  const std::uint32_t block_;
  mutable std::mutex mutex_;                      // innermost; guards the pointer below
  std::shared_ptr<const chain> chain_;            // consecutive bytes of the log
  std::vector<std::shared_ptr<log_file>> spare_;  // not in the chain: their bytes were freed
};

}  // namespace tenure::rvm
