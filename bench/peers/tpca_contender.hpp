// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the TPC-A variant asks of a system that keeps a bank. One contender a file; each uses its system as somebody
// would who knows it well. A system that this program was built without is a null pointer.
//
// Order of calls: create, then any number of times open … close. Sessions belong to one opening and one thread each.
// Everything throws on failure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tpca/workload.hpp"

namespace tenure::bench::tpca {

struct setup {
  std::filesystem::path directory;  // exists, empty, the contender's own
  layout bank;
  unsigned threads = 1;
  bool lazy = false;              // transactions need not be durable one by one, only after flush()
  bool whole_records = true;      // declare whole records, or only the fields that change
  std::uint64_t log_size = 0;     // bytes; for contenders whose log has a fixed size
  std::uint64_t spool_limit = 0;  // bytes that may wait in memory; for tenure
  double truncation_threshold = 0.5;
  bool no_restore = false;                 // tenure: transactions that cannot be aborted
  bool archive = false;                    // tenure: what is truncated is kept
  std::uint64_t memory = 0;                // bytes that the process has for everything; 0: plenty
  std::uint64_t transaction_bytes = 4096;  // bare logs: what a transaction adds to the log
};

// Of all openings together; what a contender does not know it leaves out.
struct counters {
  std::optional<std::uint64_t> log_bytes = {};  // written to the device, padding included
  std::optional<std::uint64_t> syncs = {};
  // [RVM §7.3, Table 2]: bytes that the two optimizations kept out of the log, and what went into it.
  std::optional<std::uint64_t> logged = {}, intra_saved = {}, inter_saved = {};
  std::optional<std::uint64_t> truncations = {};
};

class session {
 public:
  virtual ~session() = default;
  // One transaction. Durable on return unless the setup is lazy; atomic always.
  virtual void run(const transfer& what) = 0;
};

class contender {
 public:
  explicit contender(setup how) : setup_(std::move(how)) {}
  virtual ~contender() = default;
  contender(const contender&) = delete;
  contender& operator=(const contender&) = delete;

  // How it is used, in a few words: "synchronous=FULL".
  [[nodiscard]] virtual std::string setting() const = 0;
  // Makes a bank of fresh records.
  virtual void create() = 0;
  virtual void open() = 0;
  // For thread `thread` of setup().threads.
  [[nodiscard]] virtual std::unique_ptr<session> start(unsigned thread) = 0;
  // Makes everything durable that has been run.
  virtual void flush() = 0;
  // Brings the log, or whatever it has, into the data, as completely as it can.
  virtual void checkpoint() = 0;
  virtual void audit(auditor& by) = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual counters count() const { return {}; }

  [[nodiscard]] const setup& how() const { return setup_; }

 protected:
  setup setup_;
};

using make_contender = std::unique_ptr<contender>(const setup& how);
make_contender make_tenure;  // for cases of its own

struct contender_kind {
  std::string name;
  make_contender* make;
  bool bare = false;  // a limit to compare with, not a system
  bool whole_records = true;
  bool can_be_lazy = true;
  bool archive = false;
  std::string only_case = {};  // takes part in this case alone
};
// All that there are, built or not.
[[nodiscard]] std::span<const contender_kind> all_contenders();

}  // namespace tenure::bench::tpca
