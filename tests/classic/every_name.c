/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A program that uses every function, macro and type of the classic headers. Compiled as C and as C++, and run:
 *
 *     every_name DIRECTORY
 *
 * makes a log, a segment and a heap in the directory. Fails at the first thing that is not as it should be.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rvm/rds.h>
#include <rvm/rvm.h>
#include <rvm/rvm_segment.h>
#include <rvm/rvm_statistics.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)
#define CHECK_OK(call) CHECK((call) == RVM_SUCCESS)

/* Struct sizes are part of the interface. */
typedef char region_has_its_size[sizeof(rvm_region_t) == 72 ? 1 : -1];
typedef char options_has_its_size[sizeof(rvm_options_t) == 120 ? 1 : -1];
typedef char tid_has_its_size[sizeof(rvm_tid_t) == 40 ? 1 : -1];
typedef char statistics_has_its_size[sizeof(rvm_statistics_t) == 1600 ? 1 : -1];
typedef char offset_has_its_size[sizeof(rvm_offset_t) == 16 ? 1 : -1];
typedef char region_def_has_its_size[sizeof(rvm_region_def_t) == 32 ? 1 : -1];

/* Where regions are loaded: addresses that no ordinary program uses. */
#ifdef __SANITIZE_THREAD__ /* knows few ranges */
#define FIRST_ADDRESS 0x550000000000ul
#else
#define FIRST_ADDRESS 0x150000000000ul
#endif

/* No header declares these; programs do, the first one as long although it is not. */
#ifdef __cplusplus
extern "C" {
#endif
extern long NRegionDefs;
extern rvm_bool_t rds_testsw;
extern pthread_t rvm_pthreadid;
extern void* rvm_ptstat;
extern int rvm_join_res;
#ifdef __cplusplus
}
#endif

static const int codes[] = {
    RVM_SUCCESS,           RVM_EINIT,       RVM_EINTERNAL,      RVM_EIO,         RVM_ELOG,
    RVM_ELOG_VERSION_SKEW, RVM_EMODE,       RVM_ENAME_TOO_LONG, RVM_ENO_MEMORY,  RVM_ENOT_MAPPED,
    RVM_EOFFSET,           RVM_EOPTIONS,    RVM_EOVERLAP,       RVM_EPAGER,      RVM_ERANGE,
    RVM_EREGION,           RVM_EREGION_DEF, RVM_ESRC,           RVM_ESTATISTICS, RVM_ESTAT_VERSION_SKEW,
    RVM_ETERMINATED,       RVM_ETHREADS,    RVM_ETID,           RVM_ETOO_BIG,    RVM_EUNCOMMIT,
    RVM_EVERSION_SKEW,     RVM_EVM_OVERLAP, RVM_ESEGMENT_HDR};
static const int heap_codes[] = {SUCCESS,    ERVM_FAILED, EBAD_LIST, EBAD_SEGMENT_HDR, EHEAP_VERSION_SKEW,
                                 EHEAP_INIT, EBAD_ARGS,   ECORRUPT,  EFREED_TWICE,     ENO_ROOM};

static char* in_directory(const char* directory, const char* name) {
  char* const path = (char*)malloc(MAXPATHLEN);
  CHECK(path != NULL);
  snprintf(path, MAXPATHLEN, "%s/%s", directory, name);
  return path;
}

static void make_file(const char* path) {
  FILE* const file = fopen(path, "w");
  CHECK(file != NULL);
  CHECK(fclose(file) == 0);
}

static void names_and_numbers(void) {
  size_t i;
  for (i = 0; i < sizeof codes / sizeof *codes; ++i) CHECK(strncmp(rvm_return(codes[i]), "RVM_", 4) == 0);
  for (i = 0; i < sizeof heap_codes / sizeof *heap_codes; ++i) CHECK(heap_codes[i] == -(int)i);
  CHECK(strcmp(rvm_mode(flush), "flush") == 0 && strcmp(rvm_type(rvm_region_id), "rvm_region_id") == 0);
  CHECK(rvm_first_struct_id == 39 && rvm_options_id == 41 && rvm_statistics_id == 43);
  CHECK(rvm_first_mode == 139 && restore == 140 && no_restore == 141 && no_flush == 143);
  CHECK(TRUE && !FALSE && rvm_true == 1 && rvm_false == 0);
  CHECK(sizeof RVM_VERSION < RVM_VERSION_MAX && sizeof RVM_STATISTICS_VERSION < RVM_VERSION_MAX);
  CHECK(RVM_ALL_OPTIMIZATIONS == (RVM_COALESCE_RANGES | RVM_COALESCE_TRANS) && RVM_MAP_PRIVATE == 8 &&
        RVM_BARRIERS == 16);
}

