// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/collector.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include <tenure/error.hpp>

#include "collection/marking_crew.hpp"
#include "objects/references.hpp"
#include "os/cleared_memory.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "os/unsynchronized_reads.hpp"
#include "os/virtual_memory.hpp"
#include "store/dropped_objects.hpp"
#include "store/evacuator.hpp"
#include "store/store_state.hpp"
#include "store/sweep.hpp"
#include "store/weak_collection.hpp"

namespace tenure {

using namespace heap;

namespace {

using clock = std::chrono::steady_clock;
double seconds_since(clock::time_point began) { return std::chrono::duration<double>(clock::now() - began).count(); }

template <class What>
void tell(const callback<void(const What&)>& whom, const What& what) noexcept {
  try {
    if (whom) whom(what);
  } catch (...) {  // of the program
  }
}

}  // namespace

struct collector::cycle {
  clock::time_point began = clock::now();
  std::optional<root_snapshot> roots;
  std::optional<marker> marks;
  std::deque<granule_bits> new_objects;  // by database
  std::vector<database_state*> databases;
  collect_report report;

  // The granules of a block with objects that are marked, or newer than the cycle.
  [[nodiscard]] start_bits kept_in(const database_state& in, std::uint64_t block) const {
    start_bits kept = marks->marked_in(in, block);
    const auto of = std::ranges::find(databases, &in);
    if (of != databases.end()) new_objects[static_cast<std::size_t>(of - databases.begin())].add_block_to(block, kept);
    return kept;
  }
  [[nodiscard]] bool keeps(const void* object) const {
    for (const database_state* const d : databases) {
      const auto at = reinterpret_cast<address>(object);
      if (!d->map->contains(at)) continue;
      const found_object found = d->find(object);
      const std::uint64_t block = d->map->block_of(found.at);
      return found && kept_in(*d, block).test((found.at - d->map->start_of(block)) / granule);
    }
    return true;
  }
};

// --- The thread -------------------------------------------------------------------------------------------------------

collector::collector(store_state& of) : of_(of), quarantined_(of.databases), due_at_(of.how.collection.after_bytes) {}

void collector::start_thread() {
  if (thread_.joinable()) return;
  stopping_ = false;
  thread_ = os::begin_thread<std::thread>("collects garbage in " + of_.directory, [this] { run(); });
}

void collector::require_other_thread(const char* what) const {
  if (runs_in_.load(std::memory_order_relaxed) == std::this_thread::get_id())
    throw error(errc::bad_transaction, of_.directory + ": a callback of a collection cannot " + what +
                                           ", which would wait for the collection; return from it first");
}

collect_report collector::collect(const collection_options& how) {
  if (how.objects_at_once == 0) throw error(errc::bad_option, "objects_at_once is 0: at least 1 is needed");
  require_markers(how.markers);
  evacuator::require_right(how.evacuation);
  require_other_thread("collect the store");
  request mine{how};
  std::unique_lock lock(mutex_);
  start_thread();
  requests_.push_back(&mine);
  wanted_.notify_one();
  over_.wait(lock, [&] { return mine.is_over(); });
  if (mine.failed) std::rethrow_exception(mine.failed);
  return std::move(*mine.done);
}

void collector::made(std::uint64_t bytes) noexcept {
  const std::uint64_t all = made_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (!of_.how.collection.enabled || all < due_at_) return;
  try {
    const std::scoped_lock lock(mutex_);
    if (is_due_ || stopping_) return;
    start_thread();
    is_due_ = true;
    wanted_.notify_one();
  } catch (...) {  // no thread could be made: the next commit tries again
  }
}

std::uint64_t collector::estimate_garbage(std::uint64_t bytes) const noexcept {
  return std::min(bytes, made_ / 1000 * wasted_);
}

void collector::stop() noexcept {
  if (os::fork_generation() != of_.fork_generation) {
    // The thread is the parent's. Here it waits forever, so conditions cannot be destroyed, and its name may be another one's.
    new (&thread_) std::thread;
    new (&wanted_) std::condition_variable;
    new (&over_) std::condition_variable;
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    wanted_.notify_one();
  }
  if (thread_.joinable()) {
    of_.access.turn_away(thread_.get_id());  // whoever stops it may have a transaction
    thread_.join();
    of_.access.turn_away({});
  }
  const std::scoped_lock lock(mutex_);
  for (request* const late : requests_) late->failed = std::make_exception_ptr(is_being_closed());
  requests_.clear();
  is_due_ = false;  // nobody is left to see it, and the program may go on
  over_.notify_all();
}

void collector::go_on() noexcept {
  const std::scoped_lock lock(mutex_);
  stopping_ = false;
}

error collector::is_being_closed() const {
  return {errc::closed, of_.directory + ": the store is being closed; the collection has ended"};
}

void collector::run() {
  const automatic_collection& automatic = of_.how.collection;
  runs_in_ = std::this_thread::get_id();
  of_.access.prefer_this_thread();
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return stopping_ || is_due_ || !requests_.empty(); });
    request* const asked = requests_.empty() ? nullptr : requests_.front();
    if (stopping_ && asked == nullptr) return;
    if (asked != nullptr) requests_.pop_front();
    lock.unlock();
    std::optional<collect_report> done;
    std::exception_ptr failed;
    os::clear_unused_stack();  // of what the last cycle has left
    try {
      require_going_on();
      const bool is_dry = asked != nullptr && asked->how.dry_run;
      const std::uint64_t made_before = is_dry ? made_.load() : made_.exchange(0);
      done = run_cycle(asked != nullptr ? asked->how
                                        : collection_options{.roots = automatic.roots,
                                                             .quarantine = automatic.quarantine,
                                                             .markers = automatic.markers,
                                                             .trim = automatic.trim,
                                                             .evacuation = automatic.evacuation});
      wasted_ = made_before == 0 ? 0 : std::min<std::uint64_t>(1000, 1000 * done->garbage_bytes / made_before);
      if (!is_dry) due_at_ = std::max(automatic.after_bytes, done->kept_bytes / 100 * automatic.after_percent);
      if (!is_dry) count(*done);
      if (automatic.enabled) tell(automatic.on_collected, *done);
    } catch (const error& e) {
      if (e.code() != errc::closed) count_put_off();
      failed = e.code() == errc::closed ? std::make_exception_ptr(is_being_closed()) : std::current_exception();
      if (asked == nullptr && e.code() != errc::closed) tell(automatic.on_put_off, e);
    } catch (...) {
      count_put_off();
      failed = std::current_exception();
    }
    lock.lock();
    if (asked == nullptr) {
      is_due_ = false;
      continue;
    }
    if (failed)
      asked->failed = failed;
    else
      asked->done = std::move(done);
    over_.notify_all();
  }
}

