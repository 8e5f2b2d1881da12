// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/weak_collection.hpp"

#include <tenure/barriers.hpp>

#include "os/unsynchronized_reads.hpp"

namespace tenure {

using namespace heap;

namespace {

#ifdef TENURE_SMALL_GEOMETRY
constexpr std::size_t cells_at_once = 2;
#else
constexpr std::size_t cells_at_once = 1024;
#endif
constexpr std::uint64_t followed_at_once = 64;

}  // namespace

template <class F>
void weak_collection::for_each_cell_in(std::span<const address> some, F&& f) const {
  for (const address granule_of : some)
    for (const address at : {granule_of, granule_of + 8}) {
      const auto* const object = reinterpret_cast<const void*>(at);
      const database_state& in = *of_.databases->at(object);
      // It may have ended meanwhile.
      if (const found_cell cell = found_cell_of(in, in.find_start(object)); cell && cell.is_persistent) f(cell);
    }
}

template <class F>
void weak_collection::in_transaction(F&& f) {
  of_.begin();
  try {
    f();
    (void)of_.commit();
  } catch (...) {
    if (of_.is_writer()) of_.abort();
    throw;
  }
}

template <class F>
void weak_collection::in_transactions(const granules& of, const std::function<void()>& between, F&& f) {
  for (std::size_t done = 0; done < of.size();) {
    between();
    const auto some = std::span(of).subspan(done).first(std::min(cells_at_once, of.size() - done));
    in_transaction([&] { for_each_cell_in(some, f); });
    done += some.size();
  }
}

// What a message keeps may have weak references to other garbage, also to such as messages keep, and even queues. So it is looked
// at once more, before anybody can read the messages.
void weak_collection::run(const std::function<void()>& between) {
  do {
    granules all;
    marks_.for_each_cell([&](address granule_of) { all.push_back(granule_of); });
    garbage_.clear();
    in_transactions(all, between, [this](const found_cell& cell) { clear(cell); });
    clear_transient();
    keep_garbage(between);
  } while (!garbage_.empty());
  in_transactions(watched_, between, [this](const found_cell& cell) { post(cell); });
}

void weak_collection::foresee(const std::function<void()>& between) {
  for (std::uint64_t marked = ~std::uint64_t{0}; marks_.marked() != marked;) {
    marked = marks_.marked();
    granules all;
    marks_.for_each_cell([&](address granule_of) { all.push_back(granule_of); });
    garbage_.clear();
    for (std::size_t done = 0; done < all.size(); done += cells_at_once) {
      between();
      const exclusive_access nobody_else(of_.access);
      for_each_cell_in(std::span(all).subspan(done).first(std::min(cells_at_once, all.size() - done)),
                       [this](const found_cell& cell) {
                         const void* const object = cell.target();
                         if (cell.kind == cell_kind::finalization && object != nullptr && !is_kept_(object))
                           garbage_.push_back(reinterpret_cast<address>(object));
                       });
    }
    keep_garbage(between);
  }
}

void weak_collection::clear_transient() {
  if (!of_.weak.has_made_any()) return;
  in_transaction([&] {
    cleared_ += of_.weak.clear_transient(is_kept_);
    // What garbage refers to may yet be kept.
    if (garbage_.empty()) of_.weak.forget_transient(is_kept_);
  });
}

void weak_collection::keep_garbage(const std::function<void()>& between) {
  if (garbage_.empty()) return;
  marks_.expect_garbage();
  for (const address object : garbage_) {
    const collector::gate_lock gate = of_.collection.pass_gate();
    marks_.mark_target(static_cast<stored_address>(object), false);
  }
  for (bool more = true; more;) {
    between();
    [[maybe_unused]] const os::unsynchronized_reads racing;
    const collector::gate_lock gate = of_.collection.pass_gate();
    more = marks_.follow(followed_at_once);
  }
}

bool weak_collection::is_there(const void* object) const {
  const database_state* const in = of_.databases->at(object);
  return in != nullptr && in->find(object);
}

void weak_collection::clear(const found_cell& cell) {
  const void* const object = cell.target();
  if (object != nullptr && is_kept_(object) && !(cell.kind == cell_kind::weak && is_revived(object))) return;
  if (cell.kind == cell_kind::weak) {
    if (object == nullptr) return;
    change(*cell.cell).hidden = 0;
    ++cleared_;
  } else if (object != nullptr && is_there(object)) {
    watched_.push_back(reinterpret_cast<address>(cell.cell));
    garbage_.push_back(reinterpret_cast<address>(object));
  } else {
    // It was watched, but did not become persistent with the queue. Or the store is damaged.
    cell.entry().of->unlink(cell.entry());
    of_.databases->at(cell.cell)->retire(cell.cell);
  }
}

void weak_collection::post(const found_cell& cell) {
  // Another entry may have come there meanwhile.
  if (cell.kind != cell_kind::finalization || cell.cell->hidden == 0 || !is_revived(cell.target())) return;
  cell.entry().of->post(cell.entry());
  ++messages_;
}

}  // namespace tenure
