// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collection/root_snapshot.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include <tenure/error.hpp>

#include "collection/handles.hpp"
#include "collection/unlogged_references.hpp"
#include "os/sanitizers.hpp"
#include "os/stopped_threads.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::heap {

namespace {

constexpr address granule_at(address at) { return at & ~(granule - 1); }

std::size_t whole_pages(std::size_t length) {
  const std::size_t page = os::page_size();
  return (length + page - 1) / page * page;
}

}  // namespace

root_snapshot::scanned_database::scanned_database(const database_state& database, std::uint64_t blocks,
                                                  std::byte* hits_at, std::byte* roots_at)
    : of(database),
      home(database.home),
      bytes(blocks * block_size),
      hits(reinterpret_cast<std::uint64_t*>(hits_at)),
      roots(database.home, blocks, roots_at) {}

root_snapshot::root_snapshot(const database_set& store) {
  struct extent {
    std::uint64_t blocks, hits, transient_bytes;  // hits: bytes of bits
  };
  std::vector<extent> extents;  // a segment may grow meanwhile
  std::size_t length = whole_pages(sizeof(found));
  for (const auto& d : store) {
    extent& e = extents.emplace_back(extent{d->region.size() / block_size, 0, 0});
    e.hits = whole_pages(e.blocks * block_size / sizeof(address) / 8);
    length += e.hits + granule_bits::length_of(e.blocks);
    d->birth->for_each_transient_block([&](const transient_block& y) {
      if (!y.starts.empty()) e.transient_bytes += y.span * block_size;
    });
    // A word may mean two objects, the one that begins there and the one that ends there.
    room_ += 2 * (e.transient_bytes + (d->types->has_transients() ? e.blocks * block_size : 0)) / sizeof(address);
  }
  memory_ = os::shared_memory(length + whole_pages(room_ * sizeof(transient_reference)));
  std::byte* at = memory_.data();
  found_ = reinterpret_cast<found*>(at);
  at += whole_pages(sizeof(found));
  for (std::size_t n = 0; n < store.size(); ++n) {
    const database_state& d = store[n];
    const auto& [blocks, hits, transient_bytes] = extents[n];
    databases_.emplace_back(d, blocks, at, at + hits);
    at += hits + granule_bits::length_of(blocks);
    const auto* const begin = reinterpret_cast<const std::byte*>(d.home);
    not_roots_.push_back({begin, begin + d.map->capacity()});
    os::include_in_fork(reinterpret_cast<void*>(d.home), blocks * block_size);
  }
  references_ = reinterpret_cast<transient_reference*>(at);
  not_roots_.push_back({memory_.data(), memory_.data() + memory_.size()});
  std::ranges::sort(not_roots_, {}, &os::memory_stretch::begin);
}

root_snapshot::~root_snapshot() {
  copy_.end();
  leave_out_of_forks();
}

void root_snapshot::leave_out_of_forks() noexcept {
  for (const scanned_database& d : databases_) os::exclude_from_fork(reinterpret_cast<void*>(d.home), d.bytes);
}

void root_snapshot::take(program_roots which) {
  // Wherever they are. No thread that is stopped has the list's lock.
  const std::scoped_lock lock(detail::handles::mutex());
  detail::handles::for_each([this](const void* to) { add_handle(to); });
  which_ = which;
  if (which == program_roots::handles) {
    found_->is_complete = true;
    find_objects();
    return leave_out_of_forks();
  }
  os::stopped_threads::prepare();
  os::stopped_threads others;
  const auto began = std::chrono::steady_clock::now();
  if (!others.stop()) throw error(errc::not_stopped, "nothing was collected: " + others.why_not());
  found_->is_complete = os::for_each_writable(os::mapping_kind::shared_memory, not_roots_,
                                              [this](os::memory_stretch each) { scan_for_hits(each); });
  facts_.was_copied = copy_.start([](void* self) { static_cast<root_snapshot*>(self)->scan(); }, this);
  if (!facts_.was_copied) {
    facts_.why_not = copy_.why_not();
    scan();
  }
  others.resume();
  facts_.stopped_ns =
      static_cast<std::uint64_t>((std::chrono::steady_clock::now() - began) / std::chrono::nanoseconds(1));
  leave_out_of_forks();
}

// It leads to the object that lies there, and not past the end of the one before.
void root_snapshot::add_handle(const void* to) noexcept {
  const auto at = reinterpret_cast<address>(to);
  for (scanned_database& d : databases_)
    if (d.contains(at))
      if (const found_object there = d.of.map->find(at)) return d.roots.set(there.at);
  const auto* const word = reinterpret_cast<const std::byte*>(&to);
  scan_for_hits({word, word + sizeof to});
}

void root_snapshot::finish() {
  constexpr int long_enough = 600;  // seconds
  // A program that waits for children of every kind (__WALL) may have heard of the copy's end.
  if (facts_.was_copied && !copy_.wait(long_enough) && !found_->is_done)
    throw error(errc::not_stopped,
                "nothing was collected: the copy of the process that was to look for pointers was killed, or failed; "
                "`tenure verify` tells whether the store is damaged");
  if (!found_->is_complete)
    throw error(errc::not_stopped,
                "nothing was collected: the kernel does not tell in /proc/thread-self/maps and pagemap which memory "
                "the program has; if it has changed its user, prctl(PR_SET_DUMPABLE, 1) lets it read them again");
  if (found_->has_no_room)
    throw error(errc::not_stopped, "nothing was collected: there are more transient references than room was made for");
  facts_.scanned_bytes = found_->scanned_bytes;
  const std::span references(references_, found_->references);
  std::ranges::sort(references);
  sorted_ = references;
}

