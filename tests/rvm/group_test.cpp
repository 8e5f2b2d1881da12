// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Taking groups apart: every byte is checked before it is used [rvm.group.checked].
#include "records/group.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <span>

#include "log/checksum.hpp"
#include "records/batch.hpp"
#include "support/expect_error.hpp"
#include "support/segments_on_sim.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

constexpr log_stamp stamp{{std::byte{9}}, 3, 512};
constexpr lsn place = 512 * 100;

// A group with two segments and two transactions.
class group : public ::testing::Test {
 protected:
  group() {
    const std::byte value[40] = {};
    const new_value values[] = {{segments.all[0].get(), 8, value, 5},
                                {segments.all[0].get(), 100, value, 40},
                                {segments.all[1].get(), 0, value, 16}};
    made.append({1, 10, "first", false, values}, {});
    made.append({2, 20, "", true, std::span(values).first(1)}, {});
    const auto part = made.finish(stamp, place, 0).front();
    bytes.assign(part.begin(), part.end());
    std::memcpy(&header, bytes.data(), sizeof header);
  }
  [[nodiscard]] group_expectation expected() const { return {short_log_id(stamp.log_id), place, 512}; }
  template <class T>
  T& in_place(std::size_t offset) {
    return *reinterpret_cast<T*>(bytes.data() + offset);
  }

  segments_on_sim segments{2, 4096};
  group_pool pool;
  batch made{1, pool};
  std::vector<std::byte> bytes;
  group_header header{};
};

TEST_F(group, header_must_be_of_this_log_and_place) {
  group_header read;
  EXPECT_TRUE(read_group_header(bytes, expected(), read));
  EXPECT_TRUE(group_intact(bytes, read));
  auto other = expected();
  other.lsn += 512;
  EXPECT_FALSE(read_group_header(bytes, other, read));
  other = expected();
  ++other.log_id;
  EXPECT_FALSE(read_group_header(bytes, other, read));
  EXPECT_FALSE(read_group_header(os::const_bytes(bytes).first(sizeof(group_header) - 1), expected(), read));
  EXPECT_FALSE(read_group_header({}, expected(), read));
  const auto refuses = [&](auto&& change) {
    const auto kept = bytes;
    change(in_place<group_header>(0));
    EXPECT_FALSE(read_group_header(bytes, expected(), read));
    bytes = kept;
  };
  refuses([](group_header& h) { ++h.magic; });
  refuses([](group_header& h) { h.length = sizeof h - 1; });
  refuses([](group_header& h) { h.length = max_group + 1; });
  refuses([](group_header& h) { h.batch = place + 512; });
  refuses([](group_header& h) { h.batch = 100; });
  refuses([](group_header& h) { h.previous = 100; });
  refuses([](group_header& h) { h.previous = 2 * max_group; });
}

