// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Up to which transaction a backup is rolled forward. The log is read once for that, before anything is made: only at some
// transactions what was committed is a state that there was [rvm.restore.point].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "records/group.hpp"
#include "replay/backup_note.hpp"

namespace tenure::rvm {

class restore_plan {
 public:
  // `backup`: its path, for messages. `has_all`: nothing was committed that is not in the groups.
  restore_plan(std::string backup, const backup_note& from, std::uint32_t block, const restore_point& until,
               bool has_all);

  // Takes the groups behind the backup, oldest first. Returns false if no more are needed.
  bool add(const group_view& group);
  // All have been added; they should go on to `end`. Throws if the point is not among them.
  void finish(lsn end);

  // Nothing is rolled forward.
  [[nodiscard]] bool is_at_backup() const { return last_.group == 0; }
  // Everything that was added is.
  [[nodiscard]] bool is_everything() const { return !is_passed_ && last_.tail == reached_.tail; }
  // Behind the last group that is needed, and its own LSN.
  [[nodiscard]] lsn tail() const { return last_.tail; }
  [[nodiscard]] lsn last_group() const { return last_.group; }
  // Forgets transactions of the group that are beyond the point.
  void cut(group_view& group) const;
  // The last transaction.
  [[nodiscard]] std::uint64_t transaction() const { return last_.transaction; }
  [[nodiscard]] std::int64_t time() const { return last_.time; }
  [[nodiscard]] const std::string& label() const { return last_.label; }
  // Transactions up to the point that cannot be had without later ones.
  [[nodiscard]] std::uint64_t left_out() const { return until_.transaction ? 0 : left_out_; }
  // The segments that are changed up to the point, each with the LSN of the first group that does.
  [[nodiscard]] const std::vector<std::pair<segment_name, lsn>>& segments() const { return segments_; }

 private:
  // A transaction's record: its group, and its number there.
  struct record_place {
    lsn group;
    std::size_t record;
  };
  // What there is behind a commit.
  struct commit {
    lsn group = 0, tail = 0;
    std::size_t records = 0;  // of that group
    std::uint64_t transaction = 0;
    std::int64_t time = 0;
    std::string label = {};
  };
  [[nodiscard]] bool is_wanted(const transaction_view& tx, lsn record) const;
  [[nodiscard]] bool is_beyond(const record_place& at) const {
    return at.group > last_.group || (at.group == last_.group && at.record >= last_.records);
  }
  void note_changes(const group_view& group, std::size_t record);
  void note_named(const commit& now, bool is_state);
  void find_named();
  void require_reached(lsn end) const;
  // "what is there ends with transaction 7, of …".
  [[nodiscard]] std::string what_is_reached(lsn end) const;

  const std::string backup_;
  const std::uint32_t block_;
  const restore_point until_;
  const bool has_all_;
  const lsn from_;
  const std::int64_t not_before_;  // the backup's last commit is not later
  const commit base_;              // the backup
  commit last_;                    // what can be restored
  commit reached_;                 // the last commit that was seen
  lsn begins_ = 0;                 // the first record of the transaction that is looked at
  std::uint64_t left_out_ = 0;
  bool is_passed_ = false;       // one was seen that is not wanted
  std::optional<commit> named_;  // restore_point::transaction
  bool named_is_state_ = false;
  lsn named_again_ = 0;
  std::optional<std::pair<record_place, std::string>> bulk_;  // the first bulk write, and what it was
  std::vector<std::pair<segment_name, record_place>> changed_;
  std::vector<std::pair<segment_name, lsn>> segments_;
};

}  // namespace tenure::rvm