static void offsets_and_pages(void) {
  static rvm_offset_t static_offset = RVM_OFFSET_INITIALIZER(1, 2);
  rvm_offset_t a = RVM_MK_OFFSET(0, ~0ul), b = RVM_LENGTH_TO_OFFSET(3), c;
  char* const address = (char*)RVM_PAGE_SIZE + 1;
  CHECK(RVM_OFFSET_TO_LENGTH(static_offset) == 2 && RVM_OFFSET_HIGH_BITS_TO_LENGTH(static_offset) == 1);
  c = RVM_ADD_OFFSETS(a, b);
  CHECK(c.high == 1 && c.low == 2 && RVM_OFFSET_EQL(c, static_offset));
  c = RVM_SUB_OFFSETS(c, b);
  CHECK(RVM_OFFSET_EQL(c, a));
  c = RVM_ADD_LENGTH_TO_OFFSET(a, 1);
  CHECK(c.high == 1 && c.low == 0);
  c = RVM_SUB_LENGTH_FROM_OFFSET(c, 1);
  CHECK(RVM_OFFSET_EQL(c, a));
  CHECK(RVM_OFFSET_LSS(b, a) && !RVM_OFFSET_LSS(a, a) && RVM_OFFSET_GTR(static_offset, a) && RVM_OFFSET_LEQ(a, a));
  CHECK(RVM_OFFSET_GEQ(a, a) && !RVM_OFFSET_GEQ(b, a) && !RVM_OFFSET_LEQ(static_offset, b));
  RVM_ZERO_OFFSET(c);
  CHECK(RVM_OFFSET_EQL_ZERO(c));

  CHECK(RVM_PAGE_SIZE == rvm_page_size() && (rvm_page_mask() & (RVM_PAGE_SIZE - 1)) == 0);
  CHECK(RVM_SEGMENT_HDR_SIZE == RVM_PAGE_SIZE);
  CHECK(RVM_ROUND_LENGTH_UP_TO_PAGE_SIZE(1) == RVM_PAGE_SIZE && RVM_ROUND_LENGTH_DOWN_TO_PAGE_SIZE(1) == 0);
  CHECK(RVM_ROUND_ADDR_DOWN_TO_PAGE_SIZE(address) == address - 1);
  CHECK(RVM_ROUND_ADDR_UP_TO_PAGE_SIZE(address) == address - 1 + RVM_PAGE_SIZE);
  CHECK(RVM_ADD_LENGTH_TO_ADDR(address, 4) == address + 4 && RVM_SUB_LENGTH_FROM_ADDR(address, 1) == address - 1);
  c = RVM_ROUND_OFFSET_UP_TO_PAGE_SIZE(b);
  CHECK(c.low == RVM_PAGE_SIZE);
  c = RVM_ROUND_OFFSET_DOWN_TO_PAGE_SIZE(b);
  CHECK(RVM_OFFSET_EQL_ZERO(c));
  c = rvm_rnd_offset_up_to_page(rvm_mk_offset(0, 1));
  CHECK(c.low == RVM_PAGE_SIZE);
  c = rvm_rnd_offset_dn_to_page(rvm_add_offsets(b, b));
  CHECK(c.low == 0);
  c = rvm_sub_length_from_offset(rvm_add_length_to_offset(b, 2), 1);
  CHECK(c.low == 4);
  c = rvm_sub_offsets(b, b);
  CHECK(c.low == 0);
}

static void descriptors(void) {
  rvm_region_t* const region = rvm_malloc_region();
  rvm_options_t* const options = rvm_malloc_options();
  rvm_tid_t* const tid = rvm_malloc_tid();
  rvm_statistics_t* const statistics = rvm_malloc_statistics();
  rvm_region_t* const region_copy = rvm_copy_region(region);
  rvm_options_t* const options_copy = rvm_copy_options(options);
  rvm_tid_t* const tid_copy = rvm_copy_tid(tid);
  rvm_statistics_t* const statistics_copy = rvm_copy_statistics(statistics);
  CHECK(region_copy != NULL && options_copy != NULL && tid_copy != NULL && statistics_copy != NULL);
  CHECK(options->truncate == TRUNCATE && options->recovery_buf_len == RECOVERY_BUF_LEN);
  CHECK(options->flush_buf_len == FLUSH_BUF_LEN && options->max_read_len == MAX_READ_LEN);
  CHECK(MIN_RECOVERY_BUF_LEN == 65536 && MIN_FLUSH_BUF_LEN == 65536);
  rvm_free_region(region);
  rvm_free_options(options);
  rvm_free_tid(tid);
  rvm_free_statistics(statistics);
  rvm_free_region(region_copy);
  rvm_free_options(options_copy);
  rvm_free_tid(tid_copy);
  rvm_free_statistics(statistics_copy);
}

