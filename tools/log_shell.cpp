// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log_shell.hpp"

#include <charconv>
#include <memory>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include <tenure/rvm.hpp>

#include "log_command.hpp"
#include "log_mods.hpp"
#include "log_survey.hpp"
#include "os/process.hpp"
#include "os/virtual_memory.hpp"
#include "records/archive_beside.hpp"

namespace tenure::tools {

// In the order of help. Several names may lead to one function: a prefix that only they have is not ambiguous.
const log_shell::command log_shell::commands[] = {
    {"init_log", &log_shell::init_log, "LOG LENGTH[K|M|S|P|B]: make a log"},
    {"i", &log_shell::init_log, nullptr},
    {"open_log", &log_shell::open_log, "LOG: work on this log from now on"},
    {"log", &log_shell::open_log, nullptr},
    {"l", &log_shell::open_log, nullptr},
    {"close_log", &log_shell::close_log, "work on none"},
    {"status", &log_shell::status, "what the log is, and what is in it"},
    {"log_status", &log_shell::status, nullptr},
    {"statistics", &log_shell::statistics, "what has been counted over its life"},
    {"all", &log_shell::all, "the transactions that are in it, oldest first"},
    {"head", &log_shell::head, "the oldest transaction"},
    {"next", &log_shell::next, "[NUMBER]: the transactions behind the one that was shown last"},
    {"tail", &log_shell::tail, "where the log ends"},
    {"show", &log_shell::show, "status | statistics | all | head | next | tail: the same; or mods"},
    {"s", &log_shell::show, nullptr},
    {"recover", &log_shell::recover, "write what is in the log to the segments, and empty it"},
    {"help", &log_shell::help, "this list"},
    {"quit", &log_shell::quit, "end"},
};

std::optional<std::uint64_t> length_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (bad != std::errc{}) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  std::uint64_t bytes = 1;
  if (unit == "K" || unit == "k") {
    bytes = 1024;
  } else if (unit == "M" || unit == "m") {
    bytes = 1024 * 1024;
  } else if (unit == "S" || unit == "s") {
    bytes = 512;
  } else if (unit == "P" || unit == "p") {
    bytes = os::page_size();
  } else if (!unit.empty() && unit != "B" && unit != "b") {
    return std::nullopt;
  }
  if (number > UINT64_MAX / bytes) return std::nullopt;
  return number * bytes;
}

const log_shell::command& log_shell::find(const std::string& word) {
  for (const command& c : commands)
    if (word == c.name) return c;
  const command* found = nullptr;
  for (const command& c : commands) {
    if (!std::string_view(c.name).starts_with(word)) continue;
    if (found != nullptr && found->run != c.run)
      throw std::runtime_error(fmt::format("{}: ambiguous: {} or {}", word, found->name, c.name));
    found = &c;
  }
  if (found == nullptr) throw std::runtime_error(word + ": no such command; try help");
  return *found;
}

int log_shell::run(std::FILE* in, std::FILE* out) {
  bool good = true;
  while (!quit_) {
    fmt::print(out, "* ");
    std::fflush(out);
    std::string line;
    int c;
    while ((c = std::fgetc(in)) != EOF && c != '\n') line += static_cast<char>(c);
    if (c == EOF && line.empty()) {
      fmt::print(out, "\n");
      break;
    }
    good = execute(line, out) && good;
  }
  return good ? exit_ok : exit_damaged;
}

bool log_shell::execute(const std::string& line, std::FILE* out) {
  try {
    std::istringstream text(line);
    arguments words;
    for (std::string word; text >> word;) words.push_back(word);
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(nullptr, &std::fclose);
    if (words.size() > 2 && words[words.size() - 2] == ">") {
      file.reset(std::fopen(words.back().c_str(), "w"));
      if (file == nullptr) throw std::runtime_error(words.back() + ": cannot be written");
      words.resize(words.size() - 2);
    }
    if (words.empty()) return true;
    const command& what = find(words.front());
    words.erase(words.begin());
    (this->*what.run)(words, file != nullptr ? file.get() : out);
    if (file != nullptr && std::fflush(file.get()) != 0) throw std::runtime_error("the file could not be written");
    return true;
  } catch (const std::exception& e) {
    fmt::print(out, "{}\n", e.what());
    return false;
  }
}

const std::string& log_shell::log() const {
  if (log_.empty()) throw std::runtime_error("no log is open; open_log LOG opens one");
  return log_;
}

