// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/transaction.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "os/room_for_one.hpp"
#include "pobj/images.hpp"

namespace tenure::pobj {

namespace {

// The part of an area that can be written straight to the segment: whole pages without any of the committed chain of
// slots.
struct whole_pages {
  position first, last;
  [[nodiscard]] std::uint64_t length() const { return last > first ? last - first : 0; }
};
whole_pages pages_of(const area& a) {
  if (!a.is_one_slot) return {0, 0};
  return {(a.begin + 8 + 4095) / 4096 * 4096, std::min(a.next + 8, a.end) / 4096 * 4096};
}

bool lies_in(const std::map<position, position>& areas, position p) {
  const auto after = areas.upper_bound(p);
  return after != areas.begin() && p < std::prev(after)->second;
}

}  // namespace

thread_state& this_thread() {
  thread_local thread_state state;
  return state;
}

transaction::~transaction() {
  abort();
  if (in_.fork_generation == os::fork_generation()) --in_.open_transactions;
}

const transaction::own_area* transaction::look_for_area(position p) const {
  const auto after = areas_.upper_bound(p);
  if (after == areas_.begin()) return nullptr;
  const own_area& a = std::prev(after)->second;
  if (p >= a.end) return nullptr;
  return found_ = &a;
}

transaction::own_area& transaction::take_area(std::uint64_t length) {
  os::reserve_one_more(area_begins_);
  const area a = in_.free.take(length, taken_);
  auto at = areas_.end();
  try {
    at = areas_.emplace(a.begin, own_area{a, area_begins_.size()}).first;
    in_.owned.emplace(a.begin, a.end);
    // The transaction's writes there are announced at the commit. Until then nobody else may change the pages. The
    // first word belongs to the committed chain of slots, and an abort must put it back.
    tx_.hold(in_.free.at(a.begin), a.end - a.begin);
    tx_.set_range(in_.free.at(a.begin), 8);
  } catch (...) {
    in_.owned.erase(a.begin);
    if (at != areas_.end()) areas_.erase(at);
    in_.free.add(a.begin, a.end);
    throw;
  }
  area_begins_.push_back(a.begin);
  return at->second;
}

position transaction::make_slot(std::uint64_t size, std::uint64_t type) {
  expect_to_abandon(1);
  const std::uint64_t length = slot_word::of(size, type, 0).length();
  if (current_ == nullptr || current_->end - current_->next < length) current_ = &take_area(length);
  const position p = current_->next;
  current_->next += length;
  taken_ += length;
  in_.free.set_word(p, slot_word::of(size, type, in_.free.next_serial(p)));
  std::memset(in_.free.at(p + 8), 0, length - 8);
  return p;
}

void transaction::expect_to_abandon(std::size_t count) {
  const std::size_t wanted = abandoned_.size() + count;
  if (wanted > abandoned_.capacity()) abandoned_.reserve(wanted * 2 + 8);
}

void transaction::abandon(position slot) noexcept {
  const std::uint64_t length = in_.free.word_at(slot).length();
  if (current_ != nullptr && slot + length == current_->next && is_made_in_level(slot)) {
    current_->next = slot;  // it was the last slot: undoes making it
    taken_ -= length;
  } else {
    abandoned_.push_back(slot);
  }
}

void transaction::declare(position p, std::uint64_t length) {
  if (!is_made_in_level(p)) tx_.set_range(in_.free.at(p), length);
}

void transaction::set_word(position p, slot_word w) {
  declare(p, 8);
  in_.free.set_word(p, w);
}

bool transaction::is_still(const placed& p) const {
  return in_.addresses.is_handle(p.what.handle) && p.what.header().slot == p.slot;
}

void transaction::give_slot(object o, position slot) {
  given_.push_back(o);
  in_.slots.set(slot, o);
  o.set_slot(slot);
}

void transaction::forget_made(object o) noexcept {
  if (!made_.empty() && made_.back() == o) made_.pop_back();
  in_.addresses.remove(o);
}

void transaction::undo_give_slot(object o, position slot) noexcept {
  if (o && o.header().slot == slot) {
    in_.slots.erase(slot);
    o.set_slot(0);
  }
  abandon(slot);
}

// Whether the word is in a live image. A word in freed space, or in space that an abort has left, may have any value,
// and may belong to the committed chain.
bool transaction::is_in_image(position word) const {
  if (const object o = in_.slots.find_last_object(word); o && word - (o.header().slot + 8) < o.header().size)
    return true;
  return std::ranges::any_of(in_.statics.all(), [&](const auto& v) { return word - v->image() < v->size; });
}

// Whether another open transaction has written the word.
bool transaction::is_anothers(position word) const {
  if (lies_in(in_.owned, word)) return !is_made_here(word);
  const auto written = in_.written_words.find(word);
  return written != in_.written_words.end() && written->second != this;
}

// The object had no image, so images refer to it by its address. Changes these words to references to its new image.
void transaction::link(object o) {
  const auto waiting = in_.waiting.find(~o.address());
  if (waiting == in_.waiting.end()) return;
  for (const position word : waiting->second) {
    const reference r{load_word(in_.free.at(word))};
    if (is_anothers(word) || !r.is_address() || in_.addresses.find(reinterpret_cast<const void*>(r.address())) != o ||
        !is_in_image(word)) {
      // The commit or abort of another transaction may leave the address in the word.
      if (in_.open_transactions > 1) in_.late_words.insert(word);
      continue;
    }
    const reference known = encode(in_, r.address());
    if (is_made_here(word)) {
      store_word(in_.free.at(word), known.bits);  // all of its slot is declared already
      continue;
    }
    if (linked_.empty()) tx_.join(linked_);
    tx_.hold(in_.free.at(word), 8);
    linked_.change(word, known);
  }
}

// The commit has failed.
void transaction::take_back_links() noexcept {
  linked_.undo([&](position word) { return is_in_image(word); });
}

bool transaction::is_waiting(position word, object target) const {
  const auto waiting = in_.waiting.find(~target.address());
  return waiting != in_.waiting.end() && waiting->second.contains(word);
}

void transaction::note_waiting(position word, object target) {
  waiting_words_.push_back({word, ~target.address(), false});
  if (!is_made_here(word)) in_.written_words.insert_or_assign(word, this);
  waiting_words_.back().is_new = in_.waiting[~target.address()].insert(word).second;
}

void transaction::take_slot(object o) {
  const position slot = o.header().slot;
  taken_slots_.push_back({o, slot});
  in_.slots.erase(slot);
  o.set_slot(0);
}

void transaction::free_object(object o) {
  freed_.push_back({o, o.header().slot});
  o.header().dying = 1;
}

void transaction::type_slot(object o) {
  const slot_word word = in_.free.word_at(o.header().slot);
  set_word(o.header().slot, slot_word::of(word.size(), o.header().type, word.serial()));
}

void transaction::set_type(object o, std::uint32_t number) {
  // What may fail for want of memory comes first.
  expect_to_leave_a_type();
  if (o.is_persistent()) {
    const position slot = o.header().slot;
    if (!is_made_in_level(slot)) retyped_.push_back(o);
    declare(slot, 8);
    convert_words(*this, stored(in_, o), in_.types[number]);
    const slot_word word = in_.free.word_at(slot);
    in_.free.set_word(slot, slot_word::of(word.size(), number, word.serial()));
  }
  leave_type(o.header().type);
  in_.types.use(number);
  in_.types.forget_own(o);
  o.set_type(number);
}

void transaction::share_own_type(object o) {
  if (o.header().own_type != 0) set_type(o, in_.types.intern(in_.types.of(o)));
}

void transaction::note_change(static_variable& v, std::uint64_t size, bool is_new) {
  const auto [before, is_first] = statics_.note(
      &v, levels_.back().statics, [&] { return static_before{v.name, v.size, v.type, v.slot, v.value, {}, is_new}; });
  if (is_first) ++v.users;
  std::vector<std::byte>& bytes = before->bytes;
  if (size > bytes.size()) bytes.insert(bytes.end(), v.address + bytes.size(), v.address + size);
}

void transaction::expect_to_leave_a_type() { os::reserve_one_more(left_types_); }

void transaction::set_type(static_variable& v, std::uint32_t number) {
  leave_type(v.type);
  in_.types.use(number);
  v.type = number;
}

void transaction::forget_static(static_variable& v) {
  release_slot(v.slot);
  forgotten_ = &v;
  v.is_going = true;
}

// --- Commit ------------------------------------------------------------------------------------------------------------

void transaction::check_references() const {
  std::map<position, object> going;
  for (const placed& p : taken_slots_) going.emplace(p.slot, p.what);
  for (const placed& p : freed_)
    if (p.slot != 0) going.emplace(p.slot, p.what);
  if (going.empty()) return;
  const auto check = [&](const stored_memory& m, const std::string& who) {
    m.type.for_each_reference(0, m.size, m.size, [&](std::uint64_t at) {
      const std::uint64_t word = load_word(in_.free.at(m.image + at));
      if (word == 0 || reference{word}.is_address()) return;
      const position target = reference{word}.at() - 8;
      const auto to = going.upper_bound(target);
      if (to == going.begin()) return;
      const auto& [slot, gone] = *std::prev(to);
      if (target - slot > gone.header().size || in_.free.word_at(slot).serial() != reference{word}.serial()) return;
      throw failure(POBJ_EREFERENCED, who + " refers at offset " + std::to_string(at) + " to the object " +
                                          hexadecimal(gone.handle) +
                                          ", which this transaction frees or makes transient: set the reference and "
                                          "update it in the same transaction, or abort");
    });
  };
  in_.slots.for_each([&](object o) {
    if (o.header().dying == 0) check(stored(in_, o), "the image of the object " + hexadecimal(o.handle));
  });
  for (const auto& v : in_.statics.all())
    check({v->address, v->image(), v->size, in_.types[v->type]}, "the static variable " + text_of(v->name));
}

void transaction::release_slot(position slot) {
  const slot_word word = in_.free.word_at(slot);
  set_word(slot, slot_word::of(word.length() - 8, slot_word::type_free, word.serial()));
}

// Announces the slots that were made in the area, and makes the rest of it free slots.
void transaction::prepare_area(const area& a, bool in_bulk) {
  in_.free.write_free(a.next, a.end);
  const position end = std::min(a.next + 8, a.end);
  const whole_pages pages = pages_of(a);
  if (!in_bulk || pages.length() == 0) {
    tx_.set_range(in_.free.at(a.begin), end - a.begin);
    return;
  }
  tx_.set_range(in_.free.at(a.begin), pages.first - a.begin);
  if (pages.last != end) tx_.set_range(in_.free.at(pages.last), end - pages.last);
  const std::span<const std::byte> bytes{in_.free.at(pages.first), pages.length()};
  tx_.write_bulk(in_.region, pages.first, {&bytes, 1});
}

// Of the objects that were typed word by word since there were so many of them.
void transaction::share_own_types(std::size_t from) {
  for (std::size_t i = from; i < retyped_.size(); ++i) {  // the loop may add to retyped_
    const object o = retyped_[i];
    if (!in_.addresses.is_handle(o.handle)) continue;
    share_own_type(o);
    if (o.is_persistent()) type_slot(o);
  }
}

void transaction::prepare() {
  if (in_.is_strict()) check_references();
  share_own_types(0);
  // Slots that another transaction has made wait until that transaction has ended.
  for (auto at = in_.finalized.begin(); at != in_.finalized.end();) {
    const auto next = std::next(at);
    if (!lies_in(in_.owned, at->slot) || is_made_here(at->slot)) finalized_.splice(finalized_.end(), in_.finalized, at);
    at = next;
  }
  for (const placed& p : freed_)
    if (p.slot != 0 && is_still(p)) release_slot(p.slot);
  for (const placed& p : taken_slots_) release_slot(p.slot);
  for (const position slot : abandoned_) release_slot(slot);
  for (const auto& each : finalized_) release_slot(each.slot);
  std::uint64_t whole = 0;
  for (const auto& [begin, a] : areas_) whole += pages_of(a).length();
  for (const auto& [begin, a] : areas_) prepare_area(a, whole >= test_hooks::bulk_bytes);
  // Comes last, because other transactions may write there until then [pobj.link].
  try {
    for (const object o : given_)
      if (in_.addresses.is_handle(o.handle) && o.is_persistent() && o.header().dying == 0) link(o);
  } catch (...) {
    take_back_links();
    throw;
  }
}

void transaction::commit() {
  {
    const store_lock lock(in_);
    prepare();
    if (!linked_.empty()) ++in_.linking_commits;
  }
  const auto end_linking = [&, has_linked = !linked_.empty()] {
    if (!has_linked) return;
    --in_.linking_commits;
    in_.linked.notify_all();
  };
  try {
    tx_.commit();
  } catch (...) {
    const store_lock lock(in_);
    take_back_links();
    end_linking();
    throw;
  }
  blocks_to_free to_free;
  {
    const store_lock lock(in_);
    linked_.clear();
    end_linking();
    finish(to_free);
  }
  to_free.free_all();
}

void transaction::forget_object(object o, blocks_to_free& to_free) noexcept {
  in_.addresses.remove(o);
  in_.types.forget_own(o);
  in_.types.drop(o.header().type);
  in_.waiting.erase(~o.address());
  in_.object_blocks.release(o, to_free);
}

void transaction::release_unused_types() noexcept {
  for (const std::uint32_t number : left_types_) in_.types.drop(number);
  statics_.for_each([](static_variable* v, const static_before&) { --v->users; });
}

void transaction::finish(blocks_to_free& to_free) noexcept {
  over_ = true;
  const auto release = [&](position slot) { in_.free.add(slot, slot + in_.free.word_at(slot).length()); };
  for (const placed& p : freed_) {
    if (!is_still(p)) continue;  // a collector has taken it already
    if (p.slot != 0) {
      release(p.slot);
      in_.slots.erase(p.slot);
    }
    forget_object(p.what, to_free);
  }
  for (const placed& p : taken_slots_) release(p.slot);
  for (const position slot : abandoned_) release(slot);
  for (const auto& each : finalized_) {
    release(each.slot);
    in_.types.drop(each.type);
  }
  release_unused_types();
  if (forgotten_ != nullptr) {
    release(forgotten_->slot);
    in_.types.drop(forgotten_->type);
    remove(*forgotten_);
  }
  for (const auto& [begin, a] : areas_) {
    in_.owned.erase(begin);
    in_.free.add(a.next, a.end);
  }
  finish_references();
}

void transaction::finish_references() noexcept {
  for (const waiting_word& each : waiting_words_)
    if (const auto written = in_.written_words.find(each.word);
        written != in_.written_words.end() && written->second == this)
      in_.written_words.erase(written);
  try {
    update_references();
    in_.has_missed_references = false;
  } catch (...) {
    // Recoverable memory has failed, and the next call reports it; or memory is short, and the next end tries.
    in_.has_missed_references = true;
  }
  if (in_.open_transactions <= 1) in_.late_words.clear();
}

// Objects may have become persistent through other transactions. Updates the references to them in images that this
// transaction has written or put back. What an abort has put back may be the address of an object that is gone, where another one
// lies now: no word waits for that one.
void transaction::update_references() {
  std::vector<std::pair<position, reference>> now_known;
  const auto look_at = [&](position word) {
    const reference r{load_word(in_.free.at(word))};
    if (is_anothers(word) || !r.is_address() || r.execution() != (in_.execution & 0x7fff) || !is_in_image(word)) return;
    const object to = in_.addresses.find(reinterpret_cast<const void*>(r.address()));
    if (!to || !is_waiting(word, to)) return;
    // Of another open transaction, which may abort: its commit changes the word.
    if (to.is_persistent() && lies_in(in_.owned, to.header().slot)) return;
    if (const reference known = encode(in_, r.address()); !known.is_address()) now_known.emplace_back(word, known);
  };
  for (const waiting_word& each : waiting_words_) look_at(each.word);
  for (const position word : in_.late_words) look_at(word);
  if (in_.has_missed_references)
    for (const auto& [target, words] : in_.waiting)
      for (const position word : words) look_at(word);
  if (now_known.empty()) return;
  in_.memory.transact(
      [&](rvm::transaction& tx) {
        for (const auto& [word, known] : now_known) tx.modify(in_.free.at(word), &known, sizeof known);
      },
      rvm::commit_mode::no_flush);
}

void transaction::remove(static_variable& v) noexcept {
  std::unique_ptr<static_variable> removed = in_.statics.remove(v);
  removed->next = std::move(removed_);
  removed_ = std::move(removed);
}

}  // namespace tenure::pobj
