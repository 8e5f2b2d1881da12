// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A closed store of which bytes are damaged: it is refused, or the verifier says which object it is and how a program gets to
// it. Nothing crashes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "objects/object_text.hpp"
#include "objects/object_walk.hpp"
#include "os/system_error.hpp"
#include "records/format.hpp"
#include "store/store_state.hpp"
#include "support/expect_error.hpp"
#include "support/model.hpp"
#include "support/small_image.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;
using namespace tenure::support::image_types;

namespace {

using rvm::testing::random_source;
using rvm::testing::scaled;

struct stored_object {
  heap::address header, begin, end;
  std::string text, path;  // as the verifier has them
  // Of the heap itself, or a name in its tables.
  [[nodiscard]] bool is_internal() const {
    return path.starts_with("types of") || path.starts_with("roots of") || path.starts_with("databases of");
  }
};

struct outcome {
  std::string error;  // of opening; empty: it opened
  std::vector<std::string> found;
  [[nodiscard]] bool nothing() const { return error.empty() && found.empty(); }
  // What mentions all of these.
  [[nodiscard]] bool says(std::initializer_list<std::string> parts) const {
    const auto has_all = [&](const std::string& line) {
      return std::ranges::all_of(parts, [&](const std::string& p) { return line.find(p) != line.npos; });
    };
    return has_all(error) || std::ranges::any_of(found, has_all);
  }
};

class store_damage : public ::testing::Test {
 protected:
  store_damage() {
    make_image(disk, home);
    store_options how = image_options(disk, home);
    how.mode = rvm::open_mode::read_only;
    const store_state state(image_path, how);
    heap::reachable_objects all(*state.databases);
    all.search();
    for (const auto& d : *state.databases) {
      const std::string& file = d->file;
      rvm::segment_header h;
      std::memcpy(&h, disk.current_bytes(file).data(), sizeof h);
      files.push_back({file, h.data_offset, h.length, d->home, d->header().blocks_end});
      d->map->for_each_persistent(0, d->header().blocks_end, [&](heap::address object) {
        const heap::object_facts facts = d->map->facts(object);
        objects.push_back(
            {facts.begin, object, object + facts.size, heap::object_text(*state.databases, object), all.path(object)});
        EXPECT_NE(objects.back().path, "") << objects.back().text;
      });
    }
  }

  struct file_layout {
    std::string path;
    std::uint64_t data_offset, length, home, blocks_end;
  };
  [[nodiscard]] const stored_object* object_at(heap::address at) const {
    for (const stored_object& o : objects)
      if (at >= o.header && at < o.end) return &o;
    return nullptr;
  }

  // Opens what is on the disk, and looks at everything.
  outcome look(sim::disk& at, rvm::open_mode mode = rvm::open_mode::open) {
    outcome result;
    try {
      store_options how = image_options(at, home);
      how.mode = mode;
      const store s(image_path, how);
      result.found = s.verify();
      const auto mention_path = [&](auto&& f) {
        try {
          f();
        } catch (const error& e) {
          EXPECT_NE(std::string(e.what()).find(image_path), std::string::npos) << e.what();
          EXPECT_FALSE(result.found.empty()) << "the verifier says nothing, but: " << e.what();
        }
      };
      mention_path([&] { (void)s.find_root<catalog>("catalog"); });
      mention_path([&] {
        if (const auto more = s.find_database("more")) (void)more->find_root<part>("first");
      });
      (void)s.root_names();
      (void)s.stats();
      for (const stored_object& o : objects) (void)s.is_persistent(reinterpret_cast<const void*>(o.begin + 1));
    } catch (const error& e) {
      result.error = e.what();
      const bool says_where =
          result.error.find(image_path) != result.error.npos || result.error.find("the database ") == 0;
      EXPECT_TRUE(says_where) << result.error;
    }
    return result;
  }

  void expect_noticed(const file_layout& file, std::uint64_t offset, std::byte with) {
    const auto damaged = disk.crash(1, sim::policy::keep_all);
    const std::byte was = disk.current_bytes(file.path)[offset];
    const std::byte is = was ^ with;
    damaged->poke(file.path, offset, {&is, 1});
    const outcome seen = look(*damaged);
    const auto told = [&] {
      std::string text = file.path + ", offset " + std::to_string(offset) + ": " + seen.error;
      for (std::size_t n = 0; n < std::min<std::size_t>(seen.found.size(), 5); ++n) text += "\n  " + seen.found[n];
      return text;
    };
    if (offset < file.data_offset) return;  // the segment's header and checksums; some of it is there twice
    EXPECT_FALSE(seen.nothing()) << told();
    const heap::address at = file.home + offset - file.data_offset;
    const stored_object* const object = object_at(at);
    if (object == nullptr) {
      const bool in_bookkeeping = at - file.home < heap::bookkeeping_size;
      EXPECT_TRUE(!seen.error.empty() || !in_bookkeeping || seen.says({file.path, "bookkeeping"})) << told();
      return;
    }
    const std::string begin = os::hexadecimal(reinterpret_cast<const void*>(object->begin));
    if (object->is_internal()) {
      EXPECT_TRUE(!seen.error.empty() || seen.says({begin})) << told() << "\n" << object->text;
    } else {
      EXPECT_EQ(seen.error, "") << "an object of the program";
      if (at < object->begin)
        EXPECT_TRUE(seen.says({begin})) << told() << "\n" << object->text;
      else
        EXPECT_TRUE(seen.says({object->text + " (" + object->path + ")"})) << told() << "\n"
                                                                           << object->text << " " << object->path;
    }
  }

