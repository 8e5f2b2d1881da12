// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Gives disk space back: that of blocks without objects. One transaction after the other clears some runs of them, so that
// other writers wait only shortly.
#include <tenure/barriers.hpp>
#include <tenure/error.hpp>

#include "store/store_state.hpp"

namespace tenure {

namespace {

// What a transaction clears. The blocks are given back for new objects whatever happens.
class trimmed_blocks {
 public:
  trimmed_blocks(database_state& of, std::uint64_t from) : of_(of), runs_(of.birth->take_for_trim(from)) {}
  ~trimmed_blocks() { of_.birth->trimmed(runs_, is_done_); }
  trimmed_blocks(const trimmed_blocks&) = delete;
  trimmed_blocks& operator=(const trimmed_blocks&) = delete;

  [[nodiscard]] const std::vector<heap::free_runs::run>& runs() const { return runs_; }
  [[nodiscard]] std::uint64_t end() const { return runs_.back().first + runs_.back().blocks; }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t blocks = 0;
    for (const auto& run : runs_) blocks += run.blocks;
    return blocks * heap::block_size;
  }
  // From here on some of the space may be gone.
  void begin() { is_done_ = true; }

 private:
  database_state& of_;
  const std::vector<heap::free_runs::run> runs_;
  bool is_done_ = false;
};

struct position {
  std::size_t database = 0;
  std::uint64_t block = 0;
  std::uint64_t length = 0;  // of the database, in bytes
};

// Before the first space goes, the database says durably that some may be gone: a crash may come when it is, and before the log has
// the transaction that has taken it [heap.blocks.space]. The open transaction is committed, and another one begun.
void note_first_trim(store_state& in, database_state& of) {
  in.label = "trim";
  ++change(of.header().trims);
  const ticket done = in.finish(store_state::access_after::kept);
  in.reopen();
  in.memory->wait(done);
}

// Returns the bytes that it has given back, and moves `from` behind them; 0: there are no more.
std::uint64_t trim_some(store_state& in, position& from) {
  in.begin();
  try {
    for (; from.database < in.databases->size(); from = {from.database + 1}) {
      database_state& d = *in.databases->begin()[static_cast<std::ptrdiff_t>(from.database)];
      trimmed_blocks blocks(d, from.block);
      if (blocks.runs().empty()) continue;
      if (d.header().trims == 0) note_first_trim(in, d);
      d.trimming = blocks.runs();
      in.label = "trim";
      blocks.begin();
      in.memory->wait(in.commit());
      from.block = blocks.end();
      from.length = d.region.size();
      return blocks.bytes();
    }
    in.abort();
    return 0;
  } catch (...) {
    if (in.is_writer()) in.abort();
    throw;
  }
}

}  // namespace

std::uint64_t store::trim(const rvm::progress_callback& on_progress) { return state_->trim(on_progress); }

std::uint64_t store_state::trim(const rvm::progress_callback& on_progress) {
  require_writable();
  if (is_writer())
    throw error(errc::bad_transaction, directory + ": trim() has transactions of its own; commit this one before");
  // The log's changes of what is free now are written before. Afterwards recovery would need space for them.
  memory->truncate();
  std::uint64_t all = 0, before = 0;
  do {  // blocks that were emptied last are free only when the next transaction has begun
    before = all;
    position at;
    for (std::uint64_t bytes = trim_some(*this, at); bytes != 0; bytes = trim_some(*this, at)) {
      all += bytes;
      if (on_progress) on_progress({"trimming", at.block * heap::block_size, at.length});
    }
  } while (all != before);
  return all;
}

}  // namespace tenure
