// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Programs that use the public interface, on a disk that loses power and fails, against a model: what is found after a
// crash must be what some number of the commits, in their order, had made, and at least those that were acknowledged.
#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "fuzz_support.hpp"

using namespace tenure;
using namespace tenure::fuzz;

namespace {

using image = std::vector<std::byte>;
using images = std::array<image, 2>;  // the segment with a header, and the raw one

struct change {
  std::size_t in;
  std::size_t offset;
  image value;
};
using change_list = std::vector<change>;

void put_changes(const change_list& changes, images& to) {
  for (const change& each : changes)
    std::ranges::copy(each.value, to[each.in].begin() + static_cast<std::ptrdiff_t>(each.offset));
}

// An open transaction, as the model sees it.
struct open_slot {
  rvm::transaction tx;
  bool can_abort = true;
  std::vector<std::array<std::size_t, 3>> declared;  // segment, offset, length
  change_list undo;
};

class workload {
 public:
  explicit workload(byte_source& in) : in_(in) {
    const std::uint8_t how = in_.byte();
    options_.log = {.size = rvm::min_log_size,
                    .max_size = how & 1 ? rvm::min_log_size : 4 * rvm::min_log_size,
                    .block_size = how & 2 ? 512u : 4096u};
    options_.recovery_memory = 8 << 20;
    options_.background = false;
    options_.tune.truncation_threshold = std::array{0.5, 0.1, 0.9, 2.0}[how >> 2 & 3];
    if (how & 16) options_.tune.spool_limit = 2000;
    options_.tune.check_undeclared = checking_ = (how & 32) != 0;
    copy_in_ = (how & 64) != 0;
    disk_->install(raw_path, image(raw_length));
    known_ = {image(segment_length), image(raw_length)};
    if (how & 128) disk_->crash_at(1 + in_.byte() % 64);
    reopen();
  }
  ~workload() {
    let_go();
    memory_.reset();
  }
  workload(const workload&) = delete;
  workload& operator=(const workload&) = delete;

  void run() {
    for (int steps = 0; steps < 300 && !in_.empty(); ++steps) {
      try {
        step();
        compare_live();
      } catch (const sim::power_failure&) {
        lose_power(in_.byte());
      } catch (const error& e) {
        require(faulty_ || degraded_, "an error without a cause", e.what());
        recover_from_error();
      }
    }
    // In the end, what a sudden loss of power leaves.
    disk_->clear_faults();
    lose_power(2);
    require(disk_->weak_durable_writes() == 0, "a durable write went to blocks that were not initialised");
  }

 private:
  void step() {
    const std::uint8_t op = in_.byte();
    open_slot& slot = slots_[op >> 7];
    switch (op % 20) {
      case 0:
      case 1:
      case 2:
      case 3: return write(slot, op);
      case 4: return write_much(slot);
      case 5: return scribble();
      case 6:
      case 7:
      case 8: return commit(slot, rvm::commit_mode::flush);
      case 9:
      case 10:
      case 11: return commit(slot, rvm::commit_mode::no_flush);
      case 12: return abort(slot);
      case 13: memory_->flush(); return all_durable();
      case 14: memory_->truncate(); return all_durable();
      case 15: (void)memory_->truncate_incrementally(in_.take<std::uint16_t>()); return;
      case 16: return remap(op >> 7);
      case 17: return close_and_open();
      case 18:
        if (op & 64) return lose_power(in_.byte());
        return disk_->crash_at(disk_->operations() + 1 + in_.byte() % 32, op & 128 ? in_.byte() % 16 : sim::for_ever);
      default:
        if (op & 64) return inject();
        memory_->truncate();
        all_durable();
        // Pages that cannot be read count as damaged.
        require(memory_->verify_segment(segment_path).empty() || faulty_, "a checksum is wrong");
    }
  }

  void begin(open_slot& slot) {
    if (slot.tx.is_open()) return;
    slot.can_abort = in_.byte() % 8 != 0;
    slot.declared.clear();
    slot.undo.clear();
    slot.tx = memory_->begin(slot.can_abort ? rvm::restore_mode::restore : rvm::restore_mode::no_restore);
  }

