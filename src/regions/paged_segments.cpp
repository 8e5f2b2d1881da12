// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments that are opened for pages, and closed.
#include <algorithm>

#include "regions/open_segment.hpp"
#include "regions/paged_state.hpp"
#include "replay/recovery.hpp"

namespace tenure::rvm {

// The list is changed, and read by truncation, while no truncation is in progress or by the one that is.
void region_mapper::with_paged_list(const std::function<void()>& f) {
  if (writing_)
    writing_->truncation.with_lock(f);
  else
    f();
}

std::shared_ptr<paged_state> region_mapper::open_pages(const std::string& path) {
  opening_.require_usable();
  const std::scoped_lock lock(mutex_);
  const open_segment in(*this, path, {});
  for (const auto& r : regions_.all())
    if (r->in == &*in)
      throw error(errc::region_overlap,
                  path + ": the segment is mapped; unmap its regions before it is opened for pages");
  for (const auto& p : paged_)
    if (&p->in() == &*in)
      throw error(errc::region_overlap, path + ": the segment is open for pages already; use that paged_segment");
  // Several threads may find that a page does not match its checksum.
  auto made = std::make_shared<paged_state>(this, *in, how_.limits.most_kept_pages, [this](const auto& f) {
    if (writing_) return writing_->truncation.with_lock(f);
    const std::scoped_lock alone(mutex_);
    f();
  });
  if (opening_.is_read_only()) made->add(changes_in_log(log_, live_, *in));
  with_paged_list([&] { paged_.push_back(made); });
  in->note_mapped();
  return made;
}

void region_mapper::close_pages(paged_state& what) {
  opening_.require_own_process();
  const std::scoped_lock lock(mutex_);
  if (what.owner() == nullptr) return;
  if (!what.end_use())
    throw error(errc::region_busy,
                what.path() + ": an open transaction has changed pages of it; commit or abort first");
  if (writing_) {
    try {
      writing_->writer.wait(writing_->writer.last_commit());
      writing_->truncation.truncate_all();
    } catch (...) {
      what.allow_use();
      throw;
    }
  }
  segment& in = what.in();
  with_paged_list([&] {
    what.note_closed();
    std::erase_if(paged_, [&](const auto& p) { return p.get() == &what; });
  });
  close_unless_mapped(in);
}

void region_mapper::check_pages() const {
  for (const auto& p : paged_) p->check(writing_->queue);
}

void region_mapper::forget_written_pages(const std::vector<dirty_page>& pages) noexcept {
  for (const auto& p : paged_)
    for (const dirty_page& page : pages)
      if (page.in == &p->in()) p->written(page.page, writing_->queue);
}

}  // namespace tenure::rvm