// --- In the copy ------------------------------------------------------------------------------------------------------

void root_snapshot::scan() noexcept {
  const bool all = os::for_each_writable(os::mapping_kind::private_memory, not_roots_,
                                         [this](os::memory_stretch each) { scan_for_hits(each); });
  found_->is_complete = found_->is_complete && all;
  find_objects();
  found_->is_done = true;
}

void root_snapshot::find_objects() noexcept {
  for (scanned_database& d : databases_) {
    resolve_hits(d);
    add_transients(d);
    add_transient_fields(d);
  }
}

TENURE_UNSANITIZED void root_snapshot::scan_for_hits(os::memory_stretch in) noexcept {
  found_->scanned_bytes += static_cast<std::uint64_t>(in.end - in.begin);
  for (const scanned_database& d : databases_) {
    const address home = d.home;
    const std::uint64_t bytes = d.bytes;
    std::uint64_t* const hits = d.hits;
    for (const auto *word = reinterpret_cast<const address*>(in.begin), *end = reinterpret_cast<const address*>(in.end);
         word < end; ++word) {
      const address offset = *word - home;
      // One past the end of the last object, too.
      if (offset <= bytes) [[unlikely]] {
        const std::uint64_t bit = std::min(offset, bytes - 1) / sizeof(address);
        hits[bit / 64] |= std::uint64_t{1} << (bit % 64);
      }
    }
  }
}

void root_snapshot::resolve_hits(scanned_database& in) noexcept {
  const block_map& map = *in.of.map;
  for (std::uint64_t n = 0; n < in.bytes / sizeof(address) / 64; ++n)
    for (std::uint64_t bits = in.hits[n]; bits != 0; bits &= bits - 1) {
      const address at = in.home + (n * 64 + static_cast<std::uint64_t>(std::countr_zero(bits))) * sizeof(address);
      if (const found_object there = map.find(at)) in.roots.set(there.at);
      if (const found_object before = map.find(at - 1)) in.roots.set(before.at);
    }
}

void root_snapshot::add_transients(const scanned_database& in) noexcept {
  const block_map& map = *in.of.map;
  in.of.birth->for_each_transient_block([&](const transient_block& y) {
    // Of what a commit has copied, only a pointer that no handle knows may be left.
    const start_bits objects = which_ == program_roots::handles ? y.not_moved() : y.starts;
    objects.for_each([&](std::uint64_t g) {
      add_references_of(in.of, map.transient_facts(y, object_of_bit(map.start_of(y.first), y.pages, g)), true);
    });
  });
}

void root_snapshot::add_transient_fields(const scanned_database& in) noexcept {
  const bool all = for_each_with_transient_fields(
      in.of, in.bytes, [&](const object_facts& object) { add_references_of(in.of, object, false); });
  found_->is_complete = found_->is_complete && all;
}

void root_snapshot::add_references_of(const database_state& in, const object_facts& object,
                                      bool is_transient) noexcept {
  for_each_unlogged_reference(in, object, is_transient, [&](address to, bool may_be_end) {
    if (may_be_end)
      add_possible_reference(object.at, to);
    else
      add_reference(object.at, to);
  });
}

const root_snapshot::scanned_database* root_snapshot::database_at(address at) const noexcept {
  for (const scanned_database& d : databases_)
    if (d.contains(at)) return &d;
  return nullptr;
}

void root_snapshot::note_hit(const scanned_database& in, address at) noexcept {
  const std::uint64_t bit = (at - in.home) / sizeof(address);
  in.hits[bit / 64] |= std::uint64_t{1} << (bit % 64);
}

bool root_snapshot::has_word_to(std::size_t database, address begin, address end) const {
  if (database >= databases_.size()) return false;
  const scanned_database& in = databases_[database];
  for (std::uint64_t bit = (begin - in.home) / sizeof(address);
       bit < (std::min(end, in.home + in.bytes) - in.home) / sizeof(address); ++bit)
    if ((in.hits[bit / 64] >> (bit % 64) & 1) != 0) return true;
  return false;
}

void root_snapshot::add_possible_reference(address from, address to) noexcept {
  add_reference(from, to);
  (void)add_if_there(from, to - 1);
}

void root_snapshot::add_reference(address from, address to) noexcept {
  if (add_if_there(from, to)) return;
  if (const scanned_database* const in = database_at(to)) note_hit(*in, to);
}

// Returns whether an object is there.
bool root_snapshot::add_if_there(address from, address to) noexcept {
  const scanned_database* const in = database_at(to);
  const found_object there = in != nullptr ? in->of.map->find(to) : found_object{};
  if (!there) return false;
  if (found_->references == room_)
    found_->has_no_room = true;
  else
    references_[found_->references++] = {granule_at(from), granule_at(there.at)};
  return true;
}

}  // namespace tenure::heap
