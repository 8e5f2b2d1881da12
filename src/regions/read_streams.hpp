// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// [rvm.region.streams] Finds out that pages are read one after the other, in a mapping whose pages the kernel reads one
// by one (MADV_RANDOM), and reads the next ones before they are touched.
//
// Nobody tells which page was touched, only which pages are in memory. So windows are looked at again and again: a
// window that has filled since the last look is being walked through, up or down, and a stream begins at each end of
// it. A stream asks for pages in its direction, but leaves out one page, its marker. If the marker is in memory later,
// the program has come there: the stream asks for twice as many, behind a new marker. Otherwise it ends soon.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tenure::rvm {

class read_streams {
 public:
  using page_count = std::int64_t;  // a number of a page, too; below 0 there is none
  static constexpr page_count window = 64;
  static constexpr page_count most_at_once = 1024;  // that a stream asks for
  static constexpr page_count part = 1 << 17;       // that find() looks at
  static constexpr page_count first_size = 32;      // that a new stream asks for at first
  static constexpr unsigned patience = 200;         // calls of follow() that a stream outlives without progress
  static constexpr std::size_t most_streams = 16;
  static constexpr int most_asked = 4;  // how often a stream asks in a call of follow()

  // Tells which pages from one on are in memory: bit 0 of each byte. false: not known.
  using looker = std::function<bool(page_count first, std::span<unsigned char> into)>;
  using asker = std::function<void(page_count first, page_count count)>;

  read_streams(looker look, asker ask) : look_(std::move(look)), ask_(std::move(ask)) {}

  // Looks at the next part of so many pages. Returns whether a stream has begun.
  bool find(page_count pages);
  // Goes on with the streams.
  void follow();
  [[nodiscard]] bool is_empty() const { return streams_.empty(); }

 private:
  struct stream {
    page_count marker, end;  // what lies between them was asked for; `end` is the next marker
    page_count direction;    // 1 or -1
    page_count size;         // to ask for next time
    unsigned idle = 0;
  };

  bool begin(page_count at, page_count direction);
  void ask_next(stream& s);
  [[nodiscard]] bool is_in_memory(page_count page) const;

  looker look_;
  asker ask_;
  page_count pages_ = 0, next_ = 0;
  std::vector<unsigned char> counts_;  // pages of each window that were in memory; unknown at first
  std::vector<unsigned char> seen_;
  std::vector<stream> streams_;
};

}  // namespace tenure::rvm
