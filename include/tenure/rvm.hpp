// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Recoverable virtual memory: ordinary memory whose changes are atomic and survive crashes.
//
//     tenure::rvm::memory memory{"bank.log"};                       // creates, or opens and recovers
//     auto accounts = memory.map("accounts.seg", {.create_length = 1 << 20});
//     auto& account = accounts.at<account_record>(0);
//     auto tx = memory.begin();
//     tx.set_range(account);                                        // about to change it
//     account.balance += 10;
//     tx.commit();                                                  // durable here
//
// A region can also be mapped with automatic tracking: then nothing is announced, what changed is found.
//
//     auto accounts = memory.map("accounts.seg", {.create_length = 1 << 20, .tracking = tracking_mode::automatic});
//     auto tx = memory.begin_automatic();
//     accounts.at<account_record>(0).balance += 10;
//     tx.commit();
//
// After Satyanarayanan, Mashburn, Kumar, Steere, Kistler, "Lightweight Recoverable Virtual Memory", SOSP 1993 (cited as
// [RVM §section]). A log holds the new values of committed transactions; segments (files or block devices) hold the rest;
// regions of segments are mapped into memory; truncation moves changes from the log to the segments. Nothing uncommitted
// ever reaches a segment.
//
// Errors: every function may throw tenure::error (see error.hpp); nothing that was acknowledged is lost by an error. After
// errc::outcome_unknown (the log could not be written or synced) this memory accepts no more commits: close it and open
// it again, which finds out what is on the disk.
//
// Threads: a memory may be used by any number of threads at once; a transaction by one at a time. RVM gives atomicity and
// permanence, not isolation [RVM §3.1]: threads that share data must keep each other out of it until the commit.
//
// Fork: a child has no part in its parent's memory: its calls throw errc::forked, and touching a region ends the child
// with a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/rvm_options.hpp>

namespace tenure::rvm {

struct memory_state;
struct region_state;
class region_tracker;
struct transaction_state;

#pragma GCC visibility push(default)  // libtenure.so exports it

class memory;
class region;
class transaction;

enum class restore_mode {
  restore,     // set_range saves the old bytes: the transaction can abort
  no_restore,  // it promises never to abort, and saves time and space [RVM §4.2]
};
enum class commit_mode {
  flush,     // durable when commit returns
  no_flush,  // atomic, but durable only after a later flush ("lazy": bounded persistence) [RVM §4.2]
};

// How changes in a region are found.
enum class tracking_mode {
  explicit_ranges,  // the program announces them: transaction::set_range
  automatic,        // the library finds them: memory::begin_automatic
};
// Counters over the life of a log: of all earlier openings that ended with a clean close, and of this one so far.
struct log_totals {
  std::uint64_t opened = 0, recovered = 0;  // recovered: openings that found something to replay
  std::uint64_t transactions = 0, no_flush_commits = 0, aborts = 0;
  // As in statistics. log_used_max is the largest of all.
  std::uint64_t intra_ranges_saved = 0, intra_bytes_saved = 0, inter_transactions_saved = 0, inter_bytes_saved = 0;
  std::uint64_t batches = 0, log_bytes_written = 0, log_used_max = 0, log_grown = 0;
  std::uint64_t truncation_waits = 0, incremental_truncations = 0, epoch_truncations = 0;
  std::uint64_t flush_calls = 0, truncate_calls = 0, write_ns = 0, truncation_ns = 0;
  std::uint64_t damaged_pages = 0;
};

// How a segment is made.
struct segment_options {
  std::uint64_t length = 0;      // bytes of recoverable memory, zero at first; rounded up to pages
  std::uint64_t max_length = 0;  // room for growth, fixed for ever; 0: `length`. Costs no time and next to no space
  unsigned permissions = 0600;
  // For layers above, which find them again in segment_info: the address at which the data wants to be mapped, and what
  // it is. Nothing here looks at them.
  std::uint64_t home = 0, tag = 0;
};

// What a segment says of itself.
struct segment_info {
  std::uint64_t length = 0, max_length = 0;  // bytes of recoverable memory, now and at most
  std::uint64_t home = 0, tag = 0;           // as in segment_options
  bool is_of_this_log = true;                // its last changes, if there were any, were made under this log
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
};

// Bytes in memory.
struct memory_range {
  std::byte* address;
  std::size_t length;
  [[nodiscard]] std::byte* end() const { return address + length; }
};

// Decides what of an automatically tracked page is recoverable, for layers that keep other things on the same pages. Bytes
// that it leaves out are never logged and never count as stray writes. Asked for pages that differ from the committed image,
// by one thread at a time, at the begin, commit and abort of automatic transactions.
class change_filter {
 public:
  virtual ~change_filter() = default;
  // Appends to `kept` the parts of `page` that are recoverable: in ascending order, disjoint, within the page.
  virtual void recoverable_parts(const memory_range& page, std::vector<memory_range>& kept) = 0;
  // The same for the parts that an abort puts back to what they were at begin.
  virtual void restorable_parts(const memory_range& page, std::vector<memory_range>& kept) {
    recoverable_parts(page, kept);
  }
};

// Asked in a signal handler when a page that is closed is written outside of any automatic transaction: true if that is
// allowed (the bytes are not recoverable): the page is opened, and looked at when the next transaction ends. Only
// async-signal-safe functions may be called; any thread, several at a time.
using stray_write_judge = bool (*)(void* context, const std::byte* address) noexcept;

// Layers above that keep their own bookkeeping in recoverable memory (allocators) take part in a transaction's end.
// prepare() runs inside commit, with commits of other transactions kept out: it may write and declare ranges, nothing else.
// If the commit then fails before anything was logged, undo_prepare() must put back what prepare() wrote. Either is
// followed by another attempt, or by committed() or aborted(), which come once, without locks.
//
// In an automatic transaction prepare() finds the changes in transaction::changes(), and set_range() means there: log these
// bytes as they are when the last participant is done, whether they differ from the committed image or not.
class participant {
 public:
  virtual ~participant() = default;
  virtual void prepare(transaction& tx) = 0;
  virtual void undo_prepare(transaction& tx) noexcept = 0;
  // The order of commits is settled and the values are copied; nothing is durable yet. In an automatic transaction: before
  // the next one may begin. Commits of others are kept out: neither wait nor begin, commit or abort here.
  virtual void captured(transaction& /*tx*/) noexcept {}
  virtual void committed(transaction& tx) noexcept = 0;
  virtual void aborted(transaction& tx) noexcept = 0;
};

// A part of a segment in memory. Moves; unmaps when destroyed unless it has uncommitted transactions, in which case it
// stays mapped until the memory is closed.
class region {
 public:
  region() = default;
  ~region();
  region(region&&) noexcept = default;
  region& operator=(region&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept;
  // Bytes that can be used. Grows with the segment if the region was mapped with map_options::reserve.
  [[nodiscard]] std::size_t size() const noexcept;
  // What size() can become: address space that is the region's own.
  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] const std::string& segment_path() const;
  [[nodiscard]] std::uint64_t offset() const noexcept;  // of data() in the segment
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

