// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/virtual_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "os/os_test_support.hpp"

namespace tenure::os {

static void PrintTo(page_mechanism which, std::ostream* out) {
  *out << (which == page_mechanism::best ? "best" : which == page_mechanism::none ? "none" : "pagemap_file");
}

namespace {

// A mapping that ends with the scope.
class mapping {
 public:
  mapping(void* address, std::size_t length) : address_(static_cast<std::byte*>(address)), length_(length) {}
  ~mapping() { unmap(address_, length_); }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  [[nodiscard]] std::byte* at(std::size_t pages) const { return address_ + pages * page; }
  [[nodiscard]] std::size_t length() const { return length_; }

 private:
  std::byte* address_;
  std::size_t length_;
};

bool all_zero(const std::byte* from, std::size_t length) {
  return std::all_of(from, from + length, [](std::byte b) { return b == std::byte{}; });
}

// The kernel's flags of the mapping at this address ("rd wr mr mw me nr"), "" if they cannot be read.
std::string kernel_flags(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    char dash = 0;
    if (std::istringstream words(line); words >> std::hex >> from >> dash >> to && dash == '-')
      here = from <= reinterpret_cast<std::uintptr_t>(address) && reinterpret_cast<std::uintptr_t>(address) < to;
    if (here && line.starts_with("VmFlags:")) return line.substr(8) + ' ';
  }
  return "";
}

TEST(pages, have_the_size_that_the_kernel_says) {
  EXPECT_EQ(page_size(), static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_TRUE(std::has_single_bit(page_size()));
}

TEST(anonymous_memory, is_zero_and_writable) {
  const mapping m(map_anonymous(nullptr, 3 * page), 3 * page);
  EXPECT_TRUE(all_zero(m.at(0), m.length()));
  std::memset(m.at(0), 1, m.length());
  EXPECT_EQ(m.at(2)[page - 1], std::byte{1});
}

TEST(anonymous_memory, goes_exactly_where_it_is_wanted) {
  void* const wanted = free_address(0);
  const mapping m(map_anonymous(wanted, 2 * page), 2 * page);
  EXPECT_EQ(m.at(0), wanted);
}

TEST(anonymous_memory, never_replaces_what_is_there) {
  const mapping m(map_anonymous(free_address(0), 2 * page), 2 * page);
  *m.at(1) = std::byte{7};
  for (void* const at : {m.at(0), m.at(1), m.at(0) - page})
    expect_error(errc::address_taken,
                 {"anonymous memory is there", std::to_string(2 * page) + " bytes at address 0x55"},
                 [&] { (void)map_anonymous(at, 2 * page); });
  EXPECT_EQ(*m.at(1), std::byte{7});
  EXPECT_EQ(occupant(m.at(0) - page, page), "");  // nothing is left of the failed attempts
}

TEST(anonymous_memory, has_no_odd_sizes) {
  expect_error(errc::misaligned, {"multiples of the page size"}, [] { (void)map_anonymous(nullptr, page + 1); });
  expect_error(errc::misaligned, {"not zero"}, [] { (void)map_anonymous(nullptr, 0); });
  expect_error(errc::misaligned, {"0x551000000001"},
               [] { (void)map_anonymous(static_cast<std::byte*>(free_address(0)) + 1, page); });
}

TEST(anonymous_memory, says_what_may_limit_it) {
  expect_error(std::errc::not_enough_memory, {"cannot map anonymous memory", "vm.max_map_count"},
               [] { (void)map_anonymous(nullptr, std::size_t{1} << 60); });
}

TEST(huge_pages, are_aligned_zero_and_wholly_unmapped) {
  constexpr std::size_t huge = std::size_t{2} << 20;
  for (const std::size_t length : {page, huge, 3 * huge, huge + page, 5 * huge - page}) {
    auto* const memory = static_cast<std::byte*>(map_anonymous_huge(length));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % huge, 0u);
    EXPECT_TRUE(all_zero(memory, length));
    memory[length - 1] = std::byte{1};
    unmap(memory, length);
    EXPECT_EQ(occupant(memory, length), "");
  }
}

TEST(unmapping, accepts_nothing) {
  unmap(nullptr, 0);
  unmap(nullptr, page);
  unmap(free_address(0), 0);
}

TEST(occupants, are_named) {
  EXPECT_EQ(occupant(free_address(0), page), "");
  const mapping m(map_anonymous(free_address(0), 2 * page), 2 * page);
  EXPECT_EQ(occupant(m.at(0), 2 * page), "anonymous memory");
  EXPECT_EQ(occupant(m.at(1), page), "anonymous memory");
  EXPECT_EQ(occupant(m.at(0) - page, 2 * page), "anonymous memory");
  EXPECT_EQ(occupant(m.at(0) - page, page), "");
  EXPECT_EQ(occupant(m.at(2), page), "");

  EXPECT_EQ(occupant(reinterpret_cast<const void*>(&kernel_flags), 1), std::filesystem::read_symlink("/proc/self/exe"));

  const scratch_directory scratch;
  const std::string path = scratch / "a file with spaces";
  const auto file = real_disk().create(path, 0600);
  file->resize(page);
  const mapping f(file->map_private(m.at(3), 0, page, os::access::read_only), page);
  EXPECT_EQ(occupant(m.at(2), 2 * page), path);
}

TEST(advice, reaches_the_kernel) {
  const mapping m(map_anonymous(free_address(0), page), page);
  if (kernel_flags(m.at(0)).empty()) GTEST_SKIP() << "the kernel does not show the flags of mappings";
  advise_random(m.at(0), page);
  EXPECT_TRUE(contains(kernel_flags(m.at(0)), " rr "));
  exclude_from_fork(m.at(0), page);
  EXPECT_TRUE(contains(kernel_flags(m.at(0)), " dc "));
}

TEST(exclusion_from_fork, leaves_nothing_in_the_child) {
  const mapping m(map_anonymous(free_address(0), 2 * page), 2 * page);
  exclude_from_fork(m.at(1), page);
  EXPECT_EQ(in_child([&] { return occupant(m.at(0), page).empty() ? 1 : occupant(m.at(1), page).empty() ? 0 : 2; }), 0);
  *m.at(1) = std::byte{1};
}

// --- Private copies --------------------------------------------------------------------------------------------------

// A private mapping of a file whose page p is filled with the byte p % 251. The mechanism is reset at the end.
class private_copies : public ::testing::TestWithParam<page_mechanism> {
 protected:
  static constexpr std::size_t pages = 4500;  // more than one batch of any mechanism

