/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The recoverable heap of the classic interface: rds_malloc and rds_free for memory in a region, inside transactions.
 * One heap a process. See rds(3).
 *
 * A block exists from the commit of the transaction that allocated it to the commit of the one that freed it, whatever
 * other transactions do meanwhile; a transaction that allocates may abort. Blocks are aligned to 16 bytes, are whole words
 * of 8, and have guard words on both sides, which rds_free looks at. A block's contents are unspecified, and not declared:
 * use rvm_set_range before filling it. What its last word has beyond the size asked for is zero.
 *
 * Functions that return int return 0 on success, otherwise -1 and the code in *err (which is 0 on success), save where
 * said otherwise. Positive codes are those of rvm.h. All functions but those that start and stop the heap are
 * thread-safe, if each thread has transactions of its own.
 */
#ifndef TENURE_RVM_RDS_H
#define TENURE_RVM_RDS_H

#include <stdio.h>

#include <rvm/rvm.h>
#include <rvm/rvm_segment.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SUCCESS 0
#define ERVM_FAILED (-1)        /* never given: the code of rvm.h is */
#define EBAD_LIST (-2)          /* never given: there are no free lists */
#define EBAD_SEGMENT_HDR (-3)   /* the segment was not made by rds_zap_heap */
#define EHEAP_VERSION_SKEW (-4) /* the heap was written by another version of the format */
#define EHEAP_INIT (-5)         /* no heap is started, or one is already; no heap is there, or it is damaged */
#define EBAD_ARGS (-6)          /* an argument that makes no sense; freeing what is no block */
#define ECORRUPT (-7)           /* something has been written over a block's guards */
#define EFREED_TWICE (-8)       /* the block was freed before */
#define ENO_ROOM (-9)           /* the heap has no room */

/* The smallest chunk. */
#define RDS_MIN_CHUNK_SIZE 40

/* The regions of the loaded heap: 0 is the heap, 1 the static region. Their number is NRegionDefs, which programs declare
 * themselves: as unsigned long, which it is, or as long. */
extern rvm_region_def_t* RegionDefs;

/* Makes a segment with a heap of heapLen bytes at startAddr and a static region of staticLen bytes right behind it.
 * Lengths are whole pages; a heap has at least 64 KiB: if less is asked for, the static region begins 64 KiB behind
 * startAddr. The file exists and is zero. nlists (at least 1) and chunkSize (at least 40, a multiple of 8) described the
 * free lists of the original; here they are only checked. */
extern int rds_zap_heap(char* device, rvm_offset_t device_length, char* startAddr, rvm_length_t staticLen,
                        rvm_length_t heapLen, unsigned long nlists, unsigned long chunkSize, int* err);

/* Makes an empty heap in mapped memory, of whole pages and at least 64 KiB, as part of the transaction. What was there
 * is lost. */
extern int rds_init_heap(char* base, rvm_length_t length, unsigned long chunkSize, unsigned long nlists, rvm_tid_t* tid,
                         int* err);

/* Loads a segment that rds_zap_heap has made, and starts its heap; *staticAddr is the static region's address. */
extern int rds_load_heap(char* device, rvm_offset_t device_length, char** staticAddr, int* err);
/* Flushes, stops the heap unless it is stopped, truncates and unmaps the segment. RVM_EUNCOMMIT while there are open
 * transactions. If it fails, the heap may be stopped; call it again. */
extern int rds_unload_heap(int* err);

/* Starts the heap in mapped memory at startAddr. */
extern int rds_start_heap(char* startAddr, int* err);
/* RVM_EUNCOMMIT while there are open transactions. */
extern int rds_stop_heap(int* err);

/* Nothing needs preparing here: looks whether there is room for `count` blocks of `size` bytes. */
extern int rds_prealloc(unsigned long size, unsigned long count, rvm_tid_t* tid, int* err);

/* A block of `size` bytes, or NULL and a code. tid NULL: in a transaction of its own, committed no_flush. */
extern char* rds_malloc(unsigned long size, rvm_tid_t* tid, int* err);
/* Frees a block, at the commit. tid NULL: in a transaction of its own, committed no_flush. */
extern int rds_free(char* addr, rvm_tid_t* tid, int* err);

/* 1 if a block of `size` bytes would find room now, otherwise 0. Reads all of the heap's bookkeeping. */
extern int rds_maxblock(unsigned long size);

/* Blocks to be freed later, by a transaction of their own. Begins as zeros; `table` is from malloc, and the caller frees
 * it. */
typedef struct intlist {
  unsigned long size;
  unsigned long count;
  char** table;
} intentionList_t;

/* How long programs make the table, by custom. */
#define STARTSIZE 128

/* Checks the block and adds it to the list. Returns 0 or a code. */
extern int rds_fake_free(char* addr, intentionList_t* list);
/* Frees the blocks of the list in one transaction, committed with this mode, and empties the list. Returns 0 or a code;
 * then nothing was freed, and the list is as it was. */
extern int rds_do_free(intentionList_t* list, rvm_mode_t mode);

/* Since the heap was started: these counters are in no transaction and in no log, unlike those of the original. */
typedef struct {
  unsigned malloc;
  unsigned prealloc;
  unsigned free;
  unsigned coalesce; /* 0, as the next eight: about free lists, which do not exist here */
  unsigned hits;
  unsigned misses;
  unsigned large_list;
  unsigned large_hits;
  unsigned large_misses;
  unsigned merged;
  unsigned unmerged;
  unsigned freebytes;   /* in the heap, now, modulo 2^32 */
  unsigned mallocbytes; /* in blocks that are committed, with their overhead, modulo 2^32 */
} rds_stats_t;

/* rds_get_stats returns 0, or -1 if no heap is started. rds_print_stats writes to the standard output. */
extern int rds_print_stats(void);
extern int rds_clear_stats(int* err);
extern int rds_get_stats(rds_stats_t* stats);

/* Writes a line for each call of rds_malloc, rds_free, rds_fake_free and rds_do_free to the file; off at first. */
extern int rds_trace_on(FILE* out);
extern int rds_trace_off(void);
/* Writes a line for each block to the file that was given to rds_trace_on, if any. */
extern int rds_trace_dump_heap(void);
extern int rds_tracing;
extern FILE* rds_tracing_file;
#define RDS_LOG(...)                                                                     \
  do {                                                                                   \
    if (rds_tracing && rds_tracing_file != NULL) fprintf(rds_tracing_file, __VA_ARGS__); \
  } while (0)

#ifdef __cplusplus
}
#endif

#endif
