// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/log_files.hpp"

#include <algorithm>
#include <cassert>
#include <optional>

#include "log/invariant.hpp"
#include "os/cleared_memory.hpp"

namespace tenure::rvm {

namespace {

// The length of a file of a log, at least if it is not the first one.
std::uint64_t file_length(std::uint64_t log_size, std::uint64_t most, std::uint32_t block) {
  return round_up(std::clamp(log_size / 4, min_log_file, most), block);
}

std::vector<std::shared_ptr<log_file>> open_files(os::disk& disk, const std::string& path, const manifest& of,
                                                  os::access access) {
  std::vector<std::shared_ptr<log_file>> files;
  for (const log_file_entry& listed : of.files) {
    const std::string file = log_file_path(disk, path, listed.number);
    try {
      files.push_back(log_file::open(disk, file, access, of, listed));
    } catch (const error& e) {
      if (e.code() != std::errc::no_such_file_or_directory) throw;
      std::string text = file;
      text.append(": this file of the log ").append(path);
      throw error(errc::damaged,
                  text.append(" is missing; put it back, or restore log and segments from a backup, of one moment"));
    }
  }
  return files;
}

// What a new log consists of, beside its manifest.
class new_log final : public manifest_file::companions {
 public:
  using adjusting = std::function<void(manifest&)>;
  using making = std::function<std::unique_ptr<new_file>(manifest&)>;
  new_log(os::disk& disk, const std::string& path, const log_options& how, const progress_callback& progress,
          const adjusting& adjust, const making& beside)
      : disk_(disk), path_(path), how_(how), progress_(progress), adjust_(adjust), make_beside_(beside) {}

  manifest write(const os::file& its_file) override {
    const std::string file = log_file_path(disk_, path_, 1);
    manifest status = new_manifest(how_, its_file.block_size());
    if (adjust_) adjust_(status);
    if (disk_.exists(file) && !is_left_over_log_file(disk_, file, status.log_id))
      throw error(std::make_error_code(std::errc::file_exists),
                  file + ": is there already, though the log " + path_ +
                      " is not; put the log back if this is its file, or move it away");
    log_file_header header{};
    header.log_id = status.log_id;
    header.sequence = 1;
    header.number = 1;
    header.block_size = status.block_size;
    header.base = status.head;
    header.length = file_length(status.size, first_log_file, status.block_size);
    first_.emplace(disk_, file, header, how_.permissions, progress_);
    status.files = {first_->entry()};
    if (make_beside_) beside_ = make_beside_(status);
    return status;
  }
  void finish() override {
    made_ = first_->finish();
    if (beside_ != nullptr) beside_->file().sync();
  }
  void give_names() override {
    if (beside_ != nullptr) beside_->give_name();
  }
  void make_names_durable() override {
    if (beside_ != nullptr && !beside_->is_beside(path_)) beside_->make_name_durable();
  }
  [[nodiscard]] std::shared_ptr<log_file> take_file() { return std::move(made_); }