  sim::disk disk;
  const std::uint64_t home = next_home(2 * image_reservation);
  std::vector<file_layout> files;
  std::vector<stored_object> objects;
};

}  // namespace

TEST_F(store_damage, none_is_seen_where_there_is_none) {
  EXPECT_TRUE(look(disk).nothing());
  EXPECT_GT(objects.size(), 100u);
  EXPECT_EQ(std::ranges::count_if(objects, [](const auto& o) { return o.text.starts_with("tenure::support::"); }) > 15,
            true);
}

// [heap.damage.said]
TEST_F(store_damage, of_any_byte_that_means_something) {
  struct place {
    const file_layout* file;
    std::uint64_t offset;
  };
  std::vector<place> metadata, data;
  for (const file_layout& file : files) {
    const auto add = [&](std::uint64_t from, std::uint64_t length) {
      for (std::uint64_t n = 0; n < length; ++n) metadata.push_back({&file, file.data_offset + from + n});
    };
    add(0, sizeof(heap::database_header));
    add(heap::zone_kinds_at, 8);
    for (std::uint64_t b = 0; b < file.blocks_end + 2; ++b)
      if (b == 0 || b >= heap::bookkeeping_blocks) add(heap::record_offset(b), sizeof(heap::block_record));
    for (const stored_object& o : objects) {
      if (o.header - file.home >= image_reservation) continue;
      auto& to = o.is_internal() ? metadata : data;
      for (heap::address at = o.header; at < std::min(o.end, o.begin + 4096); ++at)
        to.push_back({&file, file.data_offset + (at - file.home)});
    }
  }
  random_source random(1);
  const auto some_of = [&](std::vector<place>& from, std::uint64_t count) {
    for (std::uint64_t n = 0; n < count && !HasFailure(); ++n) {
      const place& p = from[random.below(from.size())];
      expect_noticed(*p.file, p.offset, static_cast<std::byte>(1 + random.below(255)));
    }
  };
  some_of(metadata, scaled(2500));
  some_of(data, scaled(1000));
}

TEST_F(store_damage, of_any_byte_of_the_files) {
  random_source random(2);
  for (std::uint64_t n = scaled(200); n-- != 0 && !HasFailure();) {
    const file_layout& file = files[random.below(files.size())];
    const std::uint64_t header = random.one_in(3) ? 0 : file.data_offset;
    expect_noticed(file, header + random.below(file.data_offset + file.length - header),
                   static_cast<std::byte>(1 + random.below(255)));
  }
}

// Several places at once, runs of bytes, words that look like others.
TEST_F(store_damage, of_many_bytes) {
  for (std::uint64_t seed = scaled(400); seed-- != 0 && !HasFailure();) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_source random(seed);
    const auto damaged = disk.crash(1, sim::policy::keep_all);
    bool changed = false;
    for (std::uint64_t places = 1 + random.below(6); places-- != 0;) {
      const file_layout& file = files[random.below(files.size())];
      const stored_object& object = objects[random.below(objects.size())];
      if (object.begin - file.home >= image_reservation) continue;
      const std::uint64_t at =
          random.one_in(4)
              ? file.data_offset + random.below(heap::record_offset(heap::bookkeeping_blocks + 4))
              : file.data_offset + (object.header - file.home) + random.below(object.end - object.header) / 8 * 8;
      std::vector<std::byte> bytes(random.one_in(2) ? 8 : 1 + random.below(200));
      bytes.resize(std::min(bytes.size(), file.data_offset + file.length - at));
      switch (random.below(4)) {
        case 0: break;  // zeros
        case 1: std::ranges::fill(bytes, std::byte{0xff}); break;
        case 2: {
          const heap::address word = objects[random.below(objects.size())].header + 8 * random.below(3);
          if (bytes.size() >= sizeof word) std::memcpy(bytes.data(), &word, sizeof word);
          break;
        }
        default: std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random.next()); });
      }
      const auto before = damaged->current_bytes(file.path);
      changed = changed || !std::equal(bytes.begin(), bytes.end(), before.begin() + static_cast<std::ptrdiff_t>(at));
      damaged->poke(file.path, at, bytes);
    }
    EXPECT_EQ(look(*damaged).nothing(), !changed);
  }
}

