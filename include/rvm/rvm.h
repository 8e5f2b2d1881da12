/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Recoverable virtual memory for C: the interface of Coda's librvm 1.3, for programs written for it, on top of Tenure.
 * After Satyanarayanan, Mashburn, Kumar, Steere, Kistler, "Lightweight Recoverable Virtual Memory", SOSP 1993, cited as
 * [RVM section]. rvm(3) is the manual; docs/classic-api.md says what differs from the original.
 *
 *     rvm_options_t options;
 *     rvm_init_options(&options);
 *     options.log_dev = "bank.log";
 *     RVM_INIT(&options);                          // recovers
 *     rvm_region_t region;
 *     rvm_init_region(&region);
 *     region.data_dev = "accounts";                // an existing file; all of it
 *     rvm_map(&region, NULL);                      // region.vmaddr, region.length
 *     rvm_tid_t tid;
 *     rvm_init_tid(&tid);
 *     rvm_begin_transaction(&tid, restore);
 *     rvm_set_range(&tid, region.vmaddr, 8);       // about to change it
 *     ...
 *     rvm_end_transaction(&tid, flush);            // durable here
 *     rvm_terminate();
 *
 * A process has one log. All functions are thread-safe; transactions of several threads run at the same time and are not
 * isolated from each other. Functions return RVM_SUCCESS or a code, and leave things as they were if it is a code, save
 * where said otherwise. Nothing is printed but by rvm_print_statistics.
 *
 * In the child of a fork all calls return RVM_EINIT, and its parent's regions are not there.
 */
#ifndef TENURE_RVM_RVM_H
#define TENURE_RVM_RVM_H

#include <stddef.h>
#include <sys/param.h>
#include <sys/time.h>

