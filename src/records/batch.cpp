// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/batch.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <optional>

#include "log/checksum.hpp"
#include "log/invariant.hpp"
#include "records/group.hpp"
#include "segments/page_bytes.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

namespace {

constexpr std::uint32_t padded(std::uint64_t length) { return static_cast<std::uint32_t>(round_up(length, 8)); }
// The fewest bytes for which something is begun at the end of a group: a range of a page, or a bulk run.
constexpr std::uint32_t least_range = sizeof(bulk_run_header) + 8;
constexpr std::uint32_t most_ranges = 65535;               // of a changed page
constexpr std::uint64_t most_cleared = ~std::uint32_t{0};  // pages of a run

// Constructs a structure in place. If the structure is filled field by field and then copied, the processor must wait
// for the fields. A commit of four ranges that are in the cache took 232 ns with copies, and takes 198.
template <class T>
void put(std::byte* to, const T& value) {
  ::new (static_cast<void*>(to)) T(value);
}
template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
// A call of memcpy. Where gcc knows that the length is small, it takes `rep movsq` instead, which takes 30 ns to start: a
// commit of 5000 words took 310 µs so, and takes 120.
[[gnu::noinline]] void copy(std::byte* to, const std::byte* from, std::size_t length) { std::memcpy(to, from, length); }
void put_zeros(std::byte* to, std::uint32_t count) {  // less than 8
  if (count & 4) std::memset(to, 0, 4), to += 4;
  if (count & 2) std::memset(to, 0, 2), to += 2;
  if (count & 1) *to = {};
}
// Copies the bytes, and fills the padding behind them with zeros.
void put_padded(std::byte* to, const void* from, std::size_t length) {
  if (length == 0) return;
  put(to + padded(length) - 8, std::uint64_t{0});
  std::memcpy(to, from, length);
}

std::uint32_t segment_record_length(const segment& s) {
  return static_cast<std::uint32_t>(sizeof(record_header) + sizeof(segment_body)) + padded(s.logged_path().size());
}
// As a segment record has it.
std::uint32_t known_pages(const segment& s) {
  const std::uint64_t pages = s.length() / redo_page;
  return s.is_raw() || pages > std::numeric_limits<std::uint32_t>::max() ? 0 : static_cast<std::uint32_t>(pages);
}
std::uint32_t transaction_head_length(std::string_view label) {
  return static_cast<std::uint32_t>(sizeof(record_header) + sizeof(transaction_body)) + padded(label.size());
}

}  // namespace

namespace {

// Cuts values into what changes on one page after the other.
class page_cutter {
 public:
  struct extent {
    std::uint64_t page;
    std::uint32_t bytes;  // of the ranges, with their values
    std::uint16_t ranges;
    std::uint16_t
        begun;  // of these: those that are not the rest of a value that the page or the group before has begun
    // On disk.
    [[nodiscard]] std::uint32_t length() const {
      return static_cast<std::uint32_t>(sizeof(changed_page)) + padded(bytes);
    }
  };

  explicit page_cutter(std::span<const new_value> values) : values_(values) {}
  [[nodiscard]] bool is_end() const { return next_ == values_.size(); }
  [[nodiscard]] segment& in() const { return *values_[next_].in; }

  // Calls f(offset in the page, value, length) for what comes next and lies on one page, as long as its changed_page has
  // at most `room` bytes. `room` is at least least_range, and a multiple of 8.
  template <class F>
  extent take(std::uint32_t room, F&& f) {
    const segment* const in = values_[next_].in;
    extent all{(values_[next_].offset + done_) / redo_page, 0, 0, 0};
    for (; next_ != values_.size(); ++next_, done_ = 0) {
      const new_value& value = values_[next_];
      const std::uint64_t at = value.offset + done_;
      if (value.in != in || at / redo_page != all.page) break;
      const std::uint64_t used = sizeof(changed_page) + all.bytes + sizeof(changed_range);
      if (used >= room || all.ranges == most_ranges) break;
      const std::uint64_t left = value.length - done_;
      const std::uint64_t part = std::min(std::min(left, redo_page - at % redo_page), room - used);
      f(static_cast<std::uint16_t>(at % redo_page), value.from + done_, static_cast<std::uint16_t>(part));
      all.bytes += static_cast<std::uint32_t>(sizeof(changed_range) + part);
      ++all.ranges;
      all.begun = static_cast<std::uint16_t>(all.begun + (done_ == 0));
      if (part < left) {
        done_ += part;
        break;
      }
    }
    return all;
  }

