// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Address space: pages, reservations, anonymous memory, and what the kernel knows about private copies.
// Lengths and addresses are multiples of page_size() unless said otherwise. All functions are thread-safe and throw
// tenure::error. Mappings of files are made by os::file::map_private.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "os/access.hpp"
#include "os/cleared_memory.hpp"

namespace tenure::os {

// The host's page size in bytes.
[[nodiscard]] std::size_t page_size() noexcept;

// Zeroed private memory. It is charged when it is first touched. If `at` is nullptr, anywhere; otherwise exactly there,
// and never over an existing mapping (errc::address_taken, and the message names that mapping).
[[nodiscard]] void* map_anonymous(void* at, std::size_t length);
// Zeroed private memory in huge pages, if the kernel grants them. The address is a multiple of 2 MiB.
[[nodiscard]] void* map_anonymous_huge(std::size_t length);
void unmap(void* address, std::size_t length) noexcept;

// Reserves addresses for later mappings. They cannot be used and cost nothing. `at` is as in map_anonymous; if it is
// nullptr, the address is a multiple of 2 MiB.
[[nodiscard]] void* reserve_address_space(void* at, std::size_t length);
// Replaces a mapping, which the caller must own, by zeroed private memory; in huge pages where the kernel grants
// them.
void map_anonymous_over(void* at, std::size_t length);
void map_anonymous_huge_over(void* at, std::size_t length);
// Makes memory reserved again. If the kernel refuses, the memory stays as it is.
void reserve_again(void* at, std::size_t length) noexcept;

// The name of a mapping in [address, address+length); "" if the range is free.
[[nodiscard]] std::string occupant(const void* address, std::size_t length);

// Access advice. Failures are ignored, because correctness does not need it.
void advise_random(void* address, std::size_t length) noexcept;
// Which pages of a mapped file are read together with a touched page: none; or, by size, what the kernel chooses, or
// none if the mapping is larger than half of the memory that this process may use. Reading ahead helps if the data fits
// into memory. If not, pages that nobody has asked for would push others out. Returns whether it is none.
bool advise_by_size(void* address, std::size_t length) noexcept;
// Tells which pages of a mapped file are in memory: bit 0 of a byte for each page. Returns whether the kernel tells. If
// the process may not write to the file, the kernel says that all are.
[[nodiscard]] bool look_for_pages(const void* address, std::span<unsigned char> pages) noexcept;
// How many pages this process has waited for, while they were read from a disk.
[[nodiscard]] std::uint64_t pages_waited_for() noexcept;
// Brings pages of a mapped file into memory and into the page table, as reading one byte of each would. Does nothing
// before Linux 5.14, where the kernel cannot.
void populate(void* address, std::size_t length) noexcept;
// The bytes of memory that this process may use: those of the machine, or fewer under the control group's limit that it
// had when it asked first.
[[nodiscard]] std::uint64_t usable_memory() noexcept;

// Makes pages writable, or read-only. Returns 0 or an errno. ENOMEM: the process has as many mappings as it may have
// (vm.max_map_count). A longer run may still succeed, and a run of whole mappings always does. Async-signal-safe.
[[nodiscard]] int protect(void* address, std::size_t length, access how) noexcept;
// For tests of that limit: from now on protect() fails with ENOMEM for fewer than this many bytes.
void refuse_protection_below(std::size_t length) noexcept;

// A child of a fork will not have these pages. It gets SIGSEGV there instead of a silent, detached copy.
void exclude_from_fork(void* address, std::size_t length) noexcept;
// A child will have a copy of them again.
void include_in_fork(void* address, std::size_t length) noexcept;

// Gives this process its own copy of the page at `at` in a private file mapping, as a write there would, but changes
// nothing. No other thread may write to that byte meanwhile. If the page was read before, the copy costs more than
// twice as much: it takes two faults, and other processors must forget the old page.
void make_private(void* at) noexcept;

struct page_run {
  std::byte* address;
  std::size_t length;  // bytes
};
using page_runs = cleared_vector<page_run>;
// Extends the last run if the page follows it: a call for a run costs hardly more than a call for a page.
void append_page(page_runs& runs, std::byte* page, std::size_t length);
// Gives private copies back to the kernel. The next read sees the mapped file again. Batched if the kernel allows it
// (process_madvise on self, Linux 6.13); otherwise one madvise for each run.
void drop_private_copies(std::span<const page_run> runs);

// Calls `found` for each run of pages in the private file mapping [address, address+length) of which this process has
// its own copy. It may find too many pages, in the worst case all, where the kernel cannot tell. Uses PAGEMAP_SCAN
// (Linux 6.7), or else bit 61 of /proc/self/pagemap.
void for_each_private_copy(const void* address, std::size_t length, const std::function<void(page_run)>& found);
// Whether the kernel can tell.
[[nodiscard]] bool knows_private_copies() noexcept;

// For tests of the fallbacks: the mechanism that for_each_private_copy and drop_private_copies use from now on.
enum class page_mechanism { best, pagemap_file, none };
void force_page_mechanism(page_mechanism which) noexcept;

}  // namespace tenure::os
