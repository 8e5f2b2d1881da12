// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects of a store in memory, under one of the schemes: object faults and swizzling [Hosking §3.1, §3.2, §4.2].
//
// A fault brings an object, or its segment, and what is co-resident with it: its class, and the targets of constrained
// references. Objects stay until the end, as in the thesis, whose memory has room for the whole database.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/address_table.hpp"
#include "faulting/blocks.hpp"
#include "faulting/resident.hpp"
#include "faulting/stored_objects.hpp"

namespace tenure::bench::faulting {

struct fault_counts {
  std::uint64_t faults = 0;      // targets that were not in memory
  std::uint64_t objects = 0;     // that came into memory
  std::uint64_t redirected = 0;  // targets that were, behind an identifier or an indirect block
  // Nanoseconds.
  std::uint64_t reading = 0;    // from the pool and from the file
  std::uint64_t swizzling = 0;  // copying and converting
  std::uint64_t bypassing = 0;  // at faults
};

template <scheme S>
class object_memory {
  static constexpr bool has_blocks =
      S.unswizzled == references::fault_blocks || S.unswizzled == references::protected_blocks;
  static constexpr bool traps = S.unswizzled == references::protected_blocks;
  static constexpr bool remembers = S.when == bypass::faulting;

 public:
  // Words of the program's own, which a fault may make direct.
  struct transient_words {
    virtual ~transient_words() = default;
    [[nodiscard]] virtual std::span<word> all() = 0;
  };

  explicit object_memory(stored_objects& from) : from_(from), blocks_(make_blocks()) {
    database at_home;
    from_.read({from_.root(), kind::database}, std::as_writable_bytes(std::span(&at_home, 1)));
    for (std::size_t n = 0; n < kinds; ++n) class_homes_[n] = word_of(at_home.classes[n]);
    if constexpr (S.unswizzled == references::direct) load_everything();
    root_ = make_resident(from_.root());
    counts_ = {};
  }
  object_memory(const object_memory&) = delete;
  object_memory& operator=(const object_memory&) = delete;

  [[nodiscard]] resident& root() const { return *root_; }
  void scan_also(transient_words* of) { transient_ = of; }

  // --- Residency checks ---

  // The class of what the word leads to, for a method cache. 0 or a tagged word: fault() comes first. Costs what loading a class
  // costs: with tagged identifiers a look at the tag more, which integers need anyway; with blocks nothing.
  [[nodiscard]] word class_of(word& reference) {
    if constexpr (traps)
      return load_class(reference);
    else if constexpr (S.unswizzled == references::identifiers)
      return is_identifier(reference) ? 0 : resident_at(reference)->first;
    else
      return resident_at(reference)->first;
  }
  [[nodiscard]] static bool is_resident_class(word first) { return first != 0 && (first & 1) == 0; }

  // The object that a reference leads to: the check of each dereference.
  [[nodiscard]] resident& reach(word reference) {
    if constexpr (traps) {
      (void)load_class(reference);
    } else if constexpr (S.unswizzled == references::identifiers) {
      if (is_identifier(reference)) [[unlikely]]
        return fault(reference);
    } else if constexpr (S.unswizzled == references::fault_blocks) {
      if (is_identifier(resident_at(reference)->first)) [[unlikely]]
        return fault(reference);
    }
    return *resident_at(reference);
  }

  // Behind an identifier or a block. Where a trap takes the place of the check, within an opening.
  [[gnu::noinline]] resident& fault(word reference) {
    word identifier = reference;
    if constexpr (has_blocks) {
      identifier = resident_at(reference)->first;
      if ((identifier & 3) == forward_tag) {
        ++counts_.redirected;
        return *resident_at(identifier - forward_tag);
      }
    } else if (const entry* const known = table_.find(identifier - identifier_tag); known != nullptr && known->object) {
      ++counts_.redirected;
      return *known->object;
    }
    ++counts_.faults;
    return *make_resident(identifier - identifier_tag);
  }

  [[nodiscard]] const fault_counts& counts() const { return counts_; }

  // How many references of persistent objects lead to objects that are in memory, and are not direct. For tests.
  [[nodiscard]] std::uint64_t indirections() {
    [[maybe_unused]] const auto open = opening();
    std::uint64_t found = 0;
    for (const entry& each : entries_)
      if (each.object != nullptr)
        for (const reference_field& field : layout_of(each.of).references)
          found += leads_to_resident(*reinterpret_cast<word*>(each.object->fields() + field.offset)) != nullptr;
    return found;
  }

 private:
  using clock = std::chrono::steady_clock;
  using blocks = std::conditional_t<traps, protected_blocks, ordinary_blocks>;
  struct entry {
    std::uint64_t home;
    kind of{};
    resident* object = nullptr;  // in memory
    resident* block = nullptr;   // stands for it
  };

  [[nodiscard]] blocks make_blocks() {
    if constexpr (traps)
      return blocks(
          [](void* who, word block) {
            auto& memory = *static_cast<object_memory*>(who);
            const auto open = memory.opening();
            return word_of(&memory.fault(block));
          },
          this);
    else
      return blocks();
  }
  [[nodiscard]] typename blocks::opening opening() { return typename blocks::opening(blocks_); }

  // Where it is, if the word is not direct but its target is in memory.
  [[nodiscard]] resident* leads_to_resident(word reference) const {
    if constexpr (has_blocks) {
      if (reference == 0) return nullptr;
      const word first = resident_at(reference)->first;
      return (first & 3) == forward_tag ? resident_at(first - forward_tag) : nullptr;
    } else {
      if (!is_identifier(reference)) return nullptr;
      const entry* const known = table_.find(reference - identifier_tag);
      return known == nullptr ? nullptr : known->object;
    }
  }