void collector::count(const collect_report& done) {
  const std::scoped_lock lock(of_.statistics_mutex);
  store_statistics& c = of_.counts;
  ++c.collections;
  c.collected_objects += done.garbage + done.transient_garbage;
  c.collected_bytes += done.garbage_bytes + done.transient_garbage_bytes;
  c.used_after_collection += done.used_after_collection;
  c.longest_stop = std::max(c.longest_stop, done.stopped_seconds);
}

void collector::count_put_off() {
  const std::scoped_lock lock(of_.statistics_mutex);
  ++of_.counts.collections_put_off;
}

void collector::require_going_on() const {
  if (stopping_) throw is_being_closed();
  of_.require_writable();
}

// --- A cycle ----------------------------------------------------------------------------------------------------------

collect_report collector::run_cycle(const collection_options& how) {
  const std::scoped_lock alone(cycles_);
  struct reporting {
    quarantined_objects& of;
    bool is_done = false;
    ~reporting() { of.end_cycle(is_done); }
  } report{quarantined_};
  cycle now;
  try {
    begin_cycle(now, how);
    mark(now, how);
    if (!how.dry_run) confirm_quarantine(now);
    clear_weak_references(now, how);
    sweep_all(now, how);
    if (how.evacuation.enabled && !how.dry_run) evacuate(now, how);
  } catch (...) {
    end_cycle(now);
    throw;
  }
  end_cycle(now);
  if (how.trim && !how.dry_run)
    now.report.trimmed_bytes = of_.trim([&](const rvm::progress& p) {
      require_going_on();
      if (how.on_progress) how.on_progress(p);
    });
  const root_snapshot::facts& about = now.roots->about();
  now.report.scanned_bytes = about.scanned_bytes;
  now.report.was_copied = about.was_copied;
  now.report.stopped_seconds = static_cast<double>(about.stopped_ns) * 1e-9;
  now.report.seconds = seconds_since(now.began);
  report.is_done = true;
  return std::move(now.report);
}

