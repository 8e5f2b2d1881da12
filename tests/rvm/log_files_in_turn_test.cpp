// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The files of a log while it goes round in them, and begins anew: crashes at every operation, and damage of their headers.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "log/log_files.hpp"
#include "replay/backup.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/log_image.hpp"
#include "support/model.hpp"
#include "support/small_memory.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

const std::string round_log = "/d/log", round_segment = "/d/seg";

// Small transactions, so that the log goes round, and now and then one for which it must grow, or begin anew.
class log_files_in_turn : public ::testing::Test {
 protected:
  static options small(sim::disk& on) {
    options how = small_log(&on);
    how.log.size = 64 * kib;
    how.background = false;
    how.tune.truncation_threshold = 2;
    return how;
  }
  static void commit(memory& m, region& r, std::uint64_t number) {
    const std::size_t bytes = number % 17 == 0 ? 90 * kib : number % 5 == 0 ? 20 * kib : 2 * kib;
    const std::string text(bytes, static_cast<char>('a' + number % 26));
    m.transact([&](transaction& tx) {
      tx.modify(r.at<std::uint64_t>(0), number);
      tx.modify(r.data() + 4096, text.data(), text.size());
    });
  }
  sim::disk disk;
};

TEST_F(log_files_in_turn, is_whole_after_a_crash_at_every_operation) {
  std::uint64_t acknowledged = 0, under_way = 0, crashes = 0, with_spare_files = 0;
  std::optional<memory> m(std::in_place, round_log, small(disk));
  region r = m->map(round_segment, {.create_length = 256 * kib});
  disk.on_operation([&](const sim::trace_entry& at) {
    for (const auto policy : {sim::policy::drop_all, sim::policy::random, sim::policy::keep_all}) {
      ++crashes;
      const auto left = disk.crash(at.index, policy);
      const auto found = log_files::open_unlocked(*left, round_log);
      with_spare_files += found->end() - found->begin() < found->length();
      memory again(round_log, small(*left));
      region all = again.map(round_segment);
      const auto number = all.at<std::uint64_t>(0);
      EXPECT_TRUE(number == acknowledged || number == under_way) << number;
      again.check();
      // It goes on in the files that it has.
      const std::uint64_t size = again.stats().log_size;
      for (std::uint64_t n = 1; n < 5; ++n) commit(again, all, n);
      again.check();
      EXPECT_LE(again.stats().log_size, std::max<std::uint64_t>(size, 64 * kib));
    }
  });
  for (under_way = 1; under_way <= 40; ++under_way) {
    commit(*m, r, under_way);
    acknowledged = under_way;
  }
  disk.on_operation({});
  EXPECT_GT(crashes, 100U);
  EXPECT_GT(with_spare_files, 0U);
}

// Each file of the log stays known, whatever fails.
TEST_F(log_files_in_turn, are_all_known_when_an_operation_has_failed) {
  bool was_reached = true;
  for (std::uint64_t nth = 1; was_reached; nth += testing::scaled_stride()) {
    sim::disk own;
    memory m(round_log, small(own));
    region r = m.map(round_segment, {.create_length = 256 * kib});
    const std::size_t fault = own.inject({.nth = nth});
    try {
      for (std::uint64_t number = 1; number <= 40; ++number) commit(m, r, number);
    } catch (const error&) {  // some failures end the memory, others are made up for
    }
    was_reached = own.hits(fault) != 0;
    EXPECT_NO_THROW(m.check()) << nth;
  }
}

// Of a file that was used again, too, either copy of the header will do.
TEST_F(log_files_in_turn, is_found_if_a_copy_of_a_header_is_damaged) {
  memory m(round_log, small(disk));
  region r = m.map(round_segment, {.create_length = 256 * kib});
  std::size_t used_again = 0;
  for (std::uint64_t number = 1; number <= 40; ++number) {
    commit(m, r, number);
    const auto left = disk.crash(1, sim::policy::drop_all);
    const log_image image(*left, round_log);
    for (std::size_t n = 0; n < image.files.size(); ++n)
      for (const std::uint64_t copy : {0, 4096}) {
        const auto damaged = left->crash(1, sim::policy::keep_all);
        damaged->poke(image.files[n].path, copy, std::vector<std::byte>(128));
        memory again(round_log, small(*damaged));
        const region all = again.map(round_segment);
        ASSERT_EQ(all.at<std::uint64_t>(0), number) << image.files[n].path << ", offset " << copy;
        used_again += image.files[n].header.sequence > 2;
      }
  }
  EXPECT_GT(used_again, 0U);
}

// An older copy of a file that is not the last one: what was committed behind it is not given up without a word, nor left out
// of backups and restores.
TEST_F(log_files_in_turn, is_refused_if_an_older_file_leads_nowhere) {
  memory m(round_log, small(disk));
  region r = m.map(round_segment, {.create_length = 256 * kib});
  m.backup("/full");
  std::vector<log_image> earlier;
  std::size_t refused = 0;
  for (std::uint64_t number = 1; number <= 40; ++number) {
    commit(m, r, number);
    const auto left = disk.crash(1, sim::policy::drop_all);
    const log_image image(*left, round_log);
    const auto sequence = [](const log_image::file& file) { return file.header.sequence; };
    const auto last = std::ranges::max(image.files, {}, sequence).path;
    for (const log_image& then : earlier)
      for (const auto& [path, contents, header] : then.files) {
        const auto now = std::ranges::find(image.files, path, &log_image::file::path);
        if (path == last || now == image.files.end() || now->header.sequence == header.sequence) continue;
        const auto mixed = left->crash(1, sim::policy::keep_all);
        mixed->install(path, contents);
        try {
          memory again(round_log, small(*mixed));
          ASSERT_EQ(again.map(round_segment).at<std::uint64_t>(0), number) << path;
        } catch (const error& e) {
          ASSERT_TRUE(e.code() == errc::damaged) << e.what();
          if (std::string(e.what()).find("which was changed last") == std::string::npos) continue;
          ++refused;
          const auto is_refused = [](auto&& f) { expect_error(errc::damaged, {"which was changed last"}, f); };
          is_refused([&] { back_up(*mixed, round_log, "/copy", {}); });
          is_refused([&] { back_up(*mixed, round_log, "/copy", {.since = "/full"}); });
          is_refused([&] { restore("/full", "/restored", {.log = round_log, .disk = mixed.get()}); });
        }
      }
    earlier.push_back(image);
    if (earlier.size() > 8) earlier.erase(earlier.begin());
  }
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace tenure::rvm
