// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/unreadable_pages.hpp"

#include <vector>

#include <tenure/error.hpp>

#include "objects/database_set.hpp"
#include "os/file.hpp"
#include "os/virtual_memory.hpp"
#include "segments/format.hpp"
#include "segments/segment.hpp"
#include "segments/segment_layout.hpp"

namespace tenure::heap {

void replace_unreadable(const database_state& in, std::span<const std::uint64_t> pages) {
  if (pages.empty()) return;
  os::disk* const disk = in.owner.how().memory.disk;
  os::disk& from = disk != nullptr ? *disk : os::real_disk();
  const rvm::segment_layout layout(rvm::read_segment_header(from, in.file));
  const auto file = from.open(in.file, os::access::read_only);
  std::vector<std::byte> bytes(rvm::redo_page);
  for (const std::uint64_t offset : pages) try {
      (void)file->read_at(layout.find(offset, rvm::redo_page).at, bytes);
    } catch (const error& e) {
      if (e.code() != std::errc::io_error) throw;
      os::map_anonymous_over(reinterpret_cast<void*>(in.home + offset), rvm::redo_page);
    }
}

}  // namespace tenure::heap