  // Reads the first `length` bytes from the disk in a thread of its own, for a program that will soon want most of them.
  // Returns at once. If that is more than a quarter of the memory that the process may use, or without options::background,
  // or for 0 bytes, it only ends map_options::sparse. Does nothing the second time.
  void read_ahead(std::size_t length);

  // The object of type T that is stored at `offset` bytes from data(). T must mean something without its constructor.
  template <class T>
  [[nodiscard]] T& at(std::size_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    check_range(offset, sizeof(T));
    return *reinterpret_cast<T*>(data() + offset);
  }
  template <class T>
  [[nodiscard]] std::span<T> array(std::size_t offset, std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    check_range(offset, count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T));
    return {reinterpret_cast<T*>(data() + offset), count};
  }

  // Gives memory back to the kernel where it holds the same as the segment's file: anonymous memory (fresh_space, copy_in)
  // is replaced by the file's pages, private copies of these are dropped. For [offset, offset+length) of the region,
  // multiples of the page size. Pages with changes that are not in the segment yet, or declared by an open transaction,
  // stay as they are: truncate() first. Nobody may write there undeclared meanwhile. Returns the bytes in the range that
  // the file backs now. Replacing costs the kernel a mapping where file and anonymous memory meet (vm.max_map_count), so
  // memory is replaced in pieces of 2 MiB, aligned in the region (at its ends and those of the range less), or not at all.
  // errc::wrong_tracking for a region that is tracked automatically: it gives memory back by itself.
  std::size_t back_with_file(std::size_t offset, std::size_t length);

  // For layers above, on automatically tracked regions (errc::wrong_tracking on others). Nothing is tracked in a memory that
  // was opened for reading only: the last two do nothing there.
  //
  // Makes whole pages writable and leaves them out of tracking: memory for new objects. What is on them is not recoverable
  // until a participant's set_range logs bytes of a page in a commit; then the page is tracked. The pages must hold nothing
  // that is committed and still wanted. Any thread, inside and outside of transactions.
  void open_untracked(void* address, std::size_t length);
  [[nodiscard]] bool is_open_untracked(const void* address) const;
  // Both hold until the region is unmapped; nullptr: everything is recoverable, and nothing is allowed. Set them before the
  // region is used.
  void set_change_filter(change_filter* filter);
  void on_stray_write(stray_write_judge judge, void* context);

