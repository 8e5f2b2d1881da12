// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvm_map and rvm_unmap. Segments are raw files: every byte of the file is data.
#include <algorithm>
#include <atomic>
#include <cstdint>

#include <tenure/barriers.hpp>

#include "classic/codes.hpp"
#include "classic/library.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::classic {

namespace {

// What rvm_watch_stores was given.
std::atomic<void (*)(const void*, rvm_length_t)> region_begins, region_ends;

// The length of the file, in whole blocks [classic.map.length]. A program may declare a device as shorter than it is.
std::uint64_t usable_length(const os::file& file, rvm_offset_t declared) {
  constexpr std::uint64_t block = 512;
  std::uint64_t length = file.size();
  if (file.is_device() && declared.low != 0) length = std::min<std::uint64_t>(length, declared.low);
  return length / block * block;
}

}  // namespace

rvm_return_t map_region(library& in, rvm_region_t& region, const rvm_options_t* options) {
  if (const auto bad = check_name(region.data_dev, RVM_EREGION); bad != RVM_SUCCESS) return bad;
  if (options != nullptr) {
    if (options->struct_id != rvm_options_id) return RVM_EOPTIONS;
    if (const auto bad = in.set_options(*options); bad != RVM_SUCCESS) return bad;
  }
  if (log() == nullptr) return RVM_ELOG;
  if (in.options.pager != nullptr) {
    in.options.pager = nullptr;  // only this call is refused
    return RVM_EPAGER;
  }
  const std::uint64_t page = os::page_size();
  if (reinterpret_cast<std::uintptr_t>(region.vmaddr) % page != 0) return RVM_ERANGE;

  const auto file = the_library().disk->open(os::absolute_path(region.data_dev), os::access::read_write);
  const std::uint64_t whole = usable_length(*file, region.dev_length);
  if (region.offset.high != 0 || region.offset.low >= whole || region.length > ~region.offset.low) return RVM_EOFFSET;
  // Whole pages, except for the page in which the file ends.
  const std::uint64_t from = region.offset.low / page * page, wanted = region.offset.low + region.length;
  const bool to_end = region.length == 0 || wanted >= whole;

  rvm::map_options how;
  how.offset = from;
  how.length = (to_end ? whole : std::min(whole, (wanted + page - 1) / page * page)) - from;
  how.address = region.vmaddr;
  how.raw = true;
  how.copy_in = (in.options.flags & RVM_MAP_PRIVATE) == 0 && region.no_copy != rvm_true;
  if ((in.options.flags & RVM_BARRIERS) != 0) how.barriers = rvm::write_barriers::announced;
  in.regions.push_back({log()->map(region.data_dev, how), region.data_dev});
  const rvm::region& made = in.regions.back().memory;
  region.offset = {0, from};
  region.length = made.size();
  region.vmaddr = reinterpret_cast<char*>(made.data());
  return RVM_SUCCESS;
}

rvm_return_t unmap_region(library& in, const rvm_region_t& region) {
  mapped_region* const found = in.find(region.vmaddr);
  if (found == nullptr) return RVM_ENOT_MAPPED;
  if (reinterpret_cast<char*>(found->memory.data()) != region.vmaddr || found->memory.size() != region.length ||
      found->memory.offset() != region.offset.low || region.offset.high != 0)
    return RVM_ERANGE;
  found->memory.unmap();
  in.regions.remove_if([&](const mapped_region& r) { return &r == found; });
  return RVM_SUCCESS;
}

}  // namespace tenure::classic

using namespace tenure::classic;

rvm_return_t rvm_map(rvm_region_t* region, rvm_options_t* options) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (region == nullptr || region->struct_id != rvm_region_id) return RVM_EREGION;
    library& l = the_library();
    const std::scoped_lock lock(l.mutex);
    return map_region(l, *region, options);
  });
}

rvm_return_t rvm_unmap(rvm_region_t* region) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (region == nullptr || region->struct_id != rvm_region_id) return RVM_EREGION;
    library& l = the_library();
    const std::scoped_lock lock(l.mutex);
    return unmap_region(l, *region);
  });
}

void rvm_announce_store(const void* at, rvm_length_t length) { tenure::announce_store(at, length); }

void rvm_watch_stores(void (*begins)(const void* at, rvm_length_t length),
                      void (*ends)(const void* at, rvm_length_t length)) {
  region_begins = begins;
  region_ends = ends;
  tenure::detail::tell_watched_memory(
      {.begins = [](const void* at, std::size_t n) noexcept { region_begins.load()(at, n); },
       .ends = [](const void* at, std::size_t n) noexcept { region_ends.load()(at, n); }});
}
