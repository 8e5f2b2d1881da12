// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions of a thread. The outermost one is real, nested ones are only counted [pobj 3.5.6]. Inner levels are real, too:
// each has the nested ones that were begun in it.
#include "os/room_for_one.hpp"
#include "pobj/transaction.hpp"

using namespace tenure::pobj;

namespace {

thread_state& with_transaction() {
  (void)the_store();
  thread_state& thread = this_thread();
  if (thread.depth == 0) throw failure(POBJ_ETRANSACTION, "this thread has no open transaction: call pobj_start first");
  return thread;
}

void start(thread_state& thread, store& in) {
  if (thread.depth == 0) thread.open = std::make_unique<transaction>(in);
  ++thread.depth;
}

bool is_nested(const thread_state& thread) { return thread.depth > (thread.inner.empty() ? 1 : thread.inner.back()); }

// What pobj_abort undoes, the innermost level or the transaction, has ended.
void leave(thread_state& thread) {
  if (thread.inner.empty()) {
    thread = {};
    return;
  }
  thread.inner.pop_back();
  --thread.depth;
  thread.doomed = false;
}

}  // namespace

int pobj_start() {
  return guarded("pobj_start", [] {
    store& in = the_store();
    start(this_thread(), in);
  });
}

int pobj_start_inner() {
  return guarded("pobj_start_inner", [] {
    store& in = the_store();
    thread_state& thread = this_thread();
    if (thread.depth == 0) return start(thread, in);
    if (thread.doomed)
      throw failure(POBJ_EABORTED,
                    "what this would be a part of has been aborted by a nested pobj_abort: end it with pobj_end");
    tenure::os::reserve_one_more(thread.inner);
    thread.open->begin_inner();
    thread.inner.push_back(++thread.depth);
  });
}

int pobj_end() {
  return guarded("pobj_end", [] {
    thread_state& thread = with_transaction();
    if (is_nested(thread)) {
      --thread.depth;
      return;
    }
    if (thread.doomed) {
      const bool is_inner = !thread.inner.empty();
      leave(thread);
      throw failure(POBJ_EABORTED, is_inner
                                       ? "the inner transaction was aborted by a nested pobj_abort, and is over; the "
                                         "outer one goes on"
                                       : "the transaction was aborted by a nested pobj_abort, and is over");
    }
    if (thread.inner.empty())
      thread.open->commit();
    else
      thread.open->end_inner();
    leave(thread);
  });
}

int pobj_abort() {
  return guarded("pobj_abort", [] {
    thread_state& thread = with_transaction();
    if (thread.doomed) {
      // All that could be undone has been.
    } else if (thread.inner.empty()) {
      thread.open->abort();
    } else {
      thread.open->abort_inner();
    }
    if (!is_nested(thread)) return leave(thread);
    --thread.depth;
    thread.doomed = true;
  });
}

int pobj_depth() { return this_thread().depth; }