 private:
  std::span<const new_value> values_;
  std::size_t next_ = 0;
  std::uint64_t done_ = 0;  // of the next value
};

}  // namespace

// Writes one transaction's records behind the contents of the batch.
class batch::appender {
 public:
  appender(batch& to, const commit_image& commit) : to_(to), commit_(commit) {
    if (to_.groups_.empty()) to_.add_group();
  }

  // Bulk runs come before the values.
  void add(const bulk_run& run) {
    constexpr std::uint32_t width = sizeof(std::uint32_t);
    for (std::uint64_t done = 0; done < run.pages;) {
      const auto number = place_for(*run.in, record_type::runs);
      if (!number) continue;
      const std::uint32_t room = limit() - group().used - static_cast<std::uint32_t>(sizeof(bulk_run_header));
      const std::uint64_t most = run.is_cleared() ? most_cleared : round_down(room, 8) / width;
      const auto part = static_cast<std::uint32_t>(std::min(run.pages - done, most));
      const std::uint32_t checksums = run.is_cleared() ? 0 : part * width;
      std::byte* at = group().bytes + group().used;
      put(at, bulk_run_header{(run.page + done) * redo_page, part, previous_run_, *number,
                              run.is_cleared() ? run_cleared : 0});
      if (checksums != 0) put_padded(at + sizeof(bulk_run_header), run.checksums.data() + done, checksums);
      previous_run_ = static_cast<std::uint32_t>(sizeof(bulk_run_header)) + padded(checksums);
      advance(previous_run_);
      done += part;
    }
  }
  // All values, in their order.
  void add(std::span<const new_value> values) {
    for (page_cutter at(values); !at.is_end();) {
      const auto number = place_for(at.in(), record_type::changes);
      if (!number) continue;
      std::byte* const front = group().bytes + group().used;
      std::byte* to = front + sizeof(changed_page);
      const page_cutter::extent made =
          at.take(limit() - group().used, [&](std::uint16_t offset, const std::byte* from, std::uint16_t length) {
            const changed_range range{offset, length};
            std::memcpy(to, &range, sizeof range);
            copy(to + sizeof range, from, length);
            to += sizeof range + length;
          });
      put(front, changed_page{made.page, made.bytes, static_cast<std::uint16_t>(*number), made.ranges});
      put_zeros(to, padded(made.bytes) - made.bytes);
      advance(made.length());
      const std::uint64_t payload = made.bytes - made.ranges * sizeof(changed_range);
      to_.ranges_ += made.begun;
      to_.payload_ += payload;
      ranges_ += made.begun;
      payload_ += payload;
    }
  }
  void finish() {
    close(record_last);
    const bool whole = parts_ == 1 && commit_.runs.empty() && !to_.is_prepared_;
    to_.commits_.push_back({static_cast<std::uint32_t>(to_.groups_.size() - 1), start_,
                            whole ? group().used - start_ : 0, ranges_, payload_, commit_.lazy});
    to_.lazy_ += commit_.lazy;
  }

