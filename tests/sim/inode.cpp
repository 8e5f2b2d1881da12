// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "sim/inode.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>

namespace tenure::sim {
namespace {

constexpr std::uint64_t everything = std::numeric_limits<std::uint64_t>::max();

// What one crash tends to do. Drawn once a file and crash: if every write had the same even odds in every crash, "all
// of thirty writes but one" would never be seen.
struct mood {
  std::uint64_t keep;  // of 16
  std::uint64_t tear;  // of 16, before the choice between keeping and dropping
  bool garbage;
};

mood draw_mood(random_source& random, policy what) {
  mood drawn{};
  drawn.keep = 1 + random.below(15);
  drawn.tear = random.chance(1, 3) ? 0 : 1 + random.below(12);
  drawn.garbage = what == policy::random_with_garbage;
  return drawn;
}

// Writes what survives of one pending write, nothing at or beyond `limit`.
void settle_write(image& into, std::uint64_t offset, os::const_bytes from, std::uint64_t limit, const mood& how,
                  random_source& random) {
  if (offset >= limit) return;
  from = from.first(std::min<std::uint64_t>(from.size(), limit - offset));
  if (!random.chance(how.tear, 16)) {
    if (random.chance(how.keep, 16)) into.write(offset, from);
    return;
  }
  std::vector<std::byte> noise;
  while (!from.empty()) {
    const std::uint64_t length = std::min<std::uint64_t>(from.size(), sector_size - offset % sector_size);
    const auto sector = from.first(length);
    if (how.garbage && random.chance(1, 8)) {
      noise.resize(length);
      for (auto& byte : noise) byte = static_cast<std::byte>(random.next());
      into.write(offset, noise);
    } else if (random.chance(1, 2)) {
      into.write(offset, sector);
    }
    offset += length;
    from = from.subspan(length);
  }
}

}  // namespace

inode::inode(std::uint64_t id, bool is_device, image durable)
    : id_(id), is_device_(is_device), size_(durable.size()), durable_(std::move(durable)) {}

inode::~inode() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int inode::descriptor() {
  if (descriptor_ < 0) {
    const int made = ::memfd_create("tenure-sim", MFD_CLOEXEC);
    if (made < 0) throw std::system_error(errno, std::generic_category(), "sim: memfd_create");
    // Every change of the contents or the size made a descriptor first, so the current contents are the durable ones.
    try {
      durable_.copy_to(made);
    } catch (...) {
      ::close(made);
      throw;
    }
    descriptor_ = made;
  }
  return descriptor_;
}

void inode::add_write(std::uint64_t offset, os::const_bytes from, bool grows) {
  if (from.empty()) return;
  auto data = std::make_shared<const std::vector<std::byte>>(from.begin(), from.end());
  pending_.push_back({change::kind::write, grows, offset, std::move(data), 0, from.size()});
}

void inode::write(std::uint64_t offset, os::const_bytes from) {
  if (from.empty()) return;
  write_fully(descriptor(), offset, from);
  const std::uint64_t end = offset + from.size();
  add_write(offset, from, end > size_);
  size_ = std::max(size_, end);
}

std::uint64_t inode::settled_size() const {
  std::uint64_t settled = durable_.size();
  for (const change& each : pending_) {
    if (each.what == change::kind::resize) settled = std::min(settled, each.offset);
  }
  return settled;
}

std::uint64_t inode::write_durably(std::uint64_t offset, os::const_bytes from, bool force) {
  if (from.empty()) return 0;
  write_fully(descriptor(), offset, from);
  const std::uint64_t settled = settled_size();
  std::uint64_t weak = 0;
  while (!from.empty()) {
    const auto durable_at = [&](std::uint64_t at) {
      return at < settled && (force || is_device_ || durable_.initialised(at));
    };
    // The longest run that is durable, or not, as a whole.
    const bool durable = durable_at(offset);
    std::uint64_t end = offset;
    const std::uint64_t last = offset + from.size();
    while (end < last && durable_at(end) == durable) {
      std::uint64_t next = std::min(last, (end / image::block_bytes + 1) * image::block_bytes);
      if (end < settled) next = std::min(next, settled);
      end = next;
    }
    const auto run = from.first(end - offset);
    if (durable) {
      supersede(offset, end);
      durable_.write(offset, run);
    } else {
      weak += run.size();
      add_write(offset, run, end > size_);
      size_ = std::max(size_, end);
    }
    from = from.subspan(run.size());
    offset = end;
  }
  return weak;
}

void inode::supersede(std::uint64_t begin, std::uint64_t end) {
  const auto overlaps = [&](const change& each) {
    return each.what == change::kind::write && each.offset < end && each.end() > begin;
  };
  if (std::none_of(pending_.begin(), pending_.end(), overlaps)) return;
  std::vector<change> remaining;
  remaining.reserve(pending_.size() + 1);
  for (change& each : pending_) {
    if (!overlaps(each)) {
      remaining.push_back(std::move(each));
      continue;
    }
    if (each.offset < begin) {
      change left = each;
      left.length = begin - each.offset;
      remaining.push_back(std::move(left));
    }
    if (each.end() > end) {
      change right = each;
      right.begin += end - each.offset;
      right.length = each.end() - end;
      right.offset = end;
      remaining.push_back(std::move(right));
    }
  }
  pending_ = std::move(remaining);
}

void inode::resize(std::uint64_t size) {
  if (::ftruncate(descriptor(), static_cast<off_t>(size)) != 0) {
    throw std::system_error(errno, std::generic_category(), "sim: ftruncate of a memfd");
  }
  size_ = size;
  pending_.push_back({change::kind::resize, false, size, nullptr, 0, 0});
}

void inode::extend(std::uint64_t size) {
  if (size <= size_) return;
  if (::ftruncate(descriptor(), static_cast<off_t>(size)) != 0) {
    throw std::system_error(errno, std::generic_category(), "sim: ftruncate of a memfd");
  }
  size_ = size;
  pending_.push_back({change::kind::extend, false, size, nullptr, 0, 0});
}

void inode::sync() {
  for (const change& each : pending_) {
    switch (each.what) {
      case change::kind::resize: durable_.resize(each.offset); break;
      case change::kind::extend: durable_.resize(std::max(durable_.size(), each.offset)); break;
      case change::kind::write:
        if (each.grows) durable_.resize(std::max(durable_.size(), each.end()));
        durable_.write(each.offset, each.bytes());
        break;
    }
  }
  pending_.clear();
  durable_holes_ = holes_;
}

void inode::set_holes(const rvm::interval_set& holes) {
  holes_ = holes;
  holes.for_each([&](std::uint64_t from, std::uint64_t to) {
    std::array<std::byte, image::block_bytes> bytes;
    for (std::uint64_t at = from; at < to; at += bytes.size()) {
      const std::uint64_t end = std::min<std::uint64_t>(to, at + bytes.size());
      const auto part = os::bytes(bytes).first(static_cast<std::size_t>(end - at));
      durable_.read(at, part);
      if (std::ranges::any_of(part, [](std::byte b) { return b != std::byte{}; })) holes_.remove(at, end);
    }
  });
  durable_holes_ = holes_;
}

void inode::punch(std::uint64_t begin, std::uint64_t end) {
  holes_.add(begin, end);
  durable_holes_.add(begin, end);
}

image inode::with_metadata_only() const {
  image result = durable_;
  for (const change& each : pending_) {
    if (each.what == change::kind::resize) {
      result.resize(each.offset);
    } else if (each.what == change::kind::extend) {
      result.resize(std::max(result.size(), each.offset));
    } else if (each.grows) {
      result.resize(std::max(result.size(), each.end()));
    }
  }
  return result;
}

void inode::lose_writes(bool visible) {
  const image kept = with_metadata_only();
  std::vector<change> metadata;
  std::vector<std::byte> old;
  for (const change& each : pending_) {
    if (each.what != change::kind::write) {
      metadata.push_back(each);
      continue;
    }
    if (each.grows) metadata.push_back({change::kind::extend, false, each.end(), nullptr, 0, 0});
    if (visible || each.offset >= size_) continue;
    old.resize(std::min<std::uint64_t>(each.length, size_ - each.offset));
    kept.read(each.offset, old);
    write_fully(descriptor(), each.offset, old);
  }
  pending_ = std::move(metadata);
}

bool inode::try_lock(const void* holder, os::lock_kind kind) {
  for (const auto& [other, held] : locks_) {
    if (other != holder && (kind == os::lock_kind::exclusive || held == os::lock_kind::exclusive)) return false;
  }
  unlock(holder);
  locks_.emplace_back(holder, kind);
  return true;
}

void inode::unlock(const void* holder) {
  std::erase_if(locks_, [&](const auto& each) { return each.first == holder; });
}

image inode::after_crash(std::uint64_t seed, policy what) const {
  image result = durable_;
  if (what == policy::drop_all || pending_.empty()) return result;
  random_source random(seed ^ (id_ * 0xd1342543de82ef95u));
  const bool all = what == policy::keep_all;
  const mood how = draw_mood(random, what);

  std::uint64_t metadata_left = everything;
  if (!all) {
    const auto is_metadata = [](const change& each) { return each.what != change::kind::write || each.grows; };
    const auto count = static_cast<std::uint64_t>(std::count_if(pending_.begin(), pending_.end(), is_metadata));
    // All of it as often as any other number of them together: a lost size hides whatever becomes of the bytes.
    metadata_left = random.chance(1, 2) ? count : random.below(count + 1);
  }
  const auto metadata_survives = [&] {
    if (metadata_left == 0) return false;
    --metadata_left;
    return true;
  };
  // After a truncation that did not survive, new bytes beyond it lie in blocks that the surviving file does not have.
  std::uint64_t limit = everything;
  for (const change& each : pending_) {
    switch (each.what) {
      case change::kind::resize:
        if (metadata_survives()) {
          result.resize(each.offset);
        } else {
          limit = std::min(limit, each.offset);
        }
        break;
      case change::kind::extend:
        if (metadata_survives()) result.resize(std::max(result.size(), each.offset));
        break;
      case change::kind::write:
        if (each.grows && metadata_survives()) result.resize(std::max(result.size(), each.end()));
        if (all) {
          result.write(each.offset, each.bytes());
        } else {
          settle_write(result, each.offset, each.bytes(), limit, how, random);
        }
        break;
    }
  }
  return result;
}

}  // namespace tenure::sim
