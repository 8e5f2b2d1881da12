/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The segment loader of the classic interface: maps the regions of a segment at the same addresses every time, so that
 * pointers may be stored in them [RVM 4.1]. The first page of the segment says which region goes where; the regions
 * follow it one after the other. Nothing is ever mapped over something that is there already. See rvm_segment(3).
 */
#ifndef TENURE_RVM_RVM_SEGMENT_H
#define TENURE_RVM_RVM_SEGMENT_H

#include <rvm/rvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The segment's first page does not describe regions, or is damaged. */
#define RVM_ESEGMENT_HDR 2000

/* Bytes before the first region. */
#define RVM_SEGMENT_HDR_SIZE RVM_PAGE_SIZE

/* A region of a segment. A segment has at most RVM_SEGMENT_HDR_SIZE / 32 - 1 of them: 127. */
typedef struct {
  rvm_offset_t offset; /* in the segment; rvm_create_segment sets it */
  rvm_length_t length; /* bytes, whole pages */
  char* vmaddr;        /* address, of a page */
} rvm_region_def_t;

#define RVM_INIT_REGION(region, region_offset, region_length, address) \
  ((region).offset = (region_offset), (region).length = (region_length), (region).vmaddr = (char*)(address))

/* Writes the segment's first page, durably. The file exists; it is lengthened if it is too short for the regions.
 * `length` is that of a block device (0: its own). RVM_ERANGE if regions overlap in memory, are no whole pages, or are
 * none or too many; codes of rvm_map and rvm_end_transaction. */
extern rvm_return_t rvm_create_segment(char* device, rvm_offset_t length, rvm_options_t* options,
                                       rvm_length_t region_count, rvm_region_def_t* regions);

/* Maps all regions of a segment where they belong, or none. *regions is then an array of *region_count, for
 * rvm_release_segment. RVM_ESEGMENT_HDR, RVM_EVERSION_SKEW, RVM_EVM_OVERLAP; codes of rvm_map. */
extern rvm_return_t rvm_load_segment(char* device, rvm_offset_t length, rvm_options_t* options,
                                     unsigned long* region_count, rvm_region_def_t** regions);

/* Unmaps the regions that rvm_load_segment has mapped, and frees the array. RVM_EUNCOMMIT, and nothing is changed, while
 * transactions use one of them; otherwise the last code of rvm_unmap. Where a region stays mapped all the same, as when a
 * transaction begins to use it during the call, the array stays, too, and the call can be made again: regions that were
 * unmapped have length 0 there. */
extern rvm_return_t rvm_release_segment(unsigned long region_count, rvm_region_def_t** regions);

#ifdef __cplusplus
}
#endif

#endif