// Apart from the checksums: that one thing does not fit another is seen, too, and said of the right object.
TEST_F(store_damage, what_does_not_fit_is_said) {
  const file_layout& main = files.front();
  const auto find = [&](const std::string& text, const std::string& path) -> const stored_object& {
    const auto found = std::ranges::find_if(objects, [&](const stored_object& o) {
      return o.begin - main.home < image_reservation && o.text.starts_with("tenure::support::image_types::" + text) &&
             o.path.find(path) != o.path.npos;
    });
    if (found == objects.end()) throw std::logic_error("there is no " + text);
    return *found;
  };
  const stored_object& all = find("catalog", "root catalog");
  const stored_object& one = find("part", "root catalog");
  const stored_object& drawn = find("polygon", ".drawn");
  const auto says = [&](heap::address at, auto value, std::initializer_list<std::string> parts) {
    const auto damaged = disk.crash(1, sim::policy::keep_all);
    damaged->poke(main.path, main.data_offset + (at - main.home), std::as_bytes(std::span(&value, 1)));
    const outcome seen = look(*damaged, rvm::open_mode::read_only);
    EXPECT_TRUE(seen.says(parts)) << *parts.begin() << " is not said; " << seen.error << " "
                                  << (seen.found.empty() ? "" : seen.found.back());
  };
  const heap::address next = one.begin + sizeof(part::number);
  says(next, all.begin + 100000000, {one.text + ".next", "where no object is", one.path});
  says(next, std::uint64_t{4096}, {one.text + ".next", "which is not in the store", one.path});
  says(drawn.begin, std::uint64_t{0x1234567890}, {drawn.text, "vtable pointer", drawn.path});
  says(one.header, std::uint32_t{77777}, {"unknown type 77777", one.path.substr(0, 12)});
  says(one.header + 4, std::uint32_t{1}, {"part", "has the size 1"});
  says(one.header + 4, std::uint32_t{40000}, {"part", "has the size 40000"});
  const std::uint64_t block = (one.begin - main.home) / heap::block_size;
  const heap::address entry = main.home + heap::record_offset(block);
  says(entry + 2, std::uint16_t{1}, {"block " + std::to_string(block), "granules are in use, 1 are counted"});
  says(entry, std::uint8_t{9}, {"block " + std::to_string(block), "unknown kind 9"});
  says(entry, std::uint8_t{0}, {"block " + std::to_string(block), "objects start in a block that has none"});
  says(entry, std::uint8_t{3}, {"block " + std::to_string(block), "large object of 0 blocks"});
  says(entry, std::uint8_t{4}, {"block " + std::to_string(block), "continues a large object that is not there"});
  says(main.home + heap::record_offset(0), std::uint8_t{2}, {"block 0", "not marked as bookkeeping"});
  const std::uint64_t bit = (all.begin - main.home) % heap::block_size / heap::granule;
  const heap::address starts = main.home + heap::record_offset((all.begin - main.home) / heap::block_size) +
                               offsetof(heap::block_record, starts);
  says(starts + bit / 8, std::uint8_t{0}, {"the root \"catalog\"", "where no object starts"});
}

// A header that was lost is not taken for a database that is still to be made.
TEST_F(store_damage, a_database_without_its_header_is_not_made_anew) {
  const std::vector<std::byte> zeros(4096);
  const file_layout& main = files.front();
  disk.poke(main.path, main.data_offset, zeros);
  const auto before = disk.current_bytes(main.path);
  EXPECT_TRUE(look(disk).says({main.path, "header"}));
  EXPECT_TRUE(disk.current_bytes(main.path) == before);
}