  // Transactions that run at once change different bytes: each has half of every page.
  void write(open_slot& slot, std::uint8_t op) {
    begin(slot);
    constexpr std::size_t half = 2048;
    const std::size_t which = op & 64 ? 1 : 0;
    const std::size_t page = in_.below(known_[which].size() / 4096);
    const std::size_t from = in_.take<std::uint16_t>() % half;
    const std::size_t length =
        std::min<std::size_t>(op & 32 ? in_.take<std::uint16_t>() % half : in_.byte() % 32, half - from);
    declare_and_fill(slot, which, page * 4096 + (&slot == slots_.data() ? 0 : half) + from, length, (op & 16) == 0);
  }
  void write_much(open_slot& slot) {
    end(slots_[&slot == slots_.data() ? 1 : 0]);
    begin(slot);
    const std::size_t from = in_.take<std::uint16_t>() % segment_length;
    declare_and_fill(slot, 0, from,
                     std::min<std::size_t>(in_.take<std::uint32_t>() % segment_length, segment_length - from), true);
  }
  void declare_and_fill(open_slot& slot, std::size_t which, std::size_t offset, std::size_t length, bool fill) {
    std::byte* const at = regions_[which].data() + offset;
    slot.tx.set_range(at, length);
    slot.declared.push_back({which, offset, length});
    image& live = live_[which];
    const auto begin = live.begin() + static_cast<std::ptrdiff_t>(offset);
    slot.undo.push_back({which, offset, image(begin, begin + static_cast<std::ptrdiff_t>(length))});
    if (!fill) return;
    const std::uint8_t value = in_.byte();
    for (std::size_t i = 0; i < length; ++i) at[i] = live[offset + i] = static_cast<std::byte>(value + i / 7);
  }
  // A write that nobody declares may be seen in this memory, but never in the segment.
  void scribble() {
    if (checking_) return;
    const std::size_t offset = in_.take<std::uint16_t>() % raw_length;
    regions_[1].data()[offset] = live_[1][offset] = static_cast<std::byte>(in_.byte());
  }

  void commit(open_slot& slot, rvm::commit_mode mode) {
    if (!slot.tx.is_open()) return;
    change_list changes;
    for (const auto& [which, offset, length] : slot.declared) {
      const auto begin = live_[which].begin() + static_cast<std::ptrdiff_t>(offset);
      changes.push_back({which, offset, image(begin, begin + static_cast<std::ptrdiff_t>(length))});
    }
    pending_.push_back(std::move(changes));
    try {
      (void)slot.tx.commit(mode);
    } catch (const error& e) {
      require(slot.tx.is_open(), "a commit that failed ended its transaction");
      if (e.code() != errc::too_big) throw;
      pending_.pop_back();
      require(options_.log.max_size == rvm::min_log_size || faulty_, "the log should have grown", e.what());
      return end(slot);
    }
    if (mode == rvm::commit_mode::flush) all_durable();
  }
  void abort(open_slot& slot) {
    if (!slot.tx.is_open()) return;
    try {
      slot.tx.abort();
      require(slot.can_abort, "a no_restore transaction was aborted");
      while (!slot.undo.empty()) {
        put_changes({slot.undo.back()}, live_);
        slot.undo.pop_back();
      }
    } catch (const error& e) {
      require(!slot.can_abort && e.code() == errc::cannot_abort, "abort failed", e.what());
      slot.tx = {};  // what it changed stays in memory, and is never logged
    }
    // In checking mode that would be an undeclared write.
    if (!slot.can_abort && checking_) close_and_open();
  }
  void end(open_slot& slot) { abort(slot); }

  void all_durable() {
    for (const change_list& each : pending_) put_changes(each, known_);
    pending_.clear();
  }

  void remap(std::size_t which) {
    try {
      regions_[which].unmap();
    } catch (const error& e) {
      if (e.code() == errc::region_busy)
        return require(slots_[0].tx.is_open() || slots_[1].tx.is_open(), "nothing is busy");
      degraded_ = reopen_ = true;
      throw;
    }
    all_durable();
    reopen_ = true;  // if the next fails
    map(which);
    reopen_ = false;
    require_committed(which);
    live_[which] = known_[which];
  }
  void map(std::size_t which) {
    regions_[which] = which == 0 ? memory_->map(segment_path, {.create_length = segment_length, .copy_in = copy_in_})
                                 : memory_->map(raw_path, {.raw = true, .copy_in = copy_in_});
  }
  void require_committed(std::size_t which) {
    require(std::memcmp(regions_[which].data(), known_[which].data(), known_[which].size()) == 0,
            "a fresh mapping shows something else than was committed");
  }

