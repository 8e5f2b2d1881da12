// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores whose files do not belong together: missing, of another store, or of another moment. They are refused, by name, and
// nothing is made anew or removed.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tenure/rvm/memory.hpp>

#include "log/log_files.hpp"
#include "objects/format.hpp"
#include "records/format.hpp"
#include "segments/segment.hpp"
#include "support/expect_error.hpp"
#include "support/small_image.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;
using namespace tenure::support::image_types;

namespace {

using file_bytes = std::vector<std::byte>;
using file_set = std::map<std::string, file_bytes>;

class files_together : public ::testing::Test {
 protected:
  files_together() {
    make_image(disk, home);
    first = files();
  }
  file_set files() { return files_of(disk); }
  void install(const file_set& all) {
    for (const std::string& name : disk.names())
      if (!all.contains(name)) disk.remove(name);
    for (const auto& [name, bytes] : all) disk.install(name, bytes);
  }
  store_options how(rvm::open_mode mode = rvm::open_mode::open_or_create) {
    store_options h = image_options(disk, home);
    h.mode = mode;
    return h;
  }
  // Changes both databases.
  static void change(store& s) {
    s.transact([&] {
      ++s.root<catalog>("catalog").large->bytes[0];
      ++s.find_database("more")->root<part>("first").number;
    });
  }
  void use(int times = 1) {
    store s(image_path, how());
    for (int n = 0; n < times; ++n) change(s);
    s.close();
  }
  template <class Code>
  void refused(Code code, std::initializer_list<std::string> parts) {
    const file_set before = files();
    for (const auto mode : {rvm::open_mode::open_or_create, rvm::open_mode::open, rvm::open_mode::read_only})
      expect_error(code, parts, [&] { const store s(image_path, how(mode)); });
    for (const auto& [name, bytes] : before) EXPECT_TRUE(disk.exists(name)) << name;
    for (const std::string& name : disk.names()) EXPECT_TRUE(before.contains(name)) << name << " was made";
  }
  // Puts this file in place; with the log's manifest all files of the log.
  void replace(const std::string& name, const file_set& with) {
    for (const auto& [file, bytes] : with)
      if (file == name || (name == log && file.starts_with(log))) disk.install(file, bytes);
  }
  static file_set files_of(const sim::disk& of) {
    file_set all;
    for (const std::string& name : of.names()) all[name] = of.current_bytes(name);
    return all;
  }
  void sound() {
    store s(image_path, how());
    expect_sound(s);
    s.close();
  }

