// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A file where a part of an archive belongs. If its header is damaged, its frames say which part it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "records/archive_format.hpp"

namespace tenure::rvm {

class archive_part {
 public:
  // {}: no file is there. `slot`: the part's number modulo archive_parts.
  static std::optional<archive_part> find(os::disk& disk, const std::string& archive, std::uint64_t slot,
                                          os::access how);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] os::file& file() const { return *file_; }
  // Why it cannot be used, with its path; "": it can.
  [[nodiscard]] const std::string& damage() const { return damage_; }
  // Of a part that can be used.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] bool is_of(const identity& log) const;
  // {}: it is damaged.
  [[nodiscard]] const std::optional<part_header>& header() const { return header_; }

  // Moves `at` on to the first valid frame header at or after it; returns false if there is none.
  bool find_frame(std::uint64_t& at, frame_header& found) const;
  // A part of the frame's content, decompressed. {}, with `why`: it is damaged.
  [[nodiscard]] std::optional<std::vector<std::byte>> content(std::uint64_t at, std::size_t length,
                                                              std::uint32_t checksum, std::size_t plain_length,
                                                              const char*& why) const;

 private:
  archive_part(std::string path, std::unique_ptr<os::file> file) : path_(std::move(path)), file_(std::move(file)) {}
  void find_number();

  std::string path_;
  std::unique_ptr<os::file> file_;
  std::optional<part_header> header_;
  std::uint64_t number_ = 0;
  std::string damage_;
};

}  // namespace tenure::rvm