 private:
  group_buffer& group() { return *to_.groups_.back(); }
  [[nodiscard]] std::uint32_t limit() const { return to_.pool_.group_length(); }
  // Finds room for at least least_range bytes in a record of this type, and returns the segment's number in its group.
  // If there is no room, it makes one step towards it and returns nothing; the caller asks again.
  std::optional<std::uint32_t> place_for(segment& in, record_type type) {
    const std::uint32_t number = number_of(in);
    if (open_ && type != type_) close(0);
    if (!open_ && !open(type)) {
      to_.add_group();
      return std::nullopt;
    }
    if (limit() - group().used < least_range) {
      close(0);
      to_.add_group();
      return std::nullopt;
    }
    return number;
  }
  void advance(std::size_t bytes) {
    group().used += static_cast<std::uint32_t>(bytes);
    ++entries_;
  }
  // The segment's number in the current group. Names the segment there if necessary, with room for a range behind it.
  std::uint32_t number_of(segment& s) {
    const auto& names = group().dictionary;
    if (const auto known = std::ranges::find(names, &s); known != names.end())
      return static_cast<std::uint32_t>(known - names.begin());
    if (open_) close(0);
    const std::uint32_t length = segment_record_length(s);
    if (limit() - group().used < length + transaction_head_length(commit_.label) + least_range) to_.add_group();
    group_buffer& g = group();
    const auto& path = s.logged_path();
    std::byte* at = g.bytes + g.used;
    put(at, record_header{record_type::segment, 0, length, g.last_record, static_cast<std::uint32_t>(path.size())});
    put(at + sizeof(record_header), segment_body{s.id(), s.is_raw() ? 1u : 0u, known_pages(s)});
    put_padded(at + sizeof(record_header) + sizeof(segment_body), path.data(), path.size());
    g.named_at.push_back(g.used);
    g.used += length;
    g.last_record = length;
    ++g.records;
    g.dictionary.push_back(&s);
    if (std::find(to_.segments_.begin(), to_.segments_.end(), &s) == to_.segments_.end()) to_.segments_.push_back(&s);
    return static_cast<std::uint32_t>(g.dictionary.size() - 1);
  }
  // Begins a record in the current group. Returns false if there is no room for a record with a range.
  bool open(record_type type) {
    const std::uint32_t head = transaction_head_length(commit_.label);
    if (limit() - group().used < head + least_range) return false;
    group_buffer& g = group();
    start_ = g.used;
    std::byte* at = g.bytes + start_ + sizeof(record_header);
    put(at, transaction_body{commit_.id, commit_.time, static_cast<std::uint32_t>(commit_.label.size()), 0});
    put_padded(at + sizeof(transaction_body), commit_.label.data(), commit_.label.size());
    g.used += head;
    entries_ = previous_run_ = 0;
    type_ = type;
    return open_ = true;
  }
  void close(std::uint16_t flags) {
    group_buffer& g = group();
    if (parts_++ == 0) flags |= record_first;
    if (commit_.lazy) flags |= record_lazy;
    const std::uint32_t length = g.used - start_;
    assert(g.used <= limit() && length % 8 == 0);
    put(g.bytes + start_, record_header{type_, flags, length, g.last_record, entries_});
    g.last_record = length;
    ++g.records;
    open_ = false;
  }

  batch& to_;
  const commit_image& commit_;
  bool open_ = false;
  record_type type_ = record_type::changes;
  std::uint32_t start_ = 0;         // of the record
  std::uint32_t entries_ = 0;       // its changed pages or bulk runs
  std::uint32_t previous_run_ = 0;  // the length of the last
  std::uint32_t parts_ = 0, ranges_ = 0;
  std::uint64_t payload_ = 0;
};

