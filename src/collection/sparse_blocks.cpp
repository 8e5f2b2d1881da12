// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/sparse_blocks.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tenure::heap {

namespace {

// References to one block. A block with more, after those noted twice are left out, is not worth moving: each is written to.
constexpr std::size_t most_incoming = 1 << 16;

}  // namespace

struct sparse_blocks::candidate {
  std::size_t database;
  std::uint64_t number, bytes;
};

sparse_blocks::~sparse_blocks() {
  for (sparse_block& each : blocks_) leave(each);
}

// Where memory is too short for it, nothing is made there until the store is opened again.
void sparse_blocks::leave(sparse_block& which) noexcept try {
  if (std::exchange(which.is_left, true)) return;
  which.incoming = {};
  birth& births = *store_[which.database].birth;
  births.with_lock([&] { births.reopen(which.number); });
} catch (const std::bad_alloc&) {
}

std::vector<sparse_blocks::candidate> sparse_blocks::candidates(std::uint32_t percent) const {
  std::vector<candidate> found;
  for (std::size_t n = 0; n < store_.size(); ++n) {
    const database_state& d = store_[n];
    const std::uint64_t most = block_size / 100 * percent;
    for (std::uint64_t block = 0; block < d.header().blocks_end; ++block) {
      if (!has_blocks(d.map->kind_of_zone(block / blocks_in_zone)) || d.map->is_bookkeeping(block)) continue;
      const record_view r = d.map->record(block);
      std::uint64_t bytes = 0;
      if (r.entry.kind == block_kind::small) bytes = r.entry.used * granule;
      for (std::size_t page = 0; r.entry.kind == block_kind::typed && page < pages_in_block; ++page)
        if (r.pages[page].is_typed()) bytes += r.starts.count_in_page(page) * r.pages[page].stride();
      if (bytes != 0 && bytes <= most) found.push_back({n, block, bytes});
    }
  }
  return found;
}

// How many blocks these objects take if they lie side by side.
std::uint64_t sparse_blocks::blocks_for(std::span<const candidate> chosen) const {
  std::map<std::pair<std::size_t, std::uint64_t>, std::pair<std::uint64_t, std::uint64_t>> classes;  // objects, slots
  std::map<std::size_t, std::uint64_t> small;  // bytes, by database
  for (const candidate& c : chosen) {
    const record_view r = store_[c.database].map->record(c.number);
    if (r.entry.kind == block_kind::small) small[c.database] += c.bytes;
    for (std::size_t page = 0; r.entry.kind == block_kind::typed && page < pages_in_block; ++page) {
      if (!r.pages[page].is_typed()) continue;
      auto& [objects, slots] = classes[{c.database, std::uint64_t{r.pages[page].type()} << 12 | r.pages[page].size()}];
      objects += r.starts.count_in_page(page);
      slots = r.pages[page].slots();
    }
  }
  std::uint64_t pages = 0, blocks = 0;
  for (const auto& [of, objects] : classes) pages += (objects.first + objects.second - 1) / objects.second;
  for (const auto& [in, bytes] : small) blocks += (bytes + block_size - 1) / block_size;
  return blocks + (pages + pages_in_block - 1) / pages_in_block;
}

void sparse_blocks::choose(std::uint32_t percent, std::uint64_t bytes) {
  std::vector<candidate> found = candidates(percent);
  std::ranges::stable_sort(found, {}, &candidate::bytes);
  std::uint64_t all = 0;
  std::erase_if(found, [&](const candidate& c) { return (all += c.bytes) > bytes; });
  numbers_.resize(store_.size());
  for (std::size_t n = 0; n < store_.size(); ++n) numbers_[n].resize(store_[n].header().blocks_end);
  // Where new objects are being made, blocks fill by themselves. Each is listed before it is closed: whoever fails leaves it.
  std::erase_if(found, [&](const candidate& c) {
    blocks_.push_back({c.database, c.number, c.bytes, {}, true});
    birth& births = *store_[c.database].birth;
    bool is_closed = false;
    births.with_lock([&] { is_closed = births.close(c.number); });
    blocks_.back().is_left = !is_closed;
    if (!is_closed) blocks_.pop_back();
    return !is_closed;
  });
  for (std::size_t n = 0; n < blocks_.size(); ++n)
    numbers_[blocks_[n].database][blocks_[n].number] = static_cast<std::uint32_t>(n + 1);
  const std::uint64_t after = blocks_for(found);
  const bool is_worth_it = after + std::max<std::uint64_t>(found.size() / 4, 1) <= found.size();
  if (is_worth_it) return;
  for (sparse_block& each : blocks_) leave(each);
  blocks_.clear();
  numbers_.clear();
}

std::size_t sparse_blocks::number_of(const database_state* of) const {
  for (std::size_t n = 0; n < numbers_.size(); ++n)
    if (&store_[n] == of) return n;
  return numbers_.size();
}

sparse_block* sparse_blocks::find(std::size_t database, address at) {
  if (database >= numbers_.size()) return nullptr;
  const std::uint64_t block = store_[database].map->block_of(at);
  const std::vector<std::uint32_t>& numbers = numbers_[database];
  if (block >= numbers.size() || numbers[block] == 0) return nullptr;
  sparse_block& found = blocks_[numbers[block] - 1];
  return found.is_left ? nullptr : &found;
}