  void SetUp() override {
    if (::access("/proc/self/pagemap", R_OK) != 0) GTEST_SKIP() << "/proc/self/pagemap cannot be read";
    file_ = real_disk().create(scratch_ / "segment", 0600);
    std::vector<std::byte> content(pages * page);
    for (std::size_t p = 0; p < pages; ++p)
      std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(p * page), page, stored(p));
    file_->write_at(0, content);
    base_ = static_cast<std::byte*>(file_->map_private(free_address(1), 0, pages * page, os::access::read_write));
    force_page_mechanism(GetParam());
  }

  void TearDown() override {
    force_page_mechanism(page_mechanism::best);
    unmap(base_, pages * page);
  }

  static std::byte stored(std::size_t p) { return static_cast<std::byte>(p % 251); }
  std::byte read(std::size_t p) const { return const_cast<const volatile std::byte&>(base_[p * page + 5]); }
  void write(std::size_t p, std::byte value = std::byte{255}) {
    const_cast<volatile std::byte&>(base_[p * page + 5]) = value;
  }

  // The runs found in pages [first, last), as pairs of first page and page count.
  std::vector<std::pair<std::size_t, std::size_t>> found_runs(std::size_t first = 0, std::size_t last = pages) {
    std::vector<std::pair<std::size_t, std::size_t>> runs;
    for_each_private_copy(base_ + first * page, (last - first) * page, [&](page_run run) {
      EXPECT_EQ(run.length % page, 0u);
      runs.emplace_back(static_cast<std::size_t>(run.address - base_) / page, run.length / page);
    });
    return runs;
  }

  // Expects exactly the copied pages in [first, last), in maximal runs, or one run if nothing can be known.
  void expect_found(const std::set<std::size_t>& copied, std::size_t first = 0, std::size_t last = pages) {
    std::vector<std::pair<std::size_t, std::size_t>> runs;
    if (GetParam() == page_mechanism::none) {
      if (last > first) runs.emplace_back(first, last - first);
    } else {
      for (const std::size_t p : copied) {
        if (p < first || p >= last) continue;
        if (!runs.empty() && runs.back().first + runs.back().second == p) {
          ++runs.back().second;
        } else {
          runs.emplace_back(p, 1);
        }
      }
    }
    EXPECT_EQ(found_runs(first, last), runs);
  }

  page_run run_of(std::size_t first, std::size_t count) { return {base_ + first * page, count * page}; }

  const scratch_directory scratch_;
  std::unique_ptr<file> file_;
  std::byte* base_ = nullptr;
};

TEST_P(private_copies, are_exactly_the_written_pages) {
  expect_found({});
  for (std::size_t p = 0; p < pages; p += 3) ASSERT_EQ(read(p), stored(p));  // reading copies nothing
  expect_found({});
  for (const std::size_t p : {0ul, 1ul, 7ul, 100ul, 101ul, 102ul, pages - 1}) write(p);
  write(50, stored(50));  // the same value again is a write, too
  expect_found({0, 1, 7, 50, 100, 101, 102, pages - 1});
  expect_found({0, 1, 7, 50, 100, 101, 102, pages - 1}, 1, 102);
  expect_found({}, 8, 50);
  expect_found({}, 8, 8);
}

TEST_P(private_copies, include_what_the_kernel_wrote) {
  ASSERT_EQ(file_->read_at(0, bytes(base_ + 20 * page, 2 * page)), 2 * page);  // read(2) into the mapping
  expect_found({20, 21});
}

