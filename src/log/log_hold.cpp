// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/log_hold.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>

#include "log/checksum.hpp"
#include "log/format.hpp"
#include "log/manifest.hpp"
#include "os/process.hpp"

namespace tenure::rvm {

namespace {

std::string hold_path(os::disk& disk, const std::string& log_path, std::uint32_t number) {
  return disk.behind_links(log_path) + ".hold." + std::to_string(number);
}

hold_header read_header(os::file& file) {
  hold_header h{};
  const std::size_t got = file.read_at(0, std::as_writable_bytes(std::span{&h, 1}));
  if (got != sizeof h || h.magic != hold_magic || h.checksum != header_checksum(h, offsetof(hold_header, checksum)))
    h = {};
  return h;
}

// Calls f(path, file, is_alive) for each file of a hold. No file: it cannot be opened, because of the user's rights or because this
// process has too many files, and may be alive.
template <class F>
void for_each_file(os::disk& disk, const std::string& log_path, F&& f) {
  for (std::uint32_t number = 1; number <= most_holds; ++number) {
    const std::string path = hold_path(disk, log_path, number);
    if (!disk.exists(path)) continue;
    std::unique_ptr<os::file> file;
    try {
      file = disk.open(path, os::access::read_only);
    } catch (const error& e) {
      if (e.code() == std::errc::no_such_file_or_directory) continue;  // its holder has just let go
      if (e.code() == std::errc::is_a_directory) continue;             // the user's
    }
    f(path, file.get(), file == nullptr || !file->try_lock(os::lock_kind::shared));
  }
}

}  // namespace

log_hold log_hold::take(os::disk& disk, const std::string& log_path, const std::string& purpose) {
  for (std::uint32_t number = 1; number <= most_holds; ++number) {
    const std::string path = hold_path(disk, log_path, number);
    std::unique_ptr<os::file> file;
    const bool is_new = !disk.exists(path);
    try {
      file = is_new ? disk.create(path, 0644) : disk.open(path, os::access::read_write);
    } catch (const error& e) {  // another one was faster, or it is somebody else's
      const bool is_there =
          (e.code() == std::errc::permission_denied && disk.exists(path)) || e.code() == std::errc::is_a_directory;
      if (!is_there && e.code() != std::errc::file_exists && e.code() != std::errc::no_such_file_or_directory) throw;
      continue;
    }
    // Whoever may write to the directory can have made a link to any file, which this process may write to.
    if (!is_new && read_header(*file).magic != hold_magic) continue;
    file->let_all_read();  // the log's user must see it, whoever holds
    // Whoever looks for holds has it locked for a moment; then another number will do.
    if (!file->try_lock(os::lock_kind::exclusive) || !file->is_current()) continue;
    log_hold made(disk, path, std::move(file));
    made.purpose_ = purpose;
    // The head may move until the hold is seen. Whoever moves it writes the manifest first, and then looks for holds. It is lower
    // if the log was replaced meanwhile.
    for (lsn head; (head = manifest_file::open_unlocked(disk, log_path).current().head) != made.position_;)
      made.write(head);
    return made;
  }
  throw error(errc::in_use, log_path + ": is held " + std::to_string(most_holds) +
                                " times already, by backups or other readers; end one of them first");
}

void log_hold::move(lsn position) {
  assert(position >= position_);
  write(position);
}

void log_hold::write(lsn position) {
  hold_header h{};
  h.magic = hold_magic;
  h.version = log_format_version;
  h.endian = endian_mark;
  h.position = position;
  h.taken = os::wall_clock_ns();
  std::memcpy(h.purpose.data(), purpose_.data(), std::min(purpose_.size(), h.purpose.size()));
  h.checksum = header_checksum(h, offsetof(hold_header, checksum));
  file_->write_at(0, std::as_bytes(std::span{&h, 1}));
  position_ = position;
}

log_hold::~log_hold() {
  if (file_ == nullptr) return;
  try {
    disk_.remove(path_);
  } catch (...) {  // without its lock, the file is no hold
  }
}

std::vector<found_hold> find_holds(os::disk& disk, const std::string& log_path) {
  std::vector<found_hold> all;
  for_each_file(disk, log_path, [&](const std::string& path, os::file* file, bool is_alive) {
    if (!is_alive) return;
    if (file == nullptr) return all.push_back({path, 0, "unknown; this process cannot read the file", "somebody"});
    const hold_header h = read_header(*file);
    const auto end = std::ranges::find(h.purpose, '\0');
    all.push_back({path, h.position, std::string(h.purpose.begin(), end), file->lock_holders("object")});
  });
  return all;
}

lsn held_from(os::disk& disk, const std::string& log_path) {
  lsn lowest = ~lsn{0};
  for_each_file(disk, log_path, [&](const std::string&, os::file* file, bool is_alive) {
    if (is_alive) lowest = std::min(lowest, file != nullptr ? read_header(*file).position : 0);
  });
  return lowest;
}

void remove_dead_holds(os::disk& disk, const std::string& log_path) noexcept {
  try {
    for_each_file(disk, log_path, [&](const std::string& path, os::file* file, bool is_alive) {
      if (!is_alive && file->is_current()) disk.remove(path);
    });
  } catch (...) {  // they hold nothing, and the next opening tries again
  }
}

}  // namespace tenure::rvm