  // Writes committed changes to the segment and unmaps. Throws errc::region_busy, and changes nothing, while a
  // transaction has uncommitted ranges in it [RVM §4.1].
  void unmap();

 private:
  friend class memory;
  friend class transaction;
  explicit region(std::shared_ptr<region_state> state);
  void check_range(std::size_t offset, std::size_t length) const;
  [[nodiscard]] region_tracker& tracker(const void* from, std::size_t length) const;
  std::shared_ptr<region_state> state_;
};

// A transaction [RVM §4.2]. Moves. Destroying an open one aborts it; an open no_restore transaction is forgotten then:
// its changes stay in memory and are never logged.
class transaction {
 public:
  transaction() = default;
  ~transaction();
  transaction(transaction&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  transaction& operator=(transaction&& other) noexcept;

  // Announces that [address, address+length) is about to change. The range must lie in one region
  // (errc::not_mapped, errc::partly_mapped). Call it before the change; again is harmless.
  void set_range(const void* address, std::size_t length);
  template <class T>
  void set_range(T& object) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    set_range(&object, sizeof(T));
  }
  // As set_range, for a range in an automatically tracked region that is about to be written by the kernel, as by read(2):
  // it fails with EFAULT where it meets a page that is closed. Spares the program's own writes their traps, too. In an
  // automatic transaction set_range does no more than this there: what is logged is what changed.
  void touch(const void* address, std::size_t length) { set_range(address, length); }
  // What an automatic transaction has changed in automatically tracked regions, in ascending order. For participants, from
  // prepare() until the transaction ends.
  [[nodiscard]] std::span<const memory_range> changes() const;
  // Finds them now, for a layer above that decides by them what else to log, without the locks of commit: until commit(),
  // which does not look again, the program must not write to automatically tracked regions, and set_range() means what it
  // means in participant::prepare. After a commit that throws, or take_back_changes(), everything is as before.
  std::span<const memory_range> settle_changes();
  void take_back_changes() noexcept;
  // set_range, then copies.
  void modify(void* to, const void* from, std::size_t length);
  template <class T>
  void modify(T& object, const std::type_identity_t<T>& value) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    modify(&object, &value, sizeof(T));
  }

  // Changes whole pages of 4096 bytes without logging their content: when the transaction commits, `from` (the pieces one
  // after the other, together whole pages) is written straight to the segment from where it is, and made durable before
  // the commit is; the log gets a checksum a page. For volumes that would fill the log.
  //
  // The pages, [offset, offset+length) of the region, must be free in the committed image: should the transaction abort or
  // the power fail, their content is arbitrary. No other open transaction may change them. The pieces must stay as they
  // are until the transaction has ended. Memory is not changed: usually the pieces lie in the pages themselves, and
  // otherwise the program sees to it that memory holds what it wants to see there. An abort puts nothing back. Of ranges
  // that the transaction declares in the same pages the values win. Where a page is written twice, the later one holds.
  //
  // With an archive, the bytes go through the log after all, so that the history is whole. Not to be called from
  // participant::prepare.
  void write_bulk(const region& in, std::size_t offset, std::span<const std::span<const std::byte>> from);
  // Announces that bytes are about to change and will not be logged: new objects in free pages, or what write_bulk will
  // take. Until the transaction ends, truncation does not drop the process's copies of these pages, not even where they
  // equal the segment at the moment.
  void hold(const void* address, std::size_t length);

  // Ends the transaction; its new values are read from memory here. If it throws, the transaction is still open and can
  // be aborted or, where the cause is gone (errc::undeclared_write, errc::too_big), committed again; after
  // errc::outcome_unknown it can only be aborted.
  ticket commit(commit_mode mode = commit_mode::flush);
  // Puts the old values back. errc::cannot_abort for no_restore.
  void abort();

  [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr; }
  [[nodiscard]] std::uint64_t id() const;
  // A name that the log's history shows: at most 255 bytes of it are kept.
  void label(std::string_view name);
  // Takes part in this transaction's end. Joining twice is joining once. The participant must outlive the transaction.
  void join(participant& who);

 private:
  friend class memory;
  friend struct transaction_state;
  explicit transaction(transaction_state* state) : state_(state) {}
  transaction_state* state_ = nullptr;
};

// An open transaction, as query shows it.
struct open_transaction {
  std::uint64_t id;
  std::string label;
  restore_mode mode;
  std::uint64_t ranges, bytes;  // declared so far
};

