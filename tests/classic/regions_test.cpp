// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvm_map and rvm_unmap: what is rounded, what is refused, and that nothing is ever mapped over anything.
#include "classic/scenario.hpp"

#include <filesystem>

#include <sys/mman.h>

#include "support/small_memory.hpp"

namespace tenure::classic {
namespace {

class classic_regions : public classic_test {};

TEST_F(classic_regions, a_whole_file) {
  in_process([&] {
    rvm_region_t region = open();
    EXPECT_EQ(region.length, segment_length);
    EXPECT_TRUE(RVM_OFFSET_EQL_ZERO(region.offset));
    EXPECT_NE(region.vmaddr, nullptr);
    EXPECT_OK(rvm_unmap(&region));
  });
}

TEST_F(classic_regions, rounding) {
  std::string odd = dir / "odd";
  write_file(odd, std::string(page + 512 + 100, 'x'));
  for (const rvm_length_t flags : {0, RVM_MAP_PRIVATE}) {
    in_process([&] {
      open(flags);
      rvm_region_t region = region_of(odd);
      EXPECT_OK(rvm_map(&region, nullptr));
      EXPECT_EQ(region.length, page + 512);
      EXPECT_EQ(region.vmaddr[page + 511], 'x');
      rvm_tid_t tid = begun();
      EXPECT_CODE(RVM_ENOT_MAPPED, rvm_set_range(&tid, region.vmaddr + page + 511, 2));
      EXPECT_OK(rvm_abort_transaction(&tid));
      EXPECT_OK(rvm_unmap(&region));
      region = region_of(odd, 10, 20);  // not at the file's end: whole pages
      EXPECT_OK(rvm_map(&region, nullptr));
      EXPECT_EQ(region.offset.low, 0u);
      EXPECT_EQ(region.length, page);
      EXPECT_OK(rvm_unmap(&region));
      for (const rvm_length_t length : {20ul, page, 10 * page}) {  // to its end
        region = region_of(odd, page + 10, length);
        EXPECT_OK(rvm_map(&region, nullptr));
        EXPECT_EQ(region.offset.low, page);
        EXPECT_EQ(region.length, 512u);
        EXPECT_OK(rvm_unmap(&region));
      }
    });
  }
  EXPECT_EQ(contents_of(odd), std::string(page + 612, 'x'));
}

// A commit in the file's last block, which truncation, unmapping, or recovery writes; and nothing behind it.
TEST_F(classic_regions, the_file_stays_as_long_as_it_is) {
  std::string odd = dir / "odd";
  for (const rvm_length_t flags : {0, RVM_MAP_PRIVATE})
    for (const int end : {0, 1, 2}) {
      write_file(odd, std::string(page + 512 + 100, 'x'));
      in_process([&] {
        open(flags);
        rvm_region_t region = region_of(odd);
        EXPECT_OK(rvm_map(&region, nullptr));
        put(region.vmaddr + page + 508, "last");
        put(region.vmaddr, "first");
        if (end == 0) EXPECT_OK(rvm_truncate());
        if (end == 1) EXPECT_OK(rvm_unmap(&region));
      });
      in_process([&] {
        open(flags);
        rvm_region_t region = region_of(odd);
        EXPECT_OK(rvm_map(&region, nullptr));
        EXPECT_EQ(region.length, page + 512);
        EXPECT_EQ(std::string(region.vmaddr + page + 507, 5), "xlast");
      });
      EXPECT_EQ(contents_of(odd), "first" + std::string(page + 503, 'x') + "last" + std::string(100, 'x'))
          << flags << end;
    }
}

TEST_F(classic_regions, codes) {
  in_process([&] {
    options_for options(log);
    EXPECT_OK(RVM_INIT(&options));
    rvm_region_t region = region_of(segment);
    EXPECT_CODE(RVM_EREGION, rvm_map(nullptr, nullptr));
    rvm_region_t wrong = region;
    wrong.struct_id = rvm_tid_id;
    EXPECT_CODE(RVM_EREGION, rvm_map(&wrong, nullptr));
    wrong = region;
    wrong.data_dev = nullptr;
    EXPECT_CODE(RVM_EREGION, rvm_map(&wrong, nullptr));
    std::string long_name(MAXPATHLEN, 'x'), none = dir / "none", tiny = dir / "tiny";
    wrong = region_of(long_name);
    EXPECT_CODE(RVM_ENAME_TOO_LONG, rvm_map(&wrong, nullptr));
    wrong = region_of(none);
    EXPECT_CODE(RVM_EIO, rvm_map(&wrong, nullptr));
    rvm_options_t bad_options;
    std::memset(&bad_options, 0, sizeof bad_options);
    EXPECT_CODE(RVM_EOPTIONS, rvm_map(&region, &bad_options));
    options.options.pager = const_cast<char*>("pager");
    EXPECT_CODE(RVM_EPAGER, rvm_map(&region, &options));
    options.options.pager = nullptr;
    wrong = region;
    wrong.vmaddr = fixed_address(4) + 1;
    EXPECT_CODE(RVM_ERANGE, rvm_map(&wrong, nullptr));
    write_file(tiny, std::string(511, 'x'));
    wrong = region_of(tiny);
    EXPECT_CODE(RVM_EOFFSET, rvm_map(&wrong, nullptr));
    wrong = region_of(segment, segment_length);
    EXPECT_CODE(RVM_EOFFSET, rvm_map(&wrong, nullptr));
    wrong = region_of(segment, page, ~0ul);
    EXPECT_CODE(RVM_EOFFSET, rvm_map(&wrong, nullptr));
    wrong = region;
    wrong.offset = RVM_MK_OFFSET(1, 0);
    EXPECT_CODE(RVM_EOFFSET, rvm_map(&wrong, nullptr));
    EXPECT_OK(rvm_map(&region, &options));
    wrong = region_of(segment, page, page);
    EXPECT_CODE(RVM_EOVERLAP, rvm_map(&wrong, nullptr));
  });
}

TEST_F(classic_regions, at_an_address) {
  in_process([&] {
    options_for options(log);
    EXPECT_OK(RVM_INIT(&options));
    auto* const here = static_cast<char*>(support::free_address(segment_length));
    rvm_region_t first = region_of(segment, 0, page), second = region_of(segment, page, page);
    first.vmaddr = here;
    EXPECT_OK(rvm_map(&first, nullptr));
    EXPECT_EQ(first.vmaddr, here);
    second.vmaddr = here;  // over a region
    EXPECT_CODE(RVM_EVM_OVERLAP, rvm_map(&second, nullptr));
    void* const theirs = ::mmap(here + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_EQ(theirs, here + page);
    std::memcpy(theirs, "theirs", 7);
    second.vmaddr = here + page;  // over something of the program's
    EXPECT_CODE(RVM_EVM_OVERLAP, rvm_map(&second, nullptr));
    EXPECT_STREQ(static_cast<char*>(theirs), "theirs");
    ::munmap(theirs, page);
    EXPECT_OK(rvm_map(&second, nullptr));
    put(second.vmaddr, "b");
    put(first.vmaddr, "a");
  });
  EXPECT_EQ(recovered(0, 1) + recovered(page, 1), "ab");
}

TEST_F(classic_regions, unmap) {
  in_process([&] {
    rvm_region_t region = open();
    EXPECT_CODE(RVM_EREGION, rvm_unmap(nullptr));
    rvm_region_t wrong = region;
    wrong.struct_id = rvm_options_id;
    EXPECT_CODE(RVM_EREGION, rvm_unmap(&wrong));
    wrong = region_of(segment);
    EXPECT_CODE(RVM_ENOT_MAPPED, rvm_unmap(&wrong));
    wrong = region;
    wrong.length -= page;
    EXPECT_CODE(RVM_ERANGE, rvm_unmap(&wrong));
    wrong = region;
    wrong.vmaddr += page;
    EXPECT_CODE(RVM_ERANGE, rvm_unmap(&wrong));

    rvm_tid_t tid = begun();
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "x", 1));
    EXPECT_CODE(RVM_EUNCOMMIT, rvm_unmap(&region));
    EXPECT_OK(rvm_end_transaction(&tid, no_flush));
    char* const was = region.vmaddr;
    EXPECT_OK(rvm_unmap(&region));
    EXPECT_CODE(RVM_ENOT_MAPPED, rvm_unmap(&region));
    tid = begun();
    EXPECT_CODE(RVM_ENOT_MAPPED, rvm_set_range(&tid, was, 1));
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_EQ(contents_of(segment).front(), 'x');
    // And again, at another place.
    rvm_region_t again = region_of(segment, 0, page);
    EXPECT_OK(rvm_map(&again, nullptr));
    EXPECT_EQ(again.vmaddr[0], 'x');
  });
}

TEST_F(classic_regions, no_copy) {
  in_process([&] {
    options_for options(log);
    EXPECT_OK(RVM_INIT(&options));
    rvm_region_t region = region_of(segment);
    region.no_copy = rvm_true;
    EXPECT_OK(rvm_map(&region, nullptr));
    put(region.vmaddr + 5, "here");
  });
  EXPECT_EQ(recovered(5, 4), "here");
}

}  // namespace
}  // namespace tenure::classic
