// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The segment loader. It uses rvm_map and a transaction, as a program could do itself.
#include <rvm/rvm_segment.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "classic/codes.hpp"
#include "classic/library.hpp"
#include "classic/segment_header.hpp"
#include "log/checksum.hpp"
#include "os/file.hpp"
#include "os/process.hpp"

namespace tenure::classic {

namespace {

// rvm_map makes a region shorter if the file ends in it. Here that is an error.
rvm_return_t map_whole(rvm_region_t& region, rvm_options_t* options) {
  const rvm_length_t wanted = region.length;
  const auto result = rvm_map(&region, options);
  if (result != RVM_SUCCESS || region.length == wanted) return result;
  (void)rvm_unmap(&region);
  return RVM_EOFFSET;
}

// Part of a segment for the duration of a call.
class mapping {
 public:
  mapping(char* device, rvm_offset_t device_length, rvm_length_t length, rvm_options_t* options) {
    rvm_init_region(&region_);
    region_.data_dev = device;
    region_.dev_length = device_length;
    region_.length = length;
    result_ = map_whole(region_, options);
  }
  ~mapping() {
    if (result_ == RVM_SUCCESS) (void)rvm_unmap(&region_);
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  [[nodiscard]] rvm_return_t result() const { return result_; }
  [[nodiscard]] char* data() const { return region_.vmaddr; }

 private:
  rvm_region_t region_;
  rvm_return_t result_;
};

bool is_whole_pages(std::uint64_t value) { return (value & ~rvm_page_mask()) == 0; }

std::uint64_t address_of(const rvm_region_def_t& region) { return reinterpret_cast<std::uintptr_t>(region.vmaddr); }

// Whether the regions can be mapped together.
bool make_sense(std::span<const rvm_region_def_t> regions) {
  if (regions.empty() || regions.size() > max_segment_regions) return false;
  std::vector<rvm_region_def_t> sorted(regions.begin(), regions.end());
  std::ranges::sort(sorted, {}, address_of);
  std::uint64_t end = 0;
  for (const rvm_region_def_t& r : sorted) {
    const std::uint64_t from = address_of(r);
    if (from == 0 || from < end || r.length == 0 || !is_whole_pages(from) || !is_whole_pages(r.length)) return false;
    end = from + r.length;
    if (end < from) return false;
  }
  return true;
}

std::uint32_t checksum_of(segment_header header) {
  header.checksum = 0;
  return rvm::crc32c(std::as_bytes(std::span{&header, 1}));
}

// Extends a file and allocates its space on the disk, so that truncation cannot meet a full disk.
void make_room(const char* device, std::uint64_t length) {
  const auto file = the_library().disk->open(os::absolute_path(device), os::access::read_write);
  if (file->is_device()) return;
  file->allocate(0, std::max(length, file->size()));
  file->sync();
}

rvm_return_t write_header(char* to, const segment_header& header) {
  rvm_tid_t tid;
  rvm_init_tid(&tid);
  if (const auto bad = rvm_begin_transaction(&tid, restore); bad != RVM_SUCCESS) return bad;
  auto result = rvm_modify_bytes(&tid, to, &header, sizeof header);
  if (result == RVM_SUCCESS) result = rvm_end_transaction(&tid, flush);
  if (result != RVM_SUCCESS) (void)rvm_abort_transaction(&tid);
  return result;
}

rvm_return_t read_header(const char* from, segment_header& header) {
  std::memcpy(&header, from, sizeof header);
  if (header.magic != segment_magic) return RVM_ESEGMENT_HDR;
  if (header.version != segment_version) return RVM_EVERSION_SKEW;
  if (header.checksum != checksum_of(header) || header.count == 0 || header.count > max_segment_regions)
    return RVM_ESEGMENT_HDR;
  return RVM_SUCCESS;
}

rvm_region_t region_of(const rvm_region_def_t& def, char* device, rvm_offset_t device_length) {
  rvm_region_t region;
  rvm_init_region(&region);
  region.data_dev = device;
  region.dev_length = device_length;
  region.offset = def.offset;
  region.length = def.length;
  region.vmaddr = def.vmaddr;
  return region;
}

// Whether some transaction has declared ranges in one of the regions. The library's mutex is held.
bool is_in_use(library& in, std::span<const rvm_region_def_t> defs) {
  return std::ranges::any_of(defs, [&](const rvm_region_def_t& def) {
    const mapped_region* const found = def.length != 0 ? in.find(def.vmaddr) : nullptr;
    return found != nullptr && !log()->open_transactions(&found->memory).empty();
  });
}

// Unmaps the regions. Those that are not mapped any more have no length from now on. Returns the last code, of those that stay
// if there are any.
rvm_return_t unmap_all(library& in, std::span<rvm_region_def_t> defs) {
  rvm_return_t of_gone = RVM_SUCCESS, of_left = RVM_SUCCESS;
  for (rvm_region_def_t& def : defs) {
    if (def.length == 0) continue;  // unmapped by a try before
    const auto code = guarded([&] { return unmap_region(in, region_of(def, nullptr, {0, 0})); });
    if (code != RVM_SUCCESS && code != RVM_ENOT_MAPPED && code != RVM_ERANGE) {
      of_left = code;
      continue;
    }
    def.length = 0;
    if (code != RVM_SUCCESS) of_gone = code;
  }
  return of_left != RVM_SUCCESS ? of_left : of_gone;
}

}  // namespace

}  // namespace tenure::classic

using namespace tenure;
using namespace tenure::classic;

rvm_return_t rvm_create_segment(char* device, rvm_offset_t length, rvm_options_t* options, rvm_length_t region_count,
                                rvm_region_def_t* regions) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (const auto bad = check_name(device, RVM_EREGION); bad != RVM_SUCCESS) return bad;
    if (regions == nullptr || !make_sense({regions, region_count})) return RVM_ERANGE;
    segment_header header{};
    header.magic = segment_magic;
    header.version = segment_version;
    header.count = static_cast<std::uint32_t>(region_count);
    std::uint64_t offset = RVM_SEGMENT_HDR_SIZE;
    for (rvm_length_t i = 0; i < region_count; ++i) {
      regions[i].offset = {0, offset};
      header.regions[i] = {offset, regions[i].length, address_of(regions[i]), 0};
      offset += regions[i].length;
    }
    header.checksum = checksum_of(header);
    make_room(device, offset);
    const mapping page(device, length, RVM_SEGMENT_HDR_SIZE, options);
    return page.result() == RVM_SUCCESS ? write_header(page.data(), header) : page.result();
  });
}

