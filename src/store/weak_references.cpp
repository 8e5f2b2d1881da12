// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/weak_references.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <tenure/barriers.hpp>
#include <tenure/error.hpp>

#include "objects/object_text.hpp"
#include "os/system_error.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;
using detail::finalization_entry;
using detail::finalization_list;
using detail::hide;
using detail::shown;
using detail::weak_cell;

weak_references::located weak_references::find(const void* at) const {
  database_state* const in = of_.databases->at(at);
  const found_object object = in != nullptr ? in->find(at) : found_object{};
  if (!object || in->destroyed.contains(object.at) || in->retired.contains(object.at)) return {in, {}};
  return {in, object};
}

weak_references::located weak_references::require_target(void* target) const {
  of_.require_writable();
  of_.require_changeable("make a weak reference");
  const auto refuse = [&](const std::string& why) {
    throw error(errc::bad_weak_reference, "no weak reference to " + os::hexadecimal(target) + ": " + why);
  };
  const located found = find(target);
  if (found.in == nullptr) refuse(describe_address(target) + "it is not in the store " + of_.directory);
  if (!found.object) refuse(describe_address(target) + "no object is there, or it was destroyed");
  const object_facts facts = found.in->describe(reinterpret_cast<void*>(found.object.at));
  const type& is = *found.in->types->at(facts.type).of;
  if (is.tolerates_stale || facts.size > std::max<std::uint64_t>(is.size, 1))
    refuse("it lies in " + object_text(*of_.databases, found.object.at) +
           ", which belongs to a container: make the element with make(), and put a pointer to it in the container");
  return found;
}

found_cell weak_references::cell_at(std::uint64_t hidden) const {
  const located found = find(shown(hidden));
  if (!found.object || reinterpret_cast<void*>(found.object.at) != shown(hidden)) return {};
  return found_cell_of(*found.in, found.object);
}

weak_references::cells_by_target& weak_references::index() {
  if (index_) return *index_;
  cells_by_target all;  // a part of it would count as complete
  const auto add = [&](const found_cell& cell) {
    const void* const target = cell.target();
    const database_state* const in = of_.databases->at(target);
    // The open transaction may have destroyed it.
    if (const found_object object = in != nullptr ? in->find(target) : found_object{})
      all.emplace(~object.at, hide(cell.cell));
  };
  for (const auto& d : *of_.databases) for_each_persistent_cell(*d, add);
  for (const std::uint64_t each : transient_) {  // also those that the open transaction has ended: it may be aborted
    const database_state* const in = of_.databases->at(shown(each));
    const found_object object = in != nullptr ? in->find_start(shown(each)) : found_object{};
    if (const found_cell cell = in != nullptr ? found_cell_of(*in, object) : found_cell{}) add(cell);
  }
  return index_.emplace(std::move(all));
}

// If memory is too short, nothing leads to the cell: the index, by which it would be given to the program, comes last.
void weak_references::note_made(address target, const void* cell) {
  cells_by_target& known = index();
  transient_.insert(hide(cell));
  made_.push_back({hide(cell), ~target});
  known.emplace(~target, hide(cell));
  has_cells_ = has_made_any_ = true;
}

void weak_references::forget_made(const found_cell& cell) {
  if (const found_object object = find(cell.target()).object) forget(~object.at, hide(cell.cell));
}

void weak_references::forget(std::uint64_t target, std::uint64_t cell) noexcept {
  if (!index_) return;
  const auto [first, last] = index_->equal_range(target);
  const auto known = std::find_if(first, last, [&](const auto& each) { return each.second == cell; });
  if (known != last) index_->erase(known);
}

weak_cell* weak_references::cell_of(void* target) {
  const located found = require_target(target);
  const auto [first, last] = index().equal_range(~found.object.at);
  for (auto each = first; each != last; ++each) {
    const found_cell known = cell_at(each->second);
    // The program may have lost it, and get it back now. What a collection has found to be garbage it does not get.
    if (known && known.kind == cell_kind::weak && known.cell->hidden == hide(target) &&
        of_.collection.keep(known.cell) != nullptr)
      return known.cell;
  }
  auto* const made =
      reinterpret_cast<weak_cell*>(found.in->make(type_of<weak_cell>(), sizeof(weak_cell), maker::writer));
  made->hidden = hide(target);
  note_made(found.object.at, made);
  return made;
}

