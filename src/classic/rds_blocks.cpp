// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Blocks of the heap: allocating, freeing, deferred freeing, counting, tracing.
#include <cstdlib>

#include <rvm/rds.h>

#include "classic/codes.hpp"
#include "classic/heap.hpp"
#include "classic/library.hpp"
#include "classic/rds_counters.hpp"
#include "classic/transaction_records.hpp"

int rds_tracing = 0;
FILE* rds_tracing_file = nullptr;

namespace tenure::classic {

rds_counters& rds_counts() noexcept {
  static constinit rds_counters only;
  return only;
}

namespace {

// Runs f, which returns a code.
template <class F>
int coded(F&& f) noexcept {
  try {
    if (!is_running()) return RVM_EINIT;
    rvm::recoverable_heap* const heap = started_heap();
    return heap != nullptr ? f(*heap) : EHEAP_INIT;
  } catch (...) {
    return heap_code_of_current_exception();
  }
}

int report(int code, int* err) {
  if (err != nullptr) *err = code;
  return code == SUCCESS ? 0 : -1;
}

// Runs f in the caller's transaction, or else in a new one, which is committed with no_flush.
template <class F>
int in_transaction(const rvm_tid_t* tid, F&& f) {
  if (tid != nullptr) {
    const record_use used(tid);
    if (!used) return RVM_ETID;
    f(used.transaction());
  } else {
    log()->transact(f, rvm::commit_mode::no_flush);
  }
  return SUCCESS;
}

bool has_room(const rvm::recoverable_heap& in, unsigned long size, unsigned long count) {
  if (size > PTRDIFF_MAX - 2 * block_overhead) return false;
  const rvm::heap_statistics now = in.stats();
  const unsigned long whole = whole_words(size) + block_overhead;
  // Whole pages and free slots are not distinguished. So the answer is certain for one block, and an estimate for
  // several.
  return whole <= now.largest_free && (count == 0 || whole <= (now.data_bytes - now.object_bytes) / count);
}

// Blocks of the list that are not freed yet stay in it.
int add(intentionList_t& list, char* block) {
  if (list.count == list.size) {
    const unsigned long size = list.size == 0 ? 64 : 2 * list.size;
    auto* const table = static_cast<char**>(std::realloc(list.table, size * sizeof(char*)));
    if (table == nullptr) return RVM_ENO_MEMORY;
    list.table = table;
    list.size = size;
  }
  list.table[list.count++] = block;
  return SUCCESS;
}

}  // namespace

}  // namespace tenure::classic

using namespace tenure;
using namespace tenure::classic;

char* rds_malloc(unsigned long size, rvm_tid_t* tid, int* err) {
  char* block = nullptr;
  const int code = coded([&](rvm::recoverable_heap& heap) {
    return in_transaction(tid, [&](rvm::transaction& tx) { block = allocate_block(heap, tx, size); });
  });
  if (code != SUCCESS) block = nullptr;
  if (code == SUCCESS) rds_counts().mallocs.fetch_add(1, std::memory_order_relaxed);
  RDS_LOG("rds_malloc %lu: %p, code %d\n", size, static_cast<void*>(block), code);
  report(code, err);
  return block;
}

int rds_free(char* addr, rvm_tid_t* tid, int* err) {
  const int code = coded([&](rvm::recoverable_heap& heap) {
    const int bad = check_block(heap, addr);
    return bad != SUCCESS ? bad : in_transaction(tid, [&](rvm::transaction& tx) { free_block(heap, tx, addr); });
  });
  if (code == SUCCESS) rds_counts().frees.fetch_add(1, std::memory_order_relaxed);
  RDS_LOG("rds_free %p: code %d\n", static_cast<void*>(addr), code);
  return report(code, err);
}

int rds_prealloc(unsigned long size, unsigned long count, rvm_tid_t* tid, int* err) {
  return report(coded([&](const rvm::recoverable_heap& heap) {
                  if (size == 0 || count == 0) return EBAD_ARGS;
                  if (tid != nullptr && !record_use(tid)) return RVM_ETID;
                  if (!has_room(heap, size, count)) return ENO_ROOM;
                  rds_counts().preallocs.fetch_add(1, std::memory_order_relaxed);
                  return SUCCESS;
                }),
                err);
}

