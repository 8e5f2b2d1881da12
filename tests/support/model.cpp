// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "support/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "support/sanitizers.hpp"

namespace tenure::rvm::testing {

namespace {

std::uint64_t fingerprint(const image& of) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(of.data()), of.size()});
}

const char* policy_name(sim::policy what) {
  switch (what) {
    case sim::policy::random: return "random";
    case sim::policy::random_with_garbage: return "random_with_garbage";
    case sim::policy::drop_all: return "drop_all";
    case sim::policy::keep_all: return "keep_all";
  }
  return "?";
}

std::vector<region> map_all(memory& m, const layout& of) {
  std::vector<region> all;
  for (const auto& s : of.segments)
    all.push_back(m.map(s.path, {.create_length = s.raw ? 0 : s.first_length(),
                                 .create_max_length = s.length,
                                 .raw = s.raw,
                                 .reserve = s.initial != 0}));
  return all;
}

// What a segment has not grown to yet is zero.
image bytes_of(const std::vector<region>& regions, const layout& of) {
  image all(of.total());
  for (std::size_t i = 0; i < regions.size(); ++i)
    std::memcpy(all.data() + of.start(i), regions[i].data(), regions[i].size());
  forget_free_pages(all, of);
  return all;
}

}  // namespace

double test_scale() {
  static const double scale = [] {
    if (const char* text = std::getenv("TENURE_TEST_SCALE"); text != nullptr && std::atof(text) > 0)
      return std::atof(text);
    return support::sanitized ? 0.1 : 1.0;
  }();
  return scale;
}

std::uint64_t scaled(std::uint64_t usual) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(usual) * test_scale()));
}

std::uint64_t scaled_stride(std::uint64_t usual) {
  return usual * static_cast<std::uint64_t>(std::clamp(1 / test_scale(), 1.0, 10.0));
}

std::uint64_t layout::total() const { return start(segments.size()); }
std::uint64_t layout::start(std::size_t segment) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < segment; ++i) sum += segments[i].length;
  return sum;
}
options layout::how(os::disk& on) const {
  options o;
  o.log = log;
  o.tune = tune;
  o.recovery_memory = recovery_memory;
  o.background = false;
  o.disk = &on;
  if (archived) o.archive = archive_options{.max_size = 1 << 20};
  o.limits = &limits;
  return o;
}

layout small_layout() {
  layout l;
  l.segments = {{"/store/formatted.seg", 64 << 10, false}, {"/elsewhere/raw.seg", 64 << 10, true}};
  return l;
}

layout paged_layout() {
  layout l = small_layout();
  l.segments.push_back({"/store/pages.seg", 64 << 10, false});
  return l;
}

layout bulk_layout() {
  layout l = small_layout();
  l.segments[0].length = 128 << 10;
  l.segments[0].initial = 64 << 10;
  l.segments[0].bulk_from = 32 << 10;
  l.segments[1].bulk_from = 48 << 10;
  return l;
}

void forget_free_pages(image& of, const layout& where) {
  for (std::size_t i = 0; i < where.segments.size(); ++i) {
    std::byte* const table = of.data() + where.start(i) + where.segments[i].bulk_from;
    for (std::uint64_t n = 1; n <= where.segments[i].bulk_pages(); ++n)
      if (table[n] == std::byte{0}) std::memset(table + n * 4096, 0, 4096);
  }
}

void install_raw_segments(sim::disk& on, const layout& of) {
  for (const auto& s : of.segments)
    if (s.raw) on.install(s.path, image(s.length));
}

void model::add_state() {
  image known = committed_;
  forget_free_pages(known, layout_);
  states_.push_back(fingerprint(known));
  batches_.push_back(0);
}

void model::committing(const std::vector<byte_range>& ranges) {
  before_ = committed_;
  for (const auto& r : ranges) std::memcpy(committed_.data() + r.at, memory.data() + r.at, r.length);
  add_state();
}

void model::not_committed() {
  committed_ = before_;
  states_.pop_back();
  batches_.pop_back();
}

void model::acknowledge(ticket until) {
  for (std::size_t i = states_.size(); i-- > acknowledged_;)
    if (batches_[i] != 0 && batches_[i] <= number_of(until)) {
      acknowledged_ = i;
      return;
    }
}

