// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A log of several files, put together from moments of its life and damaged in chosen places. The first two bytes say which
// moment it is taken from, of which one its segment is, which checksums are made right again, and how it is opened. Then
// changes, each: a byte that says what is done to which file, and what that needs.
//
// What opens shows a state that was committed, unless wrong bytes have got a right checksum; and no file has a group that
// says that the log was durable beyond the tail.
#include <memory>
#include <optional>

#include <tenure/rvm/backup.hpp>

#include "fuzz_support.hpp"
#include "records/group.hpp"
#include "replay/backup.hpp"
#include "support/log_image.hpp"

namespace {

using namespace tenure;
using namespace tenure::fuzz;
using support::log_image;
using bytes_of_file = std::vector<std::byte>;

constexpr const char* backup_path = "/full";

// A page that is written in bulk, past the log, is not part of what is compared.
constexpr std::uint64_t compared = segment_length - 4096;

std::uint32_t checksum_of(const rvm::region& segment) {
  return rvm::crc32c({segment.data(), static_cast<std::size_t>(compared)});
}

// --- The life of a log ---

enum moment : std::uint8_t { first_closed, truncated, crashed, prepared, closed, moments };

// It goes round in its files several times, in two openings. Some commits are lazy: then a batch has several.
class life {
 public:
  life() {
    sim::disk disk;
    install_segments(disk);
    rvm::options how = small(disk, rvm::open_mode::open_or_create);
    how.tune.truncation_threshold = 2;
    const auto keep = [&](moment when) { at_[when] = disk.crash(0, sim::policy::keep_all); };
    std::uint64_t n = 0;
    {
      rvm::memory memory(log_path, how);
      rvm::region region = memory.map(segment_path);
      states_.push_back(checksum_of(region));
      while (n < 150) commit(memory, region, ++n);
      memory.close();
      keep(first_closed);
    }
    rvm::memory memory(log_path, how);
    rvm::region region = memory.map(segment_path);
    while (n < 292) commit(memory, region, ++n);
    memory.truncate();
    memory.backup(backup_path);
    keep(truncated);
    while (n < 330) commit(memory, region, ++n);
    memory.flush();
    keep(crashed);
    rvm::transaction tx = memory.begin();
    change(tx, region, ++n);
    tx.prepare("in doubt");
    states_.push_back(checksum_of(region));
    keep(prepared);
    tx.abort();
    memory.close();
    keep(closed);
  }
  [[nodiscard]] const sim::disk& at(std::uint8_t when) const { return *at_[when % moments]; }
  // Of the segment after n commits.
  [[nodiscard]] bool is_state(std::uint64_t n, std::uint32_t checksum) const {
    return n < states_.size() && states_[n] == checksum;
  }

 private:
  // A counter, bytes that are changed once, bytes that are changed now and then, and a page that is written in bulk. Two are so
  // large that the log must grow.
  static void change(rvm::transaction& tx, const rvm::region& in, std::uint64_t n) {
    const std::vector<char> value(n == 200 || n == 290 ? 80000 : 700, static_cast<char>(n));
    tx.modify(in.data(), &n, sizeof n);
    tx.modify(in.data() + (value.size() > 700 ? 1 : 1 + n % 20) * 4096 + n, value.data(), value.size());
    tx.modify(in.data() + n % 7 * 4096 + 8, &n, sizeof n);
    if (n % 37 != 0) return;
    static const bytes_of_file page(4096, std::byte{1});
    const std::span<const std::byte> whole = page;
    tx.write_bulk(in, compared, {&whole, 1});
  }
  void commit(rvm::memory& memory, const rvm::region& region, std::uint64_t n) {
    memory.transact([&](rvm::transaction& tx) { change(tx, region, n); },
                    n % 5 < 2 ? rvm::commit_mode::no_flush : rvm::commit_mode::flush);
    states_.push_back(checksum_of(region));
  }

