// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvmutl: commands about a log, one a line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/rvm.hpp>

#include "os/file.hpp"

namespace tenure::tools {

// "100", "64K", "1M", "8P": bytes; K 1024, M 1024 K, S sectors of 512, P pages, B or nothing bytes.
[[nodiscard]] std::optional<std::uint64_t> length_in(std::string_view text);

class log_shell {
 public:
  explicit log_shell(os::disk& disk) : disk_(disk) {}

  // Reads commands from `in` until quit or its end. Returns the exit code: 0 if all of them succeeded.
  int run(std::FILE* in, std::FILE* out);
  // One command; false if it failed. What went wrong is written to `out`.
  bool execute(const std::string& line, std::FILE* out);
  [[nodiscard]] bool has_quit() const { return quit_; }

 private:
  using arguments = std::vector<std::string>;
  struct command {
    const char* name;
    void (log_shell::*run)(const arguments&, std::FILE*);
    const char* help;
  };
  static const command commands[];

  [[nodiscard]] static const command& find(const std::string& word);
  [[nodiscard]] const std::string& log() const;
  void init_log(const arguments& words, std::FILE* out);
  void open_log(const arguments& words, std::FILE* out);
  void close_log(const arguments& words, std::FILE* out);
  void status(const arguments& words, std::FILE* out);
  void statistics(const arguments& words, std::FILE* out);
  void all(const arguments& words, std::FILE* out);
  void next(const arguments& words, std::FILE* out);
  void head(const arguments& words, std::FILE* out);
  void tail(const arguments& words, std::FILE* out);
  void show(const arguments& words, std::FILE* out);
  // Up to `count` transactions from there on; next() goes on behind them. Whether there was one.
  bool show_records(std::optional<rvm::lsn> from, std::uint64_t count, std::FILE* out);
  void recover(const arguments& words, std::FILE* out);
  void help(const arguments& words, std::FILE* out);
  void quit(const arguments& words, std::FILE* out);

  os::disk& disk_;
  std::string log_;                     // absolute; empty: none
  std::optional<rvm::lsn> shown_ = {};  // the transaction that head or next has shown last
  bool quit_ = false;
};

}  // namespace tenure::tools
