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

namespace tenure::os {

// The host's page size in bytes.
[[nodiscard]] std::size_t page_size() noexcept;

// Zeroed private memory, charged only when touched. `at` nullptr: anywhere; else exactly there, never over an existing
// mapping (errc::address_taken, and the message says what is there).
[[nodiscard]] void* map_anonymous(void* at, std::size_t length);
// Zeroed private memory backed by huge pages where the kernel grants them; the address is a multiple of 2 MiB.
[[nodiscard]] void* map_anonymous_huge(std::size_t length);
void unmap(void* address, std::size_t length) noexcept;

// Address space that cannot be touched and costs nothing, for mappings to come. `at` as in map_anonymous; anywhere: at a
// multiple of 2 MiB.
[[nodiscard]] void* reserve_address_space(void* at, std::size_t length);
// In place of what is there, which must be the caller's own: zeroed private memory, in huge pages where they are wanted and
// the kernel grants them.
void map_anonymous_over(void* at, std::size_t length, bool huge);
// Takes memory back to being reserved only. If the kernel refuses, it stays as it is.
void reserve_again(void* at, std::size_t length) noexcept;

// What occupies [address, address+length): the name of a mapping there, or "" if it is free.
[[nodiscard]] std::string occupant(const void* address, std::size_t length);

// Access advice. Failures are ignored: advice is not needed for correctness.
void advise_random(void* address, std::size_t length) noexcept;
// Which pages of a mapped file are read together with one that is touched: none, or by size: as the kernel likes, or none
// where the mapping is larger than half of the memory that this process may use. Reading ahead helps data that fits; data
// that does not would be pushed out by what nobody has asked for.
void advise_by_size(void* address, std::size_t length) noexcept;
// Brings pages of a mapped file into memory and into the page table, as reading a byte of each would. Where the kernel cannot
// (before Linux 5.14), does nothing.
void populate(void* address, std::size_t length) noexcept;
// Bytes of memory that this process may use: the machine's, or less under a control group's limit.
[[nodiscard]] std::uint64_t usable_memory() noexcept;

// Makes pages writable, or read-only. Returns 0 or an errno: ENOMEM where the process has as many mappings as it may have
// (vm.max_map_count); a longer run may still succeed, and one that covers whole mappings always does. Async-signal-safe.
[[nodiscard]] int protect(void* address, std::size_t length, bool writable) noexcept;
// For tests of that limit: from now on protect() fails with ENOMEM for less than so many bytes.
void refuse_protection_below(std::size_t length) noexcept;

// A child made by fork will not have these pages (it gets SIGSEGV there instead of a silent, detached copy).
void exclude_from_fork(void* address, std::size_t length) noexcept;

// Gives this process its own copy of the page at `at` in a private file mapping, as writing there does, but changes nothing.
// Nobody else may write to that byte meanwhile. A copy of a page that was read before costs more than twice as much: it
// takes two faults, and other processors must forget what they know of the page.
void make_private(void* at) noexcept;

struct page_run {
  std::byte* address;
  std::size_t length;  // bytes
};
// Makes the last run longer if the page follows it: a call for a run costs hardly more than one for a page.
void append_page(std::vector<page_run>& runs, std::byte* page, std::size_t length);
// Gives private copies back to the kernel: the next read sees the mapped file again. Batched where the kernel allows
// (process_madvise on self, Linux 6.13), one madvise a run elsewhere.
void drop_private_copies(std::span<const page_run> runs);

// Calls `found` for each run of pages in the private file mapping [address, address+length) that this process has its
// own copy of; a superset (in the worst case everything) where the kernel cannot tell. PAGEMAP_SCAN (Linux 6.7), else
// bit 61 of /proc/self/pagemap, else everything.
void for_each_private_copy(const void* address, std::size_t length, const std::function<void(page_run)>& found);
// Whether the kernel can tell.
[[nodiscard]] bool knows_private_copies() noexcept;

// For tests of the fallbacks: the mechanism that for_each_private_copy and drop_private_copies use from now on.
enum class page_mechanism { best, pagemap_file, none };
void force_page_mechanism(page_mechanism which) noexcept;

}  // namespace tenure::os