void collector::begin_cycle(cycle& in, const collection_options& how) {
  const exclusive_access between(of_.access);
  of_.use();
  quarantined_.begin_cycle(of_.memory->last_transaction());
  of_.databases->with_births_locked([&] {
    in.marks.emplace(*of_.databases, marker::if_nothing::ignore, how.markers);
    in.roots.emplace(*of_.databases);
    for (const auto& d : *of_.databases) {
      in.databases.push_back(d.get());
      in.new_objects.emplace_back(d->home, d->region.size() / block_size);
    }
    in.roots->take(how.roots);
    for (std::size_t n = 0; n < in.databases.size(); ++n) in.databases[n]->birth->note_new(&in.new_objects[n]);
  });
  const std::scoped_lock gate(gate_);
  marker_ = &*in.marks;
  is_broken_ = false;
  is_collecting_ = true;
}

void collector::mark(cycle& in, const collection_options& how) {
  const std::uint64_t slice = std::max<std::uint64_t>(of_.how.tune.marked_at_once, 1);
  std::array<address, marker::most_next> next{};
  std::size_t coming = 0;
  // Together only while no commit comes, and nothing is read from the disk: the wait for that would be the commit's, too.
#ifdef TENURE_SMALL_GEOMETRY
  constexpr int least_quiet = 2;
#else
  constexpr int least_quiet = 16;
#endif
  constexpr std::uint64_t most_together = 1 << 15;  // some 5 ms
  std::optional<marking_crew> crew;
  if (how.markers > 1) crew.emplace(*in.marks);
  int quiet = 0;  // slices
  std::uint64_t passed = passed_gate_, read = 0;
  const auto is_quiet = [&] {
    if (std::exchange(passed, passed_gate_) != passed) quiet = 0;
    if (++quiet < least_quiet) return false;
    quiet = 0;
    return std::exchange(read, os::pages_waited_for()) == read;
  };
  const auto follow_all = [&] {
    for (bool more = true; more;) {
      if (how.on_progress) how.on_progress({"marking", in.marks->marked(), 0});
      require_going_on();
      while (at_gate_ != 0) std::this_thread::yield();
      [[maybe_unused]] const os::unsynchronized_reads racing;
      for (const address object : std::span(next).first(coming))  // while nobody waits
        (void)*reinterpret_cast<const volatile std::byte*>(object);
      const gate_lock gate = lock_gate(0);
      if (crew && is_quiet()) crew->follow(most_together, at_gate_);
      more = in.marks->follow(slice, at_gate_);
      coming = in.marks->next(next);
    }
  };
  {
    const gate_lock gate(gate_);
    in.marks->mark_named_roots();
  }
  follow_all();
  in.roots->finish();
  {
    const gate_lock gate(gate_);
    in.marks->mark_roots(*in.roots);
  }
  // What an open transaction has written, the marker may have seen: nobody has said yet what was there before. So marking ends
  // between two transactions.
  for (;;) {
    follow_all();
    if (how.on_progress) how.on_progress({"marking", in.marks->marked(), in.marks->marked()});
    const exclusive_access between(of_.access);
    {  // Stray writes that the marker has seen are found now, while it is not too late.
      const stray_write_watch watched(*this);
      of_.memory->begin_automatic().abort();
    }
    const gate_lock gate(gate_);
    if (is_broken_)
      throw error(errc::not_stopped, of_.directory +
                                         ": nothing was collected: something was written outside of transactions and "
                                         "put back meanwhile, or it could not be found out what a transaction had "
                                         "changed that was aborted");
    if (in.marks->follow(0)) continue;
    marker_ = nullptr;
    if (!how.dry_run) decided_ = &in;
    return;
  }
}

