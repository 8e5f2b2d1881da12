// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "evaluation/trace.hpp"

#include <zstd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace tenure::bench::evaluation {

std::uint64_t trace::length() const {
  std::uint64_t end = 0;
  for (const step& s : steps) end = std::max(end, s.offset + s.length);
  return end;
}

trace read_trace(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  const std::string stored{std::istreambuf_iterator<char>{in}, {}};
  const auto size = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (!in || size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > (1 << 28))
    throw std::runtime_error("cannot read the trace " + file.string());
  std::string text(size, '\0');
  if (ZSTD_decompress(text.data(), text.size(), stored.data(), stored.size()) != size)
    throw std::runtime_error("the trace is damaged: " + file.string());
  trace made;
  std::istringstream lines{text};
  std::uint64_t lowest = ~std::uint64_t{0};
  for (char kind = 0; lines >> kind;) {
    step s{};
    if (kind == 'r') {
      lines >> s.offset >> s.length;
      lowest = std::min(lowest, s.offset);
    } else {
      s.what = kind == 'f' ? step::kind::commit_flush : kind == 'n' ? step::kind::commit_no_flush : step::kind::abort;
    }
    made.steps.push_back(s);
  }
  lowest = lowest / 4096 * 4096;
  for (step& s : made.steps)
    if (s.what == step::kind::range) s.offset -= lowest;
  return made;
}

}  // namespace tenure::bench::evaluation
