// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// From commits to groups and back: what is read from a batch is what was appended, whatever its shape.
#include "records/batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "records/group.hpp"
#include "support/segments_on_sim.hpp"

namespace tenure::rvm {
namespace {

using support::segments_on_sim;

// A commit with its own copies of everything.
struct made_commit {
  std::uint64_t id;
  std::string label;
  bool lazy;
  struct range {
    segment* in;
    std::uint64_t offset;
    std::vector<std::byte> value;
  };
  std::vector<range> ranges;
  std::vector<new_value> values = {};

  commit_image image() {
    values.clear();
    for (const range& r : ranges) values.push_back({r.in, r.offset, r.value.data(), r.value.size()});
    return {id, static_cast<std::int64_t>(id) * 1000, label, lazy, values};
  }
};

std::vector<std::byte> bytes_of_length(std::size_t length, std::mt19937& random) {
  std::vector<std::byte> bytes(length);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

const log_stamp stamp{{std::byte{1}, std::byte{2}}, 7, 512};

// Takes the groups apart as recovery would. Returns the commits, ranges that were cut at a group's end joined again.
std::vector<made_commit> read_back(const std::vector<os::const_bytes>& parts, lsn at, std::uint32_t block,
                                   const segments_on_sim& segments) {
  std::vector<made_commit> commits;
  const lsn first = at;
  std::uint32_t previous = 4096;  // as given to finish()
  for (std::size_t n = 0; n < parts.size(); ++n) {
    group_header header;
    EXPECT_EQ(parts[n].size() % block, 0u);
    EXPECT_TRUE(read_group_header(parts[n], {short_log_id(stamp.log_id), at, block}, header));
    EXPECT_TRUE(group_intact(parts[n], header));
    EXPECT_EQ(padded_length(header, block), parts[n].size());
    EXPECT_LE(parts[n].size(), max_group);
    EXPECT_EQ(header.batch, first);
    EXPECT_EQ(header.generation, stamp.generation);
    EXPECT_EQ(header.previous, previous);
    EXPECT_EQ((header.flags & group_last) != 0, n + 1 == parts.size());
    for (const std::byte b : parts[n].subspan(header.length)) EXPECT_EQ(b, std::byte{});
    previous = padded_length(header, block);
    const group_view group(parts[n], header, "here");
    for (const transaction_view& tx : group.transactions()) {
      if (tx.flags & record_first) commits.push_back({tx.id, std::string(tx.label), (tx.flags & record_lazy) != 0, {}});
      made_commit& commit = commits.back();
      EXPECT_EQ(tx.id, commit.id);
      EXPECT_EQ(tx.time, static_cast<std::int64_t>(tx.id) * 1000);
      EXPECT_EQ(tx.label, commit.label);
      EXPECT_FALSE(tx.ranges.empty());
      for (const range_view& range : tx.ranges) {
        segment* in = segments.find(group.segments()[range.segment].path);
        EXPECT_NE(in, nullptr);
        EXPECT_EQ(in->id(), group.segments()[range.segment].id);
        EXPECT_EQ(in->is_raw(), group.segments()[range.segment].raw);
        if (!commit.ranges.empty() && commit.ranges.back().in == in &&
            commit.ranges.back().offset + commit.ranges.back().value.size() == range.offset)
          commit.ranges.back().value.insert(commit.ranges.back().value.end(), range.value.begin(), range.value.end());
        else
          commit.ranges.push_back({in, range.offset, {range.value.begin(), range.value.end()}});
      }
    }
    at += parts[n].size();
  }
  return commits;
}

void expect_same(const std::vector<made_commit>& found, const std::vector<made_commit>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].id, expected[i].id);
    ASSERT_EQ(found[i].label, expected[i].label);
    ASSERT_EQ(found[i].lazy, expected[i].lazy);
    ASSERT_EQ(found[i].ranges.size(), expected[i].ranges.size()) << "commit " << i;
    for (std::size_t r = 0; r < found[i].ranges.size(); ++r) {
      ASSERT_EQ(found[i].ranges[r].in, expected[i].ranges[r].in);
      ASSERT_EQ(found[i].ranges[r].offset, expected[i].ranges[r].offset);
      ASSERT_TRUE(found[i].ranges[r].value == expected[i].ranges[r].value);
    }
  }
}

