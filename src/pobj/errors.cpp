// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "pobj/errors.hpp"

#include <new>
#include <system_error>

#include <tenure/error.hpp>

#include "os/system_error.hpp"

namespace tenure::pobj {

namespace {

thread_local std::string last_error;

int code_of(const error& e) {
  if (e.code().category() != category()) return e.code() == std::errc::not_enough_memory ? POBJ_ENOMEM : POBJ_EIO;
  switch (static_cast<errc>(e.code().value())) {
    case errc::damaged:
    case errc::wrong_version:
    case errc::not_a_log:
    case errc::not_a_segment:
    case errc::segment_missing:
    case errc::segment_too_short:
    case errc::wrong_log: return POBJ_EDAMAGED;
    case errc::forked:
    case errc::closed: return POBJ_ESTATE;
    case errc::too_big:
    case errc::segment_full: return POBJ_ETOOBIG;
    case errc::bad_option: return POBJ_EOPTION;
    case errc::bad_transaction:
    case errc::transactions_open: return POBJ_ETRANSACTION;
    case errc::out_of_memory: return POBJ_ENOMEM;
    default: return POBJ_EIO;
  }
}

int note(const char* call, const char* what, int code) noexcept {
  try {
    last_error.assign(call).append(": ").append(what);
  } catch (...) {
    last_error.clear();  // the code still tells that memory is short
  }
  return code;
}

}  // namespace

std::string hexadecimal(const void* address) { return os::hexadecimal(address); }

int note_current_exception(const char* call) noexcept {
  try {
    throw;
  } catch (const failure& e) {
    return note(call, e.what(), e.code());
  } catch (const error& e) {
    return note(call, e.what(), code_of(e));
  } catch (const std::bad_alloc&) {
    return note(call, "out of memory", POBJ_ENOMEM);
  } catch (const std::exception& e) {
    return note(call, e.what(), POBJ_EIO);
  } catch (...) {  // only a simulated disk throws anything else
    return note(call, "the storage is gone", POBJ_EIO);
  }
}

}  // namespace tenure::pobj

const char* pobj_error() { return tenure::pobj::last_error.c_str(); }
