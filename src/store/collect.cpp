// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Collection of a closed store: marks what roots lead to, then destroys the rest, some objects a transaction. Between two of
// them garbage may refer to objects that are gone, which is nobody's business [heap.garbage.opaque].
#include <tenure/collect.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <span>
#include <string>

#include <tenure/error.hpp>

#include "objects/marker.hpp"
#include "os/system_error.hpp"
#include "store/store_state.hpp"

namespace tenure {

namespace {

using namespace heap;

store_options options_for(const collect_options& how) {
  store_options options;
  options.mode = how.dry_run ? rvm::open_mode::read_only : rvm::open_mode::open;
  options.check_destroyed = destroy_check::never;  // garbage refers to garbage
  options.memory.disk = how.disk;
  options.memory.on_progress = how.on_progress;
  if (!how.dry_run) options.memory.archive = how.archive;
  return options;
}

class collection {
 public:
  collection(store_state& of, const collect_options& how) : of_(of), how_(how), marks_(*of.databases) {}

  collect_report run() {
    for (const auto& d : *of_.databases)
      d->map->for_each_persistent(0, d->header().blocks_end, [&](address) { ++objects_; });
    marks_.run([&](std::uint64_t objects) { show("marking", objects); });
    for (const auto& d : *of_.databases)
      for (std::uint64_t block = 0; block < d->header().blocks_end; ++block) count(*d, block);
    if (!how_.dry_run)
      for (const auto& d : *of_.databases) sweep(*d);
    for (auto& [type, sum] : types_) report_.types.push_back(sum);
    std::ranges::stable_sort(report_.types, std::greater<>(), &type_count::bytes);
    return std::move(report_);
  }

 private:
  void show(const char* phase, std::uint64_t objects) const {
    if (how_.on_progress) how_.on_progress({phase, objects, objects_});
  }

  // What a block has in use is counted down by what is destroyed there. If that is wrong, the block seems to be empty when it is
  // not, and what is left in it is lost.
  void count(const database_state& in, std::uint64_t block) {
    std::uint64_t objects = 0, granules = 0;
    in.map->for_each_persistent(block, block + 1, [&](address at) {
      const sound_object object = sound_at(in, at);
      if (!object) refuse(in, block);
      const object_facts facts = in.map->facts(at);
      const std::uint64_t bytes = facts.end - facts.begin;
      ++objects;
      granules += granules_of(facts.size);
      if (marks_.is_marked(in, at)) {
        ++report_.kept;
        report_.kept_bytes += bytes;
        return;
      }
      ++report_.garbage;
      report_.garbage_bytes += bytes;
      type_count& sum = types_[object.type->of->name];
      if (sum.objects == 0) sum.type = object.type->of->name;
      ++sum.objects;
      sum.bytes += bytes;
    });
    if (objects == 0) return;
    const block_entry& entry = in.map->entry(block);
    if ((entry.kind == block_kind::small && granules != entry.used) ||
        (entry.kind == block_kind::typed && objects != entry.used))
      refuse(in, block);
  }

  [[noreturn]] static void refuse(const database_state& in, std::uint64_t block) {
    throw error(errc::damaged, in.file + ": block " + std::to_string(block) + " at " +
                                   os::hexadecimal(reinterpret_cast<void*>(in.map->start_of(block))) +
                                   " is damaged; nothing was collected; `tenure verify` tells all that is wrong");
  }

  // Whole blocks at a time, until there are enough objects for a transaction.
  void sweep(database_state& in) {
    const std::uint64_t end = in.header().blocks_end;
    for (std::uint64_t block = 0; block < end;) {
      std::vector<address> gone;
      for (; block < end && gone.size() < how_.objects_at_once; ++block)
        in.map->for_each_persistent(block, block + 1, [&](address object) {
          if (!marks_.is_marked(in, object)) gone.push_back(object);
        });
      destroy(in, gone);
    }
  }

  // In fewer at a time if the log is too small for so many: it may be one that cannot grow.
  void destroy(database_state& in, std::span<const address> gone) {
    while (!gone.empty()) {
      const std::size_t some = std::min<std::size_t>(gone.size(), at_once_);
      try {
        destroy_at_once(in, gone.first(some));
        gone = gone.subspan(some);
      } catch (const error& e) {
        if (e.code() != errc::too_big || some == 1) throw;
        at_once_ = (some + 1) / 2;
      }
    }
  }

  void destroy_at_once(database_state& in, std::span<const address> gone) {
    of_.begin();
    try {
      in.destroyed.insert(gone.begin(), gone.end());
      of_.label = "collect";
      if (const std::optional<ticket> done = of_.commit()) of_.memory->wait(*done);
    } catch (...) {
      if (of_.is_writer()) of_.abort();
      throw;
    }
    ++report_.transactions;
    swept_ += gone.size();
    show("sweeping", report_.kept + swept_);
  }

  store_state& of_;
  const collect_options& how_;
  marker marks_;
  collect_report report_;
  std::map<std::string, type_count> types_;
  std::uint64_t objects_ = 0;  // that there are
  std::uint64_t swept_ = 0;
  std::size_t at_once_ = ~std::size_t{0};  // of what whole blocks have
};

}  // namespace

collect_report collect(const std::string& directory, const collect_options& how) {
  if (how.objects_at_once == 0) throw error(errc::bad_option, "objects_at_once is 0: at least 1 is needed");
  const auto start = std::chrono::steady_clock::now();
  store_state opened(directory, options_for(how));
  store_opened(opened);
  collect_report report = collection(opened, how).run();
  opened.close();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace tenure
