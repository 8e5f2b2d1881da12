// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What recoverable memory must be: a model that knows every committed state, and judges what a crash has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tenure/rvm.hpp>

#include "records/thresholds.hpp"
#include "sim/disk.hpp"

namespace tenure::rvm::testing {

// How much of the random and exhaustive tests to run: TENURE_TEST_SCALE, by default 1, less under sanitizers.
[[nodiscard]] double test_scale();
// `usual` repetitions, scaled; at least one.
[[nodiscard]] std::uint64_t scaled(std::uint64_t usual);
// Of a loop over all operations, bytes or pages of something: the distance to the next one to try. `usual`, and more if less is
// to be run; at most ten times.
[[nodiscard]] std::uint64_t scaled_stride(std::uint64_t usual = 1);

// A small and fast generator: runs must be the same on every platform.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567) { (void)next(); }
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // [0, n)
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

// The bytes of all segments, one after the other.
using image = std::vector<std::byte>;

struct segment_layout {
  std::string path;
  std::uint64_t length;
  bool raw;
  // Not 0: it is made with this length and grows up to `length`.
  std::uint64_t initial = 0;
  // Not 0: from here on pages are written in bulk. The first one is a table: byte n says whether page n behind it is in
  // use; the content of those that are not does not matter.
  std::uint64_t bulk_from = 0;

  [[nodiscard]] std::uint64_t first_length() const { return initial != 0 ? initial : length; }
  [[nodiscard]] std::uint64_t bulk_pages() const { return bulk_from != 0 ? (length - bulk_from) / 4096 - 1 : 0; }
};

// Where everything is, and how it is opened.
struct layout {
  std::string log_path = "/store/test.log";
  std::vector<segment_layout> segments;
  log_options log = {.size = 64 << 10, .max_size = 64 << 10};
  tuning tune = {};
  std::uint64_t recovery_memory = 8 << 20;
  thresholds limits = {};
  bool archived = false;

  [[nodiscard]] std::uint64_t total() const;
  // Where a segment begins in the image.
  [[nodiscard]] std::uint64_t start(std::size_t segment) const;
  // Refers to this layout.
  [[nodiscard]] options how(os::disk& on) const;
};

// Zeroes the pages whose content does not matter.
void forget_free_pages(image& of, const layout& where);

// One raw segment and one with a header, 64 KiB each.
[[nodiscard]] layout small_layout();
// The same with pages that are written in bulk, and one that grows from 64 KiB to 128.
[[nodiscard]] layout bulk_layout();

// small_layout() with one more segment, for pages.
[[nodiscard]] layout paged_layout();

// Makes the raw segments, which the library does not make.
void install_raw_segments(sim::disk& on, const layout& of);

struct byte_range {
  std::uint64_t at, length;  // in the image
};

class model {
 public:
  explicit model(const layout& of) : memory(of.total()), layout_(of), committed_(of.total()) { add_state(); }

  image memory;  // what the program should see now, uncommitted changes included

  // The memory is opened: its batches are counted from 1 again.
  void opened() { ++opening_; }
  // A transaction is about to commit: from now on its state may be found after a crash.
  void committing(const std::vector<byte_range>& ranges);
  // It has returned.
  void committed(ticket promise) { batches_.back() = number_of(promise); }
  // It has thrown, and is known not to be durable: its state must not be found.
  void not_committed();
  // What the newest commit has left.
  [[nodiscard]] const image& newest() const { return committed_; }
  // Everything committed so far was promised to be durable; or everything up to that ticket.
  void acknowledge() { acknowledged_ = states_.size() - 1; }
  void acknowledge(ticket until);

  // The only thing to say about this state: "" if it is a state that may be found now.
  [[nodiscard]] std::string judge(const image& found) const;
  [[nodiscard]] std::size_t states() const { return states_.size(); }
  [[nodiscard]] std::size_t acknowledged() const { return acknowledged_; }

 private:
  void add_state();
  [[nodiscard]] std::uint64_t number_of(ticket t) const { return (opening_ << 32) + t.batch; }

  layout layout_;
  image committed_, before_;
  std::vector<std::uint64_t> states_;   // fingerprints; the first is the empty one
  std::vector<std::uint64_t> batches_;  // of the commit that made the state; 0: not known
  std::size_t acknowledged_ = 0;
  std::uint64_t opening_ = 0;
};

// Opens, and so recovers, what is on the disk, and returns what the segments hold. Complains about checksums.
[[nodiscard]] image recovered_image(sim::disk& on, const layout& of);
// The same, and then uses the log: commits, crashes, recovers, and looks whether that was kept.
[[nodiscard]] image recovered_and_used(sim::disk& on, const layout& of, std::uint64_t seed);
// Recovers `from`, losing power at every operation on the way, and recovers again from each. Returns what is wrong.
[[nodiscard]] std::string judge_interrupted_recovery(const sim::disk& from, const layout& of, const model& against,
                                                     std::uint64_t seed);
// Takes a crash of the disk, recovers it, and judges. Returns what is wrong, with how it was found.
[[nodiscard]] std::string judge_crash(const sim::disk& disk, const layout& of, const model& against, std::uint64_t seed,
                                      sim::policy what);

// What the pattern of a transaction's new bytes is made of.
void fill_random(std::byte* to, std::size_t length, random_source& random);

}  // namespace tenure::rvm::testing
