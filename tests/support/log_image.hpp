// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The files of a log on a simulated disk, taken out to be damaged and put back. Bytes of the log are addressed by LSN, whichever
// file they are in.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "log/checksum.hpp"
#include "log/log_file.hpp"
#include "log/manifest.hpp"
#include "records/format.hpp"
#include "sim/disk.hpp"

namespace tenure::support {

struct log_image {
  using bytes = std::vector<std::byte>;

  log_image() = default;
  log_image(const sim::disk& disk, const std::string& log_path) : path(log_path) {
    manifest = disk.current_bytes(path);
    for (const rvm::log_file_entry& f : read_manifest().files) {
      const std::string name = path + "." + std::to_string(f.number);
      files.push_back({name, disk.current_bytes(name), {}});
      std::memcpy(&files.back().header, files.back().contents.data(), sizeof(rvm::log_file_header));
    }
  }

  void install(sim::disk& disk) const {
    disk.install(path, manifest);
    for (const file& f : files) disk.install(f.path, f.contents);
  }

  // The manifest that counts.
  [[nodiscard]] rvm::manifest read_manifest() const {
    std::string flaw;
    std::optional<rvm::manifest> found;
    for (const std::uint64_t at : {std::uint64_t{0}, rvm::manifest_copy_size})
      if (auto copy = rvm::decode(os::const_bytes(manifest).subspan(at, rvm::manifest_copy_size), flaw))
        if (!found || copy->sequence > found->sequence) found = std::move(copy);
    if (!found) throw error(errc::damaged, path + ": no manifest: " + flaw);
    return *found;
  }

  // The file that has the byte; where it is there.
  struct file {
    std::string path;
    bytes contents;
    rvm::log_file_header header;
  };
  [[nodiscard]] const file& file_of(rvm::lsn at) const {
    return *std::ranges::find_if(files, [&](const file& f) { return has(f, at); });
  }
  [[nodiscard]] std::uint64_t offset_of(rvm::lsn at) const {
    return rvm::log_file_data + (at - file_of(at).header.base);
  }
  [[nodiscard]] bool has(rvm::lsn at) const {
    return std::ranges::any_of(files, [&](const file& f) { return has(f, at); });
  }
  [[nodiscard]] const std::byte& operator[](rvm::lsn at) const { return file_of(at).contents[offset_of(at)]; }
  [[nodiscard]] std::byte& operator[](rvm::lsn at) {
    return const_cast<std::byte&>(std::as_const(*this)[at]);  // NOLINT: the same for both
  }
  [[nodiscard]] bytes read(rvm::lsn at, std::uint64_t length) const {
    bytes found;
    while (found.size() < length) {
      const file& f = file_of(at + found.size());
      const std::uint64_t from = offset_of(at + found.size());
      const std::uint64_t part = std::min<std::uint64_t>(length - found.size(), f.contents.size() - from);
      found.insert(found.end(), f.contents.begin() + static_cast<std::ptrdiff_t>(from),
                   f.contents.begin() + static_cast<std::ptrdiff_t>(from + part));
    }
    return found;
  }
  void write(rvm::lsn at, os::const_bytes from) {
    for (std::size_t n = 0; n < from.size(); ++n) (*this)[at + n] = from[n];
  }
  template <class T>
  [[nodiscard]] T get(rvm::lsn at) const {
    T value;
    std::memcpy(&value, read(at, sizeof value).data(), sizeof value);
    return value;
  }
  template <class T>
  void put(rvm::lsn at, const T& value) {
    write(at, std::as_bytes(std::span(&value, 1)));
  }

  struct group {
    rvm::lsn at;
    rvm::group_header header;
    std::uint64_t length;  // padding included
  };
  // The groups from the head on, one behind the other.
  [[nodiscard]] std::vector<group> groups() const {
    const rvm::manifest m = read_manifest();
    std::vector<group> all;
    for (rvm::lsn at = m.head; has(at);) {
      const auto header = get<rvm::group_header>(at);
      if (header.magic != rvm::group_magic || header.lsn != at) break;
      all.push_back({at, header, rvm::round_up(header.length, m.block_size)});
      at += all.back().length;
    }
    return all;
  }
  // Computes a group's checksum again.
  void seal_group(rvm::lsn at) {
    auto header = get<rvm::group_header>(at);
    header.checksum = rvm::crc32c(os::const_bytes(read(at, header.length)).subspan(8));
    put(at, header);
  }
  // Changes the header of both copies of the manifest, and computes the checksums again.
  template <class F>
  void change_manifest(F&& change) {
    for (const std::uint64_t at : {std::uint64_t{0}, rvm::manifest_copy_size}) {
      rvm::manifest_header h;
      std::memcpy(&h, manifest.data() + at, sizeof h);
      change(h);
      h.checksum = 0;
      std::memcpy(manifest.data() + at, &h, sizeof h);
      h.checksum = rvm::crc32c(os::const_bytes(manifest).subspan(at, h.length));
      std::memcpy(manifest.data() + at, &h, sizeof h);
    }
  }

  std::string path;
  bytes manifest;
  std::vector<file> files;

 private:
  [[nodiscard]] static bool has(const file& f, rvm::lsn at) {
    return f.header.base <= at && at < f.header.base + f.header.length;
  }
};

// Changes the manifest of a log on a disk, as log_image::change_manifest does.
template <class F>
void change_manifest(sim::disk& disk, const std::string& log_path, F&& change) {
  log_image log(disk, log_path);
  log.change_manifest(std::forward<F>(change));
  disk.install(log_path, log.manifest);
}

}  // namespace tenure::support