  // --- A fault ---

  resident* make_resident(std::uint64_t home) {
    [[maybe_unused]] const auto open = opening();
    arrived_.clear();
    wanted_.assign(1, home);
    // What is constrained to be there comes by the same way, so by its whole segment, too.
    while (!wanted_.empty()) {
      const std::uint64_t next = wanted_.back();
      wanted_.pop_back();
      const entry* const known = table_.find(next);
      if (known == nullptr || known->object == nullptr) load(next);
    }
    const auto loaded = clock::now();
    settle_arrived();
    const auto swizzled = clock::now();
    counts_.swizzling += nanoseconds(swizzled - loaded);
    if constexpr (remembers) {
      bypass_indirections();
      counts_.bypassing += nanoseconds(clock::now() - swizzled);
    }
    return table_.find(home)->object;
  }

  void load(std::uint64_t home) {
    const auto start = clock::now();
    found_.clear();
    from_.find_with_neighbours(home, S.faulted, found_);
    std::erase_if(found_, [&](const stored_objects::object& each) {
      const entry* const known = table_.find(each.home);
      return known != nullptr && known->object != nullptr;
    });
    std::size_t bytes = 0;
    for (const auto& each : found_) bytes += layout_of(each.of).size;
    stored_.resize(bytes);
    std::byte* to = stored_.data();
    for (const auto& each : found_) {
      from_.read(each, {to, layout_of(each.of).size});
      to += layout_of(each.of).size;
    }
    const auto read = clock::now();
    const std::byte* at = stored_.data();
    for (const auto& each : found_) {
      const layout& of = layout_of(each.of);
      entry& known = entry_of(each.home);
      known.of = each.of;
      known.object = space_.allocate(of.size);
      std::memcpy(known.object->fields(), at, of.size);
      at += of.size;
      arrived_.push_back(&known);
      wanted_.push_back(class_homes_[static_cast<std::size_t>(each.of)]);
      for (const reference_field& field : of.references)
        if (field.is_constrained)
          if (const word target = *reinterpret_cast<word*>(known.object->fields() + field.offset); target != 0)
            wanted_.push_back(target);
    }
    counts_.objects += found_.size();
    counts_.reading += nanoseconds(read - start);
    counts_.swizzling += nanoseconds(clock::now() - read);
  }

  void settle_arrived() {
    for (entry* const each : arrived_) {
      each->object->first = word_of(table_.find(class_homes_[static_cast<std::size_t>(each->of)])->object);
      swizzle(*each);
    }
    for (entry* const each : arrived_)
      if (each->block != nullptr) each->block->first = word_of(each->object) + forward_tag;
  }

  void swizzle(const entry& of) {
    for (const reference_field& field : layout_of(of.of).references) {
      word& at = *reinterpret_cast<word*>(of.object->fields() + field.offset);
      if (at == 0) continue;
      const std::uint64_t home = at;
      const entry* const known = S.when == bypass::never && !field.is_constrained ? nullptr : table_.find(home);
      if (known != nullptr && known->object != nullptr) {
        at = word_of(known->object);
        continue;
      }
      if constexpr (has_blocks) {
        entry& target = entry_of(home);
        if (target.block == nullptr) target.block = blocks_.make(home + identifier_tag);
        at = word_of(target.block);
      } else {
        at = home + identifier_tag;
      }
      if constexpr (remembers) remembered_[stored_objects::logical_segment_of(home)].push_back(&at);
    }
  }

  // References to what has arrived become direct: those of transient memory, all of which is looked at; and of persistent
  // objects those that were remembered for its logical segment [Hosking §4.2.2].
  void bypass_indirections() {
    if (transient_ != nullptr)
      for (word& each : transient_->all())
        if (resident* const target = leads_to_resident_of_any(each)) each = word_of(target);
    segments_.clear();
    for (const entry* const each : arrived_) segments_.insert(stored_objects::logical_segment_of(each->home));
    for (const std::uint64_t segment : segments_) {
      const auto found = remembered_.find(segment);
      if (found == remembered_.end()) continue;
      std::erase_if(found->second, [&](word* at) {
        resident* const target = leads_to_resident(*at);
        if (target == nullptr) return false;
        *at = word_of(target);
        return true;
      });
    }
  }
  // Transient memory has integers, too.
  [[nodiscard]] resident* leads_to_resident_of_any(word of) const {
    return is_integer(of) ? nullptr : leads_to_resident(of);
  }

  void load_everything() {
    from_.find_all(found_);
    for (const auto each : std::vector(found_)) load(each.home);
    settle_arrived();
  }

  entry& entry_of(std::uint64_t home) {
    if (entry* const known = table_.find(home)) return *known;
    table_.reserve(1);
    entry& made = entries_.emplace_back(entry{home});
    table_.add(home, &made);
    return made;
  }
  static std::uint64_t nanoseconds(clock::duration of) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(of).count());
  }

  stored_objects& from_;
  blocks blocks_;
  object_space space_;
  std::deque<entry> entries_;
  cache::address_table<entry, 3> table_;
  std::array<std::uint64_t, kinds> class_homes_{};
  std::unordered_map<std::uint64_t, std::vector<word*>> remembered_;  // by logical segment of the target
  transient_words* transient_ = nullptr;
  resident* root_ = nullptr;
  fault_counts counts_;
  // Of the fault that is being served.
  std::vector<std::uint64_t> wanted_;
  std::vector<entry*> arrived_;
  std::vector<stored_objects::object> found_;
  std::vector<std::byte> stored_;
  std::unordered_set<std::uint64_t> segments_;
};

}  // namespace tenure::bench::faulting