void collector::end_cycle(cycle& in) noexcept {
  {
    const gate_lock gate(gate_);
    marker_ = nullptr;
    decided_ = nullptr;
  }
  for (database_state* const d : in.databases) d->birth->with_lock([&] { d->birth->note_new(nullptr); });
  is_collecting_ = false;  // commits may collect young objects from now on
}

// Whoever has a pointer there has hidden it when the objects were taken. It may as well be a word that is no pointer.
void collector::confirm_quarantine(cycle& in) {
  quarantined_.confirm(
      [&](const database_state& d, address begin, address end) {
        const auto n = static_cast<std::size_t>(std::ranges::find(in.databases, &d) - in.databases.begin());
        return in.roots->has_word_to(n, begin, end) || in.marks->has_met(n, begin, end);
      },
      in.report);
}

void collector::clear_weak_references(cycle& in, const collection_options& how) {
  weak_collection clearing(of_, *in.marks, [&](const void* object) { return in.keeps(object); });
  const auto between = [&] {
    if (how.on_progress) how.on_progress({"clearing", clearing.cleared(), 0});
    while (at_gate_ != 0) std::this_thread::yield();
    require_going_on();
  };
  if (how.dry_run)
    clearing.foresee(between);
  else
    clearing.run(between);
  in.report.weak_cleared = clearing.cleared();
  in.report.finalization_messages = clearing.messages();
}

void collector::sweep_all(cycle& in, const collection_options& how) {
  sweep sweeping(of_, [&](const database_state& d, std::uint64_t block) { return in.kept_in(d, block); });
  sweeping.quarantine_in(quarantined_, how.quarantine);
  std::optional<dropped_objects> dropped;
  if (how.dry_run) dropped.emplace(*of_.databases);
  ticket last;
  // Fewer at a time if a transaction takes longer than other threads should wait.
  std::uint64_t at_once = std::min<std::uint64_t>(how.objects_at_once, 512);
  // These first: a word of unknown layout may make one persistent, by chance, that refers to what is gone.
  if (!how.dry_run) sweep_transients(in, how);
  address_list<address> gone;
  const auto destroy = [&](database_state& d) {
    if (gone.empty() || how.dry_run) return gone.clear();
    last = sweeping.destroy(d, gone);
    gone.clear();
    // Where transactions of the program take long, a quarter of that is no long wait; as long as one of them, if it has made so
    // much since the cycle began that the next one is due: otherwise garbage would grow without end.
    const double seconds = sweeping.last_transaction();
    const double enough = std::max(1e-3, sweeping.last_wait() / (made_ < due_at_ ? 4 : 1));
    if (seconds > enough)
      at_once = std::max<std::uint64_t>(at_once / 2, 1);
    else if (seconds < enough / 3)
      at_once = std::min(at_once * 2, how.objects_at_once);
  };
  const auto end_of_blocks = [this](const database_state& d) {
    const gate_lock gate(gate_);
    return d.header().blocks_end;
  };
  for (database_state* const d : in.databases) {
    const std::uint64_t end = end_of_blocks(*d);
    for (std::uint64_t block = 0; block < end; ++block) {
      if (how.on_progress && block % 1024 == 0) how.on_progress({"sweeping", block, end});
      {
        // An abort puts pages back without the gate, headers of other objects with them, which stay what they are.
        [[maybe_unused]] const os::unsynchronized_reads racing;
        const gate_lock gate(gate_);
        sweeping.look_at(*d, block, gone);
        if (dropped) dropped->note_references(*d, gone);
      }
      if (gone.size() >= at_once || how.dry_run) destroy(*d);
      while (at_gate_ != 0) std::this_thread::yield();
      require_going_on();
    }
    destroy(*d);
  }
  of_.memory->wait(last);
  if (dropped) {
    for (const database_state* const d : in.databases)
      for (std::uint64_t block = 0, end = end_of_blocks(*d); block < end; ++block, gone.clear()) {
        [[maybe_unused]] const os::unsynchronized_reads racing;
        const gate_lock gate(gate_);
        sweeping.find_garbage(*d, block, gone);
        dropped->count(*d, gone);
      }
    dropped->finish(in.report);
  }
  sweeping.finish_report();
  collect_report& found = sweeping.report();
  in.report.kept = found.kept;
  in.report.kept_bytes = found.kept_bytes;
  in.report.garbage = found.garbage;
  in.report.garbage_bytes = found.garbage_bytes;
  in.report.types = std::move(found.types);
  in.report.kept_types = std::move(found.kept_types);
  in.report.transactions = found.transactions;
  in.report.longest_transaction = found.longest_transaction;
}

