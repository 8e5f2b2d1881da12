// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Making, copying and freeing descriptors. Nothing here needs the library to be initialized.
#include <cstdlib>

#include <rvm/rvm.h>
#include <rvm/rvm_statistics.h>

namespace {

template <class T>
constexpr rvm_struct_id_t id_of = rvm_first_struct_id;
template <>
constexpr rvm_struct_id_t id_of<rvm_region_t> = rvm_region_id;
template <>
constexpr rvm_struct_id_t id_of<rvm_options_t> = rvm_options_id;
template <>
constexpr rvm_struct_id_t id_of<rvm_tid_t> = rvm_tid_id;
template <>
constexpr rvm_struct_id_t id_of<rvm_statistics_t> = rvm_statistics_id;

template <class T>
void init(T* what) {
  if (what == nullptr) return;
  *what = T{};
  what->struct_id = id_of<T>;
  what->from_heap = rvm_false;
}

template <class T>
T* allocate() {
  auto* const what = static_cast<T*>(std::malloc(sizeof(T)));
  init(what);
  if (what != nullptr) what->from_heap = rvm_true;
  return what;
}

template <class T>
T* copy(const T* what) {
  if (what == nullptr || what->struct_id != id_of<T>) return nullptr;
  T* const made = allocate<T>();
  if (made == nullptr) return nullptr;
  *made = *what;
  made->from_heap = rvm_true;
  return made;
}

template <class T>
void release(T* what) {
  if (what == nullptr || what->struct_id != id_of<T> || what->from_heap != rvm_true) return;
  what->struct_id = rvm_first_struct_id;  // a second free finds this, if the allocator has not overwritten it
  std::free(what);
}

void set_defaults(rvm_options_t* options) {
  if (options == nullptr) return;
  options->truncate = TRUNCATE;
  options->recovery_buf_len = RECOVERY_BUF_LEN;
  options->flush_buf_len = FLUSH_BUF_LEN;
  options->max_read_len = MAX_READ_LEN;
  options->create_log_mode = 0600;
}

}  // namespace

rvm_region_t* rvm_malloc_region() { return allocate<rvm_region_t>(); }
void rvm_init_region(rvm_region_t* region) { init(region); }
rvm_region_t* rvm_copy_region(rvm_region_t* region) { return copy(region); }
void rvm_free_region(rvm_region_t* region) { release(region); }

rvm_tid_t* rvm_malloc_tid() { return allocate<rvm_tid_t>(); }
void rvm_init_tid(rvm_tid_t* tid) { init(tid); }
rvm_tid_t* rvm_copy_tid(rvm_tid_t* tid) { return copy(tid); }
void rvm_free_tid(rvm_tid_t* tid) { release(tid); }

rvm_options_t* rvm_malloc_options() {
  auto* const options = allocate<rvm_options_t>();
  set_defaults(options);
  return options;
}
void rvm_init_options(rvm_options_t* options) {
  init(options);
  set_defaults(options);
}
// The copy gets no tid_array, which would be freed twice.
rvm_options_t* rvm_copy_options(rvm_options_t* options) {
  auto* const made = copy(options);
  if (made == nullptr) return nullptr;
  made->n_uncommit = 0;
  made->tid_array = nullptr;
  return made;
}
void rvm_free_options(rvm_options_t* options) {
  if (options == nullptr || options->struct_id != rvm_options_id) return;
  std::free(options->tid_array);
  options->tid_array = nullptr;
  options->n_uncommit = 0;
  release(options);
}

rvm_statistics_t* rvm_malloc_statistics() { return allocate<rvm_statistics_t>(); }
void rvm_init_statistics(rvm_statistics_t* statistics) { init(statistics); }
rvm_statistics_t* rvm_copy_statistics(rvm_statistics_t* statistics) { return copy(statistics); }
void rvm_free_statistics(rvm_statistics_t* statistics) { release(statistics); }