int rds_maxblock(unsigned long size) {
  bool fits = false;
  (void)coded([&](const rvm::recoverable_heap& heap) {
    fits = has_room(heap, size, 0);
    return SUCCESS;
  });
  return fits ? 1 : 0;
}

int rds_fake_free(char* addr, intentionList_t* list) {
  const int code = coded([&](const rvm::recoverable_heap& heap) {
    if (list == nullptr) return EBAD_ARGS;
    const int bad = check_block(heap, addr);
    return bad != SUCCESS ? bad : add(*list, addr);
  });
  RDS_LOG("rds_fake_free %p: code %d\n", static_cast<void*>(addr), code);
  return code;
}

int rds_do_free(intentionList_t* list, rvm_mode_t mode) {
  const int code = coded([&](rvm::recoverable_heap& heap) {
    if (list == nullptr) return EBAD_ARGS;
    if (mode != flush && mode != no_flush) return RVM_EMODE;
    if (list->count == 0) return SUCCESS;
    for (unsigned long i = 0; i < list->count; ++i)
      if (const int bad = check_block(heap, list->table[i]); bad != SUCCESS) return bad;
    const auto how = mode == flush ? rvm::commit_mode::flush : rvm::commit_mode::no_flush;
    log()->transact(
        [&](rvm::transaction& tx) {
          for (unsigned long i = 0; i < list->count; ++i) free_block(heap, tx, list->table[i]);
        },
        how);
    rds_counts().frees.fetch_add(static_cast<unsigned>(list->count), std::memory_order_relaxed);
    list->count = 0;
    return SUCCESS;
  });
  RDS_LOG("rds_do_free: code %d\n", code);
  return code;
}

int rds_get_stats(rds_stats_t* stats) {
  return report(coded([&](const rvm::recoverable_heap& heap) {
                  if (stats == nullptr) return EBAD_ARGS;
                  const rvm::heap_statistics now = heap.stats();
                  const rds_counters& counted = rds_counts();
                  *stats = rds_stats_t{};
                  stats->malloc = counted.mallocs.load(std::memory_order_relaxed);
                  stats->prealloc = counted.preallocs.load(std::memory_order_relaxed);
                  stats->free = counted.frees.load(std::memory_order_relaxed);
                  stats->mallocbytes = static_cast<unsigned>(now.object_bytes);
                  stats->freebytes = static_cast<unsigned>(now.data_bytes - now.object_bytes - now.reserved_bytes);
                  return SUCCESS;
                }),
                nullptr);
}

int rds_clear_stats(int* err) {
  return report(coded([](const rvm::recoverable_heap&) {
                  rds_counts().clear();
                  return SUCCESS;
                }),
                err);
}

int rds_print_stats() {
  rds_stats_t stats;
  if (rds_get_stats(&stats) != 0) return -1;
  std::printf("rds: malloc %u, prealloc %u, free %u, bytes allocated %u, bytes free %u\n", stats.malloc, stats.prealloc,
              stats.free, stats.mallocbytes, stats.freebytes);
  return 0;
}

int rds_trace_on(FILE* out) {
  if (out == nullptr) return -1;
  rds_tracing_file = out;
  rds_tracing = 1;
  return 0;
}

int rds_trace_off() {
  rds_tracing = 0;
  return 0;
}

int rds_trace_dump_heap() {
  return report(coded([](const rvm::recoverable_heap& heap) {
                  if (rds_tracing_file == nullptr) return SUCCESS;
                  heap.for_each_object([](void* block, std::size_t room) {
                    std::fprintf(rds_tracing_file, "block %p, %zu bytes with its overhead\n",
                                 static_cast<void*>(static_cast<char*>(block) + sizeof(block_front)), room);
                  });
                  return SUCCESS;
                }),
                nullptr);
}
