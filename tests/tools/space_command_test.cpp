// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure trim | space | gc | who-refers | path-to-root.
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gc_command.hpp"
#include "log_command.hpp"
#include "reference_command.hpp"
#include "support/expect_error.hpp"
#include "tools/small_store.hpp"
#include "trim_command.hpp"

namespace tenure::tools {
namespace {

using nlohmann::json;
class space_command : public store_command {};

TEST_F(space_command, trim) {
  make();
  {
    store s(path, small_store());
    s.transact([&] {
      part* last = s.find_root<part>("first")->next->next;
      for (int n = 0; n < 20'000; ++n) last = last->next = s.make<part>();
    });
    s.transact([&] {
      part& first = *s.find_root<part>("first");
      for (part* gone = first.next->next; gone != nullptr;) s.destroy(std::exchange(gone, gone->next));
      first.next->next = nullptr;
      first.twin.reset();
    });
    s.close();
  }
  const shown text = show([&](std::FILE* out) { return trim_store(path, false, out, nullptr); });
  EXPECT_EQ(text.exit_code, exit_ok);
  EXPECT_TRUE(text.has("bytes of free blocks use no disk space now")) << text.text;
  const json again = json::parse(show([&](std::FILE* out) { return trim_store(path, true, out, nullptr); }).text);
  EXPECT_EQ(again["store"], path);
  EXPECT_GT(again["bytes"].get<std::uint64_t>(), 1U << 20);
  EXPECT_EQ(verify().exit_code, exit_ok);
  expect_error(std::errc::no_such_file_or_directory, {"none"},
               [&] { (void)show([&](std::FILE* out) { return trim_store(dir / "none", true, out, nullptr); }); });
}

TEST_F(space_command, space) {
  make();
  constexpr std::uint64_t lost = 700;
  {
    store s(path, small_store());
    s.transact([&] {
      part& first = *s.find_root<part>("first");
      part* const rest = std::exchange(first.next, nullptr);
      for (std::uint64_t n = 0; n < lost; ++n) {
        part* const made = s.make<part>();
        made->next = first.next;
        first.next = made;
      }
      part* last = &first;
      while (last->next != nullptr) last = last->next;
      last->next = rest;
    });
    s.transact([&] {
      part& first = *s.find_root<part>("first");
      for (std::uint64_t n = 0; n < lost; ++n) first.next = first.next->next;
    });
    const space_report space = s.space();
    EXPECT_EQ(space.transient, 0U);
    EXPECT_GE(space.objects, lost + 3);
    EXPECT_GE(space.types.front().objects, lost);
    EXPECT_GT(space.free_bytes, 0U);
    EXPECT_EQ(space.garbage_estimate, 0U);
    EXPECT_GE(space.file_bytes, space.object_bytes + space.free_bytes + space.bookkeeping_bytes);
    s.close();
  }
  const shown text = show([&](std::FILE* out) { return show_space(path, false, out, nullptr); });
  EXPECT_EQ(text.exit_code, exit_ok);
  EXPECT_TRUE(text.has("garbage")) << text.text;
  const json j = json::parse(show([&](std::FILE* out) { return show_space(path, true, out, nullptr); }).text);
  EXPECT_EQ(j["garbage"], lost);
  EXPECT_EQ(j["types"][0]["garbage"], lost);
  EXPECT_GE(j["types"][0]["live"], 3);
  EXPECT_GT(j["free_bytes"], 0);
  EXPECT_GT(j["bookkeeping_bytes"], 0);
  expect_error(std::errc::no_such_file_or_directory, {"none"},
               [&] { (void)show([&](std::FILE* out) { return show_space(dir / "none", true, out, nullptr); }); });
}

TEST_F(space_command, who_refers_and_path_to_root) {
  make();
  std::uintptr_t third = 0, lost = 0;
  {
    store s(path, small_store());
    part* const last = s.find_root<part>("first")->next->next;
    third = reinterpret_cast<std::uintptr_t>(last);
    s.transact([&] {
      part* const one = last->next = s.make<part>();
      one->twin = last;
      lost = reinterpret_cast<std::uintptr_t>(one);
    });
    s.transact([&] { last->next = nullptr; });
    s.close();
  }
  const auto digits = [](std::uintptr_t address) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%jx", std::uintmax_t{address});
    return std::string(text);
  };
  const auto referrers = [&](std::uintptr_t to, bool as_json) {
    return show([&](std::FILE* out) { return show_referrers(path, digits(to), as_json, out); });
  };
  const auto way = [&](std::uintptr_t to, bool as_json) {
    return show([&](std::FILE* out) { return show_path(path, digits(to), as_json, out); });
  };
  const json j = json::parse(referrers(third + 1, true).text);
  ASSERT_EQ(j["referrers"].size(), 3U) << j;  // first.twin, first.next.next, and one that is garbage
  EXPECT_EQ(j["address"], digits(third));
  EXPECT_TRUE(referrers(third, false).has("3 references to ")) << referrers(third, false).text;
  EXPECT_TRUE(referrers(at, false).has("root first of main")) << referrers(at, false).text;
  EXPECT_TRUE(referrers(at, false).has(".twin")) << referrers(at, false).text;
  EXPECT_TRUE(referrers(lost, false).has("0 references")) << referrers(lost, false).text;
  EXPECT_TRUE(way(third, false).has("root first, ")) << way(third, false).text;
  EXPECT_TRUE(way(third, false).has(".twin.value -> ")) << way(third, false).text;
  EXPECT_TRUE(way(lost, false).has("no root leads there")) << way(lost, false).text;
  EXPECT_TRUE(json::parse(way(lost, true).text)["path"].is_null());
  expect_error(errc::bad_option, {"no object at 0x10"}, [&] { (void)referrers(16, false); });
  expect_error(errc::bad_option, {"is no address"},
               [&] { (void)show([&](std::FILE* out) { return show_path(path, "zero", false, out); }); });
}

TEST_F(space_command, gc) {
  make();
  std::uint64_t garbage = 0;
  {
    store s(path, small_store());
    s.transact([&] {
      part* last = s.find_root<part>("first")->next->next;
      for (int n = 0; n < 1000; ++n) last = last->next = s.make<part>();
    });
    s.transact([&] { s.find_root<part>("first")->next->next->next = nullptr; });
    s.close();
  }
  const auto run = [&](bool dry_run, bool as_json) {
    return show([&](std::FILE* out) { return collect_store(path, {.dry_run = dry_run}, as_json, out, nullptr); });
  };
  const json dry = json::parse(run(true, true).text);
  garbage = dry["garbage"].get<std::uint64_t>();
  EXPECT_GE(garbage, 1000U);
  EXPECT_TRUE(dry["dry_run"].get<bool>());
  EXPECT_EQ(dry["transactions"], 0);
  std::uint64_t dropped = 0;  // the first part of the thousand, and what make() has lost
  for (const json& each : dry["dropped"]) dropped += each["objects"].get<std::uint64_t>();
  EXPECT_GE(dropped, 1U);
  EXPECT_EQ(dropped, dry["dropped_objects"].size());
  EXPECT_LE(dropped, garbage - 999);
  EXPECT_TRUE(run(true, false).has("no other garbage refers to")) << run(true, false).text;
  const shown text = run(false, false);
  EXPECT_EQ(text.exit_code, exit_ok);
  EXPECT_TRUE(text.has(std::to_string(garbage) + " objects, ")) << text.text;
  EXPECT_TRUE(text.has("were destroyed")) << text.text;
  EXPECT_TRUE(text.has("part  ")) << text.text;
  const json again = json::parse(run(false, true).text);
  EXPECT_EQ(again["garbage"], 0);
  EXPECT_EQ(again["types"].size(), 0U);
  EXPECT_EQ(again["kept"], dry["kept"]);
  EXPECT_EQ(verify().exit_code, exit_ok);
}

// Otherwise an incremental backup is not possible any more.
TEST_F(space_command, gc_and_trim_go_on_with_the_archive) {
  store_options how = small_store();
  how.memory.archive.emplace();
  {
    store s(path, how);
    (void)s.root<part>("first");
    s.backup(dir / "full");
    s.transact([&] {
      part* last = s.find_root<part>("first");
      for (int n = 0; n < 20'000; ++n) last = last->next = s.make<part>();
    });
    s.transact([&] { s.remove_root("first"); });
  }
  (void)show([&](std::FILE* out) { return collect_store(path, {}, true, out, nullptr); });
  EXPECT_EQ(store(path, how).backup(dir / "since", {.since = dir / "full"}).files.size(), 1U);
  const json trimmed = json::parse(show([&](std::FILE* out) { return trim_store(path, true, out, nullptr); }).text);
  EXPECT_GT(trimmed["bytes"].get<std::uint64_t>(), 1U << 20);
  EXPECT_EQ(store(path, how).backup(dir / "later", {.since = dir / "full"}).files.size(), 1U);
}

}  // namespace
}  // namespace tenure::tools