 private:
  os::disk& disk_;
  const std::string& path_;
  const log_options& how_;
  const progress_callback& progress_;
  const adjusting& adjust_;
  const making& make_beside_;
  std::optional<log_file::unfinished> first_;
  std::unique_ptr<new_file> beside_;
  std::shared_ptr<log_file> made_;
};

}  // namespace

log_files::log_files(os::disk& disk, std::string path, manifest_file of, os::access access)
    : disk_(disk),
      path_(std::move(path)),
      manifest_(std::move(of)),
      log_id_(manifest_.current().log_id),
      block_(manifest_.current().block_size) {
  build_chain(open_files(disk_, path_, manifest_.current(), access));
}

log_files::log_files(os::disk& disk, std::string path, manifest_file of, std::vector<std::shared_ptr<log_file>> files)
    : disk_(disk),
      path_(std::move(path)),
      manifest_(std::move(of)),
      log_id_(manifest_.current().log_id),
      block_(manifest_.current().block_size) {
  build_chain(std::move(files));
}

std::unique_ptr<log_files> log_files::create(os::disk& disk, const std::string& path, const log_options& how,
                                             const progress_callback& progress,
                                             const std::function<void(manifest&)>& adjust,
                                             const std::function<std::unique_ptr<new_file>(manifest&)>& beside) {
  new_log parts(disk, path, how, progress, adjust, beside);
  manifest_file status = manifest_file::create(disk, path, how.permissions, parts);
  std::unique_ptr<log_files> made(new log_files(disk, path, std::move(status), {parts.take_file()}));
  if (how.allocate_all)
    while (made->length() < made->status().size) made->extend(made->status().size, made->status());
  return made;
}

std::unique_ptr<log_files> log_files::open(os::disk& disk, const std::string& path, os::access access) {
  std::unique_ptr<log_files> opened(new log_files(disk, path, manifest_file::open(disk, path, access), access));
  opened->require_last_change();
  return opened;
}

std::unique_ptr<log_files> log_files::open_unlocked(os::disk& disk, const std::string& path) {
  // A file may be removed or added after the manifest was read.
  for (int tries = 0;; ++tries) {
    manifest_file found = manifest_file::open_unlocked(disk, path);
    const std::uint64_t sequence = found.current().sequence;
    try {
      return std::unique_ptr<log_files>(new log_files(disk, path, std::move(found), os::access::read_only));
    } catch (const error&) {
      if (tries == 100 || manifest_file::open_unlocked(disk, path).current().sequence == sequence) throw;
    }
  }
}

// The files that lead from one to the next, around the one that has the head, or that ends there. Other files are spare: they were freed, and
// a crash came before they were moved behind the head, or while rewind() was at work.
void log_files::build_chain(std::vector<std::shared_ptr<log_file>> files) {
  const lsn head = status().head;
  chain found;
  // The file that was changed last comes first where several would do.
  std::ranges::sort(files, std::ranges::greater(), &log_file::sequence);
  const auto take = [&](auto&& fits) -> std::shared_ptr<log_file> {
    const auto at = std::ranges::find_if(files, fits);
    if (at == files.end()) return nullptr;
    auto taken = *at;
    files.erase(at);
    return taken;
  };
  const auto link_of = [](const std::shared_ptr<log_file>& f) { return link{f->base(), f->end(), f}; };
  auto first = take([&](const auto& f) { return f->base() <= head && head < f->end(); });
  if (first == nullptr) first = take([&](const auto& f) { return f->end() == head; });  // the log is empty
  if (first != nullptr) {
    found.push_back(link_of(first));
    while (const auto next = take([&](const auto& f) { return f->base() == found.back().end; }))
      found.push_back(link_of(next));
    while (const auto before = take([&](const auto& f) { return f->end() == found.front().base; }))
      found.insert(found.begin(), link_of(before));
  }
  spare_ = std::move(files);
  if (const lsn end = found.empty() ? head : found.back().end; end < status().tail)
    throw error(errc::damaged, path_ + ": the log was durable up to LSN " + std::to_string(status().tail) +
                                   ", but its files end at LSN " + std::to_string(end) +
                                   "; restore log and segments from a backup, of one moment");
  set(std::make_shared<const chain>(std::move(found)));
}

// Whatever changes a file makes it the end of the chain. So if the file that was changed last is spare, one that leads to it is
// older than it was then, or the manifest is, and what was committed in it would be missed [rvm.log.chain].
void log_files::require_last_change() const {
  const auto last = std::ranges::max_element(spare_, {}, &log_file::sequence);
  const auto links = now();
  if (last == spare_.end() || (!links->empty() && links->back().file->sequence() > (*last)->sequence())) return;
  throw error(errc::damaged, path_ + ": the log's files are of several moments: they lead to LSN " +
                                 std::to_string(end()) + ", but " + (*last)->path() +
                                 ", which was changed last, begins at LSN " + std::to_string((*last)->base()) +
                                 "; put files of the same moment in place, or restore log and segments from a "
                                 "backup, of one moment");
}

std::shared_ptr<const log_files::chain> log_files::now() const {
  const std::scoped_lock lock(mutex_);
  return chain_;
}

void log_files::set(std::shared_ptr<const chain> next) noexcept {
  const std::scoped_lock lock(mutex_);
  chain_.swap(next);
}

const log_files::link& log_files::find(const chain& in, lsn at) const {
  const auto next = std::ranges::upper_bound(in, at, {}, &link::base);
  if (next == in.begin() || at >= std::prev(next)->end)
    throw error(errc::damaged, path_ + ": none of the log's files has LSN " + std::to_string(at));
  return *std::prev(next);
}

lsn log_files::end() const {
  const auto links = now();
  return links->empty() ? status().head : links->back().end;
}

lsn log_files::begin() const {
  const auto links = now();
  return links->empty() ? status().head : links->front().base;
}

std::string log_files::place(lsn at) const {
  const auto links = now();
  for (const link& l : *links)
    if (at >= l.base && at < l.end) return l.file->path() + ", offset " + std::to_string(log_file_data + (at - l.base));
  return path_ + ", in no file";
}

void log_files::read(lsn at, os::bytes into) const {
  const auto links = now();
  while (!into.empty()) {
    const link& l = find(*links, at);
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), l.end - at));
    l.file->read(at, into.first(part));
    at += part;
    into = into.subspan(part);
  }
}