void collector::evacuate(cycle& in, const collection_options& how) {
  evacuator moving(of_, how, quarantined_);
  for (int n = 0; n < 2;
       ++n) {  // blocks whose transient objects are gone have none from then on [heap.transient.shared]
    of_.begin();
    of_.abort();
  }
  if (how.on_progress) how.on_progress({"choosing", 0, 1});
  {
    // An abort that has passed the gate before would put back references that were not looked at, and that nobody notes.
    const exclusive_access between(of_.access);
    const gate_lock gate(gate_);
    decided_ = nullptr;
    is_broken_ = false;
    moving.choose();
    evacuating_ = &moving;
  }
  struct ending {
    collector& of;
    ~ending() {
      const gate_lock gate(of.gate_);
      of.evacuating_ = nullptr;
    }
  } end{*this};
  const std::uint64_t blocks = moving.blocks();
  if (blocks == 0) return;
  const auto between = [&](const char* phase, std::uint64_t done) {
    if (how.on_progress) how.on_progress({phase, done, blocks});
    while (at_gate_ != 0) std::this_thread::yield();
    require_going_on();
  };
  const std::uint64_t looked_at_once =
      256 * std::max<std::uint64_t>(of_.how.tune.marked_at_once, 1);  // bytes: some 5 us
  for (bool more = true; more;) {
    between("looking", 0);
    [[maybe_unused]] const os::unsynchronized_reads racing;
    const gate_lock gate(gate_);
    more = moving.look_at_some(looked_at_once);
  }
  const auto is_broken = [this] {
    const gate_lock gate(gate_);
    return is_broken_;
  };
  do {
    between("moving", moving.moved_from());
    if (!moving.move_some(is_broken, in.report)) return;
    const gate_lock gate(gate_);
    moving.leave_moved(in.report);
  } while (true);
}

void collector::sweep_transients(cycle& in, const collection_options& how) {
  for (database_state* const d : in.databases)
    for (const std::uint64_t block : d->birth->transient_blocks()) {
      require_going_on();
      const birth::counts gone = d->birth->discard_garbage(block, [&](const transient_block& y) {
        // Another object may lie there by now that is larger, and begins before: it is new.
        const start_bits kept = in.kept_in(*d, y.first);
        if (how.quarantine != quarantine::none) quarantined_.hold_transient(*d, y, kept);
        return kept;
      });
      in.report.transient_garbage += gone.objects;
      in.report.transient_garbage_bytes += gone.bytes;
    }
}

// --- What transactions say --------------------------------------------------------------------------------------------

collector::gate_lock collector::pass_gate() {
  if (!is_collecting_.load(std::memory_order_acquire)) return {};
  ++at_gate_;
  ++passed_gate_;
  gate_lock lock = lock_gate(100);
  --at_gate_;
  return lock;
}

// What others do there is shorter than it takes to be woken: of lazy transactions of four words, 27 000 a second without a
// collection, there were 15 000 beside one whose slices they waited for asleep.
collector::gate_lock collector::lock_gate(int busy_tries) {
  constexpr int tries = 300;
  gate_lock lock(gate_, std::try_to_lock);
  for (int n = 0; n < tries && !lock; ++n) {
    if (n >= busy_tries) std::this_thread::yield();
    (void)lock.try_lock();
  }
  if (!lock) lock.lock();
  return lock;
}