void log_shell::init_log(const arguments& words, std::FILE* out) {
  if (words.size() != 2) throw std::runtime_error("usage: init_log LOG LENGTH[K|M|S|P|B]");
  const auto length = length_in(words[1]);
  if (!length) throw std::runtime_error(words[1] + ": no length");
  const std::string path = os::absolute_path(words[0]);
  // As rvm_create_log does it: a log that never grows.
  rvm::memory::create_log(path, {.size = *length, .max_size = *length, .allocate_all = true}, {}, &disk_);
  log_ = path;
  shown_ = {};
  fmt::print(out, "{} is a log\n", path);
}

void log_shell::open_log(const arguments& words, std::FILE* out) {
  if (words.size() != 1) throw std::runtime_error("usage: open_log LOG");
  const std::string path = os::absolute_path(words[0]);
  (void)rvm::log_files::open_unlocked(disk_, path);  // throws if it is none
  log_ = path;
  shown_ = {};
  fmt::print(out, "{}\n", path);
}

void log_shell::close_log(const arguments&, std::FILE*) {
  (void)log();
  log_.clear();
}

void log_shell::status(const arguments&, std::FILE* out) { (void)show_log_status(disk_, log(), false, out); }
void log_shell::statistics(const arguments&, std::FILE* out) { show_log_totals(disk_, log(), out); }
void log_shell::all(const arguments&, std::FILE* out) { (void)show_log_records(disk_, log(), {}, false, out); }

bool log_shell::show_records(std::optional<rvm::lsn> from, std::uint64_t count, std::FILE* out) {
  record_selection which;
  which.from = from;
  which.limit = count;
  std::optional<rvm::lsn> last;
  (void)show_log_records(disk_, log(), which, false, out, &last);
  if (last) shown_ = last;
  return last.has_value();
}

void log_shell::head(const arguments&, std::FILE* out) { (void)show_records({}, 1, out); }

void log_shell::next(const arguments& words, std::FILE* out) {
  std::uint64_t count = 1;
  if (words.size() > 1) throw std::runtime_error("usage: next [NUMBER]");
  if (!words.empty()) {
    const std::string& word = words.front();
    const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (bad != std::errc{} || end != word.data() + word.size() || count == 0)
      throw std::runtime_error(word + ": no number of transactions");
  }
  const auto from = shown_ ? std::optional<rvm::lsn>(*shown_ + 1) : std::nullopt;
  if (!show_records(from, count, out)) fmt::print(out, "-- no more records\n");
}

void log_shell::tail(const arguments&, std::FILE* out) {
  const survey found = survey_log(disk_, log(), [](const rvm::group_view&, os::const_bytes) { return true; });
  fmt::print(out, "LSN {}, {} bytes behind the head\n", found.tail, found.tail - found.head);
}

void log_shell::show(const arguments& words, std::FILE* out) {
  if (words.empty()) return status({}, out);
  const arguments rest(words.begin() + 1, words.end());
  if (words.front() == "mods" || words.front() == "modifications")
    return show_log_mods(disk_, log(), wanted_mods::parse(fmt::format("{}", fmt::join(rest, " "))), out);
  const command& what = find(words.front());
  for (const auto shown : {&log_shell::status, &log_shell::statistics, &log_shell::all, &log_shell::head,
                           &log_shell::next, &log_shell::tail})
    if (what.run == shown) return (this->*shown)(rest, out);
  throw std::runtime_error(words.front() + ": nothing that can be shown; try help");
}

void log_shell::recover(const arguments&, std::FILE* out) {
  rvm::options how;
  how.mode = rvm::open_mode::open;
  how.background = false;
  how.disk = &disk_;
  how.archive = rvm::archive_beside(disk_, log());
  rvm::memory m(log(), how);
  const rvm::recovery_report report = m.recovery();
  m.close();
  fmt::print(out, "{} transactions, {} ranges, {} bytes written to {} segments\n", report.transactions, report.ranges,
             report.bytes_applied, report.segments.size());
}

void log_shell::help(const arguments&, std::FILE* out) {
  for (const command& c : commands)
    if (c.help != nullptr) fmt::print(out, "{:12} {}\n", c.name, c.help);
  fmt::print(out,
             "show mods ADDRESS/[NUMBER][b|s|l][d|u|x|o|c] [= VALUE...], or SEGMENT:OFFSET/...: who changed what\n");
  fmt::print(out, "A prefix that only one command has is enough. COMMAND > FILE writes to a file.\n");
}

void log_shell::quit(const arguments&, std::FILE*) { quit_ = true; }

}  // namespace tenure::tools
