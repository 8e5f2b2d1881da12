// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "command_names.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tenure::tools {
namespace {

// How many letters must be changed, inserted, removed or exchanged with their neighbours to make one of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), 0u);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, now);
  }
  return last[b.size()];
}

// Of "log status" and "log records": "log"; of "info": "info".
std::string first_word(const std::string& name) { return name.substr(0, name.find(' ')); }

std::string most_similar(const std::vector<std::string>& names, const std::string& to) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, to.size() / 3) + 1;
  const auto compare = [&](const std::string& with, const std::string& name) {
    if (const std::size_t d = distance(to, with); d < least) least = d, best = name;
  };
  for (const std::string& name : names) {
    compare(name, name);
    compare(first_word(name), first_word(name));
  }
  for (const std::string& name : names)
    if (const std::size_t space = name.find(' '); space != std::string::npos) compare(name.substr(space + 1), name);
  return best;
}

}  // namespace

std::string advice_on_commands(const std::vector<std::string>& names, const std::vector<std::string>& words) {
  std::vector<std::string> there;
  for (const std::string& name : names)
    if (there.empty() || there.back() != first_word(name)) there.push_back(first_word(name));
  std::string asked, group;
  if (!words.empty()) {
    asked = words[0];
    if (std::ranges::find(names, asked) != names.end()) return "";
    if (std::ranges::find(there, asked) != there.end()) {
      group = asked + " ";
      there.clear();
      for (const std::string& name : names)
        if (name.starts_with(group)) there.push_back(name);
      asked = words.size() > 1 ? group + words[1] : "";
      if (std::ranges::find(names, asked) != names.end()) return "";
    }
  }
  const std::string list = fmt::format("{}", fmt::join(there, ", "));
  if (asked.empty()) return fmt::format("name a command: {}; --help says what they do", list);
  const std::string meant = most_similar(names, asked);
  return fmt::format("there is no command \"{}\"; {}there are: {}; --help says what they do", asked,
                     meant.empty() ? "" : "did you mean \"" + meant + "\"? ", list);
}

}  // namespace tenure::tools
