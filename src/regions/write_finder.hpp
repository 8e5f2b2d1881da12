// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How writes to a region are found. Each mechanism is one implementation; write_finders.hpp chooses among them. A mechanism
// finds *candidates*: pages that may differ from the committed image. It may find too many, but no written page may be
// missing [rvm.tracking.candidates].
//
//   page_traps     Pages are closed (read-only) between transactions. The first write to one is trapped and opens it.
//   kernel_notes   The region is open. The kernel notes which pages are written.
//   private_scan   The region is open. Pages of which the process has its own copy are candidates.
//
// hot_pages.hpp completes the traps: pages that are written again and again stay open, and are candidates of every transaction.
//
// A new mechanism implements this interface, joins the list in write_finders.cpp, and runs in the conformance suite
// (tests/rvm/write_finder_test.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "regions/tracked_pages.hpp"

namespace tenure::rvm {

// Costs in ns, for choosing: only the order of magnitude matters.
constexpr std::uint64_t flip_page = 2;      // changing the protection of a page that is in memory
constexpr std::uint64_t flip_private = 90;  // in addition, if the process has its own copy of it

// Functions with the protection lock are async-signal-safe: they may run in the fault handler. The others are called with the
// automatic right (automatic_right.hpp).
class write_finder {
 public:
  write_finder() = default;
  virtual ~write_finder() = default;
  write_finder(const write_finder&) = delete;
  write_finder& operator=(const write_finder&) = delete;

  // Whether it closes the pages at rest. Otherwise the whole region is open while it is used.
  [[nodiscard]] virtual bool closes_pages() const noexcept { return false; }
  // Every write that comes after this is found. One that closes pages has closed them when this returns; for another, the
  // caller opens the region afterwards. Returns false if the system refuses; then another mechanism must be started.
  [[nodiscard]] virtual bool start(const protection_guard&) noexcept = 0;
  // The region has another mapping. Forgets what belongs to the old one. start() may follow.
  virtual void stop() noexcept {}
  // The region has become longer, and nobody has written to the new part yet. Returns whether every write is found, before
  // and after; if not, it has stopped.
  [[nodiscard]] virtual bool grow(const protection_guard&) noexcept { return true; }
  // A write to the page was refused. Makes the page writable, and finds it. Returns false if the system refuses.
  [[nodiscard]] virtual bool on_write(const protection_guard&, page_number) noexcept { return true; }
  // The program says that it will write to these pages: opens them ahead. Returns false if the system refuses.
  [[nodiscard]] virtual bool announce(const protection_guard&, page_number /*first*/, page_number /*count*/) noexcept {
    return true;
  }

  // Adds to `written` all pages that were written since the last compared(), in any order, some perhaps twice; of hot pages
  // it may leave out any. Returns false if the system refuses. After that, and after an exception, another mechanism must be
  // started, unless this one closes pages.
  [[nodiscard]] virtual bool find(std::vector<page_number>& written) = 0;
  // What was found is compared and dealt with: it need not be found again.
  virtual void compared() noexcept {}

  // In a region that has so many pages in memory, in ns: what starting costs; and what a transaction costs that writes so
  // many pages.
  [[nodiscard]] virtual std::uint64_t cost_to_start(std::uint64_t present) const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t cost(std::uint64_t present, std::uint64_t written) const noexcept = 0;
  // How many pages are in memory, counted up to `most`; unknown, if it cannot tell. Async-signal-safe.
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};
  [[nodiscard]] virtual std::uint64_t count_present(std::uint64_t /*most*/) noexcept { return unknown; }
  // Whether these costs are true on this system.
  [[nodiscard]] virtual bool is_worth_choosing() noexcept { return true; }
};

}  // namespace tenure::rvm