TEST_P(private_copies, can_be_made_without_a_change) {
  make_private(base_ + 7 * page);
  (void)read(9);
  make_private(base_ + 9 * page + page - 1);
  for (const std::size_t p : {7ul, 9ul}) EXPECT_EQ(read(p), stored(p));
  expect_found({7, 9});
}

TEST_P(private_copies, may_be_more_than_fit_into_a_batch) {
  std::set<std::size_t> odd;
  for (std::size_t p = 1; p < pages; p += 2) {
    write(p);
    odd.insert(p);
  }
  expect_found(odd);
}

TEST_P(private_copies, may_be_one_long_run) {
  std::set<std::size_t> all;
  for (std::size_t p = 0; p < pages; ++p) {
    write(p);
    all.insert(p);
  }
  expect_found(all);
}

TEST_P(private_copies, show_the_file_again_when_dropped) {
  for (const std::size_t p : {3ul, 4ul, 9ul}) write(p);
  const std::string changed(page, 'x');
  file_->write_at(4 * page, as_bytes(changed));
  file_->write_at(5 * page, as_bytes(changed));
  EXPECT_EQ(read(4), std::byte{255});  // a private copy hides the file
  EXPECT_EQ(read(5), std::byte{'x'});  // without one, the file shows at once
  const page_run runs[] = {run_of(3, 2)};
  drop_private_copies(runs);
  EXPECT_EQ(read(3), stored(3));
  EXPECT_EQ(read(4), std::byte{'x'});
  EXPECT_EQ(read(9), std::byte{255});
  expect_found({9});
}

TEST_P(private_copies, are_dropped_in_any_number_of_runs) {
  drop_private_copies({});
  for (const std::size_t count : {1ul, 3ul, 4ul, 5ul, 1023ul, 1024ul, 1025ul, 2200ul}) {
    page_runs runs;
    for (std::size_t p = 0; p < 2 * count; ++p) write(p);
    for (std::size_t p = 0; p < 2 * count; p += 2) {
      runs.push_back(run_of(p, 1));
      runs.push_back(run_of(p + 1, 0));  // empty runs are nothing
    }
    runs.push_back(run_of(2 * count - 1, 1));
    drop_private_copies(runs);
    std::set<std::size_t> left;
    for (std::size_t p = 1; p < 2 * count - 1; p += 2) left.insert(p);
    expect_found(left);
    drop_private_copies(std::vector<page_run>{run_of(0, pages)});
    expect_found({});
  }
}

TEST_P(private_copies, are_dropped_although_locked_into_memory) {
  write(1);
  write(3);
  if (::mlock(base_ + page, page) != 0) GTEST_SKIP() << "mlock is not permitted";
  drop_private_copies(std::vector<page_run>{run_of(0, 1), run_of(1, 1), run_of(2, 1), run_of(3, 1)});
  EXPECT_EQ(read(1), stored(1));
  EXPECT_EQ(read(3), stored(3));
  expect_found({});
}

TEST_P(private_copies, cannot_be_dropped_where_no_page_begins) {
  std::vector<page_run> runs{run_of(0, 1), run_of(1, 1), run_of(2, 1), run_of(3, 1)};
  runs[2].address += 1;
  write(0);
  write(3);
  expect_error(std::errc::invalid_argument, {"cannot give back the memory of"}, [&] { drop_private_copies(runs); });
}

TEST_P(private_copies, of_a_child_are_its_own) {
  write(1);
  EXPECT_EQ(in_child([&] {
              write(8);
              expect_found({1, 8});
              drop_private_copies(std::vector<page_run>{run_of(0, 2), run_of(2, 1), run_of(3, 1), run_of(4, 5)});
              expect_found({});
              return HasFailure() ? 1 : 0;
            }),
            0);
  EXPECT_EQ(read(1), std::byte{255});
  expect_found({1});
}

// The obvious twin: a set of pages, in a random order of reads, writes, drops and scans.
TEST_P(private_copies, agree_with_a_model) {
  const auto seed = static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  std::set<std::size_t> copied;
  for (int step = 0; step < 300 && !HasFailure(); ++step) {
    const std::size_t first = below(pages), last = std::min(pages, first + 1 + below(40));
    switch (below(4)) {
      case 0:
        for (std::size_t p = first; p < last; ++p) ASSERT_EQ(read(p), copied.contains(p) ? std::byte{255} : stored(p));
        break;
      case 1:
        for (std::size_t p = first; p < last; p += 1 + below(3)) {
          write(p);
          copied.insert(p);
        }
        break;
      case 2: {
        page_runs runs;
        for (std::size_t p = first; p < last; p += 5) {
          const std::size_t count = std::min(last - p, 1 + below(4));
          runs.push_back(run_of(p, count));
          for (std::size_t q = p; q < p + count; ++q) copied.erase(q);
        }
        drop_private_copies(runs);
        break;
      }
      default: expect_found(copied, first, std::min(pages, first + 1 + below(pages))); break;
    }
  }
  expect_found(copied);
}

INSTANTIATE_TEST_SUITE_P(by, private_copies,
                         ::testing::Values(page_mechanism::best, page_mechanism::pagemap_file, page_mechanism::none),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tenure::os
