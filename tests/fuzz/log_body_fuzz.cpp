// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Logs whose parts are right where the input does not want them wrong, so that inputs reach the search for the tail, the
// walk back and the replay. The input is a program: how the log begins, then group after group, each with its records,
// and the mistakes to be made in them. A log without mistakes must be recovered to what a model says.
#include <memory>
#include <optional>

#include "fuzz_support.hpp"
#include "log/log_files.hpp"
#include "records/log_reader.hpp"
#include "replay/redo.hpp"

using namespace tenure;
using namespace tenure::fuzz;

namespace {

constexpr std::uint64_t log_length = rvm::min_log_size, file_length = log_length / 2;
using image = std::vector<std::byte>;

// Builds the log, and what it should be recovered to.
class log_builder {
 public:
  explicit log_builder(byte_source& in)
      : in_(in), bytes_(log_length), images_{image(segment_length), image(raw_length)} {
    const std::uint8_t first = in_.byte();
    status_ = plain_manifest(first & 1 ? 512 : 4096);
    direct = (first & 2) != 0;
    base_ = log_length * (1 + in_.byte());
    status_.head = base_ + in_.below(log_length / status_.block_size) * status_.block_size;
    status_.tail = status_.head;
    at_ = batch_ = tail_ = status_.head;
    while (!in_.empty() && add_group()) {
    }
    if (first & 4) {  // a mistake in the manifest
      sound = false;
      const std::size_t where = in_.below(offsetof(rvm::manifest_header, checksum) / 8) * 8;
      std::byte* const header = reinterpret_cast<std::byte*>(static_cast<rvm::manifest_header*>(&status_));
      std::uint64_t word;
      std::memcpy(&word, header + where, sizeof word);
      word = first & 8 ? in_.take<std::uint64_t>() : word + in_.take<std::int16_t>();
      std::memcpy(header + where, &word, sizeof word);
    }
    if (first & 16) status_.tail = tail_;  // durable up to the end, says the manifest
  }

  bool direct = false;        // replay in small parts, instead of opening
  bool sound = true;          // no mistakes
  bool out_of_range = false;  // but a change beyond the end of a segment
  void install(sim::disk& disk) const { install_log(disk, status_, base_, bytes_, file_length); }
  [[nodiscard]] const image& expected(bool raw) const { return images_[raw]; }
  [[nodiscard]] std::uint64_t tail() const { return tail_; }
  [[nodiscard]] std::uint64_t groups() const { return groups_; }

 private:
  struct change {
    bool raw;
    std::uint64_t offset;
    image value;
  };
  enum : std::uint8_t {
    ends_batch = 1,
    wrong_header = 2,
    wrong_checksum = 4,
    hole = 8,
    wrong_byte = 16,
    wrong_body = 32
  };

  bool add_group() {
    const std::uint8_t flags = in_.byte();
    image group(sizeof(rvm::group_header));
    dictionary_.clear();
    std::uint32_t previous = 0, records = 0;
    for (std::uint64_t left = in_.byte() % 8; left != 0 && group.size() < 20000; --left) {
      const std::size_t start = group.size();
      add_record(group, previous);
      previous = static_cast<std::uint32_t>(group.size() - start);
      ++records;
    }
    if (flags & wrong_body) {
      sound = false;
      const auto bytes = in_.take_bytes(in_.byte());
      group.insert(group.end(), bytes.begin(), bytes.end());
    }
    const auto on_disk = static_cast<std::uint32_t>(rvm::round_up(group.size(), status_.block_size));
    if (at_ + on_disk > base_ + log_length) return false;

    rvm::group_header header{};
    header.magic = rvm::group_magic;
    header.log_id = rvm::short_log_id(status_.log_id);
    header.lsn = at_;
    header.batch = header.synced_through = batch_;
    header.length = static_cast<std::uint32_t>(group.size());
    header.previous = at_ == status_.head ? 0 : previous_on_disk_;
    header.generation = status_.generation;
    header.records = records;
    header.flags = flags & ends_batch ? rvm::group_last : 0;
    if (flags & wrong_byte) {
      sound = false;
      const std::size_t where = sizeof header + in_.take<std::uint16_t>();
      const auto value = static_cast<std::byte>(in_.byte());
      if (where < group.size()) group[where] ^= value;
    }
    if (flags & wrong_header) {
      sound = false;
      std::byte* const bytes = reinterpret_cast<std::byte*>(&header);
      const std::size_t where = in_.below(sizeof header / 4) * 4;
      std::uint32_t word;
      std::memcpy(&word, bytes + where, sizeof word);
      word += static_cast<std::uint32_t>(in_.take<std::int32_t>());
      std::memcpy(bytes + where, &word, sizeof word);
      // What is not there cannot have a checksum.
      group.resize(std::clamp<std::size_t>(header.length, sizeof header, group.size()));
    }
    put(group, 0, header);
    header.checksum = rvm::crc32c(os::const_bytes(group).subspan(offsetof(rvm::group_header, log_id)));
    if (flags & wrong_checksum) {
      sound = false;
      ++header.checksum;
    }
    put(group, 0, header);
    if (flags & hole) {
      sound = false;
    } else {
      std::ranges::copy(group, bytes_.begin() + static_cast<std::ptrdiff_t>(at_ - base_));
    }
    at_ += on_disk;
    previous_on_disk_ = on_disk;
    ++pending_groups_;
    if (flags & ends_batch) end_batch();
    return true;
  }

