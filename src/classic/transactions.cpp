// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvm_begin_transaction to rvm_truncate.
#include "classic/activity.hpp"
#include "classic/codes.hpp"
#include "classic/library.hpp"
#include "classic/transaction_records.hpp"

using namespace tenure;
using namespace tenure::classic;

rvm_return_t rvm_begin_transaction(rvm_tid_t* tid, rvm_mode_t mode) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (tid == nullptr || tid->struct_id != rvm_tid_id) return RVM_ETID;
    const tid_claim alone(tid);
    if (const record_use open(tid); open) return RVM_ETID;
    if (log() == nullptr) return RVM_ELOG;
    if (mode != restore && mode != no_restore) return RVM_EMODE;
    record& r = take_record();
    try {
      r.transaction = log()->begin(mode == restore ? rvm::restore_mode::restore : rvm::restore_mode::no_restore);
    } catch (...) {
      give_record_back(r);
      throw;
    }
    const std::uint64_t id = r.transaction.id();
    r.name = name_of(id);
    tid_fields(*tid).set(r, r.name);
    r.id.store(id, std::memory_order_release);
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_set_range(rvm_tid_t* tid, void* dest, rvm_length_t length) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    record_use used(tid);
    if (!used) return RVM_ETID;
    if (length == 0) return RVM_SUCCESS;
    used.transaction().set_range(dest, length);
    used.count_range(length);
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_modify_bytes(rvm_tid_t* tid, void* dest, const void* src, rvm_length_t length) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    record_use used(tid);
    if (!used) return RVM_ETID;
    if (length == 0) return RVM_SUCCESS;
    used.transaction().modify(dest, src, length);
    used.count_range(length);
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_abort_transaction(rvm_tid_t* tid) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    record_use used(tid);
    if (!used) return RVM_ETID;
    try {
      used.transaction().abort();
    } catch (const error& e) {
      if (e.code() != errc::cannot_abort) throw;
      used.transaction() = {};  // forgets it
      the_activity().aborts_without_restore.fetch_add(1, std::memory_order_relaxed);
    }
    used.release(*tid);
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_end_transaction(rvm_tid_t* tid, rvm_mode_t mode) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (mode != flush && mode != no_flush) return RVM_EMODE;
    record_use used(tid);
    if (!used) return RVM_ETID;
    if (mode == flush) {
      const auto began = activity::clock::now();
      used.transaction().commit(rvm::commit_mode::flush);
      the_activity().flushed(began);
    } else {
      used.transaction().commit(rvm::commit_mode::no_flush);
    }
    used.release(*tid);
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_flush() {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (log() == nullptr) return RVM_ELOG;
    const auto began = activity::clock::now();
    log()->flush();
    the_activity().flushed(began);
    the_activity().flush_calls.fetch_add(1, std::memory_order_relaxed);
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_truncate() {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (log() == nullptr) return RVM_ELOG;
    const auto began = activity::clock::now();
    log()->truncate();
    the_activity().truncated(began);
    return RVM_SUCCESS;
  });
}