void sparse_blocks::pin_object(std::size_t database, address at) {
  if (find(database, at) == nullptr) return;
  const database_state& in = store_[database];
  if (const address object = in.map->find_persistent(at); object != 0) pinned_.insert(place(database, in.home, object));
}

void sparse_blocks::pin(address at) {
  for (const address each : {at, at - 1})
    if (const std::size_t n = number_of(store_.at(reinterpret_cast<const void*>(each))); n < numbers_.size())
      pin_object(n, each);
}

void sparse_blocks::add(sparse_block& to, place from) {
  to.incoming.push_back(from);
  if (to.incoming.size() < most_incoming) return;
  std::ranges::sort(to.incoming);
  to.incoming.erase(std::unique(to.incoming.begin(), to.incoming.end()), to.incoming.end());
  if (to.incoming.size() > most_incoming / 2) leave(to);
}

void sparse_blocks::note(std::size_t database, const known_type& type, address from, const reference_field& r) {
  const auto to = static_cast<address>(r.to);
  if (r.may_be_end || pins_(store_[database], type)) return pin(to);
  const database_state& near = store_[database];
  const std::size_t in = near.map->contains(to) ? database : number_of(store_.at(in_memory(r.to)));
  if (sparse_block* const block = find(in, to)) add(*block, place(database, near.home, from));
}

void sparse_blocks::note_references(std::size_t database, const object_facts& object, std::uint64_t from,
                                    std::uint64_t to) {
  const known_type* const type = store_[database].types->find(object.type);
  if (type == nullptr || type->words == nullptr || !type->words->has_pointers()) return;
  for_each_reference(*type, reinterpret_cast<const std::byte*>(object.at), object.size, from, std::min(to, object.size),
                     [&](const reference_field& r) { note(database, *type, object.at + r.offset, r); });
}

void sparse_blocks::note_references(std::size_t database, const known_type& type, address object, std::uint64_t begin,
                                    std::span<const std::byte> elements) {
  for_each_reference(type, elements.data(), elements.size(), 0, elements.size(),
                     [&](const reference_field& r) { note(database, type, object + begin + r.offset, r); });
}

namespace {

// Calls f(object, facts, first byte, end) for the persistent objects that have changed: offsets, of whole elements, since a
// reference may depend on bytes beside it [heap.reference.guards].
template <class F>
void for_each_changed(const database_state& in, const rvm::memory_range& range, F&& f) {
  const auto from = reinterpret_cast<address>(range.address), to = from + range.length;
  if (from < in.home + zone_kinds_at) return;
  in.map->for_each_persistent_in(from, to, [&](address object) {
    const object_facts facts = in.map->facts(object);
    const known_type* const type = in.types->find(facts.type);
    const std::uint64_t stride = type != nullptr ? type->of->size : 0;
    if (stride == 0 || !type->words->has_pointers()) return;
    const std::uint64_t begin = (std::max(from, object) - object) / stride * stride,
                        end = std::min((to - object + stride - 1) / stride * stride, facts.size / stride * stride);
    if (begin < end) f(*type, facts, begin, end);
  });
}

}  // namespace

void sparse_blocks::note_changed(const rvm::memory_range& range) {
  const std::size_t n = number_of(store_.at(range.address));
  if (n == numbers_.size()) return;
  for_each_changed(store_[n], range,
                   [&](const known_type&, const object_facts& object, std::uint64_t from, std::uint64_t to) {
                     note_references(n, object, from, to);
                   });
}

void sparse_blocks::note_commit(std::span<const rvm::memory_range> changes) {
  for (const rvm::memory_range& range : changes) {
    const std::size_t n = number_of(store_.at(range.address));
    if (n == numbers_.size()) continue;
    for_each_changed(store_[n], range,
                     [&](const known_type&, const object_facts& object, std::uint64_t from, std::uint64_t to) {
                       note_references(n, object, from, to);
                     });
  }
  for (std::size_t n = 0; n < numbers_.size(); ++n) {
    database_state& d = store_[n];
    d.birth->with_lock([&] {
      for (const transient_block* y : d.birth->promoted())
        y->promoted.for_each([&](std::uint64_t g) {
          const object_facts object = d.map->transient_facts(*y, object_of_bit(d.map->start_of(y->first), y->pages, g));
          note_references(n, object, 0, object.size);
        });
    });
  }
}

void sparse_blocks::note_abort(const rvm::transaction& tx, std::span<const rvm::memory_range> changes) {
  std::vector<std::byte> before;
  for (const rvm::memory_range& range : changes) {
    const std::size_t n = number_of(store_.at(range.address));
    if (n == numbers_.size()) continue;
    for_each_changed(store_[n], range,
                     [&](const known_type& type, const object_facts& object, std::uint64_t from, std::uint64_t to) {
                       before.resize(to - from);
                       tx.read_committed(reinterpret_cast<const void*>(object.at + from), before.size(), before.data());
                       note_references(n, type, object.at, from, before);
                     });
  }
}

}  // namespace tenure::heap