TEST_F(group, any_flipped_bit_is_noticed) {
  for (std::size_t bit = 0; bit < std::size_t{header.length} * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    group_header read;
    ASSERT_FALSE(read_group_header(bytes, expected(), read) && group_intact(bytes, read)) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  EXPECT_FALSE(group_intact(os::const_bytes(bytes).first(header.length - 1), header));
}

TEST_F(group, is_taken_apart) {
  const group_view view(bytes, header, "here");
  ASSERT_EQ(view.segments().size(), 2u);
  EXPECT_EQ(view.segments()[0].path, "s0");
  EXPECT_EQ(view.segments()[0].id, segments.all[0]->id());
  ASSERT_EQ(view.transactions().size(), 3u);  // the first is in two records, one for each segment
  EXPECT_EQ(view.transactions()[0].label, "first");
  EXPECT_EQ(view.transactions()[0].ranges.size(), 2u);
  EXPECT_EQ(view.transactions()[2].time, 20);
  EXPECT_EQ(view.transactions()[2].flags, record_first | record_last | record_lazy);
}

// As earlier versions wrote them, with a header of 24 bytes for each range.
TEST_F(group, transaction_records_are_read) {
  const std::size_t record = sizeof(group_header) + in_place<record_header>(sizeof(group_header)).length;
  bytes.resize(record);  // only the segment's record stays
  const auto add = [&](const auto& what) {
    const auto raw = std::as_bytes(std::span{&what, 1});
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  };
  add(record_header{record_type::transaction, record_first | record_last, 0, 0, 2});
  add(transaction_body{7, 30, 3, 0});
  add(std::array<char, 8>{'o', 'l', 'd'});
  add(range_header{100, 3, 0, 0, 0});
  add(std::array<char, 8>{'a', 'b', 'c'});
  add(range_header{5000, 16, 32, 0, 0});
  add(std::array<char, 16>{'d', 'e', 'f'});
  in_place<record_header>(record).length = static_cast<std::uint32_t>(bytes.size() - record);
  header.length = static_cast<std::uint32_t>(bytes.size());
  header.records = 2;
  const group_view view(bytes, header, "here");
  ASSERT_EQ(view.transactions().size(), 1U);
  const transaction_view& old = view.transactions()[0];
  EXPECT_EQ(old.id, 7U);
  EXPECT_EQ(old.label, "old");
  ASSERT_EQ(old.ranges.size(), 2U);
  EXPECT_EQ(old.ranges[0].offset, 100U);
  EXPECT_EQ(old.ranges[0].value.size(), 3U);
  EXPECT_EQ(old.ranges[1].offset, 5000U);
  EXPECT_EQ(old.ranges[1].value.front(), std::byte{'d'});
  in_place<range_header>(record + sizeof(record_header) + sizeof(transaction_body) + 8).offset = ~std::uint64_t{0};
  expect_error(errc::damaged, {"largest offset"}, [&] { group_view(bytes, header, "here"); });
}

TEST_F(group, contents_that_make_no_sense) {
  const std::size_t first_record = sizeof(group_header);
  const std::size_t transaction = first_record + in_place<record_header>(first_record).length;
  const std::size_t page = transaction + sizeof(record_header) + sizeof(transaction_body) + 8;  // behind the label
  const std::size_t range = page + sizeof(changed_page);
  const auto kept = bytes;
  const auto refuses = [&](const std::string& why, auto&& change, errc as = errc::damaged) {
    change();
    expect_error(as, {"here", why}, [&] { group_view(bytes, header, "here"); });
    bytes = kept;
  };
  refuses("length is senseless", [&] { in_place<record_header>(first_record).length = 8; });
  refuses("length is senseless", [&] { in_place<record_header>(first_record).length += 1; });
  refuses("beyond the group", [&] { in_place<record_header>(first_record).length = 0xfffffff8; });
  refuses("beyond the group", [&] { in_place<record_header>(first_record).count = 0xffffffff; });
  refuses(
      "of type 6, which this version", [&] { in_place<record_header>(first_record).type = record_type{6}; },
      errc::wrong_version);
  refuses(
      "flags 8, which this version", [&] { in_place<record_header>(first_record).flags = 8; }, errc::wrong_version);
  refuses("beyond the group",
          [&] { in_place<transaction_body>(transaction + sizeof(record_header)).label = 0xfffffffd; });
  refuses("more changed pages than fit", [&] { in_place<record_header>(transaction).count = 1000; });
  refuses("longer than what it holds", [&] { in_place<record_header>(transaction).count = 0; });
  refuses("does not name", [&] { in_place<changed_page>(page).segment = 1; });  // named later only
  refuses("largest offset", [&] { in_place<changed_page>(page).page = ~std::uint64_t{0}; });
  refuses("beyond the group", [&] { in_place<changed_page>(page).bytes = 0xffffffff; });
  refuses("beyond the group", [&] { in_place<changed_page>(page).ranges += 1; });
  refuses("more bytes than its ranges", [&] { in_place<changed_page>(page).ranges -= 1; });
  refuses("more bytes than its ranges", [&] { in_place<changed_page>(page).bytes += 1; });
  refuses("beyond the group", [&] { in_place<changed_range>(range).length = 4000; });
  refuses("beyond its page", [&] { in_place<changed_range>(range).offset = redo_page; });
  refuses("end of the one before", [&] { in_place<changed_range>(range).offset = 200; });
  refuses("global id", [&] { in_place<record_header>(first_record).type = record_type::prepare; });
  refuses(
      "outcome is of kind", [&] { in_place<record_header>(first_record).type = record_type::outcome; },
      errc::wrong_version);
  header.flags |= group_prepared;
  refuses("longer than what it holds", [&] {
    in_place<record_header>(first_record).type = record_type::prepare;
    in_place<record_header>(first_record).count = 1;
  });
  refuses("global id", [&] {
    in_place<record_header>(first_record).type = record_type::prepare;
    in_place<record_header>(first_record).count = 0;
  });
  EXPECT_TRUE(group_view(bytes, header, "here").transactions().empty());
  EXPECT_EQ(group_view(bytes, header, "here").prepared().size(), 3u);
  header.flags ^= group_prepared | 8;
  refuses(
      "flags", [] {}, errc::wrong_version);
  header.flags &= ~8u;
  header.records -= 1;
  refuses("bytes follow", [] {});
  header.records += 2;
  refuses("beyond the group", [] {});
}

// With a right checksum, too: whoever wrote it, parsing must not read where it should not (a sanitizer looks on).
TEST_F(group, random_contents) {
  std::mt19937 random(5);
  const auto kept = bytes;
  int accepted = 0, of_other_versions = 0;
  for (int i = 0; i < 20'000; ++i) {
    for (int n = 1 + static_cast<int>(random() % 4); n-- > 0;) {
      const std::size_t at = sizeof(group_header) + random() % (header.length - sizeof(group_header));
      bytes[at] = random() % 3 == 0 ? std::byte{0xff} : static_cast<std::byte>(random());
    }
    try {
      const group_view view(bytes, header, "here");
      std::uint64_t sum = 0;
      for (const auto& tx : view.transactions())
        for (const auto& range : tx.ranges)
          for (const std::byte b : range.value)
            sum += std::to_integer<unsigned>(b) + view.segments()[range.segment].path.size();
      accepted += sum != 1;
    } catch (const error& e) {
      ASSERT_TRUE(e.code() == errc::damaged || e.code() == errc::wrong_version) << e.what();
      of_other_versions += e.code() == errc::wrong_version;
    }
    bytes = kept;
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(of_other_versions, 0);
}

}  // namespace
}  // namespace tenure::rvm