void log_files::read_ahead(lsn at, std::uint64_t length) const noexcept {
  const auto links = now();
  for (const link& l : *links) {
    const lsn from = std::max(at, l.base), to = std::min(at + length, l.end);
    if (from < to) l.file->read_ahead(from, to - from);
  }
}

void log_files::write_durably(lsn at, std::span<const os::const_bytes> from) {
  std::uint64_t length = 0;
  for (const auto& part : from) length += part.size();
  const auto links = now();
  if (const link& l = find(*links, at); at + length <= l.end) return l.file->write_durably(at, from);
  // The pieces belong to one batch, so none is acknowledged before all are durable.
  std::vector<os::const_bytes> rest(from.begin(), from.end());
  while (!rest.empty()) {
    const link& l = find(*links, at);
    std::uint64_t room = l.end - at, written = 0;
    std::vector<os::const_bytes> here;
    std::size_t n = 0;
    for (; n < rest.size() && room != 0; ++n) {
      const auto fits = static_cast<std::size_t>(std::min<std::uint64_t>(rest[n].size(), room));
      here.push_back(rest[n].first(fits));
      room -= fits;
      written += fits;
      if (fits != rest[n].size()) {
        rest[n] = rest[n].subspan(fits);
        break;
      }
    }
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(n));
    l.file->write(at, here);
    l.file->sync();
    at += written;
  }
}

void log_files::make_durable(lsn from, lsn to) {
  os::cleared_vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(to - from, 1 << 20)));
  while (from < to) {
    const auto part =
        os::bytes(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), to - from)));
    read(from, part);
    const os::const_bytes whole = part;
    write_durably(from, {&whole, 1});
    from += part.size();
  }
}

std::string log_files::find_copy() const {
  if (status().clean != 0) return "";
  if (!manifest_.is_in_place()) return path_;
  for (const auto& f : all_files())
    if (f->entry().inode != status().find_file(f->number())->inode) return f->path();
  return "";
}

void log_files::note_places(manifest& status) const {
  for (const auto& f : all_files()) *std::ranges::find(status.files, f->number(), &log_file_entry::number) = f->entry();
  for (listed_segment& s : status.segments) s.device = s.inode = 0;
}

void log_files::make_names_durable() {
  for (const auto& f : all_files()) {
    f->make_header_durable();
    f->sync_name();
  }
  manifest_.sync_name();
}

std::vector<std::shared_ptr<log_file>> log_files::all_files() const {
  std::vector<std::shared_ptr<log_file>> all = spare_;
  for (const link& l : *now()) all.push_back(l.file);
  return all;
}

std::uint64_t log_files::length() const {
  std::uint64_t sum = 0;
  for (const log_file_entry& f : status().files) sum += f.length;
  return sum;
}

std::uint64_t log_files::next_sequence() const {
  std::uint64_t last = 0;
  for (const auto& f : all_files()) last = std::max(last, f->sequence());
  return last + 1;
}

lsn log_files::head_for(std::uint64_t bytes, lsn tail) const {
  std::uint64_t room = end() - tail;
  for (const auto& f : spare_) room += f->length();
  for (const link& l : *now()) {
    if (room >= bytes || l.end > tail) break;
    room += l.file->length();
    if (room >= bytes) return l.end;
  }
  return tail;
}

std::uint32_t log_files::free_number(const manifest& status, std::uint32_t from) const {
  for (std::uint32_t number = from;; ++number) {
    const std::string file = log_file_path(disk_, path_, number);
    if (status.find_file(number) == nullptr && (!disk_.exists(file) || is_left_over_log_file(disk_, file, log_id_)))
      return number;
  }
}

