// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions of a thread. The outermost one is real, nested ones are only counted [pobj 3.5.6].
#include "pobj/transaction.hpp"

using namespace tenure::pobj;

namespace {

thread_state& with_transaction() {
  (void)the_store();
  thread_state& thread = this_thread();
  if (thread.depth == 0) throw failure(POBJ_ETRANSACTION, "this thread has no open transaction: call pobj_start first");
  return thread;
}

}  // namespace

int pobj_start() {
  return guarded("pobj_start", [] {
    store& in = the_store();
    thread_state& thread = this_thread();
    if (thread.depth == 0) thread.open = std::make_unique<transaction>(in);
    ++thread.depth;
  });
}

int pobj_end() {
  return guarded("pobj_end", [] {
    thread_state& thread = with_transaction();
    if (thread.doomed) {
      if (--thread.depth > 0) return;
      thread = {};
      throw failure(POBJ_EABORTED, "the transaction was aborted by a nested pobj_abort, and is over");
    }
    if (thread.depth > 1) {
      --thread.depth;
      return;
    }
    thread.open->commit();
    thread = {};
  });
}

int pobj_abort() {
  return guarded("pobj_abort", [] {
    thread_state& thread = with_transaction();
    thread.open->abort();
    thread.doomed = --thread.depth > 0;
    if (!thread.doomed) thread = {};
  });
}

int pobj_depth() { return this_thread().depth; }