  void close_and_open() {
    for (open_slot& slot : slots_) slot.tx = {};
    reopen_ = true;
    memory_->close();
    all_durable();
    closed_ = true;
    reopen();
  }

  void inject() {
    static constexpr std::array kinds{
        sim::operation::write,          sim::operation::durable_write, sim::operation::sync,   sim::operation::resize,
        sim::operation::allocate,       sim::operation::create,        sim::operation::rename, sim::operation::remove,
        sim::operation::sync_directory, sim::operation::read,          sim::operation::map,    sim::operation::open};
    const std::uint8_t what = in_.byte();
    disk_->inject({.kind = kinds[what % kinds.size()],
                   .nth = 1 + in_.byte() % 8u,
                   .count = what & 128 ? 3u : 1u,
                   .what = sim::effect::fail,
                   .error = what & 64 ? ENOSPC : EIO,
                   .bytes = in_.byte() * std::uint64_t{64}});
    faulty_ = true;
  }
  void recover_from_error() {
    const std::uint8_t then = in_.byte();
    if ((then & 1) && !reopen_) {  // goes on
      degraded_ = true;
      return;
    }
    for (open_slot& slot : slots_) slot.tx = {};
    let_go();
    memory_.reset();
    if (then & 2) {
      disk_->clear_faults();
      faulty_ = false;
    }
    reopen();
  }

  void let_go() {
    for (open_slot& slot : slots_) slot.tx = {};
    for (rvm::region& each : regions_) each = {};
  }

  // Not with garbage: a segment's sectors are taken to be written as a whole (docs/caveats.md).
  void lose_power(std::uint8_t how) {
    disk_->power_off();
    let_go();
    memory_.reset();
    crash(std::array{sim::policy::random, sim::policy::random, sim::policy::drop_all, sim::policy::keep_all}[how & 3]);
    if (how & 4) disk_->crash_at(1 + how / 8, how & 1 ? 3 : sim::for_ever);  // again, while recovering
    reopen();
  }

  void crash(sim::policy what) {
    disk_ = disk_->crash(in_.take<std::uint16_t>(), what);
    options_.disk = disk_.get();
    faulty_ = false;
  }

  // Opens what is on the disk and finds out how far it got.
  void reopen() {
    for (;;) {
      try {
        reopen_ = degraded_ = false;
        memory_.reset();
        memory_ = std::make_unique<rvm::memory>(log_path, options_);
        require(!closed_ || !memory_->recovery().needed || faulty_, "a log closed cleanly needed recovery");
        for (const std::size_t which : {0, 1}) map(which);
        break;
      } catch (const sim::power_failure&) {
        let_go();
        memory_.reset();
        crash(sim::policy::random);
      } catch (const error& e) {
        require(faulty_, "a log that should be sound cannot be opened", e.what());
        disk_->clear_faults();
        faulty_ = false;
      }
    }
    closed_ = false;
    const auto same = [&] {
      for (const std::size_t which : {0, 1})
        if (std::memcmp(regions_[which].data(), known_[which].data(), known_[which].size()) != 0) return false;
      return true;
    };
    while (!same()) {
      require(!pending_.empty(), "what was recovered is not what any of the commits had made");
      put_changes(pending_.front(), known_);
      pending_.pop_front();
    }
    pending_.clear();
    live_ = known_;
  }

  void compare_live() {
    if (degraded_) return;
    for (const std::size_t which : {0, 1})
      require(std::memcmp(regions_[which].data(), live_[which].data(), live_[which].size()) == 0,
              "memory changed by itself");
  }

  byte_source& in_;
  std::unique_ptr<sim::disk> disk_ = std::make_unique<sim::disk>();
  rvm::options options_ = small(*disk_, rvm::open_mode::open_or_create);
  std::unique_ptr<rvm::memory> memory_;
  std::array<rvm::region, 2> regions_;
  std::array<open_slot, 2> slots_;
  images known_;                     // durable
  std::deque<change_list> pending_;  // committed behind it, perhaps durable
  images live_;                      // what memory shows
  bool faulty_ = false;              // errors are to be expected
  bool degraded_ = false;            // there was one, and the memory was kept
  bool reopen_ = false;              // it cannot be kept any more
  bool closed_ = false, checking_ = false, copy_in_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  workload(in).run();
  return 0;
}
