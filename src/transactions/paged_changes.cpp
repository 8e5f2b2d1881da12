// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "transactions/paged_changes.hpp"

#include <algorithm>
#include <functional>

namespace tenure::rvm {

void paged_changes::add(const std::shared_ptr<paged_state>& to, std::uint64_t offset, os::const_bytes from) {
  if (std::ranges::find(segments_, to) == segments_.end()) {
    segments_.reserve(segments_.size() + 1);
    if (!to->enter()) throw error(errc::closed, to->path() + ": the segment is being closed");
    segments_.push_back(to);
  }
  const std::size_t before = changes_.size();
  try {
    while (!from.empty()) {
      const std::size_t length = std::min<std::size_t>(from.size(), redo_page - offset % redo_page);
      changes_.push_back({to.get(), {&to->in(), offset, from.data(), length}});
      offset += length;
      from = from.subspan(length);
    }
  } catch (...) {
    os::shorten(changes_, before);
    throw;
  }
}

void paged_changes::put_in_order() {
  ordered_.assign(changes_.begin(), changes_.end());
  const auto before = [](const change& a, const change& b) {
    return a.to != b.to ? std::less<>{}(a.to, b.to) : a.value.offset < b.value.offset;
  };
  std::ranges::stable_sort(ordered_, before);
  const auto overlap = [](const change& a, const change& b) {
    return a.to == b.to && b.value.offset < a.value.offset + a.value.length;
  };
  if (std::ranges::adjacent_find(ordered_, overlap) == ordered_.end()) return;
  drop_overwritten(ordered_);
  std::ranges::sort(ordered_, before);
}

// Leaves of each change what no later one changes.
void paged_changes::drop_overwritten(std::vector<change>& ordered) const {
  const auto number_of = [this](const change& c) {
    const auto found = std::ranges::find(segments_, c.to, [](const auto& s) { return s.get(); });
    return static_cast<std::uint32_t>(found - segments_.begin());
  };
  page_index pages;
  std::vector<page_bytes> later;
  ordered.clear();
  for (auto c = changes_.rbegin(); c != changes_.rend(); ++c) {
    const std::uint32_t page =
        pages.find_or_insert({number_of(*c), c->page()}, static_cast<std::uint32_t>(later.size()));
    if (page == later.size()) later.emplace_back();
    const auto from = static_cast<std::uint32_t>(c->value.offset % redo_page),
               to = from + static_cast<std::uint32_t>(c->value.length);
    later[page].for_each_missing(from, to, [&](std::uint32_t begin, std::uint32_t end) {
      ordered.push_back(
          {c->to, {c->value.in, c->value.offset + (begin - from), c->value.from + (begin - from), end - begin}});
    });
    later[page].insert(from, to);
  }
}

void paged_changes::prepare(os::cleared_vector<new_value>& values) {
  if (changes_.empty()) return;
  put_in_order();
  for (const change& c : ordered_) {
    if (pages_.empty() || pages_.back().in != c.to || pages_.back().page != c.page())
      pages_.push_back({c.to, c.page(), values_.size(), 0});
    ++pages_.back().count;
    values_.push_back(c.value);
  }
  values.insert(values.end(), values_.begin(), values_.end());
  try {
    for (; prepared_ < pages_.size(); ++prepared_) pages_[prepared_].in->prepare(pages_[prepared_].page);
  } catch (...) {
    undo_prepare();
    throw;
  }
}

void paged_changes::undo_prepare() noexcept {
  while (prepared_ != 0) {
    const changed_page& p = pages_[--prepared_];
    p.in->cancel(p.page);
  }
  ordered_.clear();
  values_.clear();
  pages_.clear();
}

void paged_changes::captured() noexcept {
  for (const changed_page& p : pages_) p.in->capture(p.page, std::span(values_).subspan(p.first, p.count));
  prepared_ = 0;
  undo_prepare();
}

std::uint64_t paged_changes::bytes() const noexcept {
  std::uint64_t all = 0;
  for (const change& c : changes_) all += c.value.length;
  return all;
}

void paged_changes::clear() noexcept {
  undo_prepare();
  for (const auto& s : segments_) s->leave();
  segments_.clear();
  os::clear_all_of(changes_);
}

}  // namespace tenure::rvm
