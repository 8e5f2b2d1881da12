// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Inner levels of a transaction, and what an abort undoes: of a level, or of all. Recoverable memory puts the images back, and the
// lists tell what else was done since the level began [pobj.inner.lists].
#include <cstring>
#include <utility>

#include "os/cleared_memory.hpp"
#include "os/room_for_one.hpp"
#include "pobj/images.hpp"
#include "pobj/transaction.hpp"

namespace tenure::pobj {

// An abort goes back to the types that the slots have, so objects that are being typed word by word get shared types first.
void transaction::begin_inner() {
  store_lock lock(in_);
  in_.wait_for_links(lock);
  share_own_types(shared_);
  shared_ = retyped_.size();
  os::reserve_one_more(levels_);
  level begun{area_begins_.size(), made_.size(),    retyped_.size(),      given_.size(),
              taken_slots_.size(), freed_.size(),   abandoned_.size(),    left_types_.size(),
              updated_.size(),     statics_.size(), waiting_words_.size()};
  begun.current = current_;
  begun.next = current_ != nullptr ? current_->next : 0;
  begun.taken = taken_;
  begun.tx = tx_.begin_inner();
  levels_.push_back(std::move(begun));
}

void transaction::end_inner() {
  levels_.back().tx.commit();
  levels_.pop_back();
}

void transaction::abort_inner() {
  blocks_to_free to_free;
  {
    const store_lock lock(in_);
    levels_.back().tx.abort();
    undo_since(levels_.back(), to_free);
    levels_.pop_back();
  }
  to_free.free_all();
}

// Objects whose images were made since then are transient again, and those that have lost their images have them again.
void transaction::undo_slots(const level& l) noexcept {
  const auto clear = [&](position begin, position end) {
    in_.slots.clear(begin, end, [&](object o) {
      if (in_.addresses.is_handle(o.handle) && is_made_since(l, o.header().slot)) o.set_slot(0);
    });
  };
  if (l.current != nullptr) clear(l.next, l.current->next);
  for (std::size_t i = l.areas; i < area_begins_.size(); ++i) clear(area_begins_[i], areas_.at(area_begins_[i]).next);
  for (std::size_t i = l.taken_slots; i < taken_slots_.size(); ++i)
    if (const placed& p = taken_slots_[i]; !is_made_since(l, p.slot) && in_.addresses.is_handle(p.what.handle)) {
      in_.slots.set(p.slot, p.what);  // the place was in use before, so it cannot fail
      p.what.set_slot(p.slot);
    }
  for (std::size_t i = l.freed; i < freed_.size(); ++i)
    if (in_.addresses.is_handle(freed_[i].what.handle)) freed_[i].what.header().dying = 0;
}

// Objects that are persistent again get the types of their slots.
void transaction::undo_types(const level& l) noexcept {
  const auto go_back = [&](object o) {
    if (!in_.addresses.is_handle(o.handle) || !o.is_persistent()) return;
    in_.types.forget_own(o);
    const std::uint64_t number = in_.free.word_at(o.header().slot).type();
    in_.types.use(number);
    in_.types.drop(o.header().type);
    o.set_type(number);
  };
  for (std::size_t i = l.retyped; i < retyped_.size(); ++i) go_back(retyped_[i]);
  for (std::size_t i = l.taken_slots; i < taken_slots_.size(); ++i) go_back(taken_slots_[i].what);
}

// The oldest note of a variable, which comes last, says what it was.
void transaction::undo_statics(const level& l) noexcept {
  statics_.take_back(l.statics, [&](static_variable* variable, static_before& before, bool is_last) {
    static_variable& v = *variable;
    in_.types.drop(v.type);
    if (before.is_new) {
      if (v.address != nullptr) std::memcpy(v.address, before.bytes.data(), before.bytes.size());
      remove(v);
      return false;
    }
    in_.types.use(before.type);
    v.name = std::move(before.name);
    v.size = before.size;
    v.type = before.type;
    v.slot = before.slot;
    v.value = before.value;
    --v.users;
    if (v.address == nullptr) return false;
    // The variable has grown.
    if (before.bytes.size() > v.size)
      std::memcpy(v.address + v.size, before.bytes.data() + v.size, before.bytes.size() - v.size);
    if (is_last) read_image(in_, {v.address, v.image(), v.size, in_.types[v.type]}, taken_before(l));
    return false;
  });
}

void transaction::undo_areas(const level& l) noexcept {
  found_ = nullptr;
  while (area_begins_.size() > l.areas) {
    const auto at = areas_.find(area_begins_.back());
    in_.owned.erase(at->second.begin);
    in_.free.add(at->second.begin, at->second.end);
    areas_.erase(at);
    area_begins_.pop_back();
  }
  current_ = l.current;
  if (current_ != nullptr) current_->next = l.next;
  taken_ = l.taken;
}

// A word that is as it was before may have the address of an object that is gone, where one lies now for which it waited since
// [pobj.reference.waiting].
void transaction::undo_waiting(const level& l) noexcept {
  for (std::size_t i = l.waiting_words; i < waiting_words_.size(); ++i) {
    waiting_word& each = waiting_words_[i];
    if (!std::exchange(each.is_new, false)) continue;
    if (const auto waiting = in_.waiting.find(each.target); waiting != in_.waiting.end())
      waiting->second.erase(each.word);
  }
}

void transaction::undo_since(const level& l, blocks_to_free& to_free) noexcept {
  undo_waiting(l);
  undo_slots(l);
  undo_types(l);
  // Before the notes: one that stayed would be of whoever gets the memory, of another thread perhaps, whose object would go back to
  // its image with the outer level.
  for (std::size_t i = l.made; i < made_.size(); ++i)
    if (const object o = made_[i]; in_.addresses.is_handle(o.handle) && in_.object_blocks.takes_back(o))
      forget_object(o, to_free);
  // An object that is transient again stays noted: the outer level may have taken an image from it, to which it goes back with
  // that level [pobj.inner.transient].
  const auto put_back = [&](std::uintptr_t handle, nothing, bool is_last) {
    const object o{reinterpret_cast<std::byte*>(handle)};
    if (!is_last || !in_.addresses.is_handle(o.handle)) return false;
    if (o.is_persistent()) read_image(in_, stored(in_, o), taken_before(l));
    return !o.is_persistent();
  };
  if (&l == &levels_.front())
    updated_.take_all_back(put_back);
  else
    updated_.take_back(l.updated, put_back);
  undo_statics(l);
  // Objects that were made since then, and that a collector has taken, have never existed.
  std::erase_if(in_.finalized, [&](const auto& each) {
    if (!is_made_since(l, each.slot)) return false;
    in_.types.drop(each.type);
    return true;
  });
  for (std::size_t i = l.left_types; i < left_types_.size(); ++i) in_.types.drop(left_types_[i]);
  undo_areas(l);
  os::shorten(made_, l.made);
  os::shorten(retyped_, l.retyped);
  os::shorten(given_, l.given);
  os::shorten(taken_slots_, l.taken_slots);
  os::shorten(freed_, l.freed);
  os::shorten(abandoned_, l.abandoned);
  os::shorten(left_types_, l.left_types);
  shared_ = l.retyped;
}

void transaction::undo(blocks_to_free& to_free) noexcept {
  over_ = true;
  try {
    tx_.abort();
  } catch (...) {  // recoverable memory has failed, and the next call reports it; the rest can be undone
  }
  in_.finalized.splice(in_.finalized.end(), finalized_);
  if (forgotten_ != nullptr) forgotten_->is_going = false;
  undo_since(levels_.front(), to_free);
  finish_references();
}

void transaction::abort() noexcept {
  // In the child of a fork, neither the transaction nor the store's memory belongs to this process.
  if (over_ || in_.fork_generation != os::fork_generation()) return;
  blocks_to_free to_free;
  {
    const store_lock lock(in_);
    undo(to_free);
  }
  to_free.free_all();
}

}  // namespace tenure::pobj