std::uint64_t batch::bound(const commit_image& commit, std::uint32_t block, std::uint32_t group_length) {
  std::uint64_t bytes = 0, most_names = 0;
  for (page_cutter at(commit.values); !at.is_end();) {
    most_names = std::max<std::uint64_t>(most_names, segment_record_length(at.in()));
    bytes += at.take(~std::uint32_t{7}, [](auto...) {}).length();
  }
  for (const auto& run : commit.runs) {
    bytes += sizeof(bulk_run_header) * (1 + run.pages / most_cleared) +
             round_up(run.checksums.size() * sizeof(std::uint32_t), 8);
    most_names = std::max<std::uint64_t>(most_names, segment_record_length(*run.in));
  }
  const std::uint64_t head = transaction_head_length(commit.label);
  // Each group repeats the names and the record headers. A record is closed, and a new one begun, when another segment
  // is named. A page's changes may be cut in two, and padded once more.
  const std::uint64_t per_group =
      sizeof(group_header) + 2 * (head + most_names) + 2 * least_range + sizeof(changed_page) + sizeof(changed_range);
  assert(per_group < group_length);
  const std::uint64_t room = group_length - per_group;
  const std::uint64_t groups = bytes < room ? 1 : bytes / room + 1;  // mostly no division
  std::uint64_t names = 0;
  const segment* last = nullptr;
  const auto count_name = [&](const auto& change) {
    if (change.in != last) names += segment_record_length(*change.in) + head;
    last = change.in;
  };
  std::ranges::for_each(commit.runs, count_name);
  last = nullptr;                                    // another type: another record
  std::ranges::for_each(commit.values, count_name);  // sorted by segment
  return round_up(bytes + names + groups * per_group, block) + (groups - 1) * block;
}

std::uint64_t batch::bound_of_id(std::string_view global_id, std::uint32_t block) {
  return round_up(sizeof(group_header) + sizeof(record_header) + padded(global_id.size()), block);
}

void batch::note_lengths(group_buffer& in) {
  for (std::size_t n = 0; n < in.dictionary.size(); ++n) {
    std::byte* const at = in.bytes + in.named_at[n] + sizeof(record_header) + offsetof(segment_body, pages);
    if (const std::uint32_t pages = known_pages(*in.dictionary[n]); pages != get<std::uint32_t>(at)) put(at, pages);
  }
}

batch::mark batch::now() const {
  mark m{groups_.size(), segments_.size(), 0, 0, 0, 0, ranges_, payload_};
  if (groups_.empty()) return m;
  const group_buffer& last = *groups_.back();
  m.names = last.dictionary.size();
  m.used = last.used;
  m.records = last.records;
  m.last_record = last.last_record;
  return m;
}

void batch::go_back_to(const mark& before) noexcept {
  while (groups_.size() > before.groups) {
    pool_.give_back(std::move(groups_.back()));
    groups_.pop_back();
  }
  if (before.groups != 0) {
    group_buffer& last = *groups_.back();
    last.used = before.used;
    last.records = before.records;
    last.last_record = before.last_record;
    last.dictionary.resize(before.names);
    last.named_at.resize(before.names);
  }
  segments_.resize(before.segments);
  ranges_ = before.ranges;
  payload_ = before.payload;
}

void batch::append(const commit_image& commit, std::span<const page_ref> pages) {
  assert(!commit.is_empty() && !is_prepared_);
  const mark before = now();
  try {
    if (const auto most = pages_.size() + pages.size(); most > pages_.capacity()) pages_.reserve(2 * most);
    appender to(*this, commit);
    for (const auto& run : commit.runs) to.add(run);
    to.add(commit.values);
    to.finish();
  } catch (...) {  // out of memory: as if it had not been tried
    go_back_to(before);
    throw;
  }
  for (std::size_t n = before.groups == 0 ? 0 : before.groups - 1; n < groups_.size(); ++n) note_lengths(*groups_[n]);
  for (const page_ref& page : pages)
    if (page.in->pages().note_commit(page.page, number_)) pages_.push_back(page);
  if (groups_.size() == before.groups)
    bytes_ += groups_.back()->used - before.used;
  else
    count_bytes();
}

void batch::append_prepared(const commit_image& commit, std::string_view global_id) {
  assert(!commit.is_empty() && !is_prepared_);
  const mark before = now();
  is_prepared_ = true;
  try {
    add_group();
    put_record(record_type::prepare, global_id);
    appender to(*this, commit);
    to.add(commit.values);
    to.finish();
  } catch (...) {
    is_prepared_ = false;
    go_back_to(before);
    throw;
  }
  count_bytes();
}

void batch::append_abort() {
  assert(!is_prepared_);
  commits_.reserve(commits_.size() + 1);  // then nothing fails behind add_group()
  if (groups_.empty() || pool_.group_length() - groups_.back()->used < sizeof(record_header)) add_group();
  commits_.push_back({static_cast<std::uint32_t>(groups_.size() - 1), groups_.back()->used, 0, 0, 0, false});
  put_record(record_type::outcome, {});
  has_outcome_ = true;
  count_bytes();
}

