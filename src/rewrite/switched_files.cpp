// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/switched_files.hpp"

#include <algorithm>
#include <charconv>

#include <tenure/error.hpp>

#include "log/manifest.hpp"
#include "log/new_file.hpp"
#include "segments/segment.hpp"

namespace tenure::rewriting {

namespace {

[[nodiscard]] std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
[[nodiscard]] std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
[[nodiscard]] std::string in_directory_of(const std::string& file, const std::string& name) {
  return name.starts_with('/') ? name : directory_of(file) + "/" + name;
}

// Whether the new files are what this manifest tells of.
[[nodiscard]] bool are_of(os::disk& disk, const rvm::manifest& log, const store_files& of) {
  const rvm::identity id = rvm::read_segment_header(disk, unswitched(of.main)).segment_id;
  return std::ranges::any_of(log.segments, [&](const rvm::listed_segment& s) { return s.id == id; });
}

void rename_if_there(os::disk& disk, const std::string& from, const std::string& to) {
  if (disk.exists(from)) disk.rename(from, to);
}

// Of the log that was replaced.
void remove_old_log_files(os::disk& disk, const rvm::manifest& log, const std::string& path) {
  const std::string prefix = name_of(path) + ".";
  for (const std::string& name : disk.names_in(directory_of(path))) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(name).substr(prefix.size());
    std::uint32_t number = 0;
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (read.ec == std::errc() && read.ptr == rest.data() + rest.size() && log.find_file(number) == nullptr)
      disk.remove(directory_of(path) + "/" + name);
  }
}

// Gives the files their names. The caller has the manifest, which has its own.
void give_names(os::disk& disk, const rvm::manifest& log, const store_files& of) {
  for (const rvm::log_file_entry& file : log.files) {
    const std::string suffix = "." + std::to_string(file.number);
    rename_if_there(disk, unswitched(of.log) + suffix, of.log + suffix);
  }
  for (const rvm::listed_segment& s : log.segments) {
    const std::string path = in_directory_of(of.log, s.path_text);
    if (path != of.main) rename_if_there(disk, unswitched(path), path);
  }
  remove_old_log_files(disk, log, of.log);
  disk.sync_directory_of(of.log);
  rename_if_there(disk, unswitched(of.main), of.main);
  disk.sync_directory_of(of.main);
}

}  // namespace

void settle(os::disk& disk, const store_files& of) {
  const auto is_settled = [&] {  // the default database is the first that is made, and the last that gets its name
    return !disk.exists(unswitched(of.main)) && !disk.exists(rvm::name_while_made(unswitched(of.main)));
  };
  if (is_settled()) return;
  const rvm::manifest_file manifest = rvm::manifest_file::open(disk, of.log, os::access::read_write);
  if (is_settled()) return;  // another process has done it
  if (disk.exists(unswitched(of.main)) && are_of(disk, manifest.current(), of))
    give_names(disk, manifest.current(), of);
  else
    discard_new(disk, of);
}

void require_settled(os::disk& disk, const store_files& of) {
  const auto is_settled = [&] {
    try {
      return !disk.exists(unswitched(of.main)) ||
             !are_of(disk, rvm::manifest_file::open_unlocked(disk, of.log).current(), of);
    } catch (const error&) {
      if (!disk.exists(unswitched(of.main))) return true;  // it has got its name meanwhile
      throw;
    }
  };
  if (is_settled()) return;
  // Whoever switches has the manifest locked until it is done.
  (void)rvm::manifest_file::open(disk, of.log, os::access::read_only);
  if (!is_settled())
    throw error(errc::read_only, directory_of(of.log) +
                                     ": this store was rewritten, and a crash came when its new files got their names; "
                                     "open it for writing once, which completes it");
}

void discard_new(os::disk& disk, const store_files& of) noexcept {
  try {
    const std::string main = unswitched(name_of(of.main)), log = unswitched(name_of(of.log));
    const auto is_new = [&](const std::string& name) {
      return name == log || name.starts_with(log + ".") || name.ends_with(unswitched(".db")) ||
             name.ends_with(rvm::name_while_made(unswitched(".db")));
    };
    // It says that there may be others, so it is the last.
    for (const std::string& name : disk.names_in(directory_of(of.log)))
      if (is_new(name) && name != main) disk.remove(directory_of(of.log) + "/" + name);
    if (disk.exists(unswitched(of.main))) disk.remove(unswitched(of.main));
  } catch (...) {  // the next one removes them
  }
}

void switch_to_new(os::disk& disk, const store_files& of, std::uint64_t sequence) {
  const auto in_time = [&](auto&& f) {
    try {
      return f();
    } catch (const error& e) {
      if (e.code() != std::errc::no_such_file_or_directory) throw;
      throw error(errc::in_use, directory_of(of.log) +
                                    ": another process has opened this store before its new files were complete, and "
                                    "has removed them; nothing was switched");
    }
  };
  // Nobody else goes on with the switch until this is done.
  const rvm::manifest_file made =
      in_time([&] { return rvm::manifest_file::open(disk, unswitched(of.log), os::access::read_write); });
  {
    const rvm::manifest_file old = rvm::manifest_file::open(disk, of.log, os::access::read_write);
    if (old.current().sequence != sequence)
      throw error(errc::in_use, directory_of(of.log) + ": was changed while it was rewritten; nothing was switched");
    // Who could use the old files can use the new ones. The databases had their owner from the beginning.
    for (const rvm::log_file_entry& file : made.current().files)
      disk.take_owner_of(unswitched(of.log) + "." + std::to_string(file.number), of.log);
    disk.take_owner_of(unswitched(of.log), of.log);
    in_time([&] { disk.rename(unswitched(of.log), of.log); });
  }
  disk.sync_directory_of(of.log);
  give_names(disk, made.current(), of);
}

}  // namespace tenure::rewriting
