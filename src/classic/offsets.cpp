// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// 128-bit arithmetic on offsets, and pages.
#include <rvm/rvm.h>

#include "os/virtual_memory.hpp"

rvm_offset_t rvm_mk_offset(rvm_length_t high, rvm_length_t low) { return {high, low}; }

rvm_offset_t rvm_add_offsets(rvm_offset_t x, rvm_offset_t y) {
  const rvm_length_t low = x.low + y.low;
  return {x.high + y.high + (low < x.low ? 1 : 0), low};
}
rvm_offset_t rvm_add_length_to_offset(rvm_offset_t offset, rvm_length_t length) {
  return rvm_add_offsets(offset, {0, length});
}
rvm_offset_t rvm_sub_offsets(rvm_offset_t x, rvm_offset_t y) {
  return {x.high - y.high - (x.low < y.low ? 1 : 0), x.low - y.low};
}
rvm_offset_t rvm_sub_length_from_offset(rvm_offset_t offset, rvm_length_t length) {
  return rvm_sub_offsets(offset, {0, length});
}

rvm_length_t rvm_page_size() { return tenure::os::page_size(); }
rvm_length_t rvm_page_mask() { return ~(rvm_page_size() - 1); }

rvm_offset_t rvm_rnd_offset_up_to_page(rvm_offset_t offset) {
  return rvm_rnd_offset_dn_to_page(rvm_add_length_to_offset(offset, rvm_page_size() - 1));
}
rvm_offset_t rvm_rnd_offset_dn_to_page(rvm_offset_t offset) { return {offset.high, offset.low & rvm_page_mask()}; }