  void end_batch() {
    batch_ = tail_ = at_;
    groups_ += std::exchange(pending_groups_, 0);
    for (const change& each : pending_) {
      image& into = images_[each.raw];
      if (each.offset > into.size() || each.value.size() > into.size() - each.offset)
        out_of_range = true;
      else
        std::ranges::copy(each.value, into.begin() + static_cast<std::ptrdiff_t>(each.offset));
    }
    pending_.clear();
  }

  void add_record(image& group, std::uint32_t previous) {
    const std::size_t start = group.size();
    const std::uint8_t what = in_.byte();
    rvm::record_header header{rvm::record_type::segment, 0, 0, previous, 0};
    if (what % 8 == 7) {  // anything
      sound = false;
      header.type = static_cast<rvm::record_type>(in_.byte() % 8);
      header.count = in_.take<std::uint32_t>();
      const auto bytes = in_.take_bytes(in_.byte());
      group.resize(start + sizeof header);
      group.insert(group.end(), bytes.begin(), bytes.end());
    } else if (what % 8 < 2 || dictionary_.empty()) {
      const bool raw = what & 1;
      // Not the segment with a header as a raw one: that may be, and overwrites the header.
      const std::string path = what & 64 ? (raw || what & 128 ? "./raw" : "raw") : raw ? "raw" : "seg";
      const bool other_id = (what & 32) != 0;
      if (path != (raw ? "raw" : "seg") || other_id) sound = false;
      rvm::segment_body body{raw ? rvm::identity{} : segment_identity, raw ? 1u : 0u, 0};
      if (other_id) body.id[3] ^= std::byte{1};
      header.count = static_cast<std::uint32_t>(path.size());
      put(group, start + sizeof header, body);
      for (const char c : path) group.push_back(static_cast<std::byte>(c));
      dictionary_.push_back(raw);
    } else {
      const std::uint8_t id = in_.byte();
      const bool by_page = (id & 1) != 0;
      header.type = by_page ? rvm::record_type::changes : rvm::record_type::transaction;
      header.flags = what >> 3 & 7;
      const std::uint32_t label = what >> 6;
      put(group, start + sizeof header, rvm::transaction_body{id, 0, label, 0});
      group.resize(group.size() + rvm::round_up(label, 8));
      header.count = in_.byte() % 32;
      for (std::uint32_t i = 0; i < header.count; ++i) by_page ? add_page(group) : add_range(group);
    }
    group.resize(rvm::round_up(group.size(), 8));
    header.length = static_cast<std::uint32_t>(group.size() - start);
    if (what == 0xe7) header.length += 8 * in_.byte(), sound = false;
    put(group, start, header);
  }

  void add_page(image& group) {
    const std::uint8_t what = in_.byte();
    rvm::changed_page page{};
    page.segment = static_cast<std::uint16_t>(what % dictionary_.size());
    const bool raw = dictionary_[page.segment];
    const std::uint64_t pages = images_[raw].size() / rvm::redo_page;
    page.page = what & 64 ? in_.take<std::uint64_t>() : in_.byte() % pages;
    page.ranges = in_.byte() % 8;
    if (what == 255) page.segment = static_cast<std::uint16_t>(page.segment + in_.byte());
    if (page.segment >= dictionary_.size() || page.page >= ~std::uint64_t{0} / rvm::redo_page) sound = false;
    image ranges;
    std::uint32_t end = 0;  // of the range before
    for (std::uint16_t r = 0; r < page.ranges; ++r) {
      rvm::changed_range range{in_.take<std::uint16_t>(), in_.byte()};
      if (!(what & 32)) range.offset %= rvm::redo_page - 255;
      if (range.offset < end || std::uint32_t{range.offset} + range.length > rvm::redo_page) sound = false;
      end = std::uint32_t{range.offset} + range.length;
      const auto fill = in_.byte();
      change made{raw, page.page * rvm::redo_page + range.offset, {}};
      for (std::uint32_t i = 0; i < range.length; ++i) made.value.push_back(static_cast<std::byte>(fill + i));
      put(ranges, ranges.size(), range);
      ranges.insert(ranges.end(), made.value.begin(), made.value.end());
      pending_.push_back(std::move(made));
    }
    page.bytes = static_cast<std::uint32_t>(ranges.size());
    if (what & 128) {
      const auto more = in_.byte();
      page.bytes += more;
      if (more != 0) sound = false;
    }
    put(group, group.size(), page);
    group.insert(group.end(), ranges.begin(), ranges.end());
    group.resize(rvm::round_up(group.size(), 8));
  }

