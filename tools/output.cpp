// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <stdio_ext.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/error.hpp>

#include "json_text.hpp"
#include "os/terminal.hpp"

namespace tenure::tools {

namespace {

// Does not stand for itself in a line of text: a terminal would obey it.
bool is_command(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f; }

// Names and paths may be any bytes.
std::string without_commands(std::string_view text) {
  std::string shown;
  for (const char c : text)
    if (is_command(c))
      shown += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    else
      shown += c;
  return shown;
}

}  // namespace

output::output(std::FILE* to, progress_line* progress)
    : to_(to),
      progress_(progress),
      file_(::fopencookie(this, "w", {.read = nullptr, .write = &write, .seek = nullptr, .close = nullptr}),
            &std::fclose) {
  if (file_ == nullptr) throw std::bad_alloc();
  // People see each line at once.
  std::setvbuf(file(), nullptr, os::is_terminal(to) ? _IOLBF : _IOFBF, std::size_t{1} << 16);
}

ssize_t output::write(void* self, const char* from, std::size_t length) {
  output& out = *static_cast<output*>(self);
  if (out.progress_ != nullptr) out.progress_->hide();
  out.begun_ = true;
  std::string_view text(from, length);
  std::string shown;
  if (std::ranges::any_of(text, is_command)) text = shown = without_commands(text);
  if (std::fwrite(text.data(), 1, text.size(), out.to_) == text.size() && std::fflush(out.to_) == 0)
    return static_cast<ssize_t>(length);
  if (out.failure_ == 0) out.failure_ = errno;
  errno = out.failure_;
  return 0;
}

void output::finish() {
  if (progress_ != nullptr) progress_->hide();
  const bool good = std::fflush(file()) == 0 && std::ferror(file()) == 0 && std::fflush(to_) == 0;
  if (good && failure_ == 0) return;
  const int code = failure_ != 0 ? failure_ : errno;
  discard();
  throw error(std::error_code(code, std::generic_category()),
              std::string("cannot write the output: ") + std::generic_category().message(code));
}

void output::discard() { ::__fpurge(file()); }

void say(std::FILE* messages, const char* command, const char* text) {
  // If nobody can be told, the exit status says it.
  const std::string line = std::string(command) + ": " + without_commands(text) + "\n";
  (void)!std::fwrite(line.data(), 1, line.size(), messages);
}

void report_error(const std::exception& what, const char* command, bool as_json, output& out, std::FILE* messages) {
  const char* const text =
      dynamic_cast<const std::bad_alloc*>(&what) != nullptr ? "there is not enough memory" : what.what();
  if (as_json && !out.has_begun()) {
    out.discard();
    nlohmann::ordered_json j{{"message", text}};
    if (const auto* const known = dynamic_cast<const std::system_error*>(&what)) {
      j["code"] = known->code().value();
      j["category"] = known->code().category().name();
    }
    fmt::print(out.file(), "{}\n", json_text(nlohmann::ordered_json{{"error", j}}));
  }
  try {
    out.finish();
  } catch (const error&) {  // it is the error, or comes second
  }
  say(messages, command, text);
}

}  // namespace tenure::tools
