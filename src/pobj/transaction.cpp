// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/transaction.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "pobj/images.hpp"

namespace tenure::pobj {

namespace {

// What of an area can be written straight to the segment: whole pages that have nothing of the committed chain of slots.
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

transaction::~transaction() { abort(); }

const area* transaction::look_for_area(position p) const {
  const auto after = areas_.upper_bound(p);
  if (after == areas_.begin()) return nullptr;
  const area& a = std::prev(after)->second;
  if (p >= a.end) return nullptr;
  return found_ = &a;
}

position transaction::make_slot(std::uint64_t size, std::uint64_t type) {
  const std::uint64_t length = slot_word::of(size, type, 0).length();
  if (current_ == nullptr || current_->end - current_->next < length) {
    const area a = in_.free.take(length, taken_);
    // What is written there is announced at the commit; until then nobody else may touch the pages. The first word is
    // what the committed chain of slots has, and an abort must put it back.
    tx_.hold(in_.free.at(a.begin), a.end - a.begin);
    tx_.set_range(in_.free.at(a.begin), 8);
    current_ = &areas_.emplace(a.begin, a).first->second;
    in_.owned.emplace(a.begin, a.end);
  }
  const position p = current_->next;
  current_->next += length;
  taken_ += length;
  in_.free.set_word(p, slot_word::of(size, type, in_.free.next_serial(p)));
  std::memset(in_.free.at(p + 8), 0, length - 8);
  return p;
}

void transaction::declare(position p, std::uint64_t length) {
  if (!is_fresh(p)) tx_.set_range(in_.free.at(p), length);
}

void transaction::set_word(position p, slot_word w) {
  declare(p, 8);
  in_.free.set_word(p, w);
}

bool transaction::is_still(const placed& p) const {
  return in_.addresses.is_handle(p.what.handle) && p.what.header().slot == p.slot;
}

void transaction::give_slot(object o, position slot) {
  o.set_slot(slot);
  in_.slots.set(slot, o);
  resolve(o);
}

// Whether the word is one of an image: not in what was freed, or left by an abort, where it may be anything, even the
// committed chain's.
bool transaction::is_in_image(position word) const {
  if (const object o = in_.slots.object_before(word); o && word - (o.header().slot + 8) < o.header().size) return true;
  return std::ranges::any_of(in_.statics.all(), [&](const auto& v) { return word - v->image() < v->size; });
}

// Images that refer to the object by its address, since it had none of its own, refer to its image now.
void transaction::resolve(object o) {
  const auto waiting = in_.waiting.find(~o.address());
  if (waiting == in_.waiting.end()) return;
  for (const position word : waiting->second) {
    // Not what another transaction is making: it looks for itself when it has ended.
    if (lies_in(in_.owned, word) && !is_fresh(word)) continue;
    const reference r{load_word(in_.free.at(word))};
    if (!r.is_address() || in_.addresses.find(reinterpret_cast<const void*>(r.address())) != o || !is_in_image(word))
      continue;
    declare(word, 8);
    store_word(in_.free.at(word), encode(in_, r.address()).bits);
  }
}

void transaction::waits(position word, object target) {
  in_.waiting[~target.address()].insert(word);
  waiting_words_.push_back(word);
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

void transaction::typed(object o) {
  const slot_word word = in_.free.word_at(o.header().slot);
  set_word(o.header().slot, slot_word::of(word.size(), o.header().type, word.serial()));
  if (!is_fresh(o.header().slot)) retyped_.push_back(o);
}

void transaction::updated_static(static_variable& v, std::vector<std::byte>&& before) {
  statics_.try_emplace(&v, std::move(before));
}

void transaction::forget_static(static_variable& v) {
  release_slot(v.slot);
  forgotten_ = &v;
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

// Announces what has been made in the area, and that the rest is free.
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

void transaction::prepare() {
  if (in_.is_strict()) check_references();
  for (const object o : retyped_) {
    if (!in_.addresses.is_handle(o.handle)) continue;
    in_.types.settle(o);
    if (!o.is_persistent()) continue;
    const slot_word word = in_.free.word_at(o.header().slot);
    set_word(o.header().slot, slot_word::of(word.size(), o.header().type, word.serial()));
  }
  // Slots that another transaction has made wait until it has ended.
  std::erase_if(in_.finalized, [&](position slot) {
    const bool now = !lies_in(in_.owned, slot) || is_fresh(slot);
    if (now) finalized_.push_back(slot);
    return now;
  });
  for (const placed& p : freed_)
    if (p.slot != 0 && is_still(p)) release_slot(p.slot);
  for (const placed& p : taken_slots_) release_slot(p.slot);
  for (const position slot : finalized_) release_slot(slot);
  std::uint64_t whole = 0;
  for (const auto& [begin, a] : areas_) whole += pages_of(a).length();
  for (const auto& [begin, a] : areas_) prepare_area(a, whole >= test_hooks::bulk_bytes);
}

void transaction::commit() {
  {
    const store_lock lock(in_);
    prepare();
  }
  tx_.commit();
  blocks_to_free to_free;
  {
    const store_lock lock(in_);
    finish(to_free);
  }
  free_all(to_free);
}

void transaction::forget_object(object o, blocks_to_free& to_free) {
  in_.addresses.remove(o);
  in_.types.forget_own(o);
  in_.waiting.erase(~o.address());
  in_.object_blocks.release(o, to_free);
}

void transaction::finish(blocks_to_free& to_free) {
  over_ = true;
  --in_.open_transactions;
  const auto release = [&](position slot) { in_.free.add(slot, slot + in_.free.word_at(slot).length()); };
  for (const placed& p : freed_) {
    if (!is_still(p)) continue;  // a collector was faster
    if (p.slot != 0) {
      release(p.slot);
      in_.slots.erase(p.slot);
    }
    forget_object(p.what, to_free);
  }
  for (const placed& p : taken_slots_) release(p.slot);
  for (const position slot : finalized_) release(slot);
  if (forgotten_ != nullptr) {
    release(forgotten_->slot);
    in_.statics.remove(*forgotten_);
    --in_.report.unbound;
  }
  for (const auto& [begin, a] : areas_) {
    in_.owned.erase(begin);
    in_.free.add(a.next, a.end);
  }
  // Others may have made objects persistent that images in the areas refer to.
  std::vector<std::pair<position, reference>> now_known;
  for (const position word : waiting_words_) {
    const reference r{load_word(in_.free.at(word))};
    if (lies_in(in_.owned, word) || !r.is_address() || r.execution() != (in_.execution & 0x7fff) || !is_in_image(word))
      continue;
    if (const reference known = encode(in_, r.address()); !known.is_address()) now_known.emplace_back(word, known);
  }
  if (now_known.empty()) return;
  try {
    in_.memory.transact(
        [&](rvm::transaction& tx) {
          for (const auto& [word, known] : now_known) tx.modify(in_.free.at(word), &known, sizeof known);
        },
        rvm::commit_mode::no_flush);
  } catch (const std::exception&) {  // the memory has failed, which the next call will tell
  }
}

// --- Abort -------------------------------------------------------------------------------------------------------------

void transaction::undo_statics() {
  for (const auto& [variable, before] : statics_) {
    if (before.empty()) {
      if (variable->address != nullptr)
        read_image(in_, {variable->address, variable->image(), variable->size, in_.types[variable->type]});
    } else {
      std::memcpy(variable->address, before.data(), before.size());
      in_.statics.remove(*variable);
    }
  }
}

void transaction::undo(blocks_to_free& to_free) {
  over_ = true;
  --in_.open_transactions;
  try {
    tx_.abort();
  } catch (...) {  // the memory has failed, which the next call will tell; what is in this process can be undone
  }
  for (const auto& [begin, a] : areas_)
    in_.slots.clear(begin, a.next, [&](object o) {
      if (in_.addresses.is_handle(o.handle) && is_fresh(o.header().slot)) o.set_slot(0);
    });
  for (const placed& p : taken_slots_)
    if (!is_fresh(p.slot) && in_.addresses.is_handle(p.what.handle)) {
      p.what.set_slot(p.slot);
      in_.slots.set(p.slot, p.what);
    }
  for (const placed& p : freed_)
    if (in_.addresses.is_handle(p.what.handle)) p.what.header().dying = 0;
  for (const object o : retyped_) {
    if (!in_.addresses.is_handle(o.handle) || !o.is_persistent()) continue;
    in_.types.forget_own(o);
    o.set_type(in_.free.word_at(o.header().slot).type());
  }
  for (const std::uintptr_t handle : updated_)
    if (const object o{reinterpret_cast<std::byte*>(handle)}; in_.addresses.is_handle(o.handle) && o.is_persistent())
      read_image(in_, stored(in_, o));
  undo_statics();
  for (const object o : made_)
    if (in_.addresses.is_handle(o.handle) && in_.object_blocks.takes_back(o)) forget_object(o, to_free);
  in_.finalized.insert(in_.finalized.end(), finalized_.begin(), finalized_.end());
  std::erase_if(in_.finalized, [&](position slot) { return is_fresh(slot); });
  for (const auto& [begin, a] : areas_) {
    in_.owned.erase(begin);
    in_.free.add(a.begin, a.end);
  }
}

void transaction::abort() noexcept {
  // The child of a fork has no part in it, nor the store's memory.
  if (over_ || in_.fork_generation != os::fork_generation()) return;
  blocks_to_free to_free;
  {
    const store_lock lock(in_);
    undo(to_free);
  }
  free_all(to_free);
}

}  // namespace tenure::pobj
