// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/commit_changes.hpp"

#include <cstring>
#include <span>
#include <utility>

#include <tenure/error.hpp>

#include "cache/root_table.hpp"
#include "cache/words.hpp"

namespace tenure::cache {

commit_changes::~commit_changes() {
  if (is_captured_) return;
  for (cached_object* const object : made_) object->is_reached = false;
}

commit_changes::book& commit_changes::book_of(std::uint64_t home) {
  open_database& in = *databases_.at(home);
  for (book& known : books_)
    if (&known.in == &in) return known;
  return books_.emplace_back(in);
}

void commit_changes::gather(open_transaction& tx) {
  reach(tx);
  const cached_object* last = nullptr;
  std::vector<std::byte> before;
  for (const object_part& part : changed_) {
    cached_object& object = *part.object;
    const std::span<std::byte> now = bytes_.take(part.length);
    stored_form(tx, part, object.bytes, objects_, databases_, now);
    const std::size_t first_range = where_.size();
    if (object.type.words.words().empty()) {  // is stored as it is in memory
      add_differences(std::span(object.before.bytes(object.shape()) + part.offset, part.length), now, where_);
    } else {
      before.resize(part.length);
      stored_form(tx, part, object.before.bytes(object.shape()), objects_, databases_, before);
      give_back_transients(object, before, now);
      add_differences(before, now, where_);
    }
    if (add_change(object.in, object.home + part.offset, now, first_range))
      changed_objects_ += std::exchange(last, &object) == &object ? 0 : 1;
  }
  for (cached_object* const object : made_) add_made(tx, *object);
  for (const auto& [in, changes] : tx.roots) {
    if (changes.empty()) continue;
    book& of = book_of(in->stored.home());
    write_roots(*in, changes, of.types, of.pages);
    of.has_roots = true;
  }
  for (const cached_object* const object : tx.changed) {
    if (object->state != object_state::destroyed) continue;
    require_no_root_to(*object, tx);
    book& in = book_of(object->home);
    in.freed.push_back(in.records.remove(object->home, object->size));
    ++destroyed_objects_;
  }
  close_books();
}

void commit_changes::require_no_root_to(const cached_object& destroyed, const open_transaction& tx) const {
  open_database& in = *databases_.at(destroyed.home);
  const auto& roots = in.roots();
  if (!in.has_root_to(destroyed.home)) return;
  const auto set = tx.roots.find(&in);
  for (const auto& [name, root] : roots)
    if (root.object == destroyed.home && (set == tx.roots.end() || !set->second.contains(name)))
      throw error(errc::cannot_persist, destroyed.text() + ", was destroyed, but is the root \"" + name +
                                            "\"; remove the root, or set it to another object");
}

// [cache.making.reached] Objects that the program has made are stored, and what containers have made that are in stored objects:
// arrays, to which plain pointers lead, and nodes, to which refs may lead.
void commit_changes::reach(const open_transaction& tx) {
  const auto add = [&](cached_object& object) {
    if (object.state != object_state::made || object.is_reached) return;
    made_.push_back(&object);
    object.is_reached = true;
  };
  const auto follow = [&](const object_part& part) {
    const cached_object& from = *part.object;
    for_each_word(from.type, from.bytes + part.offset, part.length,
                  [&](const pointer_map::word& w, std::size_t, const std::byte* at) {
                    if (w.kind != field_kind::reference) return;
                    const std::uint64_t word = load_word(at);
                    if (word == 0) return;
                    cached_object* const target = w.is_checked && is_identifier(word)
                                                      ? objects_.find(home_in(word))
                                                      : objects_.find_at(w.is_checked ? address_in(word) : word);
                    // What a plain pointer leads to is in the same state, unless another transaction has made it.
                    if (target != nullptr && (target->maker == nullptr || target->maker == &tx)) add(*target);
                  });
  };
  for (cached_object* const object : tx.made)
    if (object->is_root) add(*object);
  for (cached_object* const object : tx.changed)
    if (object->state == object_state::stored) add_changed_parts(*object, changed_);
  for (const object_part& part : changed_) follow(part);
  for (std::size_t n = 0; n < made_.size(); ++n) follow(whole(*made_[n]));
}

void commit_changes::add_made(open_transaction& tx, cached_object& object) {
  const std::span<std::byte> bytes = room_for_whole(static_cast<std::size_t>(object.size));
  stored_form(tx, whole(object), object.bytes, objects_, databases_, bytes);
  for_each_word(object.type, bytes.data(), bytes.size(), [](const pointer_map::word& w, std::size_t, std::byte* at) {
    if (w.kind == field_kind::transient) std::memset(at, 0, static_cast<std::size_t>(w.length));
  });
  book& in = book_of(object.home);
  in.types.describe(object.type.index);
  add_whole(in, object.home, object.type.index, bytes);
}

std::span<std::byte> commit_changes::room_for_whole(std::size_t size) {
  return bytes_.take(sizeof(heap::object_header) + size).subspan(sizeof(heap::object_header));
}

void commit_changes::add_whole(book& in, std::uint64_t home, std::uint32_t type, std::span<std::byte> bytes) {
  const places::use& use = in.in.free.use_of(home);
  in.records.add(home, bytes.size(), use);
  if (use.kind != heap::block_kind::typed) {
    const heap::object_header header{type, static_cast<std::uint32_t>(bytes.size())};
    bytes = {bytes.data() - sizeof header, bytes.size() + sizeof header};
    std::memcpy(bytes.data(), &header, sizeof header);
    home -= sizeof header;
  }
  where_.push_back({0, bytes.size()});
  (void)add_change(in.in.stored, home, bytes, where_.size() - 1);
}

bool commit_changes::add_change(stored_database& in, std::uint64_t home, std::span<const std::byte> now,
                                std::size_t first) {
  if (first == where_.size()) return false;
  changes_.push_back({in, home, now, first, where_.size()});
  return true;
}

void commit_changes::close_books() {
  for (book& b : books_) {
    b.types.write_table(b.pages);
    for (const descriptions::object& o : b.types.objects()) {
      const std::span<std::byte> bytes = room_for_whole(o.bytes.size());
      std::ranges::copy(o.bytes, bytes.begin());
      add_whole(b, o.home, o.type, bytes);
    }
    for (const descriptions::removed_object& o : b.types.removed()) b.freed.push_back(b.records.remove(o.home, o.size));
    b.pages.for_each([&](std::uint64_t offset, std::span<const std::byte> was, std::span<const std::byte> now) {
      const std::size_t first = where_.size();
      add_differences(was, now, where_);
      (void)add_change(b.in.stored, b.in.stored.home() + offset, now, first);  // pages end with the book
    });
  }
}

template <class F>
void commit_changes::for_each_range(F&& f) const {
  for (const change& c : changes_)
    for (const byte_range& r : std::span(where_).subspan(c.first, c.end - c.first))
      f(c.in, c.home + r.offset, c.now.subspan(r.offset, r.length));
}

void commit_changes::add_to(rvm::transaction& log) const {
  for_each_range([&](stored_database& in, std::uint64_t home, std::span<const std::byte> now) {
    log.change(in.segment(), home - in.home(), now);
  });
}

// [cache.pool.committed] Before anybody can read a page.
void commit_changes::captured(statistics& counts) noexcept {
  is_captured_ = true;
  for_each_range([&](stored_database& in, std::uint64_t home, std::span<const std::byte> now) {
    in.committed(home, now);
    ++counts.changed_ranges;
    counts.changed_bytes += now.size();
  });
  for (book& b : books_) {
    b.in.stored.bookkeeping_changed();
    b.types.committed();
    if (b.has_roots) b.in.roots_changed();
    for (const places::freed& f : b.freed) b.in.free.add(f);
  }
  counts.changed_objects += changed_objects_;
  counts.made_objects += made_.size();
  counts.destroyed_objects += destroyed_objects_;
}

}  // namespace tenure::cache