static void transactions(char* device) {
  rvm_region_t region;
  rvm_tid_t tid;
  rvm_init_region(&region);
  region.data_dev = device;
  region.length = 2 * RVM_PAGE_SIZE;
  CHECK_OK(rvm_map(&region, NULL));
  rvm_init_tid(&tid);
  CHECK_OK(rvm_begin_transaction(&tid, restore));
  CHECK_OK(rvm_set_range(&tid, region.vmaddr, 4));
  CHECK_OK(rvm_modify_bytes(&tid, region.vmaddr, "text", 4));
  rvm_announce_store(region.vmaddr, 4); /* the region is without RVM_BARRIERS: nothing */
  CHECK_OK(rvm_abort_transaction(&tid));
  CHECK(region.vmaddr[0] == 0);
  CHECK_OK(rvm_begin_transaction(&tid, no_restore));
  CHECK_OK(rvm_modify_bytes(&tid, region.vmaddr, "text", 4));
  CHECK_OK(rvm_end_transaction(&tid, no_flush));
  CHECK_OK(rvm_flush());
  CHECK_OK(rvm_truncate());
  CHECK_OK(rvm_unmap(&region));
}

static void segments(char* device) {
  rvm_region_def_t defs[2], *loaded;
  unsigned long count;
  char* const base = (char*)FIRST_ADDRESS;
  RVM_INIT_REGION(defs[0], RVM_MK_OFFSET(0, 0), RVM_PAGE_SIZE, base);
  RVM_INIT_REGION(defs[1], RVM_MK_OFFSET(0, 0), 2 * RVM_PAGE_SIZE, base + 16 * RVM_PAGE_SIZE);
  CHECK_OK(rvm_create_segment(device, RVM_MK_OFFSET(0, 0), NULL, 2, defs));
  CHECK_OK(rvm_load_segment(device, RVM_MK_OFFSET(0, 0), NULL, &count, &loaded));
  CHECK(count == 2 && loaded[0].vmaddr == base && loaded[1].length == 2 * RVM_PAGE_SIZE);
  CHECK(loaded[1].offset.low == 2 * RVM_PAGE_SIZE);
  CHECK_OK(rvm_release_segment(count, &loaded));
  CHECK(loaded == NULL);
}

/* What programs for the original expect beside the headers. */
static void names_without_header(void) {
  CHECK(rds_testsw == rvm_false);
  rds_testsw = rvm_true;
  rvm_pthreadid = pthread_self();
  rvm_ptstat = NULL;
  rvm_join_res = 0;
}

