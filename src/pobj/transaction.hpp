// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A thread's transaction: a transaction of recoverable memory, and what an abort must undo, or a commit must do, in the
// memory of the process. What is noted for that is in lists, and an inner level remembers how long they were when it began
// [pobj.inner.lists].
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tenure/rvm.hpp>

#include "pobj/errors.hpp"
#include "pobj/level_notes.hpp"
#include "pobj/linked_words.hpp"
#include "pobj/store.hpp"

namespace tenure::pobj {

class transaction {
 public:
  // begin(), commit() and abort() are called without the store's lock, everything else with it.
  explicit transaction(store& in) : in_(in), linked_(in.free), tx_(in.memory.begin()) {
    levels_.emplace_back();
    ++in.open_transactions;
  }
  ~transaction();
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;

  [[nodiscard]] store& get_store() const { return in_; }

  // An object, and where its image is or was.
  struct placed {
    object what;
    position slot;
  };

  // --- Bytes of the store ---

  // Makes a new slot of zeros. It must be given to an object or abandoned. Throws POBJ_ETOOBIG.
  position make_slot(std::uint64_t size, std::uint64_t type);
  // The slot is not needed, because its object could not be made, or has another slot.
  void abandon(position slot) noexcept;
  // Makes room for this many abandoned slots.
  void expect_to_abandon(std::size_t count);
  // [p, p+length) is about to change.
  void declare(position p, std::uint64_t length);
  void set_word(position p, slot_word w);

  // --- Notes of what was done, for the end ---

  void note_made(object o) { made_.push_back(o); }
  // Called when the call that makes the object fails.
  void forget_made(object o) noexcept;
  // Whether this transaction has made the place. No other transaction uses an image there yet.
  [[nodiscard]] bool is_made_here(position p) const { return area_of(p) != nullptr; }
  // Whether its innermost open level has. Then an abort of the level needs no old bytes.
  [[nodiscard]] bool is_made_in_level(position p) const { return is_made_since(levels_.back(), p); }
  // The object has got an image: sets its header and the table. The commit updates references that wait for it.
  void give_slot(object o, position slot);
  // Takes back the image of an object that was transient before the call that fails now. If the object has none,
  // abandons the slot.
  void undo_give_slot(object o, position slot) noexcept;
  void take_slot(object o);
  void free_object(object o);
  void note_updated(object o) {
    if (!is_made_in_level(o.header().slot)) note_persistified(o);
  }
  // If the object had another image before, in this transaction, an abort goes back to that image.
  void note_persistified(object o) {
    (void)updated_.note(o.address(), levels_.back().updated, [] { return nothing(); });
  }
  // Gives the object, its slot and its image a type. If it throws, nothing has changed.
  void set_type(object o, std::uint32_t number);
  void note_typing(object o) { retyped_.push_back(o); }
  // If the object has its own type, makes that a shared one.
  void share_own_type(object o);
  // The static variable is about to change. `size`: bytes of memory that an abort puts back. An abort removes a new
  // variable.
  void note_change(static_variable& v, std::uint64_t size, bool is_new);
  // Does not fail after expect_to_leave_a_type().
  void set_type(static_variable& v, std::uint32_t number);
  void expect_to_leave_a_type();
  // Removes the object from all tables. Its slot belongs to the caller then.
  void remove(static_variable& v) noexcept;
  // Frees the slot of a static variable, which nobody else may change or forget until the end. The transaction does nothing
  // else.
  void forget_static(static_variable& v);
  // A word of an image refers to a transient object.
  void note_waiting(position word, object target);

  // --- Inner levels: undo.cpp. Called without the store's lock. ---

  // If it throws, no level has begun.
  void begin_inner();
  // What the innermost level has done is the outer one's.
  void end_inner();
  // Undoes it. If it throws, it is still open.
  void abort_inner();

  // --- The end ---

  // If it throws, the transaction is still open. Once it is durable, nothing fails any more [pobj.commit.memory]. No
  // inner level is open.
  void commit();
  void abort() noexcept;

 private:
  // An area, and how many had been taken before it.
  struct own_area : area {
    std::size_t number = 0;
  };
  struct nothing {};
  struct static_before {
    static_name name;
    std::uint64_t size;
    std::uint32_t type;
    position slot;
    std::uint64_t value;
    std::vector<std::byte> bytes;  // in memory
    bool is_new;
  };
  // `target`: as in store::waiting. `is_new`: it has not waited for this target before.
  struct waiting_word {
    position word;
    std::uintptr_t target;
    bool is_new;
  };
  // How long the lists were when a level began, and where it began to make slots. The first one is the transaction itself.
  struct level {
    std::size_t areas = 0, made = 0, retyped = 0, given = 0, taken_slots = 0, freed = 0, abandoned = 0, left_types = 0,
                updated = 0, statics = 0, waiting_words = 0;
    own_area* current = nullptr;
    position next = 0;
    std::uint64_t taken = 0;
    rvm::inner_transaction tx = {};
  };