// What no version has had yet is of a later one, and not damage.
TEST_F(store_damage, what_is_unknown_is_of_another_version) {
  const file_layout& main = files.front();
  heap::address type = 0, field = 0;
  {
    store_options how = image_options(disk, home);
    how.mode = rvm::open_mode::read_only;
    const store_state state(image_path, how);
    const auto& types = *heap::object_at<const heap::type_table>(state.databases->front().header().types);
    const auto* const with_fields =
        std::find_if(types.types + 1, types.types + types.count,
                     [](const heap::stored_type* t) { return t != nullptr && t->field_count != 0; });
    ASSERT_NE(with_fields, types.types + types.count);
    type = reinterpret_cast<heap::address>(*with_fields);
    field = reinterpret_cast<heap::address>((*with_fields)->fields);
  }
  const auto refused = [&](heap::address at, auto value) {
    const auto later = disk.crash(1, sim::policy::keep_all);
    {
      rvm::options log;
      log.disk = later.get();
      rvm::memory m(std::string(image_path) + "/log", log);
      rvm::region r = m.map(main.path);
      m.transact([&](rvm::transaction& tx) { tx.modify(r.data() + (at - main.home), &value, sizeof value); });
      m.close();
    }
    const auto open = [&] { const store s(image_path, image_options(*later, home)); };
    expect_error(errc::wrong_version, {main.path, "does not know"}, open);
    // On a page that fails its checksum it is damage.
    const std::byte other{0x55};
    later->poke(main.path, main.data_offset + (at - main.home) / rvm::redo_page * rvm::redo_page + 4095, {&other, 1});
    expect_error(errc::damaged, {main.path, "backup"}, open);
  };
  refused(type + offsetof(heap::stored_type, flags), std::uint32_t{4});
  refused(type + offsetof(heap::stored_type, tail), std::uint64_t{16});
  refused(type + offsetof(heap::stored_type, same_name), std::uint32_t{2});
  refused(field + offsetof(heap::stored_field, kind), std::uint8_t{17});
  refused(field + offsetof(heap::stored_field, scalar), std::uint8_t{99});
  refused(main.home + heap::zone_kinds_at, std::uint8_t{9});
}

// Otherwise a writer would make objects where others are.
TEST_F(store_damage, blocks_in_use_behind_the_last_one_are_refused) {
  const file_layout& main = files.front();
  for (std::uint64_t end = heap::bookkeeping_blocks + 1; end < main.blocks_end; ++end) {
    const auto damaged = disk.crash(1, sim::policy::keep_all);
    damaged->poke(main.path, main.data_offset + offsetof(heap::database_header, blocks_end),
                  std::as_bytes(std::span(&end, 1)));
    EXPECT_TRUE(look(*damaged).says({main.path, "is in use, but its blocks end at " + std::to_string(end)}));
  }
}

// Work goes on until it meets an object that makes no sense: then there is an error, and no commit.
TEST_F(store_damage, objects_of_unknown_types_are_refused_by_commits) {
  const auto found = std::ranges::find_if(objects, [](const stored_object& o) {
    return o.path.starts_with("root catalog") && o.text.starts_with("tenure::support::image_types::part");
  });
  ASSERT_NE(found, objects.end());
  const file_layout& main = files.front();
  const std::uint32_t none = 0x45678;
  disk.poke(main.path, main.data_offset + (found->header - main.home), std::as_bytes(std::span(&none, 1)));
  store s(image_path, image_options(disk, home));
  transaction tx = s.begin();
  ++reinterpret_cast<part*>(found->begin)->number;
  expect_error(errc::damaged, {"unknown type", std::to_string(none)}, [&] { tx.commit(); });
  tx.abort();
  EXPECT_FALSE(s.verify().empty());
}

TEST_F(store_damage, roots_that_are_no_objects_are_refused) {
  const file_layout& main = files.front();
  const auto catalog_object =
      std::ranges::find_if(objects, [](const stored_object& o) { return o.path == "root catalog, " + o.text; });
  ASSERT_NE(catalog_object, objects.end());
  const auto poke = [&](sim::disk& at, std::uint64_t offset, std::uint32_t value) {
    at.poke(main.path, main.data_offset + offset, std::as_bytes(std::span(&value, 1)));
  };
  const auto refused = [&](std::uint64_t offset, std::uint32_t value, const char* says) {
    const auto damaged = disk.crash(1, sim::policy::keep_all);
    poke(*damaged, offset, value);
    store s(image_path, image_options(*damaged, home));
    expect_error(errc::damaged, {main.path, "catalog", says}, [&] { (void)s.find_root<catalog>("catalog"); });
    expect_error(errc::damaged, {main.path, "catalog", says}, [&] { (void)s.root<catalog>("catalog"); });
  };
  const std::uint64_t header = catalog_object->header - main.home;
  refused(header, 0xfffffff0, "no object");  // its type
  refused(header + 4, 0, "no object");       // its size
  refused(header + 4, sizeof(catalog) - 8, "bytes");
  const std::uint64_t block = (catalog_object->begin - main.home) / heap::block_size;
  const auto damaged = disk.crash(1, sim::policy::keep_all);
  poke(*damaged, heap::record_offset(block), 0);
  store_options how = image_options(*damaged, home);
  {
    how.mode = rvm::open_mode::read_only;
    const store s(image_path, how);
    expect_error(errc::damaged, {main.path, "catalog", "no object"}, [&] { (void)s.find_root<catalog>("catalog"); });
  }
  how.mode = rvm::open_mode::open;
  expect_error(errc::damaged, {main.path, "its type"}, [&] { (void)store(image_path, how); });
}