// Sorted by segment, disjoint and not adjacent, as transactions give them.
made_commit any_commit(std::uint64_t id, std::mt19937& random, const segments_on_sim& segments, std::size_t most_ranges,
                       std::size_t longest) {
  made_commit commit{id, std::string(random() % 4 == 0 ? random() % 256 : random() % 12, 'l'), random() % 2 == 0, {}};
  for (const auto& s : segments.all) {
    if (random() % 2 == 0 && &s != &segments.all.back()) continue;
    std::uint64_t at = 0;
    const std::size_t ranges = 1 + random() % most_ranges;
    for (std::size_t i = 0; i < ranges; ++i) {
      at += 1 + random() % 50;
      const std::size_t length = 1 + random() % longest;
      if (at + length > s->length()) break;
      commit.ranges.push_back({s.get(), at, bytes_of_length(length, random)});
      at += length;
    }
  }
  return commit;
}

TEST(batch, gives_back_what_was_appended) {
  const segments_on_sim segments(3, 8 << 20, true);
  group_pool pool;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::size_t longest = seed % 4 == 0 ? 300'000 : seed % 4 == 1 ? 20 : 5000, most = longest > 100'000 ? 8 : 400;
    batch b(seed, pool);
    std::vector<made_commit> expected;
    std::uint64_t ranges = 0, payload = 0;
    for (std::uint64_t id = 1; id <= 20; ++id) {
      expected.push_back(any_commit(id, random, segments, most, longest));
      const std::uint64_t before = b.length(512);
      const commit_image image = expected.back().image();
      b.append(image, {});
      ASSERT_LE(b.length(512) - before, batch::bound(image, 512) + 512);
      for (const auto& r : expected.back().ranges) payload += r.value.size();
      ranges += expected.back().ranges.size();
    }
    EXPECT_EQ(b.number(), seed);
    EXPECT_EQ(b.commits(), 20u);
    EXPECT_GE(b.ranges(), ranges);  // more where one was cut
    EXPECT_EQ(b.payload(), payload);
    const auto parts = b.finish(stamp, 1 << 20, 4096);
    std::uint64_t length = 0;
    for (const auto& part : parts) length += part.size();
    EXPECT_EQ(b.length(512), length);
    EXPECT_EQ(b.last_group_length(512), parts.back().size());
    expect_same(read_back(parts, 1 << 20, 512, segments), expected);
  }
}

// Commits that fill a group to its last bytes, from a little below the limit to a little above.
TEST(batch, around_the_limit_of_a_group) {
  const segments_on_sim segments(2, 4 << 20);
  group_pool pool;
  std::mt19937 random(3);
  const auto large = bytes_of_length(max_group + 100, random);
  for (std::size_t label : {std::size_t{0}, std::size_t{255}})
    for (std::size_t less = 0; less < 300; less += 1 + less / 30) {
      batch b(1, pool);
      const std::size_t length = max_group - less;
      std::vector<made_commit> expected;
      expected.push_back(
          {1,
           std::string(label, 'a'),
           false,
           {{segments.all[0].get(), 5, {large.begin(), large.begin() + static_cast<std::ptrdiff_t>(length)}}}});
      // Behind it one in the other segment, which must be named in whatever group it comes to lie.
      expected.push_back(
          {2, std::string(label, 'b'), true, {{segments.all[1].get(), 9, {large.begin(), large.begin() + 10}}}});
      for (made_commit& commit : expected) {
        const std::uint64_t before = b.length(512);
        const commit_image image = commit.image();
        b.append(image, {});
        ASSERT_LE(b.length(512) - before, batch::bound(image, 512));
      }
      expect_same(read_back(b.finish(stamp, 4096, 4096), 4096, 512, segments), expected);
    }
}

// The bound holds for a commit alone in a batch, for all block sizes: what it promises is where the log may be full.
TEST(batch, bound_is_never_exceeded) {
  group_pool pool;
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const segments_on_sim segments(1 + seed % 6, 2 << 20, seed % 2 == 0, seed % 3 == 0 ? 200 : 0);
    const std::size_t longest = seed % 10 == 0 ? 600'000 : seed % 3 == 0 ? 9 : 3000;
    made_commit commit = any_commit(1, random, segments, seed % 10 == 1 ? 20'000 : 500, longest);
    if (commit.ranges.empty()) continue;
    const commit_image image = commit.image();
    for (const std::uint32_t block : {512u, 4096u}) {
      batch b(1, pool);
      b.append(image, {});
      ASSERT_LE(b.length(block), batch::bound(image, block));
      // Nor is it far too much: a log must not be called too small without need.
      ASSERT_LE(batch::bound(image, block), b.length(block) + b.length(block) / 50 + 4096 + segments.all.size() * 1024);
    }
  }
}

