// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// SQLite with prepared statements, as the record programs of OO1 and OO7 use it: WAL, synchronous=FULL.
#pragma once

#ifdef TENURE_HAVE_SQLITE
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <sqlite3.h>

namespace tenure::bench {

class sqlite_database {
 public:
  sqlite_database(const std::filesystem::path& file, std::int64_t cache_bytes) {
    if (sqlite3_open(file.c_str(), &opened_) != SQLITE_OK) fail();
    run("PRAGMA journal_mode=WAL");
    run("PRAGMA synchronous=FULL");
    run(fmt::format("PRAGMA cache_size=-{}", cache_bytes / 1024).c_str());
  }
  ~sqlite_database() { sqlite3_close_v2(opened_); }
  sqlite_database(const sqlite_database&) = delete;
  sqlite_database& operator=(const sqlite_database&) = delete;

  void run(const char* statements) {
    if (sqlite3_exec(opened_, statements, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }
  [[nodiscard]] sqlite3* get() const { return opened_; }
  [[noreturn]] void fail() const { throw std::runtime_error(fmt::format("sqlite: {}", sqlite3_errmsg(opened_))); }

 private:
  sqlite3* opened_ = nullptr;
};

class sqlite_statement {
 public:
  sqlite_statement(const sqlite_database& in, const char* text) : in_(in) {
    if (sqlite3_prepare_v3(in.get(), text, -1, SQLITE_PREPARE_PERSISTENT, &made_, nullptr) != SQLITE_OK) in.fail();
  }
  ~sqlite_statement() { sqlite3_finalize(made_); }
  sqlite_statement(const sqlite_statement&) = delete;
  sqlite_statement& operator=(const sqlite_statement&) = delete;

  // Runs it with these parameters: integers, or texts and blobs, which must live until it has run. Calls each(*this) for
  // every row, in which the statement must not be run again.
  template <class F, class... Args>
  void rows(F&& each, const Args&... args) {
    int at = 0;
    (bind(++at, args), ...);
    int code = SQLITE_DONE;
    while ((code = sqlite3_step(made_)) == SQLITE_ROW) each(*this);
    sqlite3_reset(made_);
    if (code != SQLITE_DONE) in_.fail();
  }
  template <class... Args>
  void run(const Args&... args) {
    rows([](sqlite_statement&) {}, args...);
  }
  // The first column of the last row.
  template <class... Args>
  std::int64_t number_for(const Args&... args) {
    std::int64_t value = 0;
    rows([&](sqlite_statement& row) { value = row.number(0); }, args...);
    return value;
  }
  [[nodiscard]] std::int64_t number(int column) const { return sqlite3_column_int64(made_, column); }
  [[nodiscard]] int integer(int column) const { return sqlite3_column_int(made_, column); }
  // Of a text or a blob; valid until the next row.
  [[nodiscard]] std::string_view text(int column) const {
    const void* const data = sqlite3_column_blob(made_, column);
    return {static_cast<const char*>(data), static_cast<std::size_t>(sqlite3_column_bytes(made_, column))};
  }

 private:
  template <class T>
  void bind(int at, const T& value) {
    int code = SQLITE_OK;
    if constexpr (std::is_integral_v<T>) {
      code = sqlite3_bind_int64(made_, at, static_cast<sqlite3_int64>(value));
    } else {
      const std::string_view text{value};
      code = sqlite3_bind_text(made_, at, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
    }
    if (code != SQLITE_OK) in_.fail();
  }
  const sqlite_database& in_;
  sqlite3_stmt* made_ = nullptr;
};

}  // namespace tenure::bench
#endif