std::string model::judge(const image& found) const {
  const std::uint64_t print = fingerprint(found);
  bool inside_a_batch = false;
  for (std::size_t i = states_.size(); i-- > acknowledged_;) {
    if (states_[i] != print) continue;
    const bool last_of_batch = i + 1 == states_.size() || batches_[i] == 0 || batches_[i] != batches_[i + 1];
    // An acknowledged state may be inside a batch only if that batch is all there, and then nothing was lost.
    if (last_of_batch) return "";
    inside_a_batch = true;
  }
  const std::string known =
      "; acknowledged: " + std::to_string(acknowledged_) + " of " + std::to_string(states_.size() - 1);
  if (inside_a_batch) {
    std::string text = "a state inside of a batch was found" + known + "; batches from there on:";
    for (std::size_t i = acknowledged_; i < states_.size(); ++i)
      text += " " + std::to_string(batches_[i]) + (states_[i] == print ? " (found)" : "");
    return text;
  }
  for (std::size_t i = acknowledged_; i-- > 0;)
    if (states_[i] == print) return "an old state was found, that of commit " + std::to_string(i) + known;
  std::string text = "the state found was never committed" + known + "; differs from the newest at";
  std::size_t said = 0;
  // Free pages are zero in what was found.
  for (std::size_t i = 0; i < std::min(found.size(), committed_.size()) && said < 8; ++i)
    if (found[i] != committed_[i]) {
      std::size_t end = i;
      while (end < committed_.size() && end < found.size() && found[end] != committed_[end]) ++end;
      text += " " + std::to_string(i) + "+" + std::to_string(end - i);
      i = end;
      ++said;
    }
  return text;
}

image recovered_image(sim::disk& on, const layout& of) {
  memory m(of.log_path, of.how(on));
  const auto regions = map_all(m, of);
  for (const auto& s : of.segments) {
    if (s.raw) continue;
    const auto bad = m.verify_segment(s.path);
    EXPECT_TRUE(bad.empty()) << s.path << ": bad checksum of the page at " << bad.front();
  }
  return bytes_of(regions, of);
}

image recovered_and_used(sim::disk& on, const layout& of, std::uint64_t seed) {
  random_source random(seed);
  image found, expected;
  {
    memory m(of.log_path, of.how(on));
    auto regions = map_all(m, of);
    found = bytes_of(regions, of);
    for (int round = 0; round < 2; ++round) {
      auto tx = m.begin();
      for (auto& r : regions) {
        std::byte* const at = r.data() + random.below(r.size() - 64);
        tx.set_range(at, 64);
        fill_random(at, 64, random);
      }
      tx.commit();
    }
    expected = bytes_of(regions, of);
    const auto left = on.crash(seed, sim::policy::drop_all);
    EXPECT_TRUE(recovered_image(*left, of) == expected) << "what was committed after recovery is not there";
    // The first object must not write any more: it is left as the crash leaves it.
    on.power_off();
  }
  return found;
}

std::string judge_crash(const sim::disk& disk, const layout& of, const model& against, std::uint64_t seed,
                        sim::policy what) {
  const auto place = [&] {
    return " (seed " + std::to_string(seed) + ", policy " + policy_name(what) + ", after operation " +
           std::to_string(disk.operations()) + ")";
  };
  try {
    const auto left = disk.crash(seed, what);
    image found;
    if (seed % 8 == 0) {
      found = recovered_and_used(*left, of, seed);
    } else {
      found = recovered_image(*left, of);
      // Again: nothing changes, whatever of the first recovery survived.
      if (seed % 8 == 1 && recovered_image(*left->crash(seed, sim::policy::random), of) != found)
        return "a second recovery changed the state" + place();
    }
    if (left->weak_durable_writes() != 0) return "a durable write was not durable" + place();
    const std::string verdict = against.judge(found);
    return verdict.empty() ? "" : verdict + place();
  } catch (const std::exception& e) {
    return std::string("opening failed: ") + e.what() + place();
  }
}

std::string judge_interrupted_recovery(const sim::disk& from, const layout& of, const model& against,
                                       std::uint64_t seed) {
  for (std::uint64_t n = 1;; ++n) {
    random_source random(seed * 1000 + n);
    const auto left = from.crash(seed, sim::policy::keep_all);
    left->crash_at(n, random.one_in(2) ? random.below(16) : sim::for_ever);
    bool interrupted = false;
    try {
      (void)recovered_image(*left, of);
    } catch (const sim::power_failure&) {
      interrupted = true;
    } catch (const std::exception& e) {
      // After a power failure inside the log's writer the library reports its own kind.
      if (!left->is_off()) return std::string("recovery failed: ") + e.what();
      interrupted = true;
    }
    // The last operations belong to closing: the power may go unnoticed in a destructor.
    const auto verdict =
        judge_crash(*left, of, against, seed + n, n % 3 == 0 ? sim::policy::drop_all : sim::policy::random);
    if (!verdict.empty()) return verdict + ", recovery interrupted at its operation " + std::to_string(n);
    if (!interrupted && !left->is_off()) return "";
  }
}

void fill_random(std::byte* to, std::size_t length, random_source& random) {
  while (length >= 8) {
    const auto value = random.next();
    std::memcpy(to, &value, 8);
    to += 8;
    length -= 8;
  }
  const auto value = random.next();
  std::memcpy(to, &value, length);
}

}  // namespace tenure::rvm::testing
