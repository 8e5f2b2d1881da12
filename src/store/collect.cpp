// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Collection of a closed store: nothing is transient, and no pointer outside of the store counts.
#include <tenure/collect.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <tenure/error.hpp>

#include "collection/marker.hpp"
#include "collection/marking_crew.hpp"
#include "os/file.hpp"
#include "records/archive_beside.hpp"
#include "store/dropped_objects.hpp"
#include "store/store_state.hpp"
#include "store/sweep.hpp"
#include "store/weak_collection.hpp"

namespace tenure {

namespace {

using namespace heap;

store_options options_for(const std::string& directory, const collect_options& how) {
  store_options options;
  options.mode = how.dry_run ? rvm::open_mode::read_only : rvm::open_mode::open;
  options.check_destroyed = destroy_check::never;  // garbage refers to garbage
  options.memory.disk = how.disk;
  options.memory.on_progress = how.on_progress;
  os::disk& disk = how.disk != nullptr ? *how.disk : os::real_disk();
  if (!how.dry_run) options.memory.archive = how.archive ? how.archive : rvm::archive_beside(disk, directory + "/log");
  return options;
}

class closed_collection {
 public:
  closed_collection(store_state& of, const collect_options& how)
      : of_(of),
        how_(how),
        marks_(*of.databases, marker::if_nothing::refuse, how.markers),
        sweep_(of, [this](const database_state& in, std::uint64_t block) { return marks_.marked_in(in, block); }) {}

  collect_report run() {
    for (const auto& d : *of_.databases)
      d->map->for_each_persistent(0, d->header().blocks_end, [&](address) { ++objects_; });
    mark();
    weak_collection weak(of_, marks_, [this](const void* object) { return is_marked(object); });
    if (how_.dry_run)
      weak.foresee([] {});
    else
      weak.run([] {});
    address_list<address> garbage;
    for (const auto& d : *of_.databases)
      for (std::uint64_t block = 0; block < d->header().blocks_end; ++block, garbage.clear()) {
        sweep_.look_at(*d, block, garbage);
        if (how_.dry_run && how_.on_garbage)
          for (const address object : garbage) how_.on_garbage(reinterpret_cast<const void*>(object));
      }
    if (how_.dry_run)
      find_dropped();
    else
      for (const auto& d : *of_.databases) destroy_garbage_of(*d);
    sweep_.finish_report();
    sweep_.report().weak_cleared = weak.cleared();
    sweep_.report().finalization_messages = weak.messages();
    return std::move(sweep_.report());
  }

 private:
  [[nodiscard]] bool is_marked(const void* object) const {
    const database_state* const in = of_.databases->at(object);
    const address at = in != nullptr ? in->map->find_persistent(reinterpret_cast<address>(object)) : 0;
    const std::uint64_t block = at != 0 ? in->map->block_of(at) : 0;
    return at != 0 && marks_.marked_in(*in, block).test((at - in->map->start_of(block)) / granule);
  }
  void show(const char* phase, std::uint64_t objects) const {
    if (how_.on_progress) how_.on_progress({phase, objects, objects_});
  }

  void mark() {
    constexpr std::uint64_t often = 1 << 16;
    const std::atomic<std::uint32_t> nobody_waits{0};
    std::optional<marking_crew> crew;
    if (how_.markers > 1) crew.emplace(marks_);
    marks_.mark_named_roots();
    for (bool more = true; more; show("marking", marks_.marked())) {
      if (crew) crew->follow(often, nobody_waits);
      more = marks_.follow(crew ? 1 : often);
    }
  }

  void find_dropped() {
    dropped_objects dropped(*of_.databases);
    const auto look_at_garbage = [&](auto&& what) {
      address_list<address> garbage;
      for (const auto& d : *of_.databases)
        for (std::uint64_t block = 0; block < d->header().blocks_end; ++block, garbage.clear()) {
          sweep_.find_garbage(*d, block, garbage);
          what(*d, garbage);
        }
    };
    look_at_garbage([&](const database_state& in, const auto& garbage) { dropped.note_references(in, garbage); });
    look_at_garbage([&](const database_state& in, const auto& garbage) { dropped.count(in, garbage); });
    dropped.finish(sweep_.report());
  }

  // Whole blocks at a time, until there are enough objects for a transaction.
  void destroy_garbage_of(database_state& in) {
    const std::uint64_t end = in.header().blocks_end;
    for (std::uint64_t block = 0; block < end;) {
      address_list<address> gone;
      for (; block < end && gone.size() < how_.objects_at_once; ++block) sweep_.find_garbage(in, block, gone);
      of_.memory->wait(sweep_.destroy(in, gone));
      swept_ += gone.size();
      show("sweeping", sweep_.report().kept + swept_);
    }
  }

  store_state& of_;
  const collect_options& how_;
  marker marks_;
  sweep sweep_;
  std::uint64_t objects_ = 0;  // that there are
  std::uint64_t swept_ = 0;
};

}  // namespace

collect_report collect(const std::string& directory, const collect_options& how) {
  if (how.objects_at_once == 0) throw error(errc::bad_option, "objects_at_once is 0: at least 1 is needed");
  require_markers(how.markers);
  const auto start = std::chrono::steady_clock::now();
  store_state opened(directory, options_for(directory, how));
  store_opened(opened);
  collect_report report = closed_collection(opened, how).run();
  opened.close();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace tenure
