// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/saved_objects.hpp"

#include <algorithm>
#include <cstring>

#include "objects/references.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

namespace {

// Finds the transient objects that were there before the transaction, and that its commit would make persistent as it is now. What
// was destroyed leads nowhere.
class attached_objects {
 public:
  explicit attached_objects(const store_state& of) : of_(of) {}

  // Calls f(database, facts) for each. With the births locked.
  template <class F>
  void for_each(F&& f) {
    of_.tx.for_each_written_page([this](const rvm::memory_range& page) {
      database_state* const in = of_.databases->at(page.address);
      const auto from = reinterpret_cast<address>(page.address), to = from + page.length;
      if (in == nullptr || from < in->home + zone_kinds_at) return;
      in->map->for_each_persistent_in(from, to, [&](address object) {
        if (in->destroyed.contains(object)) return;
        follow(*in, in->map->facts(object), std::max(from, object) - object, to - std::min(to, object));
      });
    });
    for (const auto& d : *of_.databases)
      d->birth->for_each_made_object([&](const object_facts& made) {
        if (!d->retired.contains(made.at)) follow(*d, made, 0, made.size);
      });
    while (!found_.empty()) {
      const auto [in, object] = found_.back();
      found_.pop_back();
      f(*in, object);
      follow(*in, object, 0, object.size);
    }
  }

 private:
  void follow(const database_state& in, const object_facts& object, std::uint64_t from, std::uint64_t to) {
    const known_type* const type = in.types->find(object.type);
    if (type == nullptr || type->words == nullptr) return;
    for_each_reference(*type, reinterpret_cast<const std::byte*>(object.at), object.size, std::min(from, object.size),
                       std::min(to, object.size), [&](const reference_field& r) {
                         find(in, static_cast<address>(r.to));
                         if (r.may_be_end) find(in, static_cast<address>(byte_before(r.to)));
                       });
  }
  void find(const database_state& from, address to) {
    const database_state* const in =
        from.map->contains(to) ? &from : of_.databases->at(reinterpret_cast<const void*>(to));
    if (in == nullptr || !in->map->may_have_transients(in->map->block_of(to))) return;
    const found_object there = in->map->find(to);
    if (!there || there.is_persistent || in->birth->was_made_now(*there.within, there.at)) return;
    if (in->retired.contains(there.at) || in->map->was_moved(there) || !seen_.insert(there.at).second) return;
    found_.push_back({in, in->map->facts(there)});
  }

  struct found {
    const database_state* in;
    object_facts object;
  };
  const store_state& of_;
  address_set seen_;
  address_list<found> found_;
};

}  // namespace

void saved_objects::save(const store_state& of) {
  ranges_.clear();
  attached_.clear();
  of.databases->with_births_locked([&] {
    const auto add = [this](address begin, address end) {
      ranges_.push_back({reinterpret_cast<std::byte*>(begin), end - begin});
    };
    bool are_older = false;
    for (const auto& d : *of.databases) {
      d->birth->for_each_made(add);
      are_older = are_older || d->birth->has_older_transients();
    }
    own_ = ranges_.size();
    if (!are_older) return;
    attached_objects(of).for_each([&](const database_state& in, const object_facts& object) {
      add(object.begin, object.end);
      attached_.push_back({&in, object.at, object.type});
    });
  });
  std::size_t length = 0;
  for (const rvm::memory_range& each : ranges_) length += each.length;
  std::byte* to = bytes_.renew(length);
  for (const rvm::memory_range& each : ranges_) {
    std::memcpy(to, each.address, each.length);
    to += each.length;
  }
}

// Another thread may have ended an object that only a stray word has led to, and something else may be there.
bool saved_objects::is_there(const attached& which, const rvm::memory_range& range) {
  const found_object there = which.in->map->find(which.object);
  if (!there || there.is_persistent || there.at != which.object) return false;
  const object_facts now = which.in->map->facts(there);
  return now.type == which.type && now.begin == reinterpret_cast<address>(range.address) &&
         now.end == now.begin + range.length;
}

// What is the same stays untouched: its pages need not be opened.
void saved_objects::put_back(const store_state& of) const noexcept {
  of.databases->with_births_locked([&] {
    const std::byte* from = bytes_.data();
    for (std::size_t n = 0; n < ranges_.size(); ++n) {
      const rvm::memory_range& each = ranges_[n];
      if ((n < own_ || is_there(attached_[n - own_], each)) && std::memcmp(each.address, from, each.length) != 0)
        std::memcpy(each.address, from, each.length);
      from += each.length;
    }
  });
}

}  // namespace tenure
