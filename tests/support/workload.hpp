// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A seeded random user of recoverable memory, in one thread, that keeps the model up to date.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "support/model.hpp"

namespace tenure::rvm::testing {

struct workload_options {
  std::uint64_t seed = 1;
  std::uint64_t steps = 100;
  std::uint64_t longest_range = 5000;  // most are much shorter
  std::uint64_t flush_every = 2;       // commits, on average; the others are no_flush
  bool reopen = true;                  // closes and opens the log now and then
  bool automatic = false;              // the last segment is tracked automatically, by changing means
  bool paged = false;                  // the last segment is open for pages
};

class workload {
 public:
  workload(sim::disk& on, const layout& of, model& keeps, const workload_options& how);
  ~workload();
  workload(const workload&) = delete;
  workload& operator=(const workload&) = delete;

  // Opens the log and the segments, making them if they are not there, and does random things. Throws what the library
  // throws: power_failure where the disk loses power.
  void run();
  // As run(), but goes on after errors: a transaction that failed to commit is aborted, which must restore memory. Ends
  // when the memory accepts no more transactions, after having tried a few. Returns the errors, in order.
  std::vector<error> run_through_errors();
  // What all memories that it has had open have counted together, and the inner transactions.
  struct counts : statistics {
    std::uint64_t inner_aborts = 0, deepest_inner = 0, announced = 0;
  };
  [[nodiscard]] counts totals() const;

 private:
  struct inner {
    inner_transaction tx;
    std::size_t undo;  // how many there were when it began
  };
  struct open_tx {
    transaction tx;
    restore_mode mode;
    bool repeats;  // changes what others have changed
    bool automatic;
    std::vector<byte_range> ranges;
    std::vector<std::pair<std::uint64_t, image>> undo;
    std::vector<image> values = {};  // that it changes in pages
    std::vector<inner> levels = {};
  };
  struct mapped {
    region in;
    std::size_t segment;
    std::uint64_t at;  // in the image
    bool automatic;
  };

  void open();
  void map_segment(std::size_t segment);
  void step();
  void begin();
  void change(open_tx& tx);
  void change_pages(open_tx& tx);
  void open_pages();
  void close_pages();
  void look_at_pages();
  [[nodiscard]] std::uint64_t pages_at() const { return layout_.start(layout_.segments.size() - 1); }  // in the image
  void begin_or_end_inner(open_tx& tx);
  void end_inner(open_tx& tx);
  void put_back(const open_tx& tx, std::size_t kept);
  void commit(std::size_t which);
  void abort(std::size_t which);
  // For layouts with segments that grow and pages that are written in bulk.
  void grow_or_write_bulk();
  void grow(std::size_t segment);
  void write_bulk(open_tx& tx, std::size_t segment);
  void free_page(open_tx& tx, std::size_t segment);
  void set_used(open_tx& tx, const byte_range& flags, bool used);
  [[nodiscard]] const mapped* home_of(const byte_range& r) const;
  // Whether the range may be changed as far as pages that are written in bulk are concerned.
  [[nodiscard]] bool allowed(const open_tx& tx, const byte_range& r) const;
  [[nodiscard]] bool is_automatic(std::size_t segment) const;
  [[nodiscard]] bool has_automatic_transaction() const;
  [[nodiscard]] bool memory_is_as_expected() const;
  void unmap_and_map();
  void end_all();
  void reopen();
  void look();
  void end_failed_commit(const error& why);
  void abort_all();
  [[nodiscard]] bool accepts_transactions();
  void collect();
  [[nodiscard]] bool free_for(const open_tx& tx, const byte_range& r) const;

  sim::disk& disk_;
  const layout& layout_;
  model& model_;
  const workload_options how_;
  const bool announces_;  // stores to regions whose ranges are declared: every third seed [rvm.barriers.declared]
  random_source random_, announcing_;
  std::optional<memory> memory_;
  std::vector<mapped> regions_;
  paged_segment paged_;
  std::vector<open_tx> open_;
  std::optional<std::size_t> committing_;  // index into open_
  ticket last_{};
  counts totals_{};
};

}  // namespace tenure::rvm::testing
