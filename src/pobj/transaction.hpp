// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A thread's transaction: a transaction of recoverable memory, and what an abort must undo, or a commit must do, in the
// memory of the process.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tenure/rvm.hpp>

#include "pobj/errors.hpp"
#include "pobj/store.hpp"

namespace tenure::pobj {

class transaction {
 public:
  // begin(), commit() and abort() are called without the store's lock, everything else with it.
  explicit transaction(store& in) : in_(in), tx_(in.memory.begin()) { ++in.open_transactions; }
  ~transaction();
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;

  [[nodiscard]] store& get_store() const { return in_; }

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
  // The object has got an image: sets its header and the table. The commit updates references that wait for it.
  void give_slot(object o, position slot);
  // Takes back the image of an object that was transient before the call that fails now. If the object has none,
  // abandons the slot.
  void undo_give_slot(object o, position slot) noexcept;
  void take_slot(object o);
  void free_object(object o);
  void note_updated(object o) {
    if (!is_made_here(o.header().slot)) updated_.insert(o.address());
  }
  // If the object had another image before, in this transaction, an abort goes back to that image.
  void note_persistified(object o) { updated_.insert(o.address()); }
  // Gives the object and its slot a type. If it is the object's own, the commit makes it a shared one.
  void set_type(object o, std::uint32_t number);
  void note_typing(object o) { retyped_.push_back(o); }
  // If the object has its own type, makes that a shared one.
  void share_own_type(object o);
  // The static variable is about to change. `size`: bytes of memory that an abort puts back. An abort removes a new
  // variable.
  void note_change(static_variable& v, std::uint64_t size, bool is_new);
  void set_type(static_variable& v, std::uint32_t number);
  // Removes the object from all tables. Its slot belongs to the caller then.
  void remove(static_variable& v) noexcept;
  // Frees the slot of a static variable. The transaction does nothing else.
  void forget_static(static_variable& v);
  // A word of an image refers to a transient object.
  void note_waiting(position word, object target);

  // --- The end ---

  // If it throws, the transaction is still open. Once it is durable, nothing fails any more [pobj.commit.memory].
  void commit();
  void abort() noexcept;

 private:
  struct placed {
    object what;
    position slot;
  };
  struct static_before {
    static_name name;
    std::uint64_t size;
    std::uint32_t type;
    position slot;
    std::uint64_t value;
    std::vector<std::byte> bytes;  // in memory
    bool is_new;
  };

  [[nodiscard]] const area* area_of(position p) const {
    return found_ != nullptr && p >= found_->begin && p < found_->end ? found_ : look_for_area(p);
  }
  [[nodiscard]] const area* look_for_area(position p) const;
  area& take_area(std::uint64_t length);
  [[nodiscard]] bool is_still(const placed& p) const;
  [[nodiscard]] bool is_in_image(position word) const;
  [[nodiscard]] bool is_anothers(position word) const;
  void link(object o);
  void leave_type(std::uint64_t number) { left_types_.push_back(static_cast<std::uint32_t>(number)); }
  void type_slot(object o);
  void release_slot(position slot);
  void prepare();
  void prepare_area(const area& a, bool in_bulk);
  void check_references() const;
  void finish(blocks_to_free& to_free) noexcept;
  void finish_references() noexcept;
  void update_references();
  void release_unused_types() noexcept;
  void undo(blocks_to_free& to_free) noexcept;
  void undo_types() noexcept;
  void undo_statics() noexcept;
  void forget_object(object o, blocks_to_free& to_free) noexcept;

  store& in_;
  rvm::transaction tx_;
  std::map<position, area> areas_;       // by their begin
  area* current_ = nullptr;              // the area from which slots are cut
  mutable const area* found_ = nullptr;  // the area that was found last
  std::uint64_t taken_ = 0;
  std::vector<object> made_, retyped_, given_;
  std::vector<placed> taken_slots_, freed_;
  std::vector<position> abandoned_, waiting_words_;
  std::vector<std::uint32_t> left_types_;  // they count as used until the end
  std::list<store::finalized_slot> finalized_;
  std::unordered_set<std::uintptr_t> updated_;
  std::unordered_map<static_variable*, static_before> statics_;
  static_variable* forgotten_ = nullptr;
  std::unique_ptr<static_variable> removed_;
  bool has_linked_ = false;
  bool over_ = false;
};

// A thread's transaction and its nesting. For the store it is open until the outermost one has ended.
struct thread_state {
  std::unique_ptr<transaction> open;
  int depth = 0;
  bool doomed = false;  // aborted by a nested one
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
