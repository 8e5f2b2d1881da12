// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Command lines of the commands and of the benchmarks: CLI11, which takes ten seconds to compile, behind a header that takes
// none. A variable keeps its value if its option is not given.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
class Option;
}  // namespace CLI

namespace tenure::tools {

class command_option {
 public:
  explicit command_option(CLI::Option* of) : of_(of) {}
  command_option& required();
  // What --help calls its value.
  command_option& value_name(const std::string& name);
  // It has at least and at most so many values.
  command_option& takes(int least, int most);
  command_option& separated_by_commas();
  // --help shows the variable's value as it is now.
  command_option& shows_default();
  // --help does not show it.
  command_option& hidden();
  command_option& excludes(const command_option& other);

 private:
  CLI::Option* of_;
};

// A program's command line, or a subcommand of it, which belongs to it.
class command {
 public:
  explicit command(CLI::App* of) : of_(of) {}
  // "--name" for an option, "NAME" for an argument. T is a string, a path, a number, a vector of strings or numbers, or an
  // optional number: command_line.cpp lists them.
  template <class T>
  command_option option(const std::string& name, T& into, const std::string& help) const;
  command_option flag(const std::string& name, bool& into, const std::string& help) const;
  // One that is there.
  [[nodiscard]] command_option find(const std::string& option) const;
  command subcommand(const std::string& name, const std::string& help) const;
  // One of the subcommands must be there.
  void needs_subcommand() const;

  // Once it is parsed: whether this subcommand was chosen, and whether the option was given.
  [[nodiscard]] bool chosen() const;
  [[nodiscard]] bool has(const std::string& option) const;

 protected:
  CLI::App* of_;
};

class command_line : public command {
 public:
  explicit command_line(const std::string& description, const std::string& program = "");
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;
  // What --version prints.
  void version(const std::string& text);
  // The end of what --help prints.
  void footer(const std::string& text);
  // All commands without subcommands, as they are typed: "log status".
  [[nodiscard]] std::vector<std::string> names_of_commands() const;

  // Why a program ends without doing anything: help or the version was asked for, or the line makes no sense.
  struct ending {
    bool asked_for;
    std::string text;  // what was asked for, or what is wrong
  };
  [[nodiscard]] std::optional<ending> parse(int argc, char** argv);
  // The same, and prints it; the exit status.
  [[nodiscard]] std::optional<int> parse_or_print(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace tenure::tools
