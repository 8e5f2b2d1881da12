// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Initialization, options, the log, and termination.
#include "classic/library.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "classic/codes.hpp"
#include "classic/transaction_records.hpp"
#include "os/file.hpp"
#include "os/process.hpp"

namespace tenure::classic {

library& the_library() {
  static library* const only = new library;
  return *only;
}

library::library() : options{} { rvm_init_options(&options); }

rvm_return_t check_name(const char* name, rvm_return_t if_missing) {
  if (name == nullptr || *name == '\0') return if_missing;
  return ::strnlen(name, MAXPATHLEN) < MAXPATHLEN ? RVM_SUCCESS : RVM_ENAME_TOO_LONG;
}

namespace {

bool is_options(const rvm_options_t* options) { return options != nullptr && options->struct_id == rvm_options_id; }

rvm_return_t create_log(const char* path, rvm_offset_t length, long mode) {
  if (length.high != 0) return RVM_ETOO_BIG;
  rvm::log_options how;
  how.size = how.max_size = length.low / 512 * 512;
  how.permissions = static_cast<unsigned>(mode) & 0777;
  how.allocate_all = true;
  if (how.size > std::uint64_t{1} << 50) return RVM_ETOO_BIG;
  rvm::memory::create_log(path, how, {}, the_library().disk);
  return RVM_SUCCESS;
}

// `truncate` is in per cent of the log, as in the paper's interface. The result 2 is never reached.
double threshold_of(long truncate) {
  return truncate > 0 && truncate <= 100 ? static_cast<double>(truncate) / 100 : 2.0;
}

}  // namespace

rvm_return_t library::set_options(const rvm_options_t& wanted) {
  if (wanted.log_dev != nullptr && *wanted.log_dev != '\0') {
    if (const auto bad = check_name(wanted.log_dev, RVM_SUCCESS); bad != RVM_SUCCESS) return bad;
    // The paths are compared as absolute ones, so that a program may give the same relative path again.
    if (log() != nullptr && log()->log_path() != os::absolute_path(wanted.log_dev)) return RVM_ELOG;
  }
  rvm_options_t next = wanted;
  next.from_heap = rvm_false;
  next.log_dev = nullptr;
  next.n_uncommit = 0;
  next.tid_array = nullptr;
  next.recovery_buf_len = std::max<rvm_length_t>(next.recovery_buf_len, MIN_RECOVERY_BUF_LEN);
  next.flush_buf_len = std::max<rvm_length_t>(next.flush_buf_len, MIN_FLUSH_BUF_LEN);
  if (next.max_read_len < 512) next.max_read_len = MAX_READ_LEN;
  if ((next.flags & RVM_COALESCE_TRANS) != 0) next.flags |= RVM_COALESCE_RANGES;
  if (log() != nullptr) {
    rvm::tuning tune = log()->tune();
    tune.truncation_threshold = threshold_of(next.truncate);
    log()->set_tuning(tune);
  } else if (wanted.log_dev != nullptr && *wanted.log_dev != '\0') {
    rvm::options how;
    how.mode = rvm::open_mode::open;
    how.tune.truncation_threshold = threshold_of(next.truncate);
    how.disk = disk;
    how.recovery_memory = std::max<std::uint64_t>(how.recovery_memory, next.recovery_buf_len);
    open_log.store(new rvm::memory(wanted.log_dev, how), std::memory_order_release);
  }
  options = next;
  return RVM_SUCCESS;
}

mapped_region* library::find(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  for (mapped_region& r : regions)
    if (at >= r.memory.data() && at < r.memory.data() + r.memory.size()) return &r;
  return nullptr;
}

}  // namespace tenure::classic

using namespace tenure;
using namespace tenure::classic;

