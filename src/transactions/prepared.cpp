// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The first phase of a two-phase commit: what the transaction would log goes into the log, as prepared, and the transaction stays
// open as it is. Its commit finds the values again, as any other commit does. So a program that runs on has the second phase for
// the price of a commit; one that does not has the log [rvm.prepared.log].
#include "transactions/transaction_state.hpp"
#include "transactions/transaction_table.hpp"

namespace tenure::rvm {

void transaction_state::prepare(std::string_view global_id) {
  require_no_inner();
  if (mode_ == restore_mode::no_restore)
    throw error(errc::cannot_abort,
                name() +
                    " was begun no_restore, and could not be undone if its outcome is an abort; begin it with "
                    "restore_mode::restore");
  if (is_prepared_) throw error(errc::bad_transaction, name() + ": is prepared already; commit or abort it");
  try {
    logs_bulk_values_ = true;
    find_what_to_log();
    owner_.parts().writer.prepare(*this, global_id);
  } catch (...) {
    logs_bulk_values_ = false;
    forget_found();
    throw;
  }
  logs_bulk_values_ = false;
  forget_found();
  is_prepared_ = true;
  may_change_ = !declares_everything();
}

void transaction_state::require_may_change() const {
  if (!may_change_ && !preparing_)
    throw error(errc::bad_transaction, name() + ": is prepared, and cannot change anything more; commit or abort it");
}

void transaction_state::end_prepared(bool logged) noexcept {
  is_prepared_ = false;
  may_change_ = true;
  const auto& parts = owner_.parts();
  if (logged || parts.writer.has_failed()) return;  // where the log has failed, it stays prepared
  try {
    parts.writer.abort_prepared(id());
  } catch (...) {  // the log cannot be written, and says so itself; or memory is short
    parts.writer.fail(parts.still_prepared);
  }
}

void transaction_state::leave_in_doubt() {
  if (!is_prepared_) throw error(errc::bad_transaction, name() + ": is not prepared, so there is no doubt; abort it");
  owner_.parts().writer.fail(owner_.parts().left_in_doubt);
  abort();
}

}  // namespace tenure::rvm
