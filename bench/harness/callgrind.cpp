// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/callgrind.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tenure::bench {

bool has_valgrind() { return std::system("valgrind --version >/dev/null 2>&1") == 0; }

std::optional<measurement> count_instructions(const std::vector<std::string>& arguments,
                                              const std::filesystem::path& directory, double units) {
  const std::string out = (directory / "callgrind").string();
  const std::string command = fmt::format(
      "valgrind --tool=callgrind --cache-sim=yes --I1=32768,8,64 --D1=32768,8,64 --LL=33554432,16,64 "
      "--instr-atstart=no --callgrind-out-file={0} {1} {2} >{0}.said 2>&1",
      out, std::filesystem::read_symlink("/proc/self/exe").string(), fmt::join(arguments, " "));
  if (std::system(command.c_str()) != 0) return {};
  // "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw", "totals: 52 ...".
  std::map<std::string, double> found;
  std::vector<std::string> names;
  std::ifstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "events:")
      for (std::string name; words >> name;) names.push_back(name);
    if (first == "totals:")
      for (const std::string& name : names) words >> found[name];
  }
  if (!found.contains("Ir") || found["Ir"] == 0) return {};
  return measurement{{"instructions", found["Ir"] / units},
                     {"instruction_misses", found["I1mr"] / units},
                     {"data_misses", (found["D1mr"] + found["D1mw"]) / units},
                     {"memory_misses", (found["ILmr"] + found["DLmr"] + found["DLmw"]) / units}};
}

}  // namespace tenure::bench