static void heap(char* device) {
  char* const base = (char*)(FIRST_ADDRESS + (1ul << 34));
  char *static_region, *block, *other;
  intentionList_t list = {0, 0, NULL};
  rds_stats_t stats;
  rvm_tid_t tid;
  int err = 1;
  FILE* const trace = tmpfile();
  CHECK(trace != NULL);
  CHECK(rds_zap_heap(device, RVM_MK_OFFSET(0, 0), base, RVM_PAGE_SIZE, 64 * RVM_PAGE_SIZE, 50, RDS_MIN_CHUNK_SIZE,
                     &err) == 0);
  CHECK(err == SUCCESS);
  CHECK(rds_load_heap(device, RVM_MK_OFFSET(0, 0), &static_region, &err) == 0);
  CHECK(static_region == base + 64 * RVM_PAGE_SIZE && NRegionDefs == 2 && RegionDefs[0].vmaddr == base);
  CHECK(rds_stop_heap(&err) == 0);
  rvm_init_tid(&tid);
  CHECK_OK(rvm_begin_transaction(&tid, restore));
  CHECK(rds_init_heap(base, 64 * RVM_PAGE_SIZE, 64, 10, &tid, &err) == 0);
  CHECK_OK(rvm_end_transaction(&tid, flush));
  CHECK(rds_start_heap(base, &err) == 0);

  CHECK(rds_trace_on(trace) == 0 && rds_tracing && rds_tracing_file == trace);
  RDS_LOG("a line of the program's: %d\n", 1);
  CHECK(rds_prealloc(100, 10, NULL, &err) == 0);
  CHECK_OK(rvm_begin_transaction(&tid, restore));
  block = rds_malloc(100, &tid, &err);
  CHECK(block != NULL && err == SUCCESS);
  CHECK_OK(rvm_end_transaction(&tid, flush));
  other = rds_malloc(200, NULL, &err);
  CHECK(other != NULL && other != block);
  CHECK(rds_free(other, NULL, &err) == 0);
  CHECK(rds_maxblock(1000) == 1 && rds_maxblock(~0ul) == 0);
  CHECK(rds_get_stats(&stats) == 0 && stats.malloc == 2 && stats.free == 1 && stats.prealloc == 1);
  CHECK(stats.coalesce + stats.hits + stats.misses + stats.large_list + stats.large_hits + stats.large_misses == 0);
  CHECK(stats.merged + stats.unmerged == 0 && stats.mallocbytes >= 124 && stats.freebytes > stats.mallocbytes);
  CHECK(rds_trace_dump_heap() == 0);
  CHECK(rds_fake_free(block, &list) == SUCCESS && list.count == 1 && list.size >= 1 && list.table[0] == block);
  CHECK(rds_do_free(&list, flush) == SUCCESS && list.count == 0);
  free(list.table);
  CHECK(rds_trace_off() == 0 && !rds_tracing && ftell(trace) > 0);
  fclose(trace);
  CHECK(STARTSIZE == 128);
  CHECK(rds_print_stats() == 0);
  CHECK(rds_clear_stats(&err) == 0 && rds_get_stats(&stats) == 0 && stats.malloc == 0);
  CHECK(rds_unload_heap(&err) == 0);
  CHECK(NRegionDefs == 0 && RegionDefs == NULL);
}

static void counted(void) {
  rvm_statistics_t statistics;
  FILE* const out = tmpfile();
  const unsigned long flush_limits[] = {flush_times_dist}, length_limits[] = {range_lengths_dist},
                      elim_limits[] = {range_elims_dist}, seconds[] = {truncation_times_dist};
  CHECK(out != NULL);
  rvm_init_statistics(&statistics);
  CHECK_OK(RVM_STATISTICS(&statistics));
  CHECK_OK(rvm_statistics(RVM_STATISTICS_VERSION, &statistics));
  CHECK(statistics.n_abort > 0 && statistics.tot_flush > 0);
  CHECK_OK(rvm_print_statistics(&statistics, out));
  fclose(out);
  CHECK(sizeof flush_limits / sizeof *flush_limits == flush_times_len - 1);
  CHECK(sizeof length_limits / sizeof *length_limits == range_lengths_len - 1);
  CHECK(sizeof elim_limits / sizeof *elim_limits == range_elims_len - 1);
  CHECK(sizeof seconds / sizeof *seconds == truncation_times_len - 1);
}

int main(int argc, char** argv) {
  char *log, *device, *segment, *heap_file;
  rvm_options_t options;
  rvm_offset_t size = RVM_MK_OFFSET(0, 1 << 20);
  if (argc != 2) return 2;
  log = in_directory(argv[1], "log");
  device = in_directory(argv[1], "device");
  segment = in_directory(argv[1], "segment");
  heap_file = in_directory(argv[1], "heap");
  make_file(segment);
  make_file(heap_file);
  {
    FILE* const file = fopen(device, "w");
    unsigned long i;
    CHECK(file != NULL);
    for (i = 0; i < 4 * RVM_PAGE_SIZE; ++i) fputc(0, file);
    CHECK(fclose(file) == 0);
  }
  names_and_numbers();
  offsets_and_pages();
  descriptors();
  CHECK_OK(RVM_INIT(NULL));
  rvm_init_options(&options);
  options.log_dev = log;
  CHECK_OK(rvm_create_log(&options, &size, 0600));
  CHECK_OK(rvm_set_options(&options));
  CHECK_OK(rvm_initialize(RVM_VERSION, NULL));
  CHECK_OK(rvm_query(&options, NULL));
  CHECK(strcmp(options.log_dev, log) == 0 && options.n_uncommit == 0 && options.tid_array == NULL);
  transactions(device);
  segments(segment);
  names_without_header();
  heap(heap_file);
  counted();
  rvm_free_options(&options);
  CHECK_OK(rvm_terminate());
  free(log);
  free(device);
  free(segment);
  free(heap_file);
  return 0;
}
