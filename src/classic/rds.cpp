// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Making, starting and stopping the heap.
#include <rvm/rds.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "classic/codes.hpp"
#include "classic/heap.hpp"
#include "classic/library.hpp"
#include "classic/rds_counters.hpp"
#include "classic/transaction_records.hpp"
#include "recoverable_heap/format.hpp"

rvm_region_def_t* RegionDefs = nullptr;
// No header declares it. Programs declare it, as long or as unsigned long.
unsigned long NRegionDefs = 0;  // NOLINT(readability-identifier-naming)

namespace tenure::classic {

namespace {

constexpr std::uint64_t min_heap = 65536;

struct heap_slot {
  std::mutex mutex;  // starting and stopping
  std::atomic<rvm::recoverable_heap*> heap{nullptr};
  std::atomic<const std::byte*> base{nullptr};
};
constinit heap_slot slot;

// Runs f, which returns a code. Passes the code to the caller in the form that the interface has.
template <class F>
int reported(int* err, F&& f) noexcept {
  int code;
  try {
    code = f();
  } catch (...) {
    code = heap_code_of_current_exception();
  }
  if (err != nullptr) *err = code;
  return code == SUCCESS ? 0 : -1;
}

// The bytes of the mapping from this address on; 0: nothing is mapped there.
std::uint64_t mapped_from(const char* address) {
  library& l = the_library();
  const std::scoped_lock lock(l.mutex);
  const mapped_region* const found = l.find(address);
  if (found == nullptr) return 0;
  return found->memory.size() -
         static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(address) - found->memory.data());
}

int start(char* address) {
  if (!is_running()) return RVM_EINIT;
  const std::scoped_lock lock(slot.mutex);
  if (slot.heap.load() != nullptr) return EHEAP_INIT;
  if (address == nullptr || (reinterpret_cast<std::uintptr_t>(address) & ~rvm_page_mask()) != 0) return EBAD_ARGS;
  const std::uint64_t mapped = mapped_from(address);
  if (mapped < sizeof(rvm::heap_header)) return RVM_ENOT_MAPPED;
  rvm::heap_header header;
  std::memcpy(&header, address, sizeof header);
  if (header.magic != rvm::heap_magic || header.length > mapped) return EHEAP_INIT;
  auto* const bytes = reinterpret_cast<std::byte*>(address);
  auto heap = std::make_unique<rvm::recoverable_heap>(bytes, header.length, "the loaded heap");
  rds_counts().clear();
  slot.base.store(bytes);
  slot.heap.store(heap.release());
  return SUCCESS;
}

// Refuses while transactions are open, because those that have used the heap point to it.
int stop() {
  if (!is_running()) return RVM_EINIT;
  const std::scoped_lock lock(slot.mutex);
  if (slot.heap.load() == nullptr) return EHEAP_INIT;
  if (log() != nullptr && !log()->open_transactions().empty()) return RVM_EUNCOMMIT;
  delete slot.heap.exchange(nullptr);
  return SUCCESS;
}

// Removes the bookkeeping of an earlier heap. Pages that are zero are not logged.
void clear(rvm::transaction& tx, char* base, std::uint64_t length) {
  static constexpr char zeros[rvm::heap_page] = {};
  for (char* page = base; page != base + length; page += rvm::heap_page)
    if (std::memcmp(page, zeros, sizeof zeros) != 0) tx.modify(page, zeros, sizeof zeros);
}

int init(char* base, rvm_length_t length, unsigned long chunk, unsigned long nlists, const rvm_tid_t* tid) {
  if (!is_running()) return RVM_EINIT;
  if (chunk < RDS_MIN_CHUNK_SIZE || chunk % sizeof(void*) != 0 || nlists == 0) return EBAD_ARGS;
  if (base == nullptr || ((reinterpret_cast<std::uintptr_t>(base) | length) & ~rvm_page_mask()) != 0 ||
      length < min_heap)
    return EBAD_ARGS;
  if (mapped_from(base) < length) return RVM_ENOT_MAPPED;
  const record_use used(tid);
  if (!used) return RVM_ETID;
  clear(used.transaction(), base, rvm::layout_of_heap(length).data);
  rvm::recoverable_heap::format(used.transaction(), reinterpret_cast<std::byte*>(base), length, "the new heap");
  return SUCCESS;
}

// Makes a new heap in its loaded segment.
int init_durably(const rvm_region_def_t& heap, unsigned long chunk, unsigned long nlists) {
  rvm_tid_t tid;
  rvm_init_tid(&tid);
  if (const int bad = rvm_begin_transaction(&tid, restore); bad != RVM_SUCCESS) return bad;
  int code;
  if (rds_init_heap(heap.vmaddr, heap.length, chunk, nlists, &tid, &code) == 0) code = rvm_end_transaction(&tid, flush);
  if (code != SUCCESS) {
    (void)rvm_abort_transaction(&tid);
    return code;
  }
  return rvm_truncate();
}

int zap(char* device, rvm_offset_t device_length, char* address, rvm_length_t static_length, rvm_length_t heap_length,
        unsigned long nlists, unsigned long chunk) {
  rvm_region_def_t defs[2];
  heap_length = std::max<rvm_length_t>(heap_length, min_heap);
  RVM_INIT_REGION(defs[0], RVM_MK_OFFSET(0, 0), heap_length, address);
  RVM_INIT_REGION(defs[1], RVM_MK_OFFSET(0, 0), static_length, RVM_ADD_LENGTH_TO_ADDR(address, heap_length));
  if (const int bad = rvm_create_segment(device, device_length, nullptr, 2, defs); bad != RVM_SUCCESS) return bad;
  unsigned long count;
  rvm_region_def_t* loaded;
  if (const int bad = rvm_load_segment(device, device_length, nullptr, &count, &loaded); bad != RVM_SUCCESS) return bad;
  const int code = init_durably(loaded[0], chunk, nlists);
  const int released = rvm_release_segment(count, &loaded);
  return code != SUCCESS ? code : released;
}

int load(char* device, rvm_offset_t device_length, char** static_address) {
  if (static_address == nullptr) return EBAD_ARGS;
  if (started_heap() != nullptr || RegionDefs != nullptr) return EHEAP_INIT;
  unsigned long count;
  rvm_region_def_t* loaded;
  const int bad = rvm_load_segment(device, device_length, nullptr, &count, &loaded);
  if (bad != RVM_SUCCESS) return bad == RVM_ESEGMENT_HDR ? EBAD_SEGMENT_HDR : bad;
  const int code = count == 2 ? start(loaded[0].vmaddr) : EBAD_SEGMENT_HDR;
  if (code != SUCCESS) {
    (void)rvm_release_segment(count, &loaded);
    return code;
  }
  *static_address = loaded[1].vmaddr;
  NRegionDefs = count;
  RegionDefs = loaded;
  return SUCCESS;
}

int unload() {
  if (RegionDefs == nullptr) return EHEAP_INIT;
  if (const int bad = rvm_flush(); bad != RVM_SUCCESS) return bad;
  // A try that failed later may have stopped it already.
  if (const int bad = stop(); bad != SUCCESS && bad != EHEAP_INIT) return bad;
  if (const int bad = rvm_truncate(); bad != RVM_SUCCESS) return bad;
  const int code = rvm_release_segment(NRegionDefs, &RegionDefs);
  if (RegionDefs == nullptr) NRegionDefs = 0;
  return code;
}

}  // namespace

rvm::recoverable_heap* started_heap() noexcept { return slot.heap.load(std::memory_order_acquire); }
const std::byte* started_heap_base() noexcept { return slot.base.load(std::memory_order_relaxed); }

}  // namespace tenure::classic

using namespace tenure::classic;

int rds_zap_heap(char* device, rvm_offset_t device_length, char* start_address, rvm_length_t static_length,
                 rvm_length_t heap_length, unsigned long nlists, unsigned long chunk_size, int* err) {
  return reported(
      err, [&] { return zap(device, device_length, start_address, static_length, heap_length, nlists, chunk_size); });
}

int rds_init_heap(char* base, rvm_length_t length, unsigned long chunk_size, unsigned long nlists, rvm_tid_t* tid,
                  int* err) {
  return reported(err, [&] { return init(base, length, chunk_size, nlists, tid); });
}

int rds_load_heap(char* device, rvm_offset_t device_length, char** static_address, int* err) {
  return reported(err, [&] { return load(device, device_length, static_address); });
}

int rds_unload_heap(int* err) { return reported(err, unload); }

int rds_start_heap(char* start_address, int* err) {
  return reported(err, [&] { return start(start_address); });
}

int rds_stop_heap(int* err) { return reported(err, stop); }