#ifdef __cplusplus
#include <ostream> /* where std::endl looks for a name `flush`: after the mode below it would find that one */
extern "C" {
#endif

#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif

/* Of the interface; RVM_INIT hands the one that the program was compiled with to the library. */
#define RVM_VERSION "RVM Interface Version 1.3  7 Mar 1994"
#define RVM_VERSION_MAX 128

typedef enum { rvm_false = 0, rvm_true = 1 } rvm_bool_t;

/* Lengths and addresses as integers; prints with %lu. */
typedef unsigned long rvm_length_t;

/* Offsets in segments and sizes of logs, in bytes. On 64-bit machines `high` is 0. */
typedef struct {
  rvm_length_t high;
  rvm_length_t low;
} rvm_offset_t;

/* ---- Return codes ---- */

typedef int rvm_return_t;

#define RVM_SUCCESS 0
#define RVM_EINIT 200              /* not initialized, or terminated */
#define RVM_EINTERNAL 201          /* an error that no other code describes */
#define RVM_EIO 202                /* a file could not be opened, read or written; is locked by another process */
#define RVM_ELOG 204               /* no log is open, or it is damaged, or no log, or another one is open */
#define RVM_ELOG_VERSION_SKEW 205  /* the log was written by another version of the format */
#define RVM_EMODE 206              /* not a mode that the call knows */
#define RVM_ENAME_TOO_LONG 207     /* a file name of MAXPATHLEN characters or more */
#define RVM_ENO_MEMORY 208         /* out of ordinary memory */
#define RVM_ENOT_MAPPED 209        /* the address is in no mapped region, or the range goes beyond it */
#define RVM_EOFFSET 210            /* the region begins beyond the end of the segment */
#define RVM_EOPTIONS 211           /* not an options descriptor, or an option that makes no sense */
#define RVM_EOVERLAP 212           /* part of the segment is mapped already */
#define RVM_EPAGER 213             /* external pagers do not exist */
#define RVM_ERANGE 214             /* an address that is not a multiple of the page size; not exactly a mapped region */
#define RVM_EREGION 215            /* not a region descriptor */
#define RVM_EREGION_DEF 216        /* never returned */
#define RVM_ESRC 217               /* never returned */
#define RVM_ESTATISTICS 218        /* not a statistics descriptor */
#define RVM_ESTAT_VERSION_SKEW 219 /* compiled with another rvm_statistics.h */
#define RVM_ETERMINATED 220        /* never returned */
#define RVM_ETHREADS 221           /* never returned */
#define RVM_ETID 222               /* not a transaction, not begun, or begun and not ended */
#define RVM_ETOO_BIG 223           /* larger than the log; the transaction is still open and can be aborted */
#define RVM_EUNCOMMIT 224          /* there are open transactions */
#define RVM_EVERSION_SKEW 225      /* compiled with another rvm.h */
#define RVM_EVM_OVERLAP 226        /* something else is at the address */

/* ---- Descriptors: initialize with rvm_init_..., or get from rvm_malloc_... and give back with rvm_free_... ---- */

typedef enum {
  rvm_first_struct_id = 39,
  rvm_region_id = 40,
  rvm_options_id = 41,
  rvm_tid_id = 42,
  rvm_statistics_id = 43,
  rvm_last_struct_id = 44
} rvm_struct_id_t;

/* For rvm_begin_transaction: whether old values are kept, so that it can abort. For rvm_end_transaction: whether it is
 * durable when it returns, or after the next flush. [RVM 4.2] */
typedef enum {
  rvm_first_mode = 139,
  restore = 140,
  no_restore = 141,
  flush = 142,
  no_flush = 143,
  rvm_last_mode = 144
} rvm_mode_t;

typedef struct {
  rvm_struct_id_t struct_id;
  rvm_bool_t from_heap;
  struct timeval uname; /* unique in this process; shaped like the time of its beginning */
  void* tid;            /* the library's */
  void* reserved;
} rvm_tid_t;

typedef struct {
  rvm_struct_id_t struct_id;
  rvm_bool_t from_heap;
  char* data_dev;          /* file or block device */
  rvm_offset_t dev_length; /* of a block device; 0: its own size. Ignored for files */
  rvm_offset_t offset;     /* of the region in the segment, bytes; rvm_map rounds it down to a page */
  char* vmaddr;            /* where; NULL: rvm_map chooses and says where */
  rvm_length_t length;     /* bytes; 0: to the segment's end; rvm_map rounds the region's end up to a page */
  rvm_bool_t no_copy;      /* the program does not need what is stored there: it is read only when it is looked at */
} rvm_region_t;

/* Flags of rvm_options_t. Ranges of one transaction that overlap or touch are always merged, and no_flush commits that
 * later ones cover are always dropped when several are written together, so the first two change nothing here. */
#define RVM_COALESCE_RANGES 1
#define RVM_COALESCE_TRANS 2
#define RVM_ALL_OPTIMIZATIONS (RVM_COALESCE_RANGES | RVM_COALESCE_TRANS)
#define RVM_MAP_PRIVATE 8 /* regions are paged in from the segment on demand, not read in when they are mapped */
/* In regions that are mapped while it is set, rvm_announce_store declares ranges, and so does each store of a program that is
 * compiled with barriers (docs/barriers.md). rvm_set_range may be used beside it. Not in the original. */
#define RVM_BARRIERS 16

typedef struct {
  rvm_struct_id_t struct_id;
  rvm_bool_t from_heap;
  char* log_dev;                 /* the log's file. For rvm_query: NULL, or MAXPATHLEN bytes that get the name */
  long truncate;                 /* per cent of the log at which truncation starts by itself; not in 1 to 100: never */
  rvm_length_t recovery_buf_len; /* bytes for recovery and truncation; they take at least 192 MiB if they need it */
  rvm_length_t flush_buf_len;    /* kept and told by rvm_query, and used for nothing */
  rvm_length_t max_read_len;     /* kept and told by rvm_query, and used for nothing */
  rvm_bool_t log_empty;          /* from rvm_query */
  char* pager;                   /* must be NULL */
  long n_uncommit;               /* from rvm_query: open transactions, */
  rvm_tid_t* tid_array;          /* and their identities; rvm_free_options frees it */
  rvm_length_t flags;
  rvm_bool_t create_log_file;   /* for rvm_initialize: make the log if it does not exist, */
  rvm_offset_t create_log_size; /* with this length, */
  long create_log_mode;         /* and these permissions */
} rvm_options_t;

/* Defaults of rvm_options_t, and the least that buffers may have. */
#define TRUNCATE 50
#define RECOVERY_BUF_LEN (256 * 1024)
#define MIN_RECOVERY_BUF_LEN (64 * 1024)
#define FLUSH_BUF_LEN (256 * 1024)
#define MIN_FLUSH_BUF_LEN (64 * 1024)
#define MAX_READ_LEN (512 * 1024)

/* rvm_malloc_... returns NULL if there is no memory; rvm_copy_... makes a copy to be freed, NULL also for what is no
 * descriptor of the kind. rvm_free_... ignores descriptors that do not come from rvm_malloc_... or rvm_copy_...;
 * rvm_free_options frees tid_array in any case. Strings are the program's: they are neither copied nor freed. */
extern rvm_region_t* rvm_malloc_region(void);
extern void rvm_init_region(rvm_region_t* region);
extern rvm_region_t* rvm_copy_region(rvm_region_t* region);
extern void rvm_free_region(rvm_region_t* region);
extern rvm_options_t* rvm_malloc_options(void);
extern void rvm_init_options(rvm_options_t* options);
extern rvm_options_t* rvm_copy_options(rvm_options_t* options);
extern void rvm_free_options(rvm_options_t* options);
extern rvm_tid_t* rvm_malloc_tid(void);
extern void rvm_init_tid(rvm_tid_t* tid);
extern rvm_tid_t* rvm_copy_tid(rvm_tid_t* tid);
extern void rvm_free_tid(rvm_tid_t* tid);

/* ---- The library ---- */

/* Begins. With options: makes the log (create_log_file), opens it (log_dev), recovers, sets the rest. `options` may be
 * NULL; rvm_set_options opens the log then. A second call does nothing; after rvm_terminate it is RVM_EINIT for ever.
 * Codes: RVM_EINIT, RVM_EVERSION_SKEW, RVM_EOPTIONS, RVM_ENAME_TOO_LONG, RVM_EIO, RVM_ELOG, RVM_ELOG_VERSION_SKEW,
 * RVM_ENO_MEMORY. */
extern rvm_return_t rvm_initialize(const char* rvm_version, rvm_options_t* options);
#define RVM_INIT(options) rvm_initialize(RVM_VERSION, (options))

/* Flushes, truncates, unmaps everything, closes. RVM_EUNCOMMIT, and nothing is changed, while there are open
 * transactions; after RVM_EIO it is terminated all the same, and the log has what was not written. Again is harmless.
 * RVM_EINIT if never initialized. A program that exits without it loses no_flush commits, and nothing else. */
extern rvm_return_t rvm_terminate(void);

/* Makes the log options->log_dev with at least *length bytes for records and the permissions `mode`: allocated, filled
 * with zeros and durable. The bytes are in files beside it, log_dev.1, log_dev.2 and so on. It never grows: a larger transaction is RVM_ETOO_BIG. Needs no rvm_initialize. RVM_ELOG if
 * there is something at the path; RVM_EOPTIONS, RVM_ENAME_TOO_LONG, RVM_ETOO_BIG, RVM_EIO, RVM_ENO_MEMORY. A call that fails may
 * leave files, which a later rvm_initialize of the same path makes a log of: to try rvm_create_log again, remove them first. */
extern rvm_return_t rvm_create_log(rvm_options_t* options, rvm_offset_t* length, long mode);

/* Sets options; opens the log, and recovers, if log_dev is given and none is open. RVM_ELOG if another one is open.
 * Codes: RVM_EINIT, RVM_EOPTIONS, and those of rvm_initialize for the log. */
extern rvm_return_t rvm_set_options(rvm_options_t* options);

/* Tells the options, and the open transactions: all, or those that have declared ranges in `region`. RVM_EINIT,
 * RVM_EOPTIONS, RVM_EREGION, RVM_ENOT_MAPPED, RVM_ENO_MEMORY. */
extern rvm_return_t rvm_query(rvm_options_t* options, rvm_region_t* region);

/* ---- Regions [RVM 4.1] ---- */

/* Maps part of a segment, never over something that is there already. The part begins and ends at pages, but never goes
 * beyond the file's last whole block of 512 bytes, also if more is asked for; the file stays as long as it is. offset,
 * length and vmaddr then describe what was mapped; memory behind it, to the page's end, cannot be declared. Options, if
 * given, are set first. No part of a segment is mapped twice. Codes, in this order: RVM_EINIT, RVM_EREGION, RVM_ENAME_TOO_LONG, those of rvm_set_options, RVM_ELOG (no log is
 * open), RVM_EPAGER, RVM_ERANGE, RVM_EIO, RVM_EOFFSET, RVM_EOVERLAP, RVM_EVM_OVERLAP, RVM_ENO_MEMORY. */
extern rvm_return_t rvm_map(rvm_region_t* region, rvm_options_t* options);

/* Writes committed changes to the segment and unmaps: the addresses are free then. The region must be as rvm_map left
 * it. RVM_EINIT, RVM_EREGION, RVM_ENOT_MAPPED, RVM_ERANGE, RVM_EUNCOMMIT, RVM_EIO. */
extern rvm_return_t rvm_unmap(rvm_region_t* region);

/* ---- Transactions [RVM 4.2] ---- */

/* RVM_EINIT, RVM_ETID (also for one that is open), RVM_ELOG, RVM_EMODE, RVM_ENO_MEMORY, RVM_EIO (an earlier failure of
 * the log: terminate, and let the next process recover). */
extern rvm_return_t rvm_begin_transaction(rvm_tid_t* tid, rvm_mode_t mode);

/* Declares that [dest, dest+length), in one region, is about to change. RVM_EINIT, RVM_ETID, RVM_ENOT_MAPPED,
 * RVM_ENO_MEMORY. */
extern rvm_return_t rvm_set_range(rvm_tid_t* tid, void* dest, rvm_length_t length);
/* Declares that these bytes are about to change, if they are in a region with RVM_BARRIERS, in the newest open transaction
 * that the calling thread has begun. Does nothing elsewhere, or without such a transaction. Not in signal handlers. If memory
 * is too short to keep the old value, the process ends. Not in the original. */
extern void rvm_announce_store(const void* at, rvm_length_t length);
/* For the run-time of compiled barriers: calls `begins` for all regions with RVM_BARRIERS, now and when they are mapped, and
 * `ends` when they are unmapped. */
extern void rvm_watch_stores(void (*begins)(const void* at, rvm_length_t length),
                             void (*ends)(const void* at, rvm_length_t length));
/* rvm_set_range, then copies. */
extern rvm_return_t rvm_modify_bytes(rvm_tid_t* tid, void* dest, const void* src, rvm_length_t length);

/* Puts back the old values of a restore transaction; forgets a no_restore one, whose changes stay in memory and are
 * never logged. RVM_EINIT, RVM_ETID. */
extern rvm_return_t rvm_abort_transaction(rvm_tid_t* tid);

/* Commits. After an error the transaction is open and can be aborted. After RVM_EIO it is not known whether it is
 * durable, and nothing is committed any more until another process has recovered the log. RVM_EINIT, RVM_EMODE,
 * RVM_ETID, RVM_ETOO_BIG, RVM_ENO_MEMORY, RVM_EIO. */
extern rvm_return_t rvm_end_transaction(rvm_tid_t* tid, rvm_mode_t mode);

/* Makes all committed transactions durable. RVM_EINIT, RVM_ELOG, RVM_EIO. */
extern rvm_return_t rvm_flush(void);

/* Writes everything committed to the segments, and empties the log. RVM_EINIT, RVM_ELOG, RVM_EIO. */
extern rvm_return_t rvm_truncate(void);

/* ---- Names ---- */

/* The name of a code, such as "RVM_SUCCESS", of a mode or of a kind of descriptor; a text that begins with "Invalid"
 * for others. Constant: not to be freed or changed. */
extern char* rvm_return(rvm_return_t code);
extern char* rvm_mode(rvm_mode_t mode);
extern char* rvm_type(rvm_struct_id_t id);

/* ---- Offsets and pages ---- */

extern rvm_offset_t rvm_mk_offset(rvm_length_t high, rvm_length_t low);
extern rvm_offset_t rvm_add_offsets(rvm_offset_t x, rvm_offset_t y);
extern rvm_offset_t rvm_add_length_to_offset(rvm_offset_t offset, rvm_length_t length);
extern rvm_offset_t rvm_sub_offsets(rvm_offset_t x, rvm_offset_t y);
extern rvm_offset_t rvm_sub_length_from_offset(rvm_offset_t offset, rvm_length_t length);
extern rvm_length_t rvm_page_size(void);
extern rvm_length_t rvm_page_mask(void); /* the bits of an address that name its page */
extern rvm_offset_t rvm_rnd_offset_up_to_page(rvm_offset_t offset);
extern rvm_offset_t rvm_rnd_offset_dn_to_page(rvm_offset_t offset);

#define RVM_MK_OFFSET(high, low) rvm_mk_offset((rvm_length_t)(high), (rvm_length_t)(low))
#define RVM_OFFSET_INITIALIZER(high, low) \
  { (high), (low) }
#define RVM_ZERO_OFFSET(offset) ((offset).high = 0, (offset).low = 0)
#define RVM_OFFSET_TO_LENGTH(offset) ((offset).low)
#define RVM_OFFSET_HIGH_BITS_TO_LENGTH(offset) ((offset).high)
#define RVM_LENGTH_TO_OFFSET(length) rvm_mk_offset(0, (rvm_length_t)(length))
#define RVM_ADD_OFFSETS(x, y) rvm_add_offsets((x), (y))
#define RVM_ADD_LENGTH_TO_OFFSET(offset, length) rvm_add_length_to_offset((offset), (rvm_length_t)(length))
#define RVM_ADD_LENGTH_TO_ADDR(address, length) ((char*)((rvm_length_t)(address) + (rvm_length_t)(length)))
#define RVM_SUB_OFFSETS(x, y) rvm_sub_offsets((x), (y))
#define RVM_SUB_LENGTH_FROM_OFFSET(offset, length) rvm_sub_length_from_offset((offset), (rvm_length_t)(length))
#define RVM_SUB_LENGTH_FROM_ADDR(address, length) ((char*)((rvm_length_t)(address) - (rvm_length_t)(length)))

#define RVM_OFFSET_LSS(x, y) ((x).high < (y).high || ((x).high == (y).high && (x).low < (y).low))
#define RVM_OFFSET_GTR(x, y) ((x).high > (y).high || ((x).high == (y).high && (x).low > (y).low))
#define RVM_OFFSET_LEQ(x, y) (!RVM_OFFSET_GTR(x, y))
#define RVM_OFFSET_GEQ(x, y) (!RVM_OFFSET_LSS(x, y))
#define RVM_OFFSET_EQL(x, y) ((x).high == (y).high && (x).low == (y).low)
#define RVM_OFFSET_EQL_ZERO(x) ((x).high == 0 && (x).low == 0)

#define RVM_PAGE_SIZE rvm_page_size()
#define RVM_ROUND_LENGTH_UP_TO_PAGE_SIZE(length) (((rvm_length_t)(length) + (rvm_page_size() - 1)) & rvm_page_mask())
#define RVM_ROUND_LENGTH_DOWN_TO_PAGE_SIZE(length) ((rvm_length_t)(length)&rvm_page_mask())
#define RVM_ROUND_ADDR_UP_TO_PAGE_SIZE(address) ((char*)RVM_ROUND_LENGTH_UP_TO_PAGE_SIZE(address))
#define RVM_ROUND_ADDR_DOWN_TO_PAGE_SIZE(address) ((char*)RVM_ROUND_LENGTH_DOWN_TO_PAGE_SIZE(address))
#define RVM_ROUND_OFFSET_UP_TO_PAGE_SIZE(offset) rvm_rnd_offset_up_to_page(offset)
#define RVM_ROUND_OFFSET_DOWN_TO_PAGE_SIZE(offset) rvm_rnd_offset_dn_to_page(offset)

#ifdef __cplusplus
}
#endif

#endif
