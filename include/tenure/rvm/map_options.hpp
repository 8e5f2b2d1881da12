// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How a part of a segment is mapped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenure::rvm {

// How changes in a region are found.
enum class tracking_mode {
  explicit_ranges,  // the program announces them: transaction::set_range
  automatic,        // the library finds them: memory::begin_automatic
};
// Means of finding the pages that a transaction has changed. Each finds the same; they differ in cost.
enum class tracking_mechanism {
  choose,          // the cheapest, by what transactions do; the others are for tests and measurements
  traps,           // each first write to a page is trapped
  growing_runs,    // the same; a trap next to the last one opens more pages
  hot,             // pages stay open once they were written, and are compared at every commit
  scan,            // the kernel notes what is written (userfaultfd, Linux 6.7)
  private_copies,  // the kernel tells of which pages the process has a copy; these are compared
  announced,       // set_range opens pages ahead; writes to others are trapped one by one
};

// Whether the program announces its writes (tenure/barriers.hpp), or has its compiler do so. With explicit_ranges an
// announcement is a declaration, to the byte, in the newest open transaction that the calling thread has begun; there are no
// cards, and `checking` has the next commit throw errc::undeclared_write if the thread had no open transaction, or several.
// With automatic tracking:
enum class write_barriers {
  none,  // no: they are found by means of the pages' protection
  announced,  // yes. Pages stay writable once they were written, and only those with announced writes are compared. A write that
              // was not announced can be missing from its commit; it is found, logged and reported later, or never
  cards,  // the same, but of such a page only the announced cards are compared, parts of card_size bytes: faster, and a write
          // that was not announced beside one that was, in another card, is missing, too
  checking,  // as announced, but every commit compares all writable pages: slow, and for a program's tests
};

// What a region that grows has as its new part, until it is unmapped or back_with_file() has changed it; in automatically
// tracked regions, until 2 MiB of it are in the file as they are.
enum class fresh_space {
  file,       // pages of the segment's file, as everywhere else
  anonymous,  // memory that the file does not back: filling it takes no page of the page cache beside the process's own
  huge_pages,  // the same, in huge pages where the kernel grants them
};

// How part of a segment is mapped [RVM §4.1].
struct map_options {
  std::uint64_t offset = 0;  // bytes from the segment's start; a multiple of the page size
  // Bytes; a multiple of the page size, or of 512 if raw and not tracked automatically: then the rest of the last page is in
  // memory, but cannot be declared, and the file stays as long as it is. 0: to the segment's end, in whole pages.
  std::uint64_t length = 0;
  void* address = nullptr;              // where; nullptr: anywhere free. Never over something that is there already
  std::uint64_t create_length = 0;      // not 0: create the segment with this length if it does not exist
  std::uint64_t create_max_length = 0;  // and with this max_length
  // true: any file or block device as it is: no header, no checksums. false: a segment made by create_segment.
  bool raw = false;
  // true: map it although its header says that changes are waiting in another log, or that segment and log are not of the
  // same moment (errc::wrong_log): what it lacks is lost then.
  bool take_over = false;
  // true: read the data in at once, into memory that the file does not back. false: the kernel pages on demand.
  bool copy_in = false;
  // true: the region takes address space up to the segment's max_length and grows with it (grow_segment). `length` must be
  // 0. What lies beyond size() cannot be touched.
  bool reserve = false;
  // true: until region::read_ahead is called, a page that is touched is read from the disk alone, and none around it: for
  // programs that look at little before they know what they want.
  bool sparse = false;
  fresh_space fresh = fresh_space::file;
  // automatic: set_range is not needed, and errc::wrong_tracking in other than automatic transactions. Not with copy_in.
  tracking_mode tracking = tracking_mode::explicit_ranges;
  tracking_mechanism force_mechanism = tracking_mechanism::choose;
  // true: no page is left open between transactions, so that every stray write is trapped where it happens. Slower.
  bool tracking_strict = false;
  // Others than `none` take the place of force_mechanism, and exclude tracking_strict.
  write_barriers barriers = write_barriers::none;
  // Bytes: a power of two from 16 to 4096, whatever `barriers` is. With write_barriers::cards it is what is compared around an
  // announced write. Below 64 each page takes more memory: 8 bytes for every 64 cards. With `checking` cards have 16 bytes, whatever
  // is said here, and a write in one with announced ones counts as announced. With explicit_ranges it means nothing.
  std::size_t card_size = 64;
};

// Bytes in memory.
struct memory_range {
  std::byte* address;
  std::size_t length;
  [[nodiscard]] std::byte* end() const { return address + length; }
};

}  // namespace tenure::rvm