rvm_return_t rvm_load_segment(char* device, rvm_offset_t length, rvm_options_t* options, unsigned long* region_count,
                              rvm_region_def_t** regions) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (region_count == nullptr || regions == nullptr) return RVM_EREGION;
    segment_header header;
    {
      const mapping page(device, length, RVM_SEGMENT_HDR_SIZE, options);
      if (page.result() == RVM_EOFFSET) return RVM_ESEGMENT_HDR;  // too short for a header
      if (page.result() != RVM_SUCCESS) return page.result();
      if (const auto bad = read_header(page.data(), header); bad != RVM_SUCCESS) return bad;
    }
    auto* const defs = static_cast<rvm_region_def_t*>(std::malloc(header.count * sizeof(rvm_region_def_t)));
    if (defs == nullptr) return RVM_ENO_MEMORY;
    for (std::uint32_t i = 0; i < header.count; ++i) {
      const segment_entry& e = header.regions[i];
      defs[i] = {{0, e.offset}, e.length, reinterpret_cast<char*>(e.address)};
      rvm_region_t region = region_of(defs[i], device, length);
      const auto bad = map_whole(region, nullptr);
      if (bad == RVM_SUCCESS) continue;
      while (i-- > 0) {
        region = region_of(defs[i], device, length);
        (void)rvm_unmap(&region);
      }
      std::free(defs);
      return bad;
    }
    *region_count = header.count;
    *regions = defs;
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_release_segment(unsigned long region_count, rvm_region_def_t** regions) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (regions == nullptr || *regions == nullptr) return RVM_EREGION;
    library& l = the_library();
    const std::scoped_lock lock(l.mutex);
    const std::span<rvm_region_def_t> defs(*regions, region_count);
    if (is_in_use(l, defs)) return RVM_EUNCOMMIT;
    const rvm_return_t last = unmap_all(l, defs);
    if (std::ranges::any_of(defs, [](const rvm_region_def_t& def) { return def.length != 0; })) return last;
    std::free(*regions);
    *regions = nullptr;
    return last;
  });
}
