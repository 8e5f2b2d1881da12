/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * What the library has counted [RVM 5.2, 7.3]. Fields without prefix count since the log was opened. Fields with tot_ count over
 * the log's life: what earlier processes counted, if they terminated, and this one. Histograms with tot_ count since the
 * log was opened, like the others: a log keeps counters only.
 *
 * Always zero, because what they count does not exist here: n_split, n_special, n_wrap if the log has grown,
 * last_tree_build_time, last_tree_apply_time, range_elims, trans_elims, range_overlaps, trans_overlaps (which
 * transactions were optimized is known in sum only), and the fields with tot_ of the same names, tot_tree_build_times,
 * tot_tree_apply_times (truncation builds no trees) and tot_trans_coalesces.
 */
#ifndef TENURE_RVM_RVM_STATISTICS_H
#define TENURE_RVM_RVM_STATISTICS_H

#include <stdio.h>

#include <rvm/rvm.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RVM_STATISTICS_VERSION "RVM Statistics Version 1.1 8 Dec 1992"

/* Histograms: number of bins, and the upper limits (inclusive) of all but the last, which has no limit. */
#define flush_times_len 10 /* milliseconds */
#define flush_times_dist 1, 2, 5, 10, 25, 50, 100, 250, 500
#define range_lengths_len 13 /* bytes */
#define range_lengths_dist 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768
#define range_elims_len 6 /* ranges */
#define range_elims_dist 0, 1, 2, 5, 10
#define trans_elims_len 6
#define trans_elims_dist range_elims_dist
#define range_overlaps_len range_lengths_len /* bytes */
#define range_overlaps_dist range_lengths_dist
#define trans_overlaps_len range_lengths_len
#define trans_overlaps_dist range_lengths_dist
#define trans_coalesces_len 6 /* transactions */
#define trans_coalesces_dist range_elims_dist
#define tree_build_times_len 5 /* seconds */
#define tree_build_times_dist 0, 1, 5, 10
#define tree_apply_times_len 5
#define tree_apply_times_dist tree_build_times_dist
#define truncation_times_len 5
#define truncation_times_dist tree_build_times_dist

typedef struct {
  rvm_struct_id_t struct_id;
  rvm_bool_t from_heap;

  /* Transactions since the log was opened */
  rvm_length_t n_abort;
  rvm_length_t n_flush_commit;
  rvm_length_t n_no_flush_commit;
  rvm_length_t n_uncommit;        /* open now */
  rvm_length_t n_no_flush;        /* committed, not yet durable: 1 if there are any, as they are not counted */
  rvm_length_t n_truncation_wait; /* commits that waited for room in the log */
  rvm_offset_t no_flush_length;   /* bytes of log that these take */

  /* The log since it was opened */
  rvm_length_t n_split;
  rvm_length_t n_flush;     /* writes of the log, each with one sync */
  rvm_length_t n_rvm_flush; /* calls of rvm_flush */
  rvm_length_t n_special;
  rvm_length_t n_wrap;               /* times around the log */
  rvm_length_t log_dev_cur;          /* per cent in use now */
  rvm_offset_t log_written;          /* bytes */
  rvm_offset_t range_overlap;        /* bytes that merging ranges within transactions has saved */
  rvm_offset_t trans_overlap;        /* bytes that dropping covered no_flush transactions has saved */
  rvm_length_t n_range_elim;         /* ranges that merging has saved */
  rvm_length_t n_trans_elim;         /* no_flush transactions that were dropped */
  rvm_length_t n_trans_coalesced;    /* the same */
  struct timeval flush_time;         /* spent in writing the log */
  rvm_length_t last_flush_time;      /* of the last rvm_flush or flush commit, ms */
  rvm_length_t last_truncation_time; /* of the last rvm_truncate, s */
  rvm_length_t last_tree_build_time;
  rvm_length_t last_tree_apply_time;
  rvm_length_t flush_times[flush_times_len];     /* of rvm_flush and flush commits */
  rvm_length_t range_lengths[range_lengths_len]; /* as declared by rvm_set_range */
  rvm_length_t range_elims[range_elims_len];
  rvm_length_t trans_elims[trans_elims_len];
  rvm_length_t range_overlaps[range_overlaps_len];
  rvm_length_t trans_overlaps[trans_overlaps_len];

  /* The same over the log's life */
  rvm_length_t tot_abort;
  rvm_length_t tot_flush_commit;
  rvm_length_t tot_no_flush_commit;
  rvm_length_t tot_split;
  rvm_length_t tot_flush;
  rvm_length_t tot_rvm_flush;
  rvm_length_t tot_special;
  rvm_length_t tot_wrap;
  rvm_length_t log_dev_max; /* per cent that were ever in use */
  rvm_offset_t tot_log_written;
  rvm_offset_t tot_range_overlap;
  rvm_offset_t tot_trans_overlap;
  rvm_length_t tot_range_elim;
  rvm_length_t tot_trans_elim;
  rvm_length_t tot_trans_coalesced;
  rvm_length_t tot_rvm_truncate;     /* calls of rvm_truncate */
  rvm_length_t tot_async_truncation; /* incremental steps and epochs */
  rvm_length_t tot_sync_truncation;  /* commits that had to make room themselves */
  rvm_length_t tot_truncation_wait;  /* the same */
  rvm_length_t tot_recovery;         /* openings that had something to recover */
  struct timeval tot_flush_time;
  struct timeval tot_truncation_time;
  rvm_length_t tot_tree_build_times[tree_build_times_len];
  rvm_length_t tot_tree_apply_times[tree_apply_times_len];
  rvm_length_t tot_truncation_times[truncation_times_len]; /* of rvm_truncate */
  rvm_length_t tot_flush_times[flush_times_len];
  rvm_length_t tot_range_lengths[range_lengths_len];
  rvm_length_t tot_range_elims[range_elims_len];
  rvm_length_t tot_trans_elims[trans_elims_len];
  rvm_length_t tot_range_overlaps[range_overlaps_len];
  rvm_length_t tot_trans_overlaps[trans_overlaps_len];
  rvm_length_t tot_trans_coalesces[trans_coalesces_len];
} rvm_statistics_t;

/* Fills *statistics. RVM_EINIT, RVM_ESTAT_VERSION_SKEW, RVM_ESTATISTICS, RVM_ELOG (no log is open). */
extern rvm_return_t rvm_statistics(const char* version, rvm_statistics_t* statistics);
#define RVM_STATISTICS(statistics) rvm_statistics(RVM_STATISTICS_VERSION, (statistics))

/* Writes them for people. RVM_ESTATISTICS, RVM_EIO. Needs no rvm_initialize. */
extern rvm_return_t rvm_print_statistics(rvm_statistics_t* statistics, FILE* out);

extern rvm_statistics_t* rvm_malloc_statistics(void);
extern void rvm_init_statistics(rvm_statistics_t* statistics);
extern rvm_statistics_t* rvm_copy_statistics(rvm_statistics_t* statistics);
extern void rvm_free_statistics(rvm_statistics_t* statistics);

#ifdef __cplusplus
}
#endif

#endif
