// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/read_streams.hpp"

#include <algorithm>
#include <cstdlib>

namespace tenure::rvm {

namespace {

constexpr unsigned char unknown = 255;
constexpr unsigned filled = read_streams::window / 2;  // that many pages more: somebody walks through the window

}  // namespace

bool read_streams::find(page_count pages) {
  pages_ = pages;
  counts_.resize(static_cast<std::size_t>((pages + window - 1) / window), unknown);
  if (next_ >= pages) next_ = 0;
  const page_count first = next_, count = std::min(part, pages - first);
  seen_.resize(static_cast<std::size_t>(count));
  next_ += count;
  if (!look_(first, seen_)) return false;
  bool found = false;
  const auto is_seen = [&](page_count n) { return (seen_[static_cast<std::size_t>(n)] & 1U) != 0; };
  for (page_count at = 0; at < count; at += window) {
    page_count from = at, to = std::min(at + window, count);
    unsigned now = 0;
    for (page_count n = from; n < to; ++n) now += is_seen(n);
    unsigned char& before = counts_[static_cast<std::size_t>((first + at) / window)];
    const bool has_filled = before != unknown && now >= before + filled;
    before = static_cast<unsigned char>(now);
    if (!has_filled) continue;
    while (!is_seen(from)) ++from;
    while (!is_seen(to - 1)) --to;
    while (from > 0 && is_seen(from - 1)) --from;
    while (to < count && is_seen(to)) ++to;
    found |= begin(first + to, 1);
    found |= begin(first + from - 1, -1);
  }
  return found;
}

// The first page that is not in memory is `at`.
bool read_streams::begin(page_count at, page_count direction) {
  if (at < 0 || at >= pages_) return false;
  for (const stream& s : streams_)
    if (s.direction == direction && std::abs(at - s.marker) <= 2 * most_at_once) return false;
  if (streams_.size() == most_streams) streams_.erase(std::ranges::max_element(streams_, {}, &stream::idle));
  stream s{at, at - direction, direction, first_size};
  ask_next(s);
  ask_next(s);
  streams_.push_back(s);
  return true;
}

void read_streams::ask_next(stream& s) {
  s.marker = s.end;
  s.end += s.direction * (s.size + 1);
  s.size = std::min(2 * s.size, most_at_once);
  const page_count from = std::max<page_count>(std::min(s.marker, s.end) + 1, 0);
  const page_count to = std::min(std::max(s.marker, s.end), pages_);
  if (from >= to) return;
  ask_(from, to - from);
  // What fills these windows is not the program.
  for (page_count w = from / window; w <= (to - 1) / window; ++w) counts_[static_cast<std::size_t>(w)] = window;
}

void read_streams::follow() {
  for (stream& s : streams_) {
    ++s.idle;
    // The pages that follow may be in memory already, all of them.
    for (int n = 0; n < most_asked && is_in_memory(s.marker); ++n) {
      ask_next(s);
      s.idle = 0;
    }
  }
  std::erase_if(streams_, [](const stream& s) { return s.idle > patience; });
}

bool read_streams::is_in_memory(page_count page) const {
  unsigned char is = 0;
  return page >= 0 && page < pages_ && look_(page, {&is, 1}) && (is & 1U) != 0;
}

}  // namespace tenure::rvm