  std::unique_ptr<sim::disk> at_[moments];
  std::vector<std::uint32_t> states_;
};

// --- Checksums ---

void correct_manifest(bytes_of_file& bytes) {
  for (const std::uint64_t at : {std::uint64_t{0}, rvm::manifest_copy_size}) {
    rvm::manifest_header h;
    if (bytes.size() < at + sizeof h) return;
    std::memcpy(&h, bytes.data() + at, sizeof h);
    if (h.length < sizeof h || h.length > std::min(rvm::manifest_copy_size, bytes.size() - at)) continue;
    h.checksum = 0;
    put(bytes, at, h);
    h.checksum = rvm::crc32c(os::const_bytes(bytes).subspan(at, h.length));
    put(bytes, at, h);
  }
}
void correct_header(bytes_of_file& bytes) {
  for (const std::uint64_t at : {std::uint64_t{0}, rvm::log_file_copy_size}) {
    rvm::log_file_header h;
    if (bytes.size() < at + sizeof h) return;
    std::memcpy(&h, bytes.data() + at, sizeof h);
    h.checksum = rvm::header_checksum(h, offsetof(rvm::log_file_header, checksum));
    put(bytes, at, h);
  }
}

// Calls f(offset, header) for each block that may begin a group.
template <class F>
void for_each_group(const bytes_of_file& bytes, F&& f) {
  for (std::size_t at = rvm::log_file_data; at + sizeof(rvm::group_header) <= bytes.size(); at += 512) {
    rvm::group_header h;
    std::memcpy(&h, bytes.data() + at, sizeof h);
    if (h.magic == rvm::group_magic) f(at, h);
  }
}
void correct_groups(bytes_of_file& bytes) {
  for_each_group(bytes, [&](std::size_t at, rvm::group_header h) {
    if (h.length < sizeof h || h.length > bytes.size() - at) return;
    h.checksum = rvm::crc32c(os::const_bytes(bytes).subspan(at + 8, h.length - 8));
    put(bytes, at, h);
  });
}

// --- Changes ---

enum kind : std::uint8_t {
  lies_in_anothers_place,
  is_also_anothers,
  is_cut_off,
  is_of_another_moment,
  is_of_another_log,
  is_missing,
  is_left_over,
  has_another_number,
  has_another_word,
  has_groups_elsewhere,
  has_another_group_header,
  has_other_bytes,
  kinds
};

class changed_log {
 public:
  changed_log(sim::disk& disk, const life& of, const life& other)
      : disk_(disk), of_(of), other_(other), log_(disk, log_path) {}

