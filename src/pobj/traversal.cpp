// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Traversals: recursive updates [pobj 4.4], and freeing objects to which no anchor leads [pobj 3.4].
//
// Each object's header has the number of the last traversal that met it, so a traversal needs memory only for objects
// that it has not visited yet.
#include <utility>
#include <vector>

#include "pobj/images.hpp"
#include "pobj/transaction.hpp"

namespace tenure::pobj {

namespace {

// The number of a new traversal. No object has it.
std::uint16_t next_mark(store& in) {
  if (++in.mark == 0) {
    in.addresses.for_each([](object o) { o.header().mark = 0; });
    in.mark = 1;
  }
  return in.mark;
}

// The objects to visit, first in, first out. Takes each object once.
class queue {
 public:
  explicit queue(store& in) : mark_(next_mark(in)) {}
  void add(object o) {
    if (o.header().mark == mark_) return;
    o.header().mark = mark_;
    waiting_.push_back(o);
  }
  [[nodiscard]] bool has_met(object o) const { return o.header().mark == mark_; }
  // The next object; none if all have been taken.
  [[nodiscard]] object take() {
    if (next_ == waiting_.size()) return {};
    const object o = waiting_[next_++];
    if (next_ == waiting_.size() || next_ == 4096) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(next_));
      next_ = 0;
    }
    return o;
  }

 private:
  const std::uint16_t mark_;
  std::vector<object> waiting_;
  std::size_t next_ = 0;
};

// Visits all objects that can be reached, breadth first. First calls meet(target) for each object to which the visited
// object refers and that was not met before; `meet` returns whether to visit that one. Then calls f(object) for the
// visited object.
template <class Meet, class F>
void visit(store& in, object start, Meet&& meet, F&& f) {
  queue to_do(in);
  const auto look_at = [&](object o) {
    if (o && o.header().dying == 0 && !to_do.has_met(o) && meet(o)) to_do.add(o);
  };
  look_at(start);
  while (const object o = to_do.take()) {
    const stored_memory m = stored(in, o);
    m.type.for_each_reference(0, m.size, m.size, [&](std::uint64_t at) {
      look_at(in.addresses.find(reinterpret_cast<const void*>(load_word(m.memory + at))));
    });
    f(o);
  }
}

void update_recursively(transaction& t, object start, bool persist) {
  store& in = t.get_store();
  const auto goes_on = [&](object o) { return persist || o.is_persistent(); };
  // Finds mistakes before it changes anything.
  if (in.is_strict()) visit(in, start, goes_on, [&](object o) { check_typed(in, stored(in, o), 0, o.header().size); });
  std::vector<std::pair<object, position>> made_persistent;
  try {
    const auto meet = [&](object o) {
      if (!goes_on(o)) return false;
      if (o.is_persistent()) return true;
      made_persistent.emplace_back(o, 0);
      t.expect_to_abandon(made_persistent.size());
      persistify(t, o);
      made_persistent.back().second = o.header().slot;
      return true;
    };
    // When an object is updated, all objects to which it refers have been met. So they have images, to which its image
    // can refer.
    visit(in, start, meet, [&](object o) { update(t, o, 0, o.header().size); });
  } catch (...) {
    for (auto each = made_persistent.rbegin(); each != made_persistent.rend(); ++each)
      if (each->second != 0) t.undo_give_slot(each->first, each->second);
    throw;
  }
}

// The persistent objects that are reached from the anchors, following references in images.
queue reachable(store& in) {
  queue met(in);
  const auto follow = [&](const stored_memory& m) {
    m.type.for_each_reference(0, m.size, m.size, [&](std::uint64_t at) {
      const std::uint64_t pointer = decode(in, {load_word(in.free.at(m.image + at))});
      const object to = in.addresses.find(reinterpret_cast<const void*>(pointer));
      if (to && to.is_persistent()) met.add(to);
    });
  };
  for (const auto& v : in.statics.all()) follow({v->address, v->image(), v->size, in.types[v->type]});
  while (const object o = met.take()) follow(stored(in, o));
  return met;
}

}  // namespace

}  // namespace tenure::pobj

using namespace tenure::pobj;

int pobj_update_recursive(void* handle, unsigned flags) {
  return guarded("pobj_update_recursive", [&] {
    if ((flags & ~POBJ_PERSISTIFY) != 0) throw failure(POBJ_EOPTION, "flags have bits that mean nothing");
    transact([&](transaction& t) {
      update_recursively(t, t.get_store().object_of(handle), (flags & POBJ_PERSISTIFY) != 0);
    });
  });
}

int pobj_sweep(uint64_t* freed) {
  return guarded("pobj_sweep", [&] {
    store& in = the_store();
    in.require_closable();
    std::uint64_t count = 0;
    transact([&](transaction& t) {
      const queue met = reachable(in);
      in.slots.for_each([&](object o) {
        if (met.has_met(o)) return;
        t.free_object(o);
        ++count;
      });
    });
    if (freed != nullptr) *freed = count;
  });
}
