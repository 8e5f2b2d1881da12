// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "sim/disk.hpp"

#include <fstream>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "sim/core.hpp"

namespace tenure::sim {
namespace {

std::vector<std::string> names_of(const name_table& table) {
  std::vector<std::string> result;
  result.reserve(table.size());
  for (const auto& [name, node] : table) result.push_back(name);
  return result;
}

// The directory entries of `path` become durable, and a new file takes its place, in both tables.
void put(core& shared, const guard& lock, const std::string& path, bool is_device, image contents) {
  const std::string name = normal(path);
  shared.settle_names(lock, [&](const name_change& each) { return each.path == name || each.from == name; });
  const auto old = shared.current.find(name);
  auto node =
      shared.make_inode(lock, is_device, std::move(contents), old != shared.current.end() ? old->second->id() : 0);
  shared.current[name] = node;
  shared.durable[name] = std::move(node);
}

}  // namespace

disk::disk(std::uint32_t block_size) : core_(std::make_shared<core>(block_size)) {
  if (block_size < sector_size || block_size > image::block_bytes || (block_size & (block_size - 1)) != 0) {
    throw std::invalid_argument("sim::disk: the block size must be a power of two from 512 to 4096");
  }
}

disk::disk(std::shared_ptr<core> made) : core_(std::move(made)) {}
disk::~disk() = default;

std::unique_ptr<os::file> disk::open(const std::string& path, os::access how) {
  const guard lock(core_->mutex);
  core_->throw_if_failed(lock, core_->begin(lock, operation::open, path));
  auto node = core_->find(lock, core_->current, path);
  if (core_->read_only && how == os::access::read_write) throw_errno(EROFS, "open of " + path);
  return make_file(core_, std::move(node), path, how);
}

std::unique_ptr<os::file> disk::create(const std::string& path, unsigned) {
  beginning started;
  std::unique_ptr<os::file> made;
  {
    const guard lock(core_->mutex);
    started = core_->begin(lock, operation::create, path);
    core_->perform(lock, started, [&] {
      if (core_->current.contains(normal(path))) throw_errno(EEXIST, "create of " + path);
      auto node = core_->make_inode(lock, false, image());
      core_->change_names(lock, {operation::create, normal(path), {}, node});
      made = make_file(core_, std::move(node), path, os::access::read_write);
    });
  }
  core_->finish(started);
  return made;
}

bool disk::exists(const std::string& path) {
  const guard lock(core_->mutex);
  core_->throw_if_failed(lock, core_->begin(lock, operation::exists, path));
  return core_->current.contains(normal(path));
}

std::vector<std::string> disk::names_in(const std::string& directory) {
  const guard lock(core_->mutex);
  core_->throw_if_failed(lock, core_->begin(lock, operation::exists, directory));
  const std::string in = normal(directory) + "/";
  std::set<std::string> names;
  for (const auto& [path, node] : core_->current)
    if (path.starts_with(in)) names.insert(path.substr(in.size(), path.find('/', in.size()) - in.size()));
  return {names.begin(), names.end()};
}

void disk::rename(const std::string& from, const std::string& to) { rename(from, to, true); }

void disk::rename_to_new(const std::string& from, const std::string& to) { rename(from, to, false); }

void disk::rename(const std::string& from, const std::string& to, bool replacing) {
  beginning started;
  {
    const guard lock(core_->mutex);
    started = core_->begin(lock, operation::rename, to, 0, 0, from);
    core_->perform(lock, started, [&] {
      auto node = core_->find(lock, core_->current, from);
      if (!replacing && core_->current.contains(normal(to))) throw_errno(EEXIST, "rename to " + to);
      if (normal(from) == normal(to)) return;
      core_->change_names(lock, {operation::rename, normal(to), normal(from), std::move(node)});
    });
  }
  core_->finish(started);
}

void disk::remove(const std::string& path) {
  beginning started;
  {
    const guard lock(core_->mutex);
    started = core_->begin(lock, operation::remove, path);
    core_->perform(lock, started, [&] {
      core_->change_names(lock, {operation::remove, normal(path), {}, core_->find(lock, core_->current, path)});
    });
  }
  core_->finish(started);
}

void disk::sync_directory_of(const std::string& path) {
  beginning started;
  {
    const guard lock(core_->mutex);
    started = core_->sync_directory_of(lock, path);
  }
  core_->finish(started);
}

std::unique_ptr<disk> disk::crash(std::uint64_t seed, policy what) const {
  auto left = std::make_shared<core>(core_->block_size);
  const guard lock(core_->mutex);
  left->current = core_->names_after_crash(lock, seed, what);
  for (auto& [name, node] : left->current) {
    auto after = std::make_shared<inode>(node->id(), node->is_device(), node->after_crash(seed, what));
    after->set_holes(node->durable_holes());
    node = std::move(after);
  }
  left->durable = left->current;
  left->next_inode = core_->next_inode;
  return std::unique_ptr<disk>(new disk(std::move(left)));
}

void disk::crash_at(std::uint64_t nth, std::uint64_t sectors) {
  const guard lock(core_->mutex);
  core_->off_at = nth;
  core_->cut_sectors = sectors;
}

void disk::power_off() {
  const guard lock(core_->mutex);
  if (core_->off) return;
  core_->off = true;
  core_->off_index = core_->operations;
}

void disk::fill_up(bool is_full) {
  const guard lock(core_->mutex);
  core_->full = is_full;
}

std::uint64_t disk::holes(const std::string& path) const {
  const guard lock(core_->mutex);
  const auto found = core_->find(lock, core_->current, path);
  return found->holes();
}

bool disk::is_off() const {
  const guard lock(core_->mutex);
  return core_->off;
}

std::uint64_t disk::operations() const {
  const guard lock(core_->mutex);
  return core_->operations;
}

std::uint64_t disk::reads() const {
  const guard lock(core_->mutex);
  return core_->reads;
}

std::size_t disk::inject(fault what) {
  const guard lock(core_->mutex);
  core_->faults.push_back({std::move(what)});
  return core_->faults.size() - 1;
}

void disk::lose(const std::string& path, std::uint64_t from, std::uint64_t to) {
  (void)inject({.kind = operation::read, .path = path, .count = for_ever, .from = from, .to = to});
  const guard lock(core_->mutex);
  core_->lost.push_back({normal(path), from, to});
}

std::uint64_t disk::hits(std::size_t fault_number) const {
  const guard lock(core_->mutex);
  return core_->faults.at(fault_number).hits;
}

void disk::clear_faults() {
  const guard lock(core_->mutex);
  // Kept, so that the numbers stay good for hits().
  for (auto& each : core_->faults) each.what.count = 0;
  core_->lost.clear();
}

void disk::set_read_only(bool yes) {
  const guard lock(core_->mutex);
  core_->read_only = yes;
}

void disk::record_trace(bool yes) {
  const guard lock(core_->mutex);
  core_->tracing = yes;
}

std::vector<trace_entry> disk::trace() const {
  const guard lock(core_->mutex);
  return core_->trace;
}

void disk::clear_trace() {
  const guard lock(core_->mutex);
  core_->trace.clear();
}

void disk::on_operation(std::function<void(const trace_entry&)> call) { core_->hook = std::move(call); }

std::uint64_t disk::weak_durable_writes() const {
  const guard lock(core_->mutex);
  return core_->weak_writes;
}

void disk::add_device(const std::string& path, std::uint64_t size) {
  image contents;
  contents.resize(size);
  const guard lock(core_->mutex);
  put(*core_, lock, path, true, std::move(contents));
}

void disk::install(const std::string& path, os::const_bytes contents) {
  image durable;
  durable.resize(contents.size());
  durable.write(0, contents);
  const guard lock(core_->mutex);
  put(*core_, lock, path, false, std::move(durable));
}

void disk::install_from_real(const std::string& real_path, const std::string& path) {
  std::ifstream in(real_path, std::ios::binary | std::ios::ate);
  if (!in) throw_errno(ENOENT, real_path);
  std::vector<std::byte> contents(static_cast<std::size_t>(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(contents.data()), static_cast<std::streamsize>(contents.size()));
  if (!in) throw_errno(EIO, real_path);
  install(path, contents);
}

void disk::copy_to_real(const std::string& path, const std::string& real_path) const {
  const std::vector<std::byte> contents = current_bytes(path);
  std::ofstream out(real_path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(contents.data()), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (!out) throw_errno(EIO, real_path);
}

std::vector<std::byte> disk::current_bytes(const std::string& path) const {
  const guard lock(core_->mutex);
  const auto node = core_->find(lock, core_->current, path);
  std::vector<std::byte> result(node->size());
  read_fully(node->descriptor(), 0, result);
  return result;
}

std::vector<std::byte> disk::durable_bytes(const std::string& path) const {
  const guard lock(core_->mutex);
  const auto node = core_->find(lock, core_->durable, path);
  std::vector<std::byte> result(node->durable().size());
  node->durable().read(0, result);
  return result;
}

void disk::poke(const std::string& path, std::uint64_t offset, os::const_bytes from) {
  const guard lock(core_->mutex);
  const auto node = core_->find(lock, core_->current, path);
  if (offset > node->size() || from.size() > node->size() - offset) {
    throw std::out_of_range("sim::disk::poke beyond the end of " + path);
  }
  static_cast<void>(node->write_durably(offset, from, true));
}

std::vector<std::string> disk::names() const {
  const guard lock(core_->mutex);
  return names_of(core_->current);
}

std::vector<std::string> disk::durable_names() const {
  const guard lock(core_->mutex);
  return names_of(core_->durable);
}

std::size_t disk::unsynced(const std::string& path) const {
  const guard lock(core_->mutex);
  return core_->find(lock, core_->current, path)->pending();
}

std::size_t disk::unsynced_names() const {
  const guard lock(core_->mutex);
  return core_->pending_names.size();
}

}  // namespace tenure::sim