std::optional<std::uint64_t> batch::prepared_at(std::uint32_t block) const {
  std::uint64_t at = 0;
  for (const auto& g : groups_) {
    if (g->is_prepared) return at;
    at += round_up(g->used, block);
  }
  return std::nullopt;
}

void batch::put_record(record_type type, std::string_view text) {
  group_buffer& g = *groups_.back();
  const std::uint32_t length = static_cast<std::uint32_t>(sizeof(record_header)) + padded(text.size());
  put(g.bytes + g.used, record_header{type, 0, length, g.last_record, static_cast<std::uint32_t>(text.size())});
  put_padded(g.bytes + g.used + sizeof(record_header), text.data(), text.size());
  g.used += length;
  g.last_record = length;
  ++g.records;
}

void batch::count_bytes() {
  bytes_ = 0;
  for (const auto& g : groups_) bytes_ += g->used;
}

group_buffer& batch::add_group() {
  groups_.push_back(pool_.take());
  groups_.back()->is_prepared = is_prepared_;
  return *groups_.back();
}

batch_savings batch::drop_overwritten() {
  page_index index;
  std::vector<page_bytes> covered;
  std::vector<bool> dead(commits_.size());
  batch_savings saved;
  // Newest commit first. If newer commits cover all of a commit's ranges, the commit is removed. Otherwise its ranges
  // cover older ones.
  for (std::size_t i = commits_.size(); i-- > 0;) {
    const commit_place& place = commits_[i];
    if (place.length == 0) continue;
    const group_buffer& g = *groups_[place.group];
    const auto for_each_page = [&](auto&& f) {
      const std::byte* at = g.bytes + place.offset;
      const auto header = get<record_header>(at);
      at +=
          transaction_head_length({reinterpret_cast<const char*>(at), get<transaction_body>(at + sizeof header).label});
      for (std::uint32_t p = 0; p < header.count; ++p) {
        const auto changed = get<changed_page>(at);
        // Numbers differ between groups, but the segment's address is the same in all of them.
        const auto in = static_cast<std::uint32_t>(
            std::find(segments_.begin(), segments_.end(), g.dictionary[changed.segment]) - segments_.begin());
        const std::byte* each = at + sizeof changed;
        for (std::uint32_t r = 0; r < changed.ranges; ++r) {
          const auto range = get<changed_range>(each);
          if (!f(page_key{in, changed.page}, range.offset, std::uint32_t{range.offset} + range.length)) return false;
          each += sizeof range + range.length;
        }
        at += sizeof changed + padded(changed.bytes);
      }
      return true;
    };
    if (place.lazy && for_each_page([&](page_key key, std::uint32_t from, std::uint32_t to) {
          const auto known = index.find(key);
          return known != page_index::none && covered[known].contains(from, to);
        })) {
      dead[i] = true;
      ++saved.transactions;
      saved.bytes += place.length;
      continue;
    }
    for_each_page([&](page_key key, std::uint32_t from, std::uint32_t to) {
      const auto at = index.find_or_insert(key, static_cast<std::uint32_t>(covered.size()));
      if (at == covered.size()) covered.emplace_back();
      covered[at].insert(from, to);
      return true;
    });
  }
  if (saved.transactions != 0) {
    remove_commits(dead);
    has_all_ = false;
  }
  return saved;
}

