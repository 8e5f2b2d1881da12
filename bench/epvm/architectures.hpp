// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The versions that White and DeWitt compare [EPVM §3 to §5], as ways to use one storage manager (client.hpp).
//
// A word that refers to an object is its home address and 1 (its identifier), or the address of where it is in memory. A version has:
//
//   pointer                 a local variable that refers to an object
//   at(pointer)             the object's bytes; valid until close()
//   next(pointer, offset)   the pointer that the object has there
//   update(pointer, offset, length, change)   change(bytes) changes so many bytes
//   open(pointer), close(pointer)             before the first use of an object, and after the last one, of a visit
//   begin(), commit()       a transaction; durable
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "cache/address_table.hpp"
#include "epvm/client.hpp"
#include "epvm/parts.hpp"

namespace tenure::bench::epvm {

using word = std::uint64_t;
[[nodiscard]] constexpr bool is_identifier(word of) { return (of & 1) != 0; }
[[nodiscard]] inline word word_at(const std::byte* at) {
  word value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The storage manager alone: each visit pins the object, each update is a call that logs it.
template <class Part>
class esm {
 public:
  struct pointer {
    std::uint64_t home;
    std::byte* bytes = nullptr;  // while it is open
  };
  explicit esm(client& of) : client_(of) {}
  [[nodiscard]] pointer start(std::uint64_t home) const { return {home}; }
  void open(pointer& at) { at.bytes = client_.pin(client_.page_of(at.home)) + client_.place_of(at.home); }
  void close(const pointer& at) { client_.unpin(client_.page_of(at.home)); }
  [[nodiscard]] const std::byte* at(const pointer& of) const { return of.bytes; }
  [[nodiscard]] pointer next(const pointer& of, std::size_t offset) const { return {word_at(of.bytes + offset)}; }
  template <class Change>
  void update(const pointer& of, std::size_t offset, std::size_t length, Change&& change) {
    change(of.bytes + offset);
    client_.log_update(client_.page_of(of.home), client_.place_of(of.home) + offset, length);
  }
  void begin() { client_.begin(); }
  void commit() { client_.commit(); }

 private:
  client& client_;
};

// EPVM 1: objects are used in the pool, and stay pinned until the transaction ends. A hash table leads from identifiers to their
// descriptors. Swizzling is limited to local variables: a dereference looks into the table once a variable.
template <class Part, bool Swizzles>
class epvm_1 {
  struct descriptor {
    std::uint64_t home;
    std::byte* at;
  };

 public:
  using pointer = word;  // an identifier, or a descriptor's address
  explicit epvm_1(client& of) : client_(of) {}
  [[nodiscard]] pointer start(std::uint64_t home) const { return home + 1; }
  void open(pointer&) {}
  void close(const pointer&) {}
  [[nodiscard]] const std::byte* at(pointer& of) { return described(of).at; }
  [[nodiscard]] pointer next(pointer& of, std::size_t offset) { return word_at(at(of) + offset) + 1; }
  template <class Change>
  void update(pointer& of, std::size_t offset, std::size_t length, Change&& change) {
    const descriptor& d = described(of);
    change(d.at + offset);
    client_.log_update(client_.page_of(d.home), client_.place_of(d.home) + offset, length);
  }
  void begin() { client_.begin(); }
  void commit() {
    for (const descriptor& each : all_) client_.unpin(client_.page_of(each.home));
    all_.clear();
    table_ = {};
    client_.commit();
  }

 private:
  descriptor& described(pointer& of) {
    if (!is_identifier(of)) return *reinterpret_cast<descriptor*>(of);
    descriptor* known = table_.find(of - 1);
    if (known == nullptr) {
      table_.reserve(1);
      known = &all_.emplace_back(descriptor{of - 1, client_.pin(client_.page_of(of - 1)) + client_.place_of(of - 1)});
      table_.add(of - 1, known);
    }
    if constexpr (Swizzles) of = reinterpret_cast<word>(known);
    return *known;
  }
  client& client_;
  std::deque<descriptor> all_;
  cache::address_table<descriptor, 3> table_;
};

// What a commit logs of an object or a page that was changed.
enum class logging {
  range,       // from the lowest byte that was changed to the highest one
  whole,       // all of it
  differences  // words that differ from the pool's
};
// Brings the changed bytes [low, high) of `now`, in stored form, into the pool and the log.
template <logging Logs>
void write_back(client& to, std::uint64_t page, std::size_t place, std::span<const std::byte> now, std::size_t low,
                std::size_t high) {
  std::byte* const stored = to.pin(page) + place;
  const auto log = [&](std::size_t from, std::size_t end) {
    std::memcpy(stored + from, now.data() + from, end - from);
    to.log_update(page, place + from, end - from);
  };
  if constexpr (Logs == logging::range) {
    log(low, high);
  } else if constexpr (Logs == logging::whole) {
    log(0, now.size());
  } else {
    const auto differs = [&](std::size_t at) { return word_at(stored + at) != word_at(now.data() + at); };
    for (std::size_t at = low / sizeof(word) * sizeof(word); at < high; at += sizeof(word)) {
      if (!differs(at)) continue;
      const std::size_t from = at;
      while (at + sizeof(word) < high && differs(at + sizeof(word))) at += sizeof(word);
      log(from, at + sizeof(word));
    }
  }
  to.unpin(page);
}

// EPVM 2 with object caching: an object is copied out of the pool, and used there until the transaction ends. References are swizzled where they
// are discovered, if their target is in memory, without I/O. Each object has the range of what was changed, low to high; the commit
// writes that back into the pool, and logs it.
template <class Part, bool Swizzles, logging Logs>
class object_caching {
  struct cached {
    std::uint64_t home;
    std::uint32_t low, high;  // of the bytes that were changed; low >= high: none
    std::array<bool, 3> is_swizzled;
    Part copy;
  };

 public:
  using pointer = word;  // an identifier, or the address of a cached object
  explicit object_caching(client& of) : client_(of) {}
  [[nodiscard]] pointer start(std::uint64_t home) const { return home + 1; }
  void open(pointer&) {}
  void close(const pointer&) {}
  [[nodiscard]] const std::byte* at(pointer& of) { return reinterpret_cast<const std::byte*>(&reach(of).copy); }
  [[nodiscard]] pointer next(pointer& of, std::size_t offset) {
    cached& from = reach(of);
    const std::size_t n = (offset - offsetof(Part, to)) / sizeof(word);
    word& found = *reinterpret_cast<word*>(reinterpret_cast<std::byte*>(&from.copy) + offset);
    if (from.is_swizzled[n]) return found;
    if constexpr (Swizzles)
      if (cached* const target = table_.find(found)) {  // discovered
        found = reinterpret_cast<word>(target);
        from.is_swizzled[n] = true;
        return found;
      }
    return found + 1;
  }
  template <class Change>
  void update(pointer& of, std::size_t offset, std::size_t length, Change&& change) {
    cached& in = reach(of);
    change(reinterpret_cast<std::byte*>(&in.copy) + offset);
    if (in.low >= in.high) changed_.push_back(&in);
    in.low = std::min(in.low, static_cast<std::uint32_t>(offset));
    in.high = std::max(in.high, static_cast<std::uint32_t>(offset + length));
  }
  void begin() { client_.begin(); }
  void commit() {
    std::ranges::sort(changed_, {}, &cached::home);  // by page, as the paper's hash table of pages
    for (cached* const each : changed_) {
      Part stored = each->copy;
      for (std::size_t n = 0; n < each->is_swizzled.size(); ++n)
        if (each->is_swizzled[n]) {
          const std::uint64_t home = reinterpret_cast<const cached*>(stored.to[n])->home;
          std::memcpy(&stored.to[n], &home, sizeof home);
        }
      write_back<Logs>(client_, client_.page_of(each->home), client_.place_of(each->home),
                       std::as_bytes(std::span(&stored, 1)), each->low, each->high);
    }
    changed_.clear();
    all_.clear();
    table_ = {};
    client_.commit();
  }

 private:
  cached& reach(pointer& of) {
    if (!is_identifier(of)) return *reinterpret_cast<cached*>(of);
    cached* known = table_.find(of - 1);
    if (known == nullptr) known = &load(of - 1);
    if constexpr (Swizzles) of = reinterpret_cast<word>(known);
    return *known;
  }
  [[gnu::noinline]] cached& load(std::uint64_t home) {
    const std::uint64_t page = client_.page_of(home);
    const std::byte* const from = client_.pin(page) + client_.place_of(home);
    table_.reserve(1);
    cached& made = all_.emplace_back();
    made.home = home;
    made.low = sizeof(Part);
    std::memcpy(&made.copy, from, sizeof(Part));
    client_.unpin(page);
    table_.add(home, &made);
    return made;
  }
  client& client_;
  std::deque<cached> all_;
  std::vector<cached*> changed_;
  cache::address_table<cached, 3> table_;
};

// EPVM 2 with page caching: the same with all of a page at a time, and a table of pages.
template <class Part, bool Swizzles, logging Logs>
class page_caching {
  static constexpr std::size_t length = client::page_length;
  static constexpr std::size_t words = length / sizeof(word);
  struct alignas(length) cached {
    std::array<std::byte, length> bytes;
    std::uint64_t page;
    std::uint32_t low, high;
    std::array<std::uint64_t, words / 64> swizzled;  // a bit a word
  };

 public:
  using pointer = word;  // an identifier, or an address in a cached page
  explicit page_caching(client& of) : client_(of) {}
  [[nodiscard]] pointer start(std::uint64_t home) const { return home + 1; }
  void open(pointer&) {}
  void close(const pointer&) {}
  [[nodiscard]] const std::byte* at(pointer& of) { return reach(of); }
  [[nodiscard]] pointer next(pointer& of, std::size_t offset) {
    std::byte* const at = reach(of) + offset;
    word& found = *reinterpret_cast<word*>(at);
    cached& in = page_around(at);
    const std::size_t n = static_cast<std::size_t>(at - in.bytes.data()) / sizeof(word);
    std::uint64_t& bits = in.swizzled[n / 64];
    if ((bits >> n % 64 & 1) != 0) return found;
    if constexpr (Swizzles)
      if (cached* const target = table_.find(client_.home_of(client_.page_of(found)))) {
        found = reinterpret_cast<word>(target->bytes.data() + client_.place_of(found));
        bits |= std::uint64_t{1} << n % 64;
        return found;
      }
    return found + 1;
  }
  template <class Change>
  void update(pointer& of, std::size_t offset, std::size_t bytes, Change&& change) {
    std::byte* const at = reach(of) + offset;
    change(at);
    cached& in = page_around(at);
    const auto from = static_cast<std::uint32_t>(at - in.bytes.data());
    if (in.low >= in.high) changed_.push_back(&in);
    in.low = std::min(in.low, from);
    in.high = std::max(in.high, static_cast<std::uint32_t>(from + bytes));
  }
  void begin() { client_.begin(); }
  void commit() {
    for (cached* const each : changed_) {
      std::array<std::byte, length> stored = each->bytes;
      for (std::size_t set = 0; set < each->swizzled.size(); ++set)
        for (std::uint64_t bits = each->swizzled[set]; bits != 0; bits &= bits - 1) {
          std::byte* const at = &stored[(set * 64 + static_cast<std::size_t>(std::countr_zero(bits))) * sizeof(word)];
          const auto* const target = reinterpret_cast<const std::byte*>(word_at(at));
          const cached& in = page_around(target);
          const std::uint64_t home = client_.home_of(in.page) + static_cast<std::uint64_t>(target - in.bytes.data());
          std::memcpy(at, &home, sizeof home);
        }
      write_back<Logs>(client_, each->page, 0, stored, each->low, each->high);
    }
    changed_.clear();
    all_.clear();
    table_ = {};
    client_.commit();
  }

 private:
  static cached& page_around(const std::byte* at) {
    return *reinterpret_cast<cached*>(reinterpret_cast<std::uintptr_t>(at) / length * length);
  }
  std::byte* reach(pointer& of) {
    if (!is_identifier(of)) return reinterpret_cast<std::byte*>(of);
    const std::uint64_t home = of - 1, page = client_.page_of(home);
    cached* known = table_.find(client_.home_of(page));
    if (known == nullptr) known = &load(page);
    std::byte* const found = known->bytes.data() + client_.place_of(home);
    if constexpr (Swizzles) of = reinterpret_cast<word>(found);
    return found;
  }
  [[gnu::noinline]] cached& load(std::uint64_t page) {
    table_.reserve(1);
    cached& made = *all_.emplace_back(std::make_unique<cached>());
    std::memcpy(made.bytes.data(), client_.pin(page), length);
    client_.unpin(page);
    made.page = page;
    made.low = length;
    table_.add(client_.home_of(page), &made);
    return made;
  }
  client& client_;
  std::vector<std::unique_ptr<cached>> all_;
  std::vector<cached*> changed_;
  cache::address_table<cached, 7>
      table_;  // of units smaller than a page: its runs are for neighbours, which are too many here
};

// Plain pointers to where the objects are: nothing is looked up, and nobody is told of changes.
template <class Part>
class plain_pointers {
 public:
  using pointer = Part*;
  void open(pointer) {}
  void close(pointer) {}
  [[nodiscard]] const std::byte* at(pointer of) const { return reinterpret_cast<const std::byte*>(of); }
  [[nodiscard]] pointer next(pointer of, std::size_t offset) const {
    return reinterpret_cast<pointer>(word_at(at(of) + offset));
  }
  template <class Change>
  void update(pointer of, std::size_t offset, std::size_t, Change&& change) {
    change(reinterpret_cast<std::byte*>(of) + offset);
  }
};

// The mapped heap, which takes the place of ObjectStore.
template <class Part>
class mapped : public plain_pointers<Part> {
 public:
  explicit mapped(const std::filesystem::path& directory) : store_((directory / "store").string()) {}
  [[nodiscard]] Part* start(std::uint64_t home) const { return reinterpret_cast<Part*>(home); }
  void begin() { open_ = store_.begin(); }
  void commit() { open_.commit(); }

 private:
  store store_;
  transaction open_;
};

// Objects of the program's own.
template <class Part>
class transient : public plain_pointers<Part> {
 public:
  explicit transient(int parts) : all_(static_cast<std::size_t>(parts)) {
    for (auto& each : all_) each = std::make_unique<Part>();
    for (int id = 1; id <= parts; ++id)
      fill(*all_[static_cast<std::size_t>(id) - 1], id, parts,
           [&](int to) { return all_[static_cast<std::size_t>(to) - 1].get(); });
  }
  [[nodiscard]] Part* start(std::uint64_t id) const { return all_[id - 1].get(); }
  void begin() {}
  void commit() {}

 private:
  std::vector<std::unique_ptr<Part>> all_;
};

}  // namespace tenure::bench::epvm
