// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Rewriting of closed stores: opens them, says what the new files are, and puts these in place.
#include <tenure/rewrite.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/registry.hpp>

#include "log/log_hold.hpp"
#include "log/manifest.hpp"
#include "log/unfinished.hpp"
#include "objects/verifier.hpp"
#include "os/process.hpp"
#include "os/storage_guard.hpp"
#include "records/archive_beside.hpp"
#include "replay/backup_note.hpp"
#include "rewrite/rewriter.hpp"
#include "rewrite/salvage.hpp"
#include "rewrite/switched_files.hpp"
#include "store/store_state.hpp"

namespace tenure {

namespace {

using namespace heap;
using namespace rewriting;

using clock = std::chrono::steady_clock;

os::disk& disk_of(const rewrite_options& how) { return how.disk != nullptr ? *how.disk : os::real_disk(); }

store_options opened_as(const std::string& store, rvm::open_mode mode, const rewrite_options& how) {
  store_options options;
  options.mode = mode;
  if (mode == rvm::open_mode::open) options.memory.archive = rvm::archive_beside(disk_of(how), store + "/log");
  options.memory.disk = how.disk;
  options.memory.on_progress = how.on_progress;
  options.read_ahead = 0;
  return options;
}

// A file that is not behind a link: a rename would put the new one where the link is.
void require_no_link(os::disk& disk, const std::string& path) {
  if (disk.behind_links(path) != path)
    throw error(errc::bad_option, path +
                                      ": is a link, and the new file would not be where it leads; clone the store, and "
                                      "put the new one in its place");
}

std::optional<std::uint64_t> wanted_home(const rewrite_options& how, const std::string& database) {
  const auto found = std::ranges::find(how.homes, database, &rewrite_options::database_home::database);
  return found != how.homes.end() ? std::optional(found->home) : std::nullopt;
}

void require_databases(const database_set& store, const rewrite_options& how) {
  for (const auto& wanted : how.homes)
    if (store.find(wanted.database) == nullptr)
      throw error(errc::bad_option, store.directory() + ": has no database \"" + wanted.database + "\" for a home");
}

bool share_addresses(const new_database& one, const new_database& other) {
  return one.home < other.home + other.reservation && other.home < one.home + one.reservation;
}

// `beside`: databases whose addresses are not taken unless they are asked for.
new_database like(const database_state& of, const std::string& file, const rewrite_options& how,
                  const database_set* beside) {
  new_database made{of.name, file, of.home, of.reservation, of.header().database_id};
  if (how.reservation != 0) made.reservation = how.reservation;
  const std::optional<std::uint64_t> home = wanted_home(how, of.name);
  if (beside == nullptr && !home && made.reservation == of.reservation) return made;
  const rvm::segment_options chosen =
      database_state::segment_for(beside, file,
                                  {.reservation = made.reservation,
                                   .home = home                ? *home
                                           : beside != nullptr ? 0
                                                               : of.home - vtable_area});
  made.home = chosen.home;
  return made;
}

// Those of the new store. Homes that may be anywhere are chosen last, and anew if another database has the addresses.
std::vector<new_database> all_like(const database_set& store, const rewrite_options& how, const database_set* beside,
                                   const std::function<std::string(const database_state&)>& file_of) {
  constexpr int most_tries = 10'000;
  std::vector<new_database> all(store.size());
  std::vector<std::size_t> placed;
  for (const bool chooses : {false, true})
    for (std::size_t n = 0; n < store.size(); ++n) {
      const auto home = wanted_home(how, store[n].name);
      if ((home ? *home == 0 : beside != nullptr) != chooses) continue;
      auto taken_by = placed.end();
      for (int tries = 0; tries == 0 || (chooses && taken_by != placed.end() && tries < most_tries); ++tries) {
        all[n] = like(store[n], file_of(store[n]), how, beside);
        taken_by = std::ranges::find_if(placed, [&](std::size_t other) { return share_addresses(all[n], all[other]); });
      }
      if (taken_by != placed.end())
        throw error(errc::address_taken, all[n].file + ": its home addresses are those of " + all[*taken_by].file);
      placed.push_back(n);
    }
  return all;
}

// A page that fails its checksum would get a right one in the new store [heap.rewrite.damaged].
void require_sound_pages(const database_set& store) {
  for (const auto& d : store) {
    const std::vector<std::uint64_t> damaged = store.memory().verify_segment(d->file);
    if (damaged.empty()) continue;
    const os::storage_guard guard;
    (void)*reinterpret_cast<const volatile std::byte*>(d->region.data() + damaged.front());
    guard.require_all_read();  // it may be one that cannot be read at all
    throw error(errc::damaged, d->file + ": " + std::to_string(damaged.size()) +
                                   (damaged.size() == 1 ? " page is damaged" : " pages are damaged") +
                                   ", the first at offset " + std::to_string(damaged.front()) +
                                   "; nothing was written anew; `tenure repair` keeps what is not lost, or restore "
                                   "the store from a backup");
  }
}

// A page that cannot be read would be zeros in the new store [heap.rewrite.unreadable].
rewrite_report rewrite_readable(const store_state& opened, const new_store& as, const rewrite_options& how,
                                const types::evolution* plan) {
  const os::storage_guard guard;
  try {
    const rewrite_report report = rewrite(*opened.databases, as, how, plan);
    guard.require_all_read();
    return report;
  } catch (const error&) {
    guard.require_all_read();
    throw;
  }
}

// Writes the store anew in its directory. It was opened for this, and is closed on return. `prepare`: is called first, and sees
// to damaged pages.
rewrite_report rewrite_in_place(store_state& opened, const rewrite_options& how, const types::evolution* plan,
                                const std::function<bool()>& prepare = {}) {
  const auto start = clock::now();
  os::disk& disk = disk_of(how);
  const store_files files{opened.directory + "/log", opened.file_of("main")};
  require_databases(*opened.databases, how);
  require_no_link(disk, files.log);
  if (const auto holds = rvm::find_holds(disk, files.log); !holds.empty())
    throw error(errc::in_use, opened.directory + ": " + holds.front().holder + " has its log (" +
                                  holds.front().purpose + "); wait until it has done with it");
  new_store as{opened.directory, unswitched(files.log), {}};
  for (const auto& d : *opened.databases) require_no_link(disk, d->file);
  as.databases = all_like(*opened.databases, how, nullptr, [](const database_state& d) { return unswitched(d.file); });
  opened.memory->truncate();
  discard_new(disk, files);
  if (!prepare)
    require_sound_pages(*opened.databases);
  else if (!prepare())
    return {};
  rewrite_report report;
  std::uint64_t sequence = 0;
  try {
    report = rewrite_readable(opened, as, how, plan);
    opened.close();
    sequence = rvm::manifest_file::open_unlocked(disk, files.log).current().sequence;
  } catch (...) {
    discard_new(disk, files);
    throw;
  }
  switch_to_new(disk, files, sequence);
  report.seconds = std::chrono::duration<double>(clock::now() - start).count();
  return report;
}

}  // namespace

rewrite_report compact(const std::string& store, const rewrite_options& how) {
  store_state opened(store, opened_as(store, rvm::open_mode::open, how), type_check::none);
  return rewrite_in_place(opened, how, nullptr);
}

void convert_store(const std::string& directory, const store_options& how) {
  rewrite_options rewriting;
  rewriting.order = object_order::by_address;
  rewriting.on_progress = how.memory.on_progress;
  rewriting.disk = how.memory.disk;
  store_options opening = opened_as(directory, rvm::open_mode::open, rewriting);
  if (how.memory.archive) opening.memory.archive = how.memory.archive;
  store_state opened(directory, opening, type_check::none);
  types::evolution plan(registered_types());
  std::vector<const type*> stored;
  for (const auto& d : *opened.databases)
    for (std::uint32_t n = 1; n < d->types->count(); ++n)
      if (const heap::known_type* const known = d->types->find(n); known != nullptr) stored.push_back(known->of);
  plan.look_at(stored);
  (void)rewrite_in_place(opened, rewriting, &plan);
}

namespace {

// Calls the callback, counts, and remembers the first ones.
class finding_counter {
 public:
  finding_counter(const repair_options& how, repair_report& report) : how_(how), report_(report) {}
  void operator()(repair_finding found) const {
    constexpr std::size_t most = 100;
    using enum repair_finding::kind;
    switch (found.what) {
      case page: ++report_.pages; break;
      case bookkeeping: ++report_.bookkeeping; break;
      case lost_object: ++report_.lost_objects; break;
      case lost_elements: ++report_.lost_elements; break;
      case lost_root: ++report_.lost_roots; break;
      case cut_reference: ++report_.cut_references; break;
      case container: ++report_.containers; break;
    }
    if (how_.on_finding) how_.on_finding(found);
    if (report_.first.size() < most) report_.first.push_back(std::move(found));
  }