void log_files::extend(std::uint64_t capacity, manifest status) {
  if (status.files.size() >= most_log_files)
    throw error(errc::log_stuck, path_ + ": the log has " + std::to_string(status.files.size()) +
                                     " files, and may not have more: what keeps it from freeing them has to end");
  // Few files, of similar lengths: a file is used again when all of it is free. Beyond its usual size the log grows by
  // a quarter at least, however little is asked for: it may go on for as long as somebody holds it.
  const std::uint64_t has = length();
  std::uint64_t wanted = next_length(has, status.size);
  if (capacity > status.size) wanted = std::max(wanted, capacity / 4);
  const std::uint64_t most = capacity > status.size ? status.max_size : status.size;
  assert(capacity > has && capacity <= most);
  add_file(std::min(wanted, most - has), std::move(status));
}

// Up to its usual size the log grows by this.
std::uint64_t log_files::next_length(std::uint64_t has, std::uint64_t size) const {
  const std::uint64_t least = file_length(size, second_log_file, block_);
  return std::clamp(has / 2, least, std::max(size / 4, least));
}

void log_files::add_file(std::uint64_t length, manifest status) {
  log_file_header header{};
  header.log_id = log_id_;
  header.sequence = next_sequence();
  header.block_size = block_;
  header.base = end();
  header.length = round_up(length, block_);
  header.number = free_number(status, 1);
  const auto next = std::make_shared<chain>(*now());
  next->reserve(next->size() + 1);
  std::shared_ptr<log_file> made =
      log_file::create(disk_, log_file_path(disk_, path_, header.number), header, status.permissions, {});
  disk_.take_owner_of(log_file_path(disk_, path_, header.number), path_);
  status.files.push_back(made->entry());
  try {
    manifest_.write(status);
  } catch (const error& e) {
    throw error(
        errc::outcome_unknown,
        std::string("the log's manifest could not be written; close this memory and open it again: ") + e.what());
  }
  next->push_back({made->base(), made->end(), made});
  set(next);
}

bool log_files::replace_long(lsn needed, std::uint64_t keep) {
  std::uint64_t others = 0;
  bool is_long = false;
  const auto count = [&](const link& l, bool is_free) {
    if (is_free && l.file->length() > keep)
      is_long = true;
    else
      others += l.file->length();
  };
  for (const link& l : *now()) count(l, l.end <= needed);
  for (const auto& file : spare_) count({0, 0, file}, true);
  if (!is_long) return false;
  while (others < keep && status().files.size() < most_log_files) {
    const std::uint64_t more = round_up(std::min(next_length(others, keep), keep - others), block_);
    add_file(more, status());
    others += more;
  }
  return true;
}

bool log_files::may_reclaim(lsn needed) const {
  const auto links = now();
  return !spare_.empty() || (!links->empty() && links->front().end <= needed);
}

// All memory is taken before anything is changed: a file that has new bytes, and is not in the chain, would be found instead of one
// that has them too [rvm.log.memory].
void log_files::reclaim(lsn needed, std::uint64_t keep, manifest status) {
  const auto links = now();
  const auto still_needed = std::ranges::find_if(*links, [&](const link& l) { return l.end > needed; });
  const auto freed = static_cast<std::size_t>(still_needed - links->begin());
  if (spare_.empty() && freed == 0) return;
  const auto rest = std::make_shared<chain>(still_needed, links->end()), next = std::make_shared<chain>(*rest);
  std::vector<std::shared_ptr<log_file>> dropped;
  next->reserve(links->size() + spare_.size());
  dropped.reserve(links->size() + spare_.size());
  spare_.reserve(links->size() + spare_.size());
  std::uint64_t sequence = next_sequence();
  lsn at = end();
  set(rest);
  for (auto l = links->begin(); l != still_needed; ++l) spare_.push_back(l->file);
  try {
    while (!spare_.empty()) {
      const std::shared_ptr<log_file> file = spare_.front();
      const auto listed = std::ranges::find(status.files, file->number(), &log_file_entry::number);
      assert(listed != status.files.end());
      std::uint64_t others = 0;
      for (const log_file_entry& f : status.files)
        if (f.number != file->number()) others += f.length;
      if (others >= keep) {
        status.files.erase(listed);
        dropped.push_back(file);
      } else {
        file->rebase(at, sequence++);
        next->push_back({file->base(), file->end(), file});
        at = file->end();
      }
      spare_.erase(spare_.begin());
    }
    set(next);
    spare_ = dropped;  // has room for them
    if (dropped.empty()) return;
    manifest_.write(status);
  } catch (...) {
    set(next);
    for (const auto& file : dropped)
      if (std::ranges::find(spare_, file) == spare_.end()) spare_.push_back(file);
    throw;
  }
  spare_.clear();
  for (const auto& file : dropped) remove(file->path());
}