// One log and the segments that are mapped under it.
class memory {
 public:
  // Makes a log: preallocated, zero-filled, synced. errc/std::errc::file_exists if there is something at the path.
  static void create_log(const std::string& path, const log_options& how = {}, const progress_callback& progress = {},
                         os::disk* disk = nullptr);

  // Opens a log, takes its lock, and recovers: what committed transactions left in the log is written to their segments.
  explicit memory(const std::string& log_path, const options& how = {});
  // Closes; errors are swallowed. Call close() to see them.
  ~memory();
  memory(memory&&) noexcept;
  memory& operator=(memory&&) noexcept;

  // Flushes, truncates, unmaps everything and releases the log. Throws errc::transactions_open, and changes nothing, while
  // there are open transactions.
  void close();

  // Makes a segment: a header, a checksum for every 4096 bytes, and zeros, allocated and synced.
  void create_segment(const std::string& path, const segment_options& how);
  // Makes a segment longer, durably: space is allocated and synced before its header says so, so that neither commits nor
  // truncation can meet a full disk there. The new bytes are zero. Regions mapped with map_options::reserve grow with it.
  // Returns the new length: `length` rounded up to pages, or what the segment has if that is more. Throws
  // errc::segment_full beyond max_length, and std::errc::no_space_on_device; then nothing has changed. Raw segments do not
  // grow (errc::bad_option).
  std::uint64_t grow_segment(const std::string& path, std::uint64_t length);
  // errc::bad_option for a raw one, which has nothing to say.
  [[nodiscard]] segment_info describe_segment(const std::string& path);
  // Bytes of recoverable memory in a segment.
  [[nodiscard]] std::uint64_t segment_length(const std::string& path, bool raw = false);
  // Reads a segment and compares every page of its file with its checksum. Returns the offsets of damaged pages. Changes
  // still in the log are written out first; a memory that only reads leaves out the pages that recovery will write anew.
  [[nodiscard]] std::vector<std::uint64_t> verify_segment(const std::string& path);

  // Maps part of a segment; its memory then shows the committed image. No part of a segment can be mapped twice.
  [[nodiscard]] region map(const std::string& segment_path, const map_options& how = {});

  [[nodiscard]] transaction begin(restore_mode mode = restore_mode::restore);
  // A transaction that finds its changes in automatically tracked regions by itself; in other regions it is as one that was
  // begun with restore. Waits while another one is open in this memory: so it isolates automatic transactions from each
  // other. Any thread may write until the commit or abort; a write outside of both is a stray write, which ends the process,
  // or is rolled back here, and then thrown as errc::stray_write. A commit lets the next one begin before it waits for the
  // disk; after errc::outcome_unknown memory keeps its changes, and an abort only ends the transaction.
  [[nodiscard]] transaction begin_automatic();
  // Runs f(tx) in a transaction and commits it; aborts and rethrows if f throws.
  template <class F>
  ticket transact(F&& f, commit_mode mode = commit_mode::flush) {
    transaction tx = begin();
    std::forward<F>(f)(tx);
    return tx.commit(mode);
  }

  // The same with begin_automatic().
  template <class F>
  ticket transact_automatically(F&& f, commit_mode mode = commit_mode::flush) {
    transaction tx = begin_automatic();
    std::forward<F>(f)(tx);
    return tx.commit(mode);
  }

  // Throws the reason if this memory cannot be used any more: closed, forked, or failed (errc::outcome_unknown).
  void require_usable() const;

  // Returns when everything committed before the call is durable [RVM §4.2 flush].
  void flush();
  // Names everything committed so far: wait(last_commit()) before telling the world what was read.
  [[nodiscard]] ticket last_commit() const;
  // Returns when everything up to the ticket is durable; writes it if nobody does.
  void wait(ticket until);

  // Returns when every change that was committed before the call is in its segment and its log space free
  // [RVM §4.2 truncate].
  void truncate();
  // One incremental truncation step: pages are written in the order of their oldest log record, until `bytes` of log are
  // free or a page with uncommitted changes stands in the way [RVM §5.1.2]. Returns the bytes reclaimed.
  std::uint64_t truncate_incrementally(std::uint64_t bytes);

  // [RVM §4.2 query]
  [[nodiscard]] std::vector<open_transaction> open_transactions(const region* in = nullptr) const;
  [[nodiscard]] statistics stats() const;
  [[nodiscard]] log_totals totals() const;
  [[nodiscard]] const recovery_report& recovery() const;
  [[nodiscard]] const std::string& log_path() const;
  [[nodiscard]] tuning tune() const;
  void set_tuning(const tuning& how);

 private:
  std::unique_ptr<memory_state> state_;
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