  const std::string main = "/store/main.db", more = "/store/more.db", log = "/store/log";
  sim::disk disk;
  const std::uint64_t home = next_home(2 * image_reservation);
  file_set first;
};

TEST_F(files_together, that_are_missing_are_not_made_anew) {
  for (const std::string& missing : {main, more, log}) {
    SCOPED_TRACE(missing);
    install(first);
    disk.remove(missing);
    refused(std::errc::no_such_file_or_directory, {missing, "missing"});
    disk.install(missing, first[missing]);
    sound();
  }
  disk.remove(log);
  refused(std::errc::no_such_file_or_directory, {log, "tenure log renew /store/log"});
  // Left by a crash while the store was being made: nothing was ever in it.
  sim::disk fresh;
  {
    store_options h = image_options(fresh, home);
    rvm::memory::create_log(log, h.memory.log, {}, &fresh);
    store s(image_path, h);
    expect_sound(s);
  }
}

TEST_F(files_together, of_another_store_are_refused) {
  sim::disk elsewhere;
  make_image(elsewhere, home);
  for (const std::string& wrong : {main, more, log}) {
    SCOPED_TRACE(wrong);
    install(first);
    replace(wrong, files_of(elsewhere));
    refused(errc::wrong_log, {wrong == log ? main : wrong, "another one's file"});
    replace(wrong, first);
    sound();
  }
  // A single file of the log.
  install(first);
  disk.install(log + ".1", elsewhere.current_bytes(log + ".1"));
  refused(errc::wrong_log, {log + ".1", "of another log"});
  install(first);
  // One that nothing was ever committed to.
  sim::disk fresh;
  {
    rvm::options h = image_options(fresh, home).memory;
    rvm::memory m(log, h);
    m.create_segment(main, {.length = rvm::round_up(heap::bookkeeping_size, 1 << 20),
                            .max_length = image_reservation - heap::vtable_area,
                            .home = home + heap::vtable_area,
                            .tag = heap::database_tag});
  }
  disk.install(main, fresh.current_bytes(main));
  refused(errc::wrong_log, {main, "another one's file"});
  // The right one, but nothing is in it.
  install(first);
  const std::uint64_t data = rvm::read_segment_header(disk, main).data_offset;
  disk.poke(main, data, file_bytes(heap::bookkeeping_size));
  refused(errc::damaged, {main, "is empty", "another store"});
}

TEST_F(files_together, that_are_older_than_the_others_are_refused) {
  use(3);
  const file_set later = files();
  for (const std::string& old : {main, more, log}) {
    SCOPED_TRACE(old);
    install(later);
    replace(old, first);
    refused(errc::wrong_log, {old == log ? main : old, "older copy", "same moment"});
    try {
      const store s(image_path, how());
    } catch (const error& e) {
      EXPECT_EQ(std::string(e.what()).find("log renew"), std::string::npos)
          << "it would make files of several moments one";
    }
    install(later);
    sound();
  }
  install(first);
  sound();
}

// Copies of databases from after the log was renewed, when they knew no log.
TEST_F(files_together, that_knew_no_log_are_refused_later) {
  for (const std::string& name : disk.names())
    if (name.starts_with(log)) disk.remove(name);
  rvm::memory::create_log(log, how().memory.log, {}, &disk);
  {
    const auto made = rvm::log_files::open(disk, log, os::access::read_write);
    rvm::manifest status = made->status();
    for (const std::string& path : {main, more}) {
      rvm::segment in(disk, path, path, os::access::read_write, false);
      in.detach_from_log();
      status.segments.push_back({{in.id(), 0, 0, 0, 0, rvm::full_member}, std::filesystem::path(path).filename()});
    }
    made->write_status(status);
  }
  const file_set renewed = files();
  use(3);
  const file_set later = files();
  std::unique_ptr<sim::disk> crashed;
  {
    store_options h = how();
    h.memory.tune.truncation_threshold = 2;
    store s(image_path, h);
    for (int n = 0; n < 4; ++n) change(s);
    crashed = disk.crash(1, sim::policy::keep_all);
  }
  for (const std::string& old : {main, more}) {
    SCOPED_TRACE(old);
    install(later);
    disk.install(old, renewed.at(old));
    refused(errc::wrong_log, {old, "older copy", "same moment"});
    for (const std::string& name : crashed->names()) disk.install(name, crashed->current_bytes(name));
    disk.install(old, renewed.at(old));
    for (const auto mode : {rvm::open_mode::open, rvm::open_mode::read_only})
      expect_error(errc::wrong_log, {old, "older copy"}, [&] { const store s(image_path, how(mode)); });
  }
  install(renewed);
  sound();
  // The log of before the renewal, which has the same databases.
  install(later);
  replace(log, first);
  refused(errc::wrong_log, {main, "another log than /store/log"});
  // A log that lists no databases, though it was used.
  install(later);
  {
    const auto opened = rvm::log_files::open(disk, log, os::access::read_write);
    rvm::manifest status = opened->status();
    status.segments.clear();
    opened->write_status(status);
  }
  refused(std::errc::no_such_file_or_directory, {main, "missing"});
}

// A crash, and an older copy of a database beside what it has left.
TEST_F(files_together, that_are_older_are_refused_after_a_crash) {
  for (const bool truncated : {false, true}) {
    install(first);
    use();
    std::unique_ptr<sim::disk> left;
    {
      store_options h = how();
      h.memory.tune.truncation_threshold = truncated ? 0 : 2;
      store s(image_path, h);
      for (int n = 0; n < 4; ++n) change(s);
      left = disk.crash(1, sim::policy::keep_all);
    }
    for (const std::string& old : {main, more}) {
      SCOPED_TRACE(old);
      for (const std::string& name : left->names()) disk.install(name, left->current_bytes(name));
      disk.install(old, first[old]);
      for (const auto mode : {rvm::open_mode::open, rvm::open_mode::read_only})
        expect_error(errc::wrong_log, {old, "older copy"}, [&] { const store s(image_path, how(mode)); });
      disk.install(old, left->current_bytes(old));
      sound();
    }
  }
}

// Files that are copied one after the other while the store is in use.
TEST_F(files_together, copied_while_they_were_in_use_are_refused_or_whole) {
  const std::string files_of_log = log + ".";
  const std::vector<std::vector<std::string>> orders = {
      {log, files_of_log, main, more}, {main, more, log, files_of_log}, {main, log, files_of_log, more},
      {more, files_of_log, log, main}, {log, main, more, files_of_log}, {files_of_log, main, more, log}};
  std::size_t refusals = 0, opened = 0;
  for (const auto& order : orders)
    for (const double threshold : {0.0, 2.0}) {
      SCOPED_TRACE(order.front() + " first, threshold " + std::to_string(threshold));
      install(first);
      file_set copy;
      {
        store_options h = how();
        h.memory.tune.truncation_threshold = threshold;
        store s(image_path, h);
        for (const std::string& name : order) {
          for (int n = 0; n < 3; ++n) change(s);
          for (const auto& [file, bytes] : files())
            if (file == name || (name == files_of_log && file.starts_with(name))) copy[file] = bytes;
        }
        s.close();
      }
      install(copy);
      try {
        store s(image_path, how());
        EXPECT_EQ(threshold, 2.0) << "files of different moments were opened";
        expect_sound(s);
        // Each commit counts both up.
        const auto here = s.root<catalog>("catalog").large->bytes[0] - 's';
        EXPECT_EQ(s.find_database("more")->root<part>("first").number % 100, static_cast<std::uint64_t>(here) % 100);
        s.close();
        ++opened;
      } catch (const error& e) {
        EXPECT_TRUE(e.code() == errc::wrong_log || e.code() == errc::damaged) << e.what();
        EXPECT_EQ(threshold, 0.0) << e.what();
        ++refusals;
      }
    }
  EXPECT_EQ(refusals, orders.size());
  EXPECT_EQ(opened, orders.size());
}

// A file that no store here knows is not thrown away.
TEST_F(files_together, in_the_way_of_a_new_database_are_kept) {
  sim::disk elsewhere;
  {
    store s(image_path, image_options(elsewhere, home));
    s.close();
  }
  elsewhere.install(more, first[more]);
  elsewhere.install("/store/text.db", file_bytes(100, std::byte{'x'}));
  store s(image_path, image_options(elsewhere, home));
  const database_options where{.reservation = image_reservation, .home = home + image_reservation};
  for (const char* name : {"more", "text"})
    expect_error(std::errc::file_exists, {std::string("/store/") + name + ".db", "move it away"},
                 [&] { (void)s.create_database(name, where); });
  EXPECT_TRUE(elsewhere.current_bytes(more) == first[more]);
  elsewhere.remove(more);
  (void)s.create_database("more", where);
}

}  // namespace
