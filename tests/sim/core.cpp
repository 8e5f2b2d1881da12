// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "sim/core.hpp"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::sim {
namespace {

bool makes_sense(const fault& what, operation kind) {
  switch (what.what) {
    case effect::fail: return true;
    case effect::short_read:
    case effect::flip_bit: return kind == operation::read;
    case effect::lose_writes:
    case effect::keep_unsynced: return kind == operation::sync;
  }
  return false;
}

bool matches(const fault& what, const trace_entry& entry) {
  if (what.kind && *what.kind != entry.kind) return false;
  if (!makes_sense(what, entry.kind)) return false;
  const bool is_everywhere = what.from == 0 && what.to == for_ever;
  if (!is_everywhere && (entry.offset >= what.to || entry.offset + entry.length <= what.from)) return false;
  return entry.path.find(what.path) != std::string::npos || entry.from.find(what.path) != std::string::npos;
}

std::string directory_of(const std::string& path) {
  const std::string whole = normal(path);
  const std::size_t slash = whole.rfind('/');
  return slash == std::string::npos ? std::string() : whole.substr(0, slash + 1);
}

}  // namespace

const char* name_of(operation kind) {
  switch (kind) {
    case operation::write: return "write";
    case operation::durable_write: return "durable write";
    case operation::sync: return "sync";
    case operation::resize: return "resize";
    case operation::allocate: return "allocate";
    case operation::punch: return "punch";
    case operation::create: return "create";
    case operation::rename: return "rename";
    case operation::remove: return "remove";
    case operation::sync_directory: return "sync of the directory";
    case operation::read: return "read";
    case operation::map: return "map";
    case operation::open: return "open";
    case operation::exists: return "look-up";
    case operation::lock: return "lock";
  }
  return "?";
}

std::string normal(const std::string& path) { return std::filesystem::path(path).lexically_normal().string(); }

void throw_errno(int number, const std::string& what) {
  const std::error_code code(number, std::generic_category());
  throw error(code, what + ": " + code.message() + " (simulated disk)");
}

void name_change::apply_to(name_table& names) const {
  switch (kind) {
    case operation::remove: names.erase(path); break;
    case operation::rename: names.erase(from); [[fallthrough]];
    default: names[path] = node;
  }
}

beginning core::begin(const guard&, operation kind, const std::string& path, std::uint64_t offset, std::uint64_t length,
                      const std::string& from) {
  if (off) throw power_failure{off_index};
  beginning started;
  if (changes_disk(kind)) {
    ++operations;
    if (operations >= off_at) {
      off = true;
      off_index = operations;
      started.power_fails = true;
    }
  } else if (kind == operation::read || kind == operation::map) {
    ++reads;
  }
  started.entry = {kind, operations, path, from, offset, length};
  if (tracing) trace.push_back(started.entry);
  if (started.power_fails) return started;
  for (injected& each : faults) {
    if (!matches(each.what, started.entry)) continue;
    const std::uint64_t nth = ++each.seen;
    if (started.hit || nth < each.what.nth || nth - each.what.nth >= each.what.count) continue;
    ++each.hits;
    started.hit = each.what;
  }
  return started;
}

void core::throw_if_failed(const guard&, const beginning& started) const {
  if (started.power_fails) throw power_failure{started.entry.index};
  const trace_entry& entry = started.entry;
  const auto place = [&] {
    return std::string(name_of(entry.kind)) + " of " + entry.path + " at " + std::to_string(entry.offset) + ", " +
           std::to_string(entry.length) + " bytes";
  };
  if (read_only && changes_disk(entry.kind) && entry.kind != operation::sync &&
      entry.kind != operation::sync_directory) {
    throw_errno(EROFS, place());
  }
  if (started.has(effect::fail) || started.has(effect::lose_writes) || started.has(effect::keep_unsynced)) {
    throw_errno(started.hit->error, place());
  }
}

std::shared_ptr<inode> core::find(const guard&, const name_table& names, const std::string& path) const {
  const auto found = names.find(normal(path));
  if (found == names.end()) throw_errno(ENOENT, path);
  return found->second;
}

std::shared_ptr<inode> core::make_inode(const guard&, bool is_device, image contents, std::uint64_t id) {
  if (id != 0) return std::make_shared<inode>(id, is_device, std::move(contents));
  return std::make_shared<inode>(next_inode++, is_device, std::move(contents));
}

void core::change_names(const guard&, name_change change) {
  change.apply_to(current);
  pending_names.push_back(std::move(change));
}

name_table core::names_after_crash(const guard&, std::uint64_t seed, policy what) const {
  name_table result = durable;
  if (what == policy::drop_all || pending_names.empty()) return result;
  if (what == policy::keep_all) return current;
  random_source random(seed ^ 0x6e616d6573u);
  if (random.chance(1, 2)) {
    const std::uint64_t count = random.below(pending_names.size() + 1);
    for (std::uint64_t i = 0; i < count; ++i) pending_names[i].apply_to(result);
    return result;
  }
  const std::uint64_t keep = 1 + random.below(7);
  std::set<std::string> lost;
  for (const name_change& each : pending_names) {
    if (lost.contains(each.path) || lost.contains(each.from) || !random.chance(keep, 8)) {
      lost.insert(each.path);
      if (!each.from.empty()) lost.insert(each.from);
    } else {
      each.apply_to(result);
    }
  }
  return result;
}

beginning core::sync_directory_of(const guard& lock, const std::string& path) {
  beginning started = begin(lock, operation::sync_directory, path);
  throw_if_failed(lock, started);
  const std::string directory = directory_of(path);
  settle_names(lock, [&](const name_change& each) { return directory_of(each.path) == directory; });
  return started;
}

void core::settle_names(const guard&, const std::function<bool(const name_change&)>& chosen) {
  std::vector<bool> settled(pending_names.size());
  std::set<std::string> built_upon;
  for (std::size_t i = pending_names.size(); i-- > 0;) {
    const name_change& each = pending_names[i];
    settled[i] = chosen(each) || built_upon.contains(each.path) || built_upon.contains(each.from);
    if (!settled[i]) continue;
    built_upon.insert(each.path);
    if (!each.from.empty()) built_upon.insert(each.from);
  }
  std::vector<name_change> remaining;
  for (std::size_t i = 0; i < pending_names.size(); ++i) {
    if (settled[i]) {
      pending_names[i].apply_to(durable);
    } else {
      remaining.push_back(std::move(pending_names[i]));
    }
  }
  pending_names = std::move(remaining);
}

}  // namespace tenure::sim
