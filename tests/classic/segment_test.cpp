// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The segment loader: the same addresses every time, never over anything.
#include "classic/library.hpp"
#include "classic/scenario.hpp"
#include "sim/disk.hpp"

#include <filesystem>
#include <vector>

#include <sys/mman.h>

namespace tenure::classic {
namespace {

char* const base = fixed_address(1);

rvm_region_def_t def_of(char* address, unsigned long length) {
  rvm_region_def_t def;
  RVM_INIT_REGION(def, RVM_MK_OFFSET(0, 0), length, address);
  return def;
}

class classic_segment : public classic_test {
 protected:
  std::string town = dir / "town";
  void SetUp() override {
    classic_test::SetUp();
    write_file(town, "");
  }
  void init() {
    options_for options(log);
    EXPECT_OK(RVM_INIT(&options));
  }
  rvm_return_t create(std::vector<rvm_region_def_t> defs) {
    return rvm_create_segment(town.data(), {0, 0}, nullptr, defs.size(), defs.data());
  }
  rvm_return_t load() { return rvm_load_segment(town.data(), {0, 0}, nullptr, &count, &loaded); }

  unsigned long count = 0;
  rvm_region_def_t* loaded = nullptr;
};

TEST_F(classic_segment, same_addresses_every_time) {
  in_process([&] {
    init();
    EXPECT_OK(create({def_of(base + 8 * page, 2 * page), def_of(base, page)}));
    EXPECT_EQ(std::filesystem::file_size(town), 4 * page);
    EXPECT_OK(load());
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(loaded[0].vmaddr, base + 8 * page);
    EXPECT_EQ(loaded[0].offset.low, page);
    EXPECT_EQ(loaded[1].vmaddr, base);
    EXPECT_EQ(loaded[1].offset.low, 3 * page);
    EXPECT_CODE(RVM_EOVERLAP, load());  // no part of a segment is mapped twice: the page can be read, the regions not
    char* const target = base + 8 * page;
    put(base, {reinterpret_cast<const char*>(&target), sizeof target});
    put(target, "pointed to");
  });
  for (const rvm_length_t flags : {0, RVM_MAP_PRIVATE})
    in_process([&] {
      options_for options(log, flags);
      EXPECT_OK(RVM_INIT(&options));
      EXPECT_OK(load());
      EXPECT_STREQ(*reinterpret_cast<char**>(base), "pointed to");
      EXPECT_OK(rvm_release_segment(count, &loaded));
      EXPECT_EQ(loaded, nullptr);
      EXPECT_CODE(RVM_EREGION, rvm_release_segment(count, &loaded));
      EXPECT_OK(load());  // the addresses are free again
      rvm_tid_t tid = begun();
      EXPECT_OK(rvm_set_range(&tid, base, 1));
      EXPECT_CODE(RVM_EUNCOMMIT, rvm_release_segment(count, &loaded));
      EXPECT_OK(rvm_abort_transaction(&tid));
      EXPECT_OK(rvm_release_segment(count, &loaded));
    });
}

TEST_F(classic_segment, an_address_that_is_taken) {
  in_process([&] {
    init();
    EXPECT_OK(create({def_of(base, page), def_of(base + page, page)}));
    void* const theirs = ::mmap(base + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_EQ(theirs, base + page);
    std::memcpy(theirs, "theirs", 7);
    EXPECT_CODE(RVM_EVM_OVERLAP, load());
    EXPECT_STREQ(static_cast<char*>(theirs), "theirs");
    ::munmap(theirs, page);
    EXPECT_OK(load());  // nothing was left of the attempt
  });
}

TEST_F(classic_segment, number_of_regions) {
  in_process([&] {
    init();
    std::vector<rvm_region_def_t> defs;
    for (unsigned long i = 0; i < 128; ++i) defs.push_back(def_of(base + 2 * i * page, page));
    EXPECT_CODE(RVM_ERANGE, create(defs));
    EXPECT_CODE(RVM_ERANGE, create({}));
    defs.pop_back();
    EXPECT_OK(create(defs));
    EXPECT_OK(load());
    EXPECT_EQ(count, RVM_SEGMENT_HDR_SIZE / sizeof(rvm_region_def_t) - 1);
    EXPECT_EQ(loaded[126].vmaddr, base + 252 * page);
  });
}

TEST_F(classic_segment, regions_that_make_no_sense) {
  in_process([&] {
    init();
    EXPECT_CODE(RVM_ERANGE, create({def_of(base, 2 * page), def_of(base + page, page)}));
    EXPECT_CODE(RVM_ERANGE, create({def_of(base, page), def_of(base, page)}));
    EXPECT_CODE(RVM_ERANGE, create({def_of(base + 1, page)}));
    EXPECT_CODE(RVM_ERANGE, create({def_of(base, 100)}));
    EXPECT_CODE(RVM_ERANGE, create({def_of(base, 0)}));
    EXPECT_CODE(RVM_ERANGE, create({def_of(nullptr, page)}));
    EXPECT_CODE(RVM_ERANGE, create({def_of(base, ~0ul - page + 1)}));
    EXPECT_CODE(RVM_ERANGE, rvm_create_segment(town.data(), {0, 0}, nullptr, 1, nullptr));
    EXPECT_EQ(std::filesystem::file_size(town), 0u);
    std::string none = dir / "none";
    rvm_region_def_t def = def_of(base, page);
    EXPECT_CODE(RVM_EIO, rvm_create_segment(none.data(), {0, 0}, nullptr, 1, &def));
    EXPECT_CODE(RVM_EREGION, rvm_create_segment(nullptr, {0, 0}, nullptr, 1, &def));
  });
}

TEST_F(classic_segment, headers_that_are_none) {
  in_process([&] {
    init();
    EXPECT_CODE(RVM_ESEGMENT_HDR, load());  // an empty file
    write_file(town, std::string(4 * page, '\0'));
    EXPECT_CODE(RVM_ESEGMENT_HDR, load());
    EXPECT_OK(create({def_of(base, page)}));
    EXPECT_OK(rvm_truncate());
    const std::string good = contents_of(town);
    for (const std::size_t at : {0u, 12u, 16u, 40u, 48u, 4095u}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      write_file(town, bad);
      EXPECT_CODE(RVM_ESEGMENT_HDR, load());
    }
    std::string other_version = good;
    other_version[8] = 2;
    write_file(town, other_version);
    EXPECT_CODE(RVM_EVERSION_SKEW, load());
    // A file that was cut: rvm_map would end the region there.
    write_file(town, good.substr(0, 2048));
    EXPECT_CODE(RVM_ESEGMENT_HDR, load());
    write_file(town, good.substr(0, page + 512));
    EXPECT_CODE(RVM_EOFFSET, load());
    write_file(town, good);
    EXPECT_OK(load());
    EXPECT_CODE(RVM_EREGION, rvm_load_segment(town.data(), {0, 0}, nullptr, nullptr, nullptr));
  });
}

// A transaction begins to use the second region when the first is being unmapped: what is still mapped is released later.
TEST_F(classic_segment, is_released_by_a_second_try) {
  in_process([&] {
    sim::disk disk;
    the_library().disk = &disk;
    disk.install("/d/town", {});
    town = "/d/town";
    options_for options("/d/log");
    options.options.create_log_file = rvm_true;
    options.options.create_log_size = {0, 64 * 1024};
    options.options.create_log_mode = 0600;
    EXPECT_OK(RVM_INIT(&options));
    EXPECT_OK(create({def_of(base, page), def_of(base + page, page), def_of(base + 2 * page, page)}));
    EXPECT_OK(load());
    put(base, "first");
    put(base + 2 * page, "third");
    rvm_tid_t tid = begun();
    bool has_begun = false;
    disk.on_operation([&](const sim::trace_entry& e) {
      if (has_begun || e.path != "/d/town") return;
      has_begun = true;
      EXPECT_OK(rvm_set_range(&tid, base + page, 8));
    });
    EXPECT_CODE(RVM_EUNCOMMIT, rvm_release_segment(count, &loaded));
    EXPECT_TRUE(has_begun);
    ASSERT_NE(loaded, nullptr);
    EXPECT_CODE(RVM_EUNCOMMIT, rvm_release_segment(count, &loaded));
    ASSERT_NE(loaded, nullptr);
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_OK(rvm_release_segment(count, &loaded));
    EXPECT_EQ(loaded, nullptr);
    EXPECT_OK(load());
    EXPECT_STREQ(base, "first");
    EXPECT_STREQ(base + 2 * page, "third");
    EXPECT_OK(rvm_release_segment(count, &loaded));
  });
}

}  // namespace
}  // namespace tenure::classic