 private:
  const repair_options& how_;
  repair_report& report_;
};

}  // namespace

repair_report repair(const std::string& store, const repair_options& how) {
  const auto start = clock::now();
  repair_report report;
  rewrite_options rewriting;
  rewriting.order = how.order;
  rewriting.on_progress = how.on_progress;
  rewriting.disk = how.disk;
  os::disk& disk = disk_of(rewriting);
  const bool is_in_place = how.to.empty() && !how.dry_run;
  const os::storage_guard guard(os::storage_guard::zeros::are_expected);  // what cannot be read is damaged
  std::optional<store_state> kept;
  try {
    kept.emplace(store, opened_as(store, is_in_place ? rvm::open_mode::open : rvm::open_mode::read_only, rewriting),
                 type_check::none);
  } catch (const error& e) {
    if (guard.text().empty()) throw;
    throw error(errc::damaged, guard.text() + ", and without it the store cannot be repaired (" + e.what() +
                                   "); restore the store from a backup");
  }
  store_state& opened = *kept;
  const auto make_sound = [&] {
    salvage(*opened.databases, disk, finding_counter(how, report)).run(how.on_progress);
    if (report.is_damaged()) return true;
    // What contradicts itself in a way that nothing else in the store tells the truth about.
    const std::vector<std::string> wrong = heap::verify(*opened.databases, heap::verified_by::reader);
    if (!wrong.empty())
      throw error(errc::damaged,
                  opened.directory + ": cannot be repaired: " + wrong.front() + "; restore the store from a backup");
    return false;
  };
  if (is_in_place) {
    report.rewritten = rewrite_in_place(opened, rewriting, nullptr, make_sound);
    return report;
  }
  if (how.dry_run) {
    (void)make_sound();
    return report;
  }
  const std::string to = os::absolute_path(how.to);
  require_outside(opened.directory, to);
  rvm::require_empty_directory(disk, to, "a repaired store");  // known before everything is looked at
  if (!make_sound()) return report;
  // In place of the damaged one: with its identities and addresses.
  rvm::make_empty_directory(disk, to, "a repaired store");
  new_store as{to, to + "/log", {}};
  for (const auto& d : *opened.databases)
    as.databases.push_back(like(*d, to + "/" + d->name + ".db", rewriting, nullptr));
  rvm::make_marked(disk, as.log, [&] { report.rewritten = rewrite(*opened.databases, as, rewriting); });
  opened.close();
  report.rewritten.seconds = std::chrono::duration<double>(clock::now() - start).count();
  return report;
}

rewrite_report clone(const std::string& store, const std::string& directory, const rewrite_options& how) {
  const auto start = clock::now();
  os::disk& disk = disk_of(how);
  const std::string to = os::absolute_path(directory);
  store_state opened(store, opened_as(store, rvm::open_mode::read_only, how), type_check::none);
  require_databases(*opened.databases, how);
  require_outside(opened.directory, to);
  if (const auto& prepared = opened.memory->in_doubt())
    throw error(errc::in_doubt,
                opened.directory + ": the transaction \"" + prepared->global_id +
                    "\" is prepared, and a clone would be without it; end it first, by `tenure resolve`");
  rvm::require_empty_directory(disk, to, "a clone");  // known before everything is looked at
  require_sound_pages(*opened.databases);
  rvm::make_empty_directory(disk, to, "a clone");
  new_store as{to, to + "/log", {}};
  as.databases = all_like(*opened.databases, how, &*opened.databases,
                          [&](const database_state& d) { return to + "/" + d.name + ".db"; });
  for (new_database& d : as.databases) os::random_bytes(std::as_writable_bytes(std::span(d.id)));
  rewrite_report report;
  rvm::make_marked(disk, as.log, [&] { report = rewrite_readable(opened, as, how, nullptr); });
  opened.close();
  report.seconds = std::chrono::duration<double>(clock::now() - start).count();
  return report;
}

}  // namespace tenure
