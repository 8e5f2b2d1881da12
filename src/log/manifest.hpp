// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The manifest of a log: which files and segments belong to it, and which part of it is live. Whoever has the manifest
// open for writing has the log.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "log/format.hpp"
#include "os/file.hpp"

namespace tenure::rvm {

// A manifest always has room for so many.
constexpr std::size_t most_log_files = 128;

struct listed_segment : segment_entry {
  std::string path_text;  // as the log's records have it
  [[nodiscard]] bool is_raw() const { return id == identity{}; }
};

struct manifest : manifest_header {
  std::vector<log_file_entry> files;
  std::vector<listed_segment> segments;

  [[nodiscard]] const log_file_entry* find_file(std::uint32_t number) const;
  [[nodiscard]] listed_segment* find_segment(const identity& id);
  // The segment, if it is listed, is called so now. Returns whether it was called otherwise. One that was called so before was
  // removed, or will be listed again under the name that it has got.
  bool rename(const identity& id, const std::string& path);
  [[nodiscard]] listed_segment* find_raw(const std::string& path);
  [[nodiscard]] listed_segment* find_member(const std::string& path);
  // Whether a segment of this path can be added, with room left for files.
  [[nodiscard]] bool has_room_for(const std::string& path) const;
};

// The bytes of a manifest in its file, with its checksum. Sets `length` and the counts. Throws errc::too_big if they
// are too many for the file.
[[nodiscard]] std::vector<std::byte> encode(manifest& of);
// A manifest of these bytes; nothing if they are none: `flaw` says why not.
[[nodiscard]] std::optional<manifest> decode(os::const_bytes bytes, std::string& flaw);

// The header of a manifest for a new log, before it has files.
[[nodiscard]] manifest new_manifest(const log_options& how, std::uint32_t storage_block_size);

// The file of a manifest. One user at a time.
class manifest_file {
 public:
  // Makes the file. There must be none at the path (std::errc::file_exists). It appears whole or not at all, and is
  // returned locked. No other process makes it meanwhile.
  class companions;
  static manifest_file create(os::disk& disk, const std::string& path, unsigned permissions, companions& with);
  // Opens, locks and validates.
  static manifest_file open(os::disk& disk, const std::string& path, os::access access);
  // The same without a lock, for looking at a log that may be in use. Reads only.
  static manifest_file open_unlocked(os::disk& disk, const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  // What the file says, or what was set.
  [[nodiscard]] const manifest& current() const { return current_; }
  // Whether this copy was valid when the file was opened.
  [[nodiscard]] bool copy_valid(int copy) const { return copy_valid_[copy]; }
  // Makes `next` durable in both copies, one after the other, so that one is whole at every moment
  // [rvm.log.status-twice]. The sequence number is set here. std::bad_alloc: nothing was written.
  void write(const manifest& next);
  // Sets the manifest in memory until the next write(). The file keeps its own.
  void set(manifest next) noexcept { current_ = std::move(next); }
  void sync_name() { file_->sync_name(); }
  // Whether the file is the one that wrote the manifest, and not a copy of it.
  [[nodiscard]] bool is_in_place() const { return file_->id().inode == written_.inode; }

 private:
  manifest_file(std::unique_ptr<os::file> file, std::string path, manifest current)
      : file_(std::move(file)), path_(std::move(path)), current_(current), written_(std::move(current)) {}
  static manifest_file validate(std::unique_ptr<os::file> file, const std::string& path, os::access access);

  std::unique_ptr<os::file> file_;
  std::string path_;
  manifest current_, written_;  // written_: the contents of the current copy in the file
  bool copy_valid_[2] = {true, true};
  // The current copy. The other one is written first, because it may be torn or older.
  int held_ = 1;
  bool held_is_durable_ = true;  // if false, the held copy is written again before the other one is changed
};

// What is made together with a manifest: the log's files, and whatever else the manifest names.
class manifest_file::companions {
 public:
  // Writes the files. Returns what the manifest says of them.
  virtual manifest write(const os::file& its_file) = 0;
  // Called when the manifest is written: makes the files durable that must be there when it has its name, with theirs.
  virtual void finish() = 0;
  // Called when the manifest has its name, and before the name is durable: gives names to files that may be missing.
  virtual void give_names() {}
  // Called when the name is durable, with all others in its directory: makes those durable that are elsewhere, behind links.
  virtual void make_names_durable() {}

 protected:
  ~companions() = default;
};

// Ends the message for a log that cannot be read.
[[nodiscard]] std::string what_to_do_about_log(const std::string& path);

}  // namespace tenure::rvm
