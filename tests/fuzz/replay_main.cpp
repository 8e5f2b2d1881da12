// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzzer's function once on every file named, and on every file below a directory named: a corpus as a test, with
// any compiler.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_below(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void replay(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  // Copied to an allocation of just this size, so that a sanitizer sees every read past the end.
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  fs::path current;
  try {
    for (int i = 1; i < argc; ++i) {
      for (const fs::path& path : files_below(argv[i])) {
        current = path;
        replay(path);
        ++count;
      }
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", current.c_str(), e.what());
    return 1;
  }
  std::printf("%zu inputs\n", count);
  return 0;
}
