// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <type_traits>

#include <CLI/CLI.hpp>

namespace tenure::tools {

command_option& command_option::required() {
  of_->required();
  return *this;
}

command_option& command_option::value_name(const std::string& name) {
  of_->type_name(name);
  return *this;
}

command_option& command_option::takes(int least, int most) {
  of_->expected(least, most);
  return *this;
}

command_option& command_option::separated_by_commas() {
  of_->delimiter(',');
  return *this;
}

command_option& command_option::shows_default() {
  of_->capture_default_str();
  return *this;
}

command_option& command_option::hidden() {
  of_->group("");
  return *this;
}

command_option& command_option::excludes(const command_option& other) {
  of_->excludes(other.of_);
  return *this;
}

namespace {

template <class T>
constexpr bool has_unsigned = std::is_unsigned_v<T>;
template <class T>
constexpr bool has_unsigned<std::vector<T>> = has_unsigned<T>;
template <class T>
constexpr bool has_unsigned<std::optional<T>> = has_unsigned<T>;

// CLI11 takes "-1", and what is larger than any number, for the largest number.
std::string why_no_unsigned(const std::string& text) {
  if (text.starts_with('-')) return text + " is less than 0";
  errno = 0;
  (void)std::strtoull(text.c_str(), nullptr, 0);
  return errno == ERANGE ? text + " is too large" : "";
}

}  // namespace

template <class T>
command_option command::option(const std::string& name, T& into, const std::string& help) const {
  CLI::Option* const made = of_->add_option(name, into, help);
  if constexpr (has_unsigned<T>) made->check(CLI::Validator(why_no_unsigned, ""));
  return command_option(made);
}
template command_option command::option(const std::string&, std::string&, const std::string&) const;
template command_option command::option(const std::string&, std::filesystem::path&, const std::string&) const;
template command_option command::option(const std::string&, unsigned&, const std::string&) const;
template command_option command::option(const std::string&, std::uint64_t&, const std::string&) const;
template command_option command::option(const std::string&, double&, const std::string&) const;
template command_option command::option(const std::string&, std::optional<std::uint64_t>&, const std::string&) const;
template command_option command::option(const std::string&, std::vector<std::string>&, const std::string&) const;
template command_option command::option(const std::string&, std::vector<unsigned>&, const std::string&) const;
template command_option command::option(const std::string&, std::vector<std::uint64_t>&, const std::string&) const;
template command_option command::option(const std::string&, std::vector<double>&, const std::string&) const;

command_option command::flag(const std::string& name, bool& into, const std::string& help) const {
  return command_option(of_->add_flag(name, into, help));
}

command_option command::find(const std::string& option) const { return command_option(of_->get_option(option)); }

command command::subcommand(const std::string& name, const std::string& help) const {
  return command(of_->add_subcommand(name, help));
}

void command::needs_subcommand() const { of_->require_subcommand(1); }

bool command::chosen() const { return of_->parsed(); }

bool command::has(const std::string& option) const { return of_->count(option) > 0; }

command_line::command_line(const std::string& description, const std::string& program)
    : command(nullptr), app_(std::make_unique<CLI::App>(description, program)) {
  of_ = app_.get();
}

command_line::~command_line() = default;

void command_line::version(const std::string& text) { app_->set_version_flag("--version", text); }

void command_line::footer(const std::string& text) { app_->footer(text); }

std::vector<std::string> command_line::names_of_commands() const {
  std::vector<std::string> names;
  for (const CLI::App* const first : app_->get_subcommands({})) {
    const auto under = first->get_subcommands({});
    if (under.empty()) names.push_back(first->get_name());
    for (const CLI::App* const second : under) names.push_back(first->get_name() + " " + second->get_name());
  }
  return names;
}

std::optional<command_line::ending> command_line::parse(int argc, char** argv) try {
  app_->parse(argc, argv);
  return {};
} catch (const CLI::ParseError& e) {
  std::ostringstream shown, messages;
  if (app_->exit(e, shown, messages) == 0) return ending{true, shown.str()};
  return ending{false, e.what()};
}

std::optional<int> command_line::parse_or_print(int argc, char** argv) try {
  app_->parse(argc, argv);
  return {};
} catch (const CLI::ParseError& e) {
  return app_->exit(e);
}

}  // namespace tenure::tools