rvm_return_t rvm_initialize(const char* rvm_version, rvm_options_t* options) {
  return guarded([&] {
    library& l = the_library();
    const std::scoped_lock lock(l.mutex);
    if (current_phase == phase::over || l.is_of_a_parent()) return RVM_EINIT;
    if (current_phase == phase::running) return RVM_SUCCESS;
    if (rvm_version == nullptr || std::strcmp(rvm_version, RVM_VERSION) != 0) return RVM_EVERSION_SKEW;
    if (options != nullptr) {
      if (!is_options(options)) return RVM_EOPTIONS;
      if (options->create_log_file == rvm_true) {
        if (const auto bad = check_name(options->log_dev, RVM_EOPTIONS); bad != RVM_SUCCESS) return bad;
        if (!l.disk->exists(os::absolute_path(options->log_dev)))
          if (const auto bad = create_log(options->log_dev, options->create_log_size, options->create_log_mode);
              bad != RVM_SUCCESS)
            return bad;
      }
      if (const auto bad = l.set_options(*options); bad != RVM_SUCCESS) return bad;
    }
    l.fork_generation = os::fork_generation();
    current_phase.store(phase::running, std::memory_order_release);
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_terminate() {
  return guarded([&] {
    library& l = the_library();
    const std::scoped_lock lock(l.mutex);
    if (current_phase == phase::before || l.is_of_a_parent()) return RVM_EINIT;
    if (current_phase == phase::over) return RVM_SUCCESS;
    rvm_return_t result = RVM_SUCCESS;
    if (log() != nullptr) {
      result = guarded([&] {
        log()->close();
        return RVM_SUCCESS;
      });
      if (result == RVM_EUNCOMMIT || result == RVM_EINIT) return result;  // nothing has changed
    }
    l.regions.clear();
    current_phase.store(phase::over, std::memory_order_release);
    return result;
  });
}

rvm_return_t rvm_create_log(rvm_options_t* options, rvm_offset_t* length, long mode) {
  return guarded([&] {
    if (!is_options(options) || length == nullptr) return RVM_EOPTIONS;
    if (const auto bad = check_name(options->log_dev, RVM_EOPTIONS); bad != RVM_SUCCESS) return bad;
    return create_log(options->log_dev, *length, mode);
  });
}

rvm_return_t rvm_set_options(rvm_options_t* options) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (!is_options(options)) return RVM_EOPTIONS;
    library& l = the_library();
    const std::scoped_lock lock(l.mutex);
    return l.set_options(*options);
  });
}

rvm_return_t rvm_query(rvm_options_t* options, rvm_region_t* region) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (!is_options(options)) return RVM_EOPTIONS;
    if (region != nullptr && region->struct_id != rvm_region_id) return RVM_EREGION;
    library& l = the_library();
    const std::scoped_lock lock(l.mutex);
    const rvm::region* in = nullptr;
    if (region != nullptr) {
      const mapped_region* const found = l.find(region->vmaddr);
      if (found == nullptr) return RVM_ENOT_MAPPED;
      in = &found->memory;
    }
    std::vector<rvm_tid_t> open;
    rvm::statistics stats;
    if (log() != nullptr) {
      open = open_tids(log()->open_transactions(in));
      stats = log()->stats();
    }
    rvm_tid_t* array = nullptr;
    if (!open.empty()) {
      array = static_cast<rvm_tid_t*>(std::malloc(open.size() * sizeof(rvm_tid_t)));
      if (array == nullptr) return RVM_ENO_MEMORY;
      std::ranges::copy(open, array);
    }
    char* const name = options->log_dev;
    const rvm_bool_t from_heap = options->from_heap;
    std::free(options->tid_array);
    *options = l.options;
    options->from_heap = from_heap;
    options->log_dev = name;
    if (name != nullptr) {
      const std::string path = log() != nullptr ? log()->log_path() : "";
      name[path.copy(name, MAXPATHLEN - 1)] = '\0';
    }
    options->log_empty = stats.log_used == 0 && stats.spooled_bytes == 0 ? rvm_true : rvm_false;
    options->n_uncommit = static_cast<long>(open.size());
    options->tid_array = array;
    return RVM_SUCCESS;
  });
}