TEST(batch, recycled_buffers_are_clean) {
  const segments_on_sim segments(1, 4 << 20);
  group_pool pool;
  std::mt19937 random(1);
  for (int i = 0; i < 3; ++i) {
    batch b(static_cast<std::uint64_t>(i) + 1, pool);
    std::vector<made_commit> expected;
    expected.push_back({1, "", false, {{segments.all[0].get(), 0, bytes_of_length(i == 1 ? 3 : (3 << 20), random)}}});
    b.append(expected[0].image(), std::vector<page_ref>{{segments.all[0].get(), 1}});
    EXPECT_EQ(b.pages().size(), 1u);
    expect_same(read_back(b.finish(stamp, 0, 4096), 0, 512, segments), expected);
    b.recycle();
    EXPECT_TRUE(b.empty());
    EXPECT_TRUE(b.pages().empty());
  }
}

// --- Inter-transaction optimization ---

// The bytes that a batch leaves, against those of all its commits in order.
TEST(batch, dropping_what_is_overwritten_changes_no_byte) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const segments_on_sim segments(2, 64 << 10);
    group_pool pool;
    batch b(1, pool);
    std::map<segment*, std::vector<std::byte>> expected, found;
    for (const auto& s : segments.all) expected[s.get()].resize(64 << 10), found[s.get()].resize(64 << 10);
    // A commit with several records (it names a segment, or goes over a group's end) takes no part: less is dropped.
    const bool one_record = seed % 2 == 0;
    const std::size_t commits = 5 + random() % 60, longest = one_record ? 300 : 6000;
    std::vector<made_commit> all;
    for (std::uint64_t id = 1; id <= commits; ++id) {
      made_commit commit{id, "", random() % 4 != 0, {}};
      for (const auto& s : segments.all) {
        if (one_record && (&s == &segments.all[0]) != (id % 2 == 0)) continue;
        std::uint64_t at = random() % 2000;
        for (std::size_t i = random() % 4; i-- > 0 && at + longest < s->length();) {
          commit.ranges.push_back({s.get(), at, bytes_of_length(1 + random() % longest, random)});
          at += commit.ranges.back().value.size() + 1 + random() % 500;
        }
      }
      if (commit.ranges.empty()) continue;
      for (const auto& r : commit.ranges)
        std::ranges::copy(r.value, expected[r.in].begin() + static_cast<std::ptrdiff_t>(r.offset));
      b.append(commit.image(), {});
      all.push_back(std::move(commit));
    }
    const std::uint64_t bytes = b.bytes();
    const batch_savings saved = b.drop_overwritten();
    EXPECT_EQ(b.bytes() + saved.bytes, bytes);
    const auto left = read_back(b.finish(stamp, 0, 4096), 0, 512, segments);
    EXPECT_EQ(left.size() + saved.transactions, all.size());
    std::uint64_t ranges = 0, payload = 0;
    for (const made_commit& commit : left)
      for (const auto& r : commit.ranges) {
        std::ranges::copy(r.value, found[r.in].begin() + static_cast<std::ptrdiff_t>(r.offset));
        ++ranges;
        payload += r.value.size();
      }
    EXPECT_EQ(b.ranges(), ranges);
    EXPECT_EQ(b.payload(), payload);
    for (const auto& s : segments.all) EXPECT_TRUE(found[s.get()] == expected[s.get()]);
    // Those are gone that are no_flush and covered by later ones that stay.
    std::map<segment*, std::vector<bool>> covered;
    for (const auto& s : segments.all) covered[s.get()].resize(64 << 10);
    std::vector<std::uint64_t> expected_ids;
    for (std::size_t i = all.size(); i-- > 0;) {
      bool dead = all[i].lazy;
      for (const auto& r : all[i].ranges)
        for (std::size_t at = 0; at < r.value.size(); ++at) dead = dead && covered[r.in][r.offset + at];
      if (dead) continue;
      expected_ids.insert(expected_ids.begin(), all[i].id);
      for (const auto& r : all[i].ranges)
        for (std::size_t at = 0; at < r.value.size(); ++at) covered[r.in][r.offset + at] = true;
    }
    std::vector<std::uint64_t> ids;
    for (const made_commit& commit : left) ids.push_back(commit.id);
    if (one_record) {
      EXPECT_EQ(ids, expected_ids);
    } else {
      EXPECT_TRUE(std::ranges::includes(ids, expected_ids));
    }
  }
}

}  // namespace
}  // namespace tenure::rvm