void collector::let_mark(gate_lock& gate) {
  if (gate && marker_ != nullptr) gate.unlock();
}

void* collector::keep(void* object) {
  const gate_lock gate = pass_gate();
  if (!gate) return object;
  if (marker_ != nullptr) marker_->mark_object(reinterpret_cast<address>(object));
  return decided_ == nullptr || decided_->keeps(object) ? object : nullptr;
}

bool collector::is_taking(const void* object) {
  const gate_lock gate = pass_gate();
  return gate && decided_ != nullptr && !decided_->keeps(object);
}

// A reference may depend on bytes beside it, and the changed bytes may be a part of it. So whole elements are looked at, as
// they were [heap.reference.guards].
void collector::note_overwritten(const rvm::transaction& tx, std::span<const rvm::memory_range> changes) {
  if (marker_ == nullptr) return;
  std::vector<std::byte> before;
  for (const rvm::memory_range& range : changes) {
    const database_state* const in = of_.databases->at(range.address);
    if (in == nullptr) continue;
    const auto from = reinterpret_cast<address>(range.address), to = from + range.length;
    if (from < in->home + zone_kinds_at) continue;  // the header's tables stay where they are
    in->map->for_each_persistent_in(from, to, [&](address object) {
      const object_facts facts = in->map->facts(object);
      const known_type& type = in->types->at(facts.type);
      const std::uint64_t stride = type.of->size;
      if (!type.words->has_pointers() || stride == 0) return;
      const std::uint64_t begin = (std::max(from, object) - object) / stride * stride,
                          end = std::min((to - object + stride - 1) / stride * stride, facts.size / stride * stride);
      if (begin >= end) return;
      before.resize(end - begin);
      tx.read_committed(reinterpret_cast<const void*>(object + begin), before.size(), before.data());
      for_each_reference(type, before.data(), before.size(), 0, before.size(),
                         [&](const reference_field& r) { marker_->mark_target(r.to, r.may_be_end); });
    });
  }
  tx.for_each_written_page([this](const rvm::memory_range& page) {
    const database_state* const in = of_.databases->at(page.address);
    const auto from = reinterpret_cast<address>(page.address);
    if (in != nullptr && from >= in->home + zone_kinds_at) marker_->look_again_at(*in, from, from + page.length);
  });
  marker_->forget_followed();
}

void collector::note_destroyed() {
  if (marker_ == nullptr) return;
  for (const auto& d : *of_.databases)
    for (const address object : d->destroyed) marker_->mark_targets_of(*d, object);
}

void collector::note_cells(std::span<const address> promoted) {
  if (marker_ == nullptr) return;
  for (const address cell : promoted) marker_->note_cell(cell);
}

bool collector::takes(const void* object) const { return decided_ != nullptr && !decided_->keeps(object); }

void collector::note_written(const rvm::transaction& tx, std::span<const rvm::memory_range> changes) {
  if (evacuating_ != nullptr) evacuating_->note_commit(tx, changes);
}

collector::stray_write_watch::stray_write_watch(collector& of)
    : of_(of), is_needed_(of.is_collecting_), before_(is_needed_ ? of.of_.memory->stray_writes() : 0) {}

collector::stray_write_watch::~stray_write_watch() {
  if (!is_needed_ || of_.of_.memory->stray_writes() == before_) return;
  const gate_lock gate(of_.gate_);
  of_.is_broken_ = true;
}

void collector::note_abort(rvm::transaction& tx) noexcept {
  const gate_lock gate = pass_gate();
  if (!gate || (marker_ == nullptr && evacuating_ == nullptr)) return;
  try {
    const std::span<const rvm::memory_range> changes = tx.collect_changes();
    note_overwritten(tx, changes);
    note_destroyed();
    if (evacuating_ != nullptr) evacuating_->note_abort(tx, changes);
    tx.discard_changes();
  } catch (...) {
    tx.discard_changes();
    is_broken_ = true;
  }
}

}  // namespace tenure