  void change(byte_source& in) {
    const std::uint8_t what = in.byte();
    const std::size_t number = in.byte() % (log_.files.size() + 1);
    const bool is_manifest = number == log_.files.size();
    bytes_of_file& bytes = is_manifest ? log_.manifest : log_.files[number].contents;
    const std::string path = is_manifest ? log_path : log_.files[number].path;
    switch (what % kinds) {
      case lies_in_anothers_place:
        if (!is_manifest) std::swap(bytes, any_file(in));
        break;
      case is_also_anothers:
        if (!is_manifest) any_file(in) = bytes;
        break;
      case is_cut_off: bytes.resize(bytes.size() - std::min(bytes.size(), std::size_t{in.byte()} * 512)); break;
      case is_of_another_moment: take_from(of_.at(in.byte()), path, bytes); break;
      case is_of_another_log: take_from(other_.at(in.byte()), path, bytes); break;
      case is_missing: missing_.push_back(path); break;
      case is_left_over:
        if (!is_manifest) disk_.install(std::string(log_path) + "." + std::to_string(1 + in.byte() % 20), bytes);
        break;
      case has_another_number:
        if (!is_manifest && !is_changed_) renumber(log_.files[number], in.take<std::uint32_t>());
        return;
      case has_another_word:
        if (is_manifest)
          change_header(bytes, rvm::manifest_copy_size, 2048, in);
        else
          change_header(bytes, rvm::log_file_copy_size, sizeof(rvm::log_file_header), in);
        break;
      case has_groups_elsewhere: {  // or zeros
        const bytes_of_file from = any_file(in);
        const std::uint64_t to = rvm::log_file_data + in.byte() * std::uint64_t{512},
                            at = rvm::log_file_data + in.byte() * std::uint64_t{512};
        const std::uint64_t length = in.byte() * std::uint64_t{512};
        for (std::uint64_t n = 0; n < length && to + n < bytes.size(); ++n)
          bytes[to + n] = at + n < from.size() && what < 128 ? from[at + n] : std::byte{};
        break;
      }
      case has_another_group_header: {
        std::vector<std::size_t> groups;
        for_each_group(bytes, [&](std::size_t at, const rvm::group_header&) { groups.push_back(at); });
        if (!groups.empty()) change_word(bytes, groups[in.byte() % groups.size()], 256, in);
        break;
      }
      default: {
        const std::uint64_t at = in.take<std::uint16_t>();
        const os::const_bytes with = in.take_bytes(in.byte());
        if (at + with.size() <= bytes.size()) std::ranges::copy(with, bytes.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    is_changed_ = true;
  }

  void correct(bool manifest, bool headers, bool groups) {
    if (manifest) correct_manifest(log_.manifest);
    for (auto& f : log_.files) {
      if (headers) correct_header(f.contents);
      if (groups) correct_groups(f.contents);
    }
  }
  void install() {
    log_.install(disk_);
    for (const std::string& path : missing_)
      if (disk_.exists(path)) disk_.remove(path);
  }
  // Whether a file has an intact group where it belongs which says that the log was durable beyond `tail`.
  [[nodiscard]] bool knows_more_than(rvm::lsn tail) const {
    const rvm::manifest status = log_.read_manifest();
    for (const auto& f : log_.files) {
      const rvm::log_file_header header = header_of(f.contents);
      bool found = false;
      for_each_group(f.contents, [&](std::size_t at, rvm::group_header h) {
        const rvm::group_expectation expected{rvm::short_log_id(status.log_id), header.base + at - rvm::log_file_data,
                                              512};
        const auto bytes = os::const_bytes(f.contents).subspan(at);
        if (rvm::read_group_header(bytes, expected, h) && h.length <= bytes.size() && rvm::group_intact(bytes, h))
          found |= h.batch > tail && h.synced_through > tail;
      });
      if (found) return true;
    }
    return false;
  }

 private:
  static void take_from(const sim::disk& disk, const std::string& path, bytes_of_file& into) {
    if (std::ranges::count(disk.names(), path) != 0) into = disk.current_bytes(path);
  }
  bytes_of_file& any_file(byte_source& in) { return log_.files[in.byte() % log_.files.size()].contents; }

  // The copy that counts.
  static rvm::log_file_header header_of(const bytes_of_file& bytes) {
    rvm::log_file_header newest{};
    for (const std::uint64_t at : {std::uint64_t{0}, rvm::log_file_copy_size}) {
      rvm::log_file_header h;
      if (bytes.size() < at + sizeof h) break;
      std::memcpy(&h, bytes.data() + at, sizeof h);
      if (h.magic != rvm::log_file_magic ||
          h.checksum != rvm::header_checksum(h, offsetof(rvm::log_file_header, checksum)))
        continue;
      if (newest.magic == 0 || h.sequence > newest.sequence) newest = h;
    }
    return newest;
  }
  // The same in one of two copies, or in both.
  static void change_header(bytes_of_file& bytes, std::uint64_t copy_size, std::uint64_t length, byte_source& in) {
    const std::uint8_t which = in.byte() % 3;
    const byte_source begin = in;
    for (const std::uint64_t copy : {0, 1}) {
      if (which == 1 - copy) continue;
      in = begin;
      change_word(bytes, copy * copy_size, length, in);
    }
  }
  // A field of 4 or 8 bytes in a stretch is replaced, or becomes a little more or less.
  static void change_word(bytes_of_file& bytes, std::uint64_t from, std::uint64_t length, byte_source& in) {
    const std::uint8_t how = in.byte();
    const std::uint64_t at = from + in.below(length / 4) * 4;
    const std::size_t size = how & 1 ? 4 : 8;
    std::uint64_t word = 0;
    if (at + size > bytes.size()) return;
    std::memcpy(&word, bytes.data() + at, size);
    word = how & 2 ? word + static_cast<std::uint64_t>(in.take<std::int8_t>()) * (how & 4 ? 512 : 1)
                   : in.take<std::uint64_t>();
    std::memcpy(bytes.data() + at, &word, size);
  }
  // Everything agrees, so a log that was not changed otherwise is as good as before.
  void renumber(log_image::file& file, std::uint32_t number) {
    std::string path = std::string(log_path) + "." + std::to_string(number);
    if (number == 0 || std::ranges::count(log_.files, path, &log_image::file::path) != 0) return;
    std::uint32_t before = 0;
    for (const std::uint64_t copy : {std::uint64_t{0}, rvm::log_file_copy_size}) {
      std::byte* const at = file.contents.data() + copy + offsetof(rvm::log_file_header, number);
      std::memcpy(&before, at, sizeof before);
      std::memcpy(at, &number, sizeof number);
    }
    correct_header(file.contents);
    for (const std::uint64_t copy : {std::uint64_t{0}, rvm::manifest_copy_size})
      for (std::size_t n = 0; n < log_.files.size(); ++n) {
        std::byte* const at =
            log_.manifest.data() + copy + sizeof(rvm::manifest_header) + n * sizeof(rvm::log_file_entry);
        if (std::memcmp(at, &before, sizeof before) == 0) std::memcpy(at, &number, sizeof number);
      }
    correct_manifest(log_.manifest);
    file.path = std::move(path);
  }

  sim::disk& disk_;
  const life &of_, &other_;
  log_image log_;
  std::vector<std::string> missing_;
  bool is_changed_ = false;
};

// --- What is made of it ---

// What was made of the log opens, and shows a state that was committed.
void look_at_copy(const char* what, sim::disk& disk, const std::string& path, const life& all, bool is_forged) {
  must(what, [&] {
    rvm::options how = small(disk, rvm::open_mode::read_only);
    rvm::memory memory(path + "/log", how);
    const rvm::region segment = memory.map(path + "/seg");
    require(is_forged || all.is_state(segment.at<std::uint64_t>(0), checksum_of(segment)), what);
  });
}

// A backup of the log, and one from before that is rolled forward with it.
void back_up_and_restore(const sim::disk& of, const changed_log& log, const life& all, bool is_forged) {
  const auto disk = of.crash(0, sim::policy::keep_all);
  (void)accepted([&] {
    const auto report = rvm::back_up(*disk, log_path, "/copy", {.memory = 8 << 20});
    look_at_copy("a backup", *disk, "/copy", all, is_forged);
    require(is_forged || !log.knows_more_than(report.tail), "a backup lacks commits");
  });
  (void)accepted([&] {
    const auto report =
        rvm::restore(backup_path, "/restored", {.log = log_path, .memory = 8 << 20, .disk = disk.get()});
    look_at_copy("a restore", *disk, "/restored", all, is_forged);
    require(is_forged || !log.knows_more_than(report.tail), "a restore lacks commits");
  });
}

// A log that opens goes on: round in its files, beyond its usual size, and after a crash.
void go_on(sim::disk& disk, bool has_forged_counters) {
  const errc refused = has_forged_counters ? errc::damaged : errc::wrong_log;
  std::unique_ptr<sim::disk> crashed;
  std::uint32_t last = 0;
  const auto use = [&] {
    rvm::memory memory(log_path, small(disk));
    rvm::region region = memory.map(segment_path);
    memory.check();
    for (std::size_t n = 0; n < 8; ++n) {
      const std::vector<char> value(n == 4 ? 80000 : 9000, static_cast<char>('a' + n));
      must("commit", [&] { memory.transact([&](auto& tx) { tx.modify(region.data(), value.data(), value.size()); }); },
           {errc::too_big});
      memory.check();
    }
    crashed = disk.crash(0, sim::policy::keep_all);
    last = checksum_of(region);
    memory.close();
  };
  // The segment may wait for another log.
  if (!must("a log that opens must be usable", use, {errc::wrong_log, refused})) return;
  const auto recover = [&] {
    rvm::memory memory(log_path, small(*crashed));
    memory.check();
    require(checksum_of(memory.map(segment_path)) == last, "a commit was lost in a crash");
    memory.close();
  };
  if (has_forged_counters)
    must("a log that was used must be recovered", recover, {errc::damaged});
  else
    must("a log that was used must be recovered", recover);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const life all, another;
  byte_source in(data, size);
  const std::uint8_t moments_of = in.byte(), how = in.byte();
  const auto disk = all.at(moments_of).crash(0, sim::policy::keep_all);
  if (moments_of & 128) disk->install(segment_path, all.at(moments_of / 8).current_bytes(segment_path));
  changed_log log(*disk, all, another);
  for (int n = 0; !in.empty() && n < 16; ++n) log.change(in);
  log.correct((how & 1) != 0, (how & 2) != 0, (how & 4) != 0);
  log.install();
  const bool is_forged = (how & 5) != 0;

  const auto look = [&](const rvm::memory& memory, const rvm::region& region) {
    const auto n = region.at<std::uint64_t>(0);
    const std::uint32_t found = checksum_of(region);
    if (is_forged || !memory.recovery().given_up.empty()) return found;
    require(all.is_state(n, found), "the segment shows no state that was committed");
    require(!log.knows_more_than(memory.recovery().tail), "commits were lost without a word");
    return found;
  };
  if (how & 64) back_up_and_restore(*disk, log, all, is_forged);
  const std::uint64_t before = disk->operations();
  std::optional<std::uint32_t> read;
  const bool read_only_opened = accepted([&] {
    rvm::memory memory(log_path, small(*disk, rvm::open_mode::read_only));
    (void)accepted([&] { read = look(memory, memory.map(segment_path)); });
    memory.close();
  });
  require(disk->operations() == before, "opening for reading changed the disk");

  rvm::options opening = small(*disk);
  opening.give_up_segments = (how & 8) != 0;
  if ((how & 16) == 0)
    opening.in_doubt = [&](const auto&) { return how & 32 ? rvm::outcome::committed : rvm::outcome::aborted; };
  const bool may_differ = opening.give_up_segments || (how & 32) != 0;
  const bool opened = accepted([&] {
    rvm::memory memory(log_path, opening);
    (void)accepted([&] {
      const std::uint32_t found = look(memory, memory.map(segment_path));
      require(!read || may_differ || found == *read, "reading shows another state than recovery");
    });
    memory.close();
  });
  if (!opened) return 0;
  require(read_only_opened, "the log opens for writing but not for reading", last_error);
  go_on(*disk, (how & 3) != 0);
  use_and_reopen(*disk, (how & 3) != 0);
  return 0;
}
