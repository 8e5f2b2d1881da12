/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 *     rvm_program DIRECTORY TRANSACTIONS
 *
 * A C program on recoverable memory that declares nothing: compiled with barriers, its stores are declared (RVM_BARRIERS).
 * Compares its region with what the last run has left, and with a copy of its own after each transaction. Ends without
 * rvm_terminate, so that the next run recovers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rvm/rvm.h>
#include <unistd.h>

struct account {
  unsigned long id;
  int amounts[7];
  char owner[20];
  double rate;
  unsigned flags : 3;
  unsigned kind : 13;
};

enum { accounts = 2000 };

struct bank {
  unsigned long sum; /* of all accounts, when the last transaction was committed */
  unsigned long committed;
  struct account all[accounts];
};

static unsigned long state = 1;
static unsigned long draw(unsigned long below) {
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return (state >> 33) % below;
}

static unsigned long sum_of(const struct bank* in) {
  const unsigned char* bytes = (const unsigned char*)in->all;
  unsigned long sum = 14695981039346656037ul, n;
  for (n = 0; n < sizeof in->all; ++n) sum = (sum ^ bytes[n]) * 1099511628211ul;
  return sum;
}

static void fail(const char* what, long code) {
  printf("failed: %s (%ld)\n", what, code);
  exit(1);
}

static void must(rvm_return_t code, const char* what) {
  if (code != RVM_SUCCESS) fail(what, code);
}

static int descending(const void* a, const void* b) { return *(const int*)b - *(const int*)a; }

static void change(struct bank* in) {
  struct account* one = &in->all[draw(accounts)];
  struct account* other = &in->all[draw(accounts)];
  int n;
  switch (draw(9)) {
    case 0: one->id += 7; break;
    case 1: one->amounts[draw(7)] -= 3; break;
    case 2: one->kind = draw(8000) & 0x1fff; break;
    case 3: snprintf(one->owner, sizeof one->owner, "owner %lu", draw(100000)); break;
    case 4: strcpy(one->owner, other->owner); break;
    case 5: *one = *other; break;
    case 6: qsort(one->amounts, 7, sizeof(int), descending); break;
    case 7:
      for (n = 0; n < 7; ++n) one->amounts[n] = (int)draw(1000);
      break;
    default: memmove(one, one + 1 < in->all + accounts ? one + 1 : one, sizeof *one); one->rate *= 1.25;
  }
}

/* What rvm_modify_bytes writes is of its own transaction only, though the thread has begun another one since. */
static void modify_in(rvm_tid_t* tid, struct account* one) {
  struct account wanted = *one;
  rvm_tid_t newer;
  wanted.rate += 1;
  rvm_init_tid(&newer);
  must(rvm_begin_transaction(&newer, restore), "rvm_begin_transaction");
  must(rvm_modify_bytes(tid, one, &wanted, sizeof wanted), "rvm_modify_bytes");
  must(rvm_abort_transaction(&newer), "rvm_abort_transaction");
  if (memcmp(one, &wanted, sizeof wanted) != 0) fail("rvm_modify_bytes", 0);
}

int main(int argc, char** argv) {
  static char log_path[1000], segment_path[1000];
  static struct bank before;
  struct bank* in;
  rvm_options_t options;
  rvm_region_t region;
  long left, n;
  FILE* file;
  if (argc != 3) return 2;
  snprintf(log_path, sizeof log_path, "%s/log", argv[1]);
  snprintf(segment_path, sizeof segment_path, "%s/bank", argv[1]);
  file = fopen(segment_path, "ab");
  if (file == NULL || ftruncate(fileno(file), (sizeof(struct bank) + 4095) / 4096 * 4096) != 0) return 2;
  fclose(file);

  rvm_init_options(&options);
  options.log_dev = log_path;
  options.create_log_file = rvm_true;
  options.create_log_size.low = 1 << 20;
  options.flags = RVM_BARRIERS;
  must(RVM_INIT(&options), "rvm_initialize");
  rvm_init_region(&region);
  region.data_dev = segment_path;
  must(rvm_map(&region, NULL), "rvm_map");
  in = (struct bank*)region.vmaddr;
  if (in->committed != 0 && in->sum != sum_of(in)) fail("the sum that the last run has left", (long)in->committed);
  state += in->committed;

  for (left = atol(argv[2]); left > 0; --left) {
    rvm_tid_t tid;
    rvm_init_tid(&tid);
    before = *in;
    must(rvm_begin_transaction(&tid, restore), "rvm_begin_transaction");
    for (n = (long)draw(20); n > 0; --n) change(in);
    if (draw(4) == 0) modify_in(&tid, &in->all[draw(accounts)]);
    if (draw(4) == 0) {
      must(rvm_abort_transaction(&tid), "rvm_abort_transaction");
      if (memcmp(&before, in, sizeof before) != 0) fail("an abort", left);
      continue;
    }
    ++in->committed;
    in->sum = sum_of(in);
    must(rvm_end_transaction(&tid, left == 1 || draw(10) == 0 ? flush : no_flush), "rvm_end_transaction");
  }
  must(rvm_flush(), "rvm_flush");
  fflush(stdout);
  _exit(0);
}