  [[nodiscard]] bool is_made_since(const level& l, position p) const {
    const own_area* const a = area_of(p);
    return a != nullptr && (a->number >= l.areas || (a == l.current && p >= l.next));
  }
  [[nodiscard]] const own_area* area_of(position p) const {
    return found_ != nullptr && p >= found_->begin && p < found_->end ? found_ : look_for_area(p);
  }
  // What had lost its image when the level began.
  [[nodiscard]] std::span<const placed> taken_before(const level& l) const {
    return std::span(taken_slots_).first(l.taken_slots);
  }
  [[nodiscard]] const own_area* look_for_area(position p) const;
  own_area& take_area(std::uint64_t length);
  [[nodiscard]] bool is_still(const placed& p) const;
  [[nodiscard]] bool is_in_image(position word) const;
  [[nodiscard]] bool is_anothers(position word) const;
  void link(object o);
  void take_back_links() noexcept;
  void leave_type(std::uint64_t number) { left_types_.push_back(static_cast<std::uint32_t>(number)); }
  void type_slot(object o);
  void release_slot(position slot);
  void prepare();
  void prepare_area(const area& a, bool in_bulk);
  void check_references() const;
  void finish(blocks_to_free& to_free) noexcept;
  [[nodiscard]] bool is_waiting(position word, object target) const;
  void finish_references() noexcept;
  void update_references();
  void release_unused_types() noexcept;
  void share_own_types(std::size_t from);
  void undo(blocks_to_free& to_free) noexcept;
  void undo_waiting(const level& l) noexcept;
  void undo_since(const level& l, blocks_to_free& to_free) noexcept;
  void undo_slots(const level& l) noexcept;
  void undo_types(const level& l) noexcept;
  void undo_statics(const level& l) noexcept;
  void undo_areas(const level& l) noexcept;
  void forget_object(object o, blocks_to_free& to_free) noexcept;

  store& in_;
  linked_words linked_;  // by the commit that is under way
  rvm::transaction tx_;
  std::vector<level> levels_;                // the open ones
  std::map<position, own_area> areas_;       // by their begin
  std::vector<position> area_begins_;        // in the order in which they were taken
  own_area* current_ = nullptr;              // the area from which slots are cut
  mutable const own_area* found_ = nullptr;  // the area that was found last
  std::uint64_t taken_ = 0;
  std::vector<object> made_, retyped_, given_;
  std::size_t shared_ = 0;  // so many of retyped_ have shared types
  std::vector<placed> taken_slots_, freed_;
  std::vector<position> abandoned_;
  std::vector<waiting_word> waiting_words_;
  std::vector<std::uint32_t> left_types_;  // they count as used until the end
  std::list<store::finalized_slot> finalized_;
  level_notes<std::uintptr_t, nothing> updated_;  // handles
  level_notes<static_variable*, static_before> statics_;
  static_variable* forgotten_ = nullptr;
  std::unique_ptr<static_variable> removed_;
  bool over_ = false;
};

// A thread's transaction and its nesting. For the store it is open until the outermost one has ended.
struct thread_state {
  std::unique_ptr<transaction> open;
  int depth = 0;
  std::vector<int> inner;  // the depths of the open inner levels
  bool doomed = false;     // the innermost of them, or else the transaction, was aborted by a nested pobj_abort
};
[[nodiscard]] thread_state& this_thread();

// Runs f(transaction) with the store's lock held: in this thread's transaction, or in a new one, which aborts if f
// throws.
template <class F>
void transact(F&& f) {
  store& in = the_store();
  thread_state& thread = this_thread();
  if (thread.doomed)
    throw failure(POBJ_EABORTED, "the transaction has been aborted by a nested pobj_abort: end it with pobj_end");
  if (thread.open) {
    store_lock lock(in);
    in.wait_for_links(lock);
    return std::forward<F>(f)(*thread.open);
  }
  transaction own(in);
  {
    store_lock lock(in);
    in.wait_for_links(lock);
    std::forward<F>(f)(own);
  }
  own.commit();
}

}  // namespace tenure::pobj