  void add_range(image& group) {
    const std::uint8_t what = in_.byte();
    rvm::range_header range{};
    range.segment = static_cast<std::uint32_t>(what % dictionary_.size());
    const bool raw = dictionary_[range.segment];
    const std::uint64_t room = images_[raw].size();
    range.offset = what & 64 ? in_.take<std::uint64_t>() : in_.take<std::uint32_t>() % room;
    range.length = what & 32 ? in_.take<std::uint16_t>() % 9000 : in_.byte() % 16;
    if (!(what & 128) && !(what & 64))
      range.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(range.length, room - range.offset));
    if (what == 255) range.segment += in_.byte();
    if (range.segment >= dictionary_.size() || range.offset + range.length < range.offset) sound = false;
    const auto fill = in_.byte();
    change made{raw, range.offset, {}};
    for (std::uint32_t i = 0; i < range.length; ++i) made.value.push_back(static_cast<std::byte>(fill + i));
    put(group, group.size(), range);
    group.insert(group.end(), made.value.begin(), made.value.end());
    group.resize(rvm::round_up(group.size(), 8));
    pending_.push_back(std::move(made));
  }

  byte_source& in_;
  image bytes_, images_[2];
  rvm::manifest status_{};
  std::uint64_t base_ = 0, at_ = 0, batch_ = 0, tail_ = 0, groups_ = 0, pending_groups_ = 0;
  std::uint32_t previous_on_disk_ = 0;
  std::vector<bool> dictionary_;  // raw or not
  std::vector<change> pending_;   // of the batch
};

void check_contents(sim::disk& disk, const log_builder& log) {
  const auto formatted = disk.durable_bytes(segment_path), raw = disk.durable_bytes(raw_path);
  require(std::equal(formatted.begin() + data_offset, formatted.end(), log.expected(false).begin()),
          "the segment is wrong");
  require(raw == log.expected(true), "the raw segment is wrong");
}

// The replay by itself, in so little memory that it goes group by group.
bool replay_in_parts(sim::disk& disk) {
  return accepted([&] {
    const auto log = rvm::log_files::open(disk, log_path, os::access::read_write);
    const rvm::log_tail end = rvm::find_tail(*log, log->status());
    rvm::segment formatted(disk, segment_path, "seg", os::access::read_write, false);
    rvm::segment raw(disk, raw_path, "raw", os::access::read_write, true);
    rvm::recovery_report report;
    rvm::replay(*log, {log->status().head, end.tail, end.last_group},
                {.resolve = [&](const rvm::segment_name& name) { return name.raw ? &raw : &formatted; },
                 .memory = 1 << 14,
                 .may_have_extents = (log->status().incompatible & rvm::feature_bulk_runs) != 0,
                 .damaged = [](const auto&) { throw error(errc::damaged, "a bulk run is damaged"); }},
                report);
    require(formatted.verify({}).empty(), "a checksum is wrong");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  const log_builder log(in);
  sim::disk disk;
  install_segments(disk, &log_identity);
  log.install(disk);

  if (log.direct) {
    const bool replayed = replay_in_parts(disk);
    if (!log.sound) return 0;
    require(replayed != log.out_of_range, "a sound log was refused, or one that does not fit accepted", last_error);
    if (replayed) check_contents(disk, log);
    return 0;
  }

  image seen;
  const bool read = accepted([&] {
    rvm::memory memory(log_path, small(disk, rvm::open_mode::read_only));
    const rvm::region region = memory.map(segment_path);
    seen.assign(region.data(), region.data() + region.size());
    (void)memory.map(raw_path, {.raw = true});
    memory.close();
  });
  require(disk.operations() == 0, "opening for reading changed the disk");

  std::optional<rvm::recovery_report> report;
  const bool opened = accepted([&] {
    rvm::memory memory(log_path, small(disk));
    report = memory.recovery();
    memory.close();
  });
  if (log.sound) {
    require(opened != log.out_of_range, "a sound log was refused, or one that does not fit accepted", last_error);
    // Opened for reading, changes of segments that are not mapped are nobody's concern.
    if (opened) {
      require(read && seen == log.expected(false), "read-only recovery is wrong");
      require(report->groups == log.groups(), "groups were left out");
      check_contents(disk, log);
    }
  }
  if (!opened) return 0;
  if (report->needed) require(read, "the log opens for writing but not for reading");
  use_and_reopen(disk);
  return 0;
}