finalization_entry* weak_references::watch(finalization_list& queue, void* target) {
  const located found = require_target(target);
  database_state* const in = of_.databases->at(&queue);
  if (in == nullptr)
    throw error(errc::bad_weak_reference, "a finalization queue at " + os::hexadecimal(&queue) +
                                              " is not in the store " + of_.directory +
                                              " of the object that it is to watch: make it there");
  auto* const made = reinterpret_cast<finalization_entry*>(
      in->make(type_of<finalization_entry>(), sizeof(finalization_entry), maker::writer));
  made->watched.hidden = hide(target);
  made->of = &queue;
  note_made(found.object.at, made);
  return made;
}

void* weak_references::target_of(const weak_cell& cell) const {
  void* const target = shown(cell.hidden);
  if (target == nullptr) return nullptr;
  if (of_.is_writer()) {
    const database_state* const in = of_.databases->at(target);
    if (in != nullptr && (!in->destroyed.empty() || !in->retired.empty()) && !find(target).object) return nullptr;
  }
  return of_.collection.keep(target);
}

// --- What commits and aborts clear --------------------------------------------------------------------------------------

void weak_references::clear(database_state& in, const found_cell& cell) {
  if (!cell.is_persistent) cleared_.push_back({hide(cell.cell), cell.cell->hidden});
  change(*cell.cell).hidden = 0;
  if (cell.kind != cell_kind::finalization || !cell.is_persistent) return;
  finalization_entry& entry = cell.entry();
  // If the queue is garbage, what is beside the entry may be gone already, and the next to go is the entry itself. So it only
  // becomes one that leads nowhere.
  if (of_.collection.is_taking(&entry) || !is_in_its_list(entry)) {
    change(entry) = {};
    return;
  }
  entry.of->unlink(entry);
  in.destroyed.insert(reinterpret_cast<address>(cell.cell));
}

// [heap.weak.garbage-queue]: a collection may have ended in the midst of the queue, in an earlier process, too.
bool weak_references::is_in_its_list(const finalization_entry& entry) const {
  const auto is_entry = [&](const finalization_entry* at) {
    return at != nullptr && cell_at(hide(at)).kind == cell_kind::finalization && at->of == entry.of;
  };
  const auto* const list = reinterpret_cast<const std::byte*>(entry.of);
  const found_object first = find(list).object, last = find(list + sizeof(finalization_list) - 1).object;
  if (list == nullptr || !first || !last || first.at != last.at) return false;
  const bool is_message = entry.object != nullptr;
  const auto [begin, end] = entry.of->ends_of_list(is_message);
  if (entry.before != nullptr ? !is_entry(entry.before) || entry.before->next != &entry : begin != &entry) return false;
  if (entry.next != nullptr ? !is_entry(entry.next) || entry.next->before != &entry : is_message && end != &entry)
    return false;
  // The queue counts messages.
  return !is_message || (is_entry(begin) && begin->before == nullptr && is_entry(end) && end->next == nullptr);
}

void weak_references::clear_cells_of(const database_state& of, address object) {
  const auto [first, last] = index().equal_range(~object);
  for (auto each = first; each != last; ++each) {
    const found_cell cell = cell_at(each->second);
    const void* const target = cell ? cell.target() : nullptr;
    if (target != nullptr && of.find(target).at == object) clear(*of_.databases->at(cell.cell), cell);
  }
}

// Others than this process make none.
bool weak_references::has_cells() {
  if (!has_cells_) has_cells_ = std::ranges::any_of(*of_.databases, [](const auto& d) { return may_have_cells(*d); });
  return *has_cells_;
}

void weak_references::clear_destroyed() {
  if (expects_none_ || !has_cells()) return;
  if (std::ranges::all_of(*of_.databases, [](const auto& d) { return d->destroyed.empty() && d->retired.empty(); }))
    return;
  if (index().empty()) return;
  address_list<address> gone;
  for (const auto& d : *of_.databases) {
    gone.assign(d->destroyed.begin(), d->destroyed.end());
    gone.insert(gone.end(), d->retired.begin(), d->retired.end());
    for (const address object : gone) clear_cells_of(*d, object);
  }
}

bool weak_references::persists_now(const void* object) const {
  const located found = find(object);
  if (!found.object) return false;
  if (found.object.is_persistent) return true;
  const transient_block& y = *found.object.within;
  return y.promoted.test((found.object.at - found.in->map->start_of(y.first)) / granule);
}

void weak_references::clear_left_behind(std::span<const address> promoted) {
  for (const address each : promoted) {
    weak_cell& cell = *reinterpret_cast<weak_cell*>(each);
    if (cell.hidden == 0) continue;
    const void* const target = shown(cell.hidden);
    // The cycle no longer looks for transient cells that have become persistent.
    if (persists_now(target) && !of_.collection.takes(target)) continue;
    cleared_.push_back({~each, cell.hidden});
    cell.hidden = 0;
  }
}