void batch::remove_commits(const std::vector<bool>& dead) {
  auto place = commits_.begin();
  bytes_ = 0;
  for (std::uint32_t n = 0; n < groups_.size(); ++n) {
    group_buffer& g = *groups_[n];
    std::uint32_t to = sizeof(group_header), previous = 0, kept = 0;
    for (std::uint32_t from = to; from < g.used;) {
      auto header = get<record_header>(g.bytes + from);
      const std::uint32_t length = header.length;
      while (place != commits_.end() && (place->group < n || (place->group == n && place->offset < from))) ++place;
      if (place != commits_.end() && place->group == n && place->offset == from &&
          dead[static_cast<std::size_t>(place - commits_.begin())]) {
        ranges_ -= place->ranges;
        payload_ -= place->payload;
      } else {
        std::memmove(g.bytes + to, g.bytes + from, length);
        header.previous = previous;
        put(g.bytes + to, header);
        previous = length;
        to += length;
        ++kept;
      }
      from += length;
    }
    g.used = to;
    g.records = kept;
    g.last_record = previous;
    bytes_ += to;
  }
}

std::uint64_t batch::length(std::uint32_t block) const {
  std::uint64_t total = 0;
  for (const auto& g : groups_) total += round_up(g->used, block);
  return total;
}

std::uint32_t batch::last_group_length(std::uint32_t block) const {
  return static_cast<std::uint32_t>(round_up(groups_.back()->used, block));
}

std::vector<os::const_bytes> batch::finish(const log_stamp& log, lsn at, std::uint32_t previous_group) {
  assert(!groups_.empty() && at % log.block_size == 0);
  std::vector<os::const_bytes> parts;
  const lsn first = at;
  for (const auto& g : groups_) {
    const auto on_disk = static_cast<std::uint32_t>(round_up(g->used, log.block_size));
    assert(on_disk <= pool_.group_length());
    std::memset(g->bytes + g->used, 0, on_disk - g->used);
    group_header header{};
    header.magic = group_magic;
    header.log_id = short_log_id(log.log_id);
    header.lsn = at;
    header.batch = first;
    header.synced_through = first;  // the batch before was synced before this one is written [rvm.log.one-in-flight]
    header.length = g->used;
    header.previous = previous_group;
    header.generation = log.generation;
    header.records = g->records;
    header.flags = (&g == &groups_.back() ? group_last : 0) | (has_all_ ? group_of_all : 0) |
                   (g->is_prepared ? group_prepared : 0);
    put(g->bytes, header);
    constexpr auto covered_from = offsetof(group_header, log_id);
    header.checksum = crc32c({g->bytes + covered_from, g->used - covered_from});
    put(g->bytes, header);
    parts.emplace_back(g->bytes, on_disk);
    at += on_disk;
    previous_group = on_disk;
  }
  return parts;
}

void batch::check() const {
  std::uint64_t bytes = 0;
  for (const auto& g : groups_) {
    std::uint32_t at = sizeof(group_header), records = 0, previous = 0;
    while (at < g->used) {
      const auto header = get<record_header>(g->bytes + at);
      require_invariant(header.length >= sizeof header && header.length % 8 == 0 && header.length <= g->used - at,
                        "a record lies in its group");
      require_invariant(header.previous == previous, "a record knows the length of the one before");
      previous = header.length;
      at += header.length;
      ++records;
    }
    require_invariant(g->used <= pool_.group_length() && records == g->records && previous == g->last_record,
                      "a group counts its records");
    bytes += g->used;
  }
  require_invariant(bytes == bytes_, "a batch counts its bytes");
  require_invariant(lazy_ <= commits_.size(), "lazy commits are some of the commits");
  const commit_place* before = nullptr;
  for (const commit_place& place : commits_) {
    if (place.length == 0) continue;
    require_invariant(place.group < groups_.size() && place.offset + place.length <= groups_[place.group]->used,
                      "a commit's record lies in the batch");
    require_invariant(before == nullptr || before->group < place.group ||
                          (before->group == place.group && before->offset + before->length <= place.offset),
                      "records are in the order of the commits");  // [rvm.commit.captured]
    before = &place;
  }
  for (const page_ref& page : pages_)
    require_invariant(page.in->pages().last_batch(page.page) >= number_, "a page knows the last batch that changes it");
}

void batch::recycle() {
  for (auto& g : groups_) pool_.give_back(std::move(g));
  groups_.clear();
  pages_.clear();
  commits_.clear();
}

}  // namespace tenure::rvm