// If a crash leaves only some of them changed, those have the highest sequence numbers, and the others are found to be
// spare.
void log_files::rewind(lsn at, std::uint64_t keep, manifest status) {
  std::vector<std::shared_ptr<log_file>> files = all_files(), dropped;
  const auto none = std::make_shared<chain>(), next = std::make_shared<chain>();
  next->reserve(files.size());
  dropped.reserve(files.size());
  std::uint64_t sequence = next_sequence(), left = length();
  for (const auto& file : files)
    if (file->length() > keep && left - file->length() >= keep) {
      left -= file->length();
      std::erase_if(status.files, [&](const log_file_entry& listed) { return listed.number == file->number(); });
      dropped.push_back(file);
    }
  spare_.swap(files);
  set(none);
  for (const auto& file : spare_) {
    if (std::ranges::find(dropped, file) != dropped.end()) continue;
    file->rebase(at, sequence++);
    next->push_back({file->base(), file->end(), file});
    at = file->end();
  }
  assert(!next->empty());
  spare_.swap(dropped);
  set(next);
  if (spare_.empty()) return;
  manifest_.write(status);
  for (const auto& file : spare_) remove(file->path());
  spare_.clear();
}

void log_files::cut(lsn end, manifest status) {
  chain next;
  const auto links = now();
  std::uint32_t number = 0;
  std::uint64_t sequence = next_sequence();
  std::vector<std::byte> buffer(1 << 20);
  for (const link& l : *links) {
    log_file_header header{};
    header.log_id = log_id_;
    header.sequence = sequence++;
    header.number = number = free_number(status, number + 1);
    header.block_size = block_;
    header.base = l.base;
    header.length = l.file->length();
    std::shared_ptr<log_file> made =
        log_file::create(disk_, log_file_path(disk_, path_, number), header, status.permissions, {});
    disk_.take_owner_of(log_file_path(disk_, path_, number), path_);
    for (lsn at = l.base; at < std::min(l.end, end);) {
      const auto part = os::bytes(buffer).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), std::min(l.end, end) - at)));
      l.file->read(at, part);
      const os::const_bytes whole = part;
      made->write(at, {&whole, 1});
      at += part.size();
    }
    made->sync();
    next.push_back({l.base, l.end, made});
  }
  std::erase_if(status.files, [&](const log_file_entry& f) {
    return std::ranges::any_of(*links, [&](const link& l) { return l.file->number() == f.number; });
  });
  for (const link& l : next) status.files.push_back(l.file->entry());
  manifest_.write(status);
  set(std::make_shared<const chain>(std::move(next)));
  for (const link& l : *links) remove(l.file->path());
}

void log_files::remove(const std::string& file) noexcept {
  try {
    disk_.remove(file);
  } catch (...) {  // the next opening after a crash tries again
  }
}

void log_files::remove_left_overs() {
  // The log gives the lowest number that is free. A manifest may be forged, and say that there are thousands of millions.
  constexpr std::uint32_t most = 1 << 16;
  const std::uint32_t last = std::min(std::ranges::max(status().files, {}, &log_file_entry::number).number, most);
  for (std::uint32_t number = 1; number <= last + 1; ++number) {
    const std::string file = log_file_path(disk_, path_, number);
    if (status().find_file(number) == nullptr && disk_.exists(file) && is_left_over_log_file(disk_, file, log_id_))
      remove(file);
  }
}

void log_files::check() const {
  const auto links = now();
  for (std::size_t n = 0; n < links->size(); ++n) {
    const link& l = (*links)[n];
    require_invariant(l.base == l.file->base() && l.end == l.file->end(),
                      "a file of the log has the bytes of its link");
    require_invariant(n == 0 || (*links)[n - 1].end == l.base, "the log's files lead from one to the next");
  }
  require_invariant(links->size() + spare_.size() == status().files.size(), "the manifest has all files of the log");
  for (const auto& f : all_files()) {
    const log_file_entry* const listed = status().find_file(f->number());
    require_invariant(listed != nullptr && listed->length == f->length(), "the manifest has all files of the log");
  }
}

}  // namespace tenure::rvm
