// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "classic/codes.hpp"

#include <new>
#include <system_error>

#include <tenure/error.hpp>

#include <rvm/rvm_segment.h>

namespace tenure::classic {

namespace {

rvm_return_t code_of(errc what) {
  switch (what) {
    case errc::damaged:
    case errc::not_a_log:
    case errc::wrong_log:
    case errc::copied:
    case errc::no_history: return RVM_ELOG;
    case errc::wrong_version: return RVM_ELOG_VERSION_SKEW;
    case errc::not_a_segment:
    case errc::segment_missing:
    case errc::in_use:
    case errc::read_only:
    case errc::outcome_unknown:
    case errc::log_stuck: return RVM_EIO;
    case errc::segment_too_short: return RVM_EOFFSET;
    case errc::misaligned: return RVM_ERANGE;
    case errc::region_overlap: return RVM_EOVERLAP;
    case errc::address_taken: return RVM_EVM_OVERLAP;
    case errc::not_mapped:
    case errc::partly_mapped: return RVM_ENOT_MAPPED;
    case errc::region_busy:
    case errc::transactions_open: return RVM_EUNCOMMIT;
    case errc::bad_transaction:
    case errc::cannot_abort: return RVM_ETID;
    case errc::too_big: return RVM_ETOO_BIG;
    case errc::forked:
    case errc::closed: return RVM_EINIT;
    case errc::bad_option: return RVM_EOPTIONS;
    case errc::out_of_memory: return RVM_ENO_MEMORY;
    case errc::undeclared_write:
    case errc::bad_free:
    case errc::segment_full:
    case errc::wrong_tracking:
    case errc::stray_write:
    case errc::unseen_store:
    case errc::schema_mismatch:
    case errc::wrong_type:
    case errc::no_such_root:
    case errc::cannot_persist:
    case errc::doomed:
    case errc::bad_type:
    case errc::not_stopped:
    case errc::bad_weak_reference:
    case errc::cache_full:
    case errc::deadlock:
    case errc::in_doubt: return RVM_EINTERNAL;
  }
  return RVM_EINTERNAL;
}

rvm_return_t code_of(const std::error_code& what) {
  if (what.category() == category()) return code_of(static_cast<errc>(what.value()));
  if (what == std::errc::not_enough_memory) return RVM_ENO_MEMORY;
  if (what == std::errc::filename_too_long) return RVM_ENAME_TOO_LONG;
  if (what == std::errc::file_exists) return RVM_ELOG;
  if (what == std::errc::file_too_large) return RVM_ETOO_BIG;
  return RVM_EIO;
}

}  // namespace

rvm_return_t code_of_current_exception() noexcept {
  try {
    throw;
  } catch (const std::system_error& e) {
    return code_of(e.code());
  } catch (const std::bad_alloc&) {
    return RVM_ENO_MEMORY;
  } catch (...) {
    return RVM_EINTERNAL;
  }
}

}  // namespace tenure::classic

// The interface returns strings that are not const. Nobody may write to them.
#define TENURE_NAME(id) \
  case id: return const_cast<char*>(#id)

char* rvm_return(rvm_return_t code) {
  switch (code) {
    TENURE_NAME(RVM_SUCCESS);
    TENURE_NAME(RVM_EINIT);
    TENURE_NAME(RVM_EINTERNAL);
    TENURE_NAME(RVM_EIO);
    TENURE_NAME(RVM_ELOG);
    TENURE_NAME(RVM_ELOG_VERSION_SKEW);
    TENURE_NAME(RVM_EMODE);
    TENURE_NAME(RVM_ENAME_TOO_LONG);
    TENURE_NAME(RVM_ENO_MEMORY);
    TENURE_NAME(RVM_ENOT_MAPPED);
    TENURE_NAME(RVM_EOFFSET);
    TENURE_NAME(RVM_EOPTIONS);
    TENURE_NAME(RVM_EOVERLAP);
    TENURE_NAME(RVM_EPAGER);
    TENURE_NAME(RVM_ERANGE);
    TENURE_NAME(RVM_EREGION);
    TENURE_NAME(RVM_EREGION_DEF);
    TENURE_NAME(RVM_ESRC);
    TENURE_NAME(RVM_ESTATISTICS);
    TENURE_NAME(RVM_ESTAT_VERSION_SKEW);
    TENURE_NAME(RVM_ETERMINATED);
    TENURE_NAME(RVM_ETHREADS);
    TENURE_NAME(RVM_ETID);
    TENURE_NAME(RVM_ETOO_BIG);
    TENURE_NAME(RVM_EUNCOMMIT);
    TENURE_NAME(RVM_EVERSION_SKEW);
    TENURE_NAME(RVM_EVM_OVERLAP);
    TENURE_NAME(RVM_ESEGMENT_HDR);
    default: return const_cast<char*>("Invalid RVM return code");
  }
}

char* rvm_mode(rvm_mode_t mode) {
  switch (mode) {
    TENURE_NAME(restore);
    TENURE_NAME(no_restore);
    TENURE_NAME(flush);
    TENURE_NAME(no_flush);
    default: return const_cast<char*>("Invalid RVM transaction mode");
  }
}

char* rvm_type(rvm_struct_id_t id) {
  switch (id) {
    TENURE_NAME(rvm_region_id);
    TENURE_NAME(rvm_options_id);
    TENURE_NAME(rvm_tid_id);
    TENURE_NAME(rvm_statistics_id);
    default: return const_cast<char*>("Invalid RVM structure id");
  }
}

#undef TENURE_NAME