void weak_references::committed(std::span<const address> promoted) {
  for (const address each : promoted) transient_.erase(~each);
  cleared_.clear();
  made_.clear();
  if (expects_none_ || !index_ || index_->empty()) return;
  for (const auto& d : *of_.databases)
    for (const address_set* const gone : {&d->destroyed, &d->retired})
      for (const address object : *gone) index_->erase(~object);
}

void weak_references::commit_failed() noexcept {
  for (const cleared_cell& each : cleared_)
    if (const found_cell cell = cell_at(each.cell)) cell.cell->hidden = each.target;
  cleared_.clear();
}

void weak_references::aborted(std::size_t made_before) noexcept {
  commit_failed();
  for (std::size_t n = made_before; n < made_.size(); ++n) {
    if (cell_at(made_[n].cell)) continue;
    transient_.erase(made_[n].cell);
    forget(made_[n].target, made_[n].cell);
  }
  made_.resize(made_before);
}

std::uint64_t weak_references::clear_transient(const predicate& is_kept) {
  std::uint64_t cleared = 0;
  for (const std::uint64_t each : transient_) {
    const found_cell cell = cell_at(each);
    if (!cell || cell.is_persistent || cell.cell->hidden == 0 || is_kept(shown(cell.cell->hidden))) continue;
    cell.cell->hidden = 0;
    ++cleared;
  }
  return cleared;
}

void weak_references::forget_transient(const predicate& is_kept) {
  index_.reset();  // the cycle ends cells without a word
  std::erase_if(transient_, [&](std::uint64_t each) {
    const found_cell cell = cell_at(each);
    return !cell || cell.is_persistent || !is_kept(cell.cell);
  });
}

// What is known of persistent cells is still true, and finding them all anew would take the longer the more there are.
void weak_references::take_young(const predicate& is_kept) {
  std::erase_if(transient_, [&](std::uint64_t each) {
    const found_cell cell = cell_at(each);
    if (!cell || cell.is_persistent) return true;
    const bool stays = is_kept(cell.cell), leads_on = stays && is_kept(cell.target());
    if (!leads_on) forget_made(cell);
    if (stays && !leads_on) cell.cell->hidden = 0;
    return !stays;
  });
}

// --- Finalization queues --------------------------------------------------------------------------------------------------

namespace detail {

namespace {

store_state& store_of(const void* object) {
  store_state* const found = store_at(object);
  if (found == nullptr)
    throw error(errc::bad_weak_reference, "no weak reference to " + os::hexadecimal(object) + ": " +
                                              describe_address(object) + "it is in no open store");
  return *found;
}

}  // namespace

weak_cell* weak_cell_of(const void* object) {
  if (object == nullptr) return nullptr;
  return store_of(object).weak.cell_of(const_cast<void*>(object));
}

void* lock(const weak_cell* cell) {
  if (cell == nullptr) return nullptr;
  store_state* const store = store_at(cell);
  if (store == nullptr)
    throw error(errc::closed,
                "a weak reference of a store that is not open as a mapped one; in a cache it cannot be followed");
  const reading_scope reading(*store);
  return store->weak.target_of(*cell);
}

finalization_list::~finalization_list() {
  for (finalization_entry* first : {watched_, first_})
    while (first != nullptr) deallocate(std::exchange(first, first->next));
}

void finalization_list::watch(void* object) {
  finalization_entry* const made = store_of(object).weak.watch(*this, object);
  made->next = watched_;
  if (watched_ != nullptr) change(*watched_).before = made;
  change(*this).watched_ = made;
}

void finalization_list::unlink(finalization_entry& of) {
  const bool is_message = of.object != nullptr;
  change(*this).size_ -= is_message ? 1 : 0;
  (of.before != nullptr ? change(*of.before).next : is_message ? first_ : watched_) = of.next;
  if (of.next != nullptr)
    change(*of.next).before = of.before;
  else if (is_message)
    last_ = of.before;
}

void finalization_list::post(finalization_entry& of) {
  unlink(of);
  change(of).object = shown(of.watched.hidden);
  of.watched.hidden = 0;
  of.before = last_;
  of.next = nullptr;
  (last_ != nullptr ? change(*last_).next : first_) = &of;
  last_ = &of;
  ++size_;
}

void* finalization_list::take() {
  if (first_ == nullptr) return nullptr;
  const store_state& store = store_of(this);
  store.require_changeable("take a message of a finalization queue");
  while (finalization_entry* const taken = first_) {
    void* const object = taken->object;
    unlink(*taken);
    deallocate(taken);
    if (store.weak.is_there(object)) return object;
  }
  return nullptr;
}

}  // namespace detail

}  // namespace tenure
