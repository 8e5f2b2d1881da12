/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 *     every_call STORE
 *
 * A program in C99, which is C++ too, that makes every call of the interface, in two executions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/pobj.h>

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, pobj_error()); \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

struct record {
  struct record* next;
  char c;
  unsigned char uc;
  short s;
  unsigned short us;
  int i;
  unsigned u;
  long l;
  unsigned long ul;
  long long ll;
  unsigned long long ull;
  size_t z;
  float f;
  double d;
  char text[16];
  long scratch;
};
static const size_t references[] = {offsetof(struct record, next), POBJ_END};
static const size_t transients[] = {offsetof(struct record, scratch), sizeof(long), POBJ_END};

static struct record* list;
static struct record* named;
static int counters[4];

static void first(void) {
  const pobj_type* type = pobj_type_define("record", sizeof(struct record), references, transients);
  const pobj_allocator libc = {malloc, calloc, free};
  struct record* r = (struct record*)pobj_malloc(sizeof *r);
  struct record* t = (struct record*)pobj_calloc_transient(1, sizeof *t);
  void* other[6];
  uint64_t freed = 0;
  int i;

  CHECK(type != NULL && r != NULL && t != NULL);
  CHECK(pobj_start() == POBJ_OK && pobj_depth() == 1);
  CHECK(pobj_set_type(r, type) == POBJ_OK);
  CHECK(pobj_ref_typify(t, references) == POBJ_OK);
  memset(r, 0, sizeof *r);
  t->i = 77;
  r->scratch = 1;
  r->next = t;
  CHECK(pobj_update(r) == POBJ_OK);
  CHECK(pobj_update_range(r, &r->text, sizeof r->text) == POBJ_OK);
  CHECK(pobj_update_recursive(r, POBJ_PERSISTIFY) == POBJ_OK);
  CHECK(pobj_is_persistent(t) && pobj_is_object(t) && pobj_size(t) == sizeof *t);
  CHECK(pobj_set_char(r, &r->c, 'c') == POBJ_OK && pobj_set_uchar(r, &r->uc, 2) == POBJ_OK);
  CHECK(pobj_set_short(r, &r->s, 3) == POBJ_OK && pobj_set_ushort(r, &r->us, 4) == POBJ_OK);
  CHECK(pobj_set_int(r, &r->i, 5) == POBJ_OK && pobj_set_uint(r, &r->u, 6) == POBJ_OK);
  CHECK(pobj_set_long(r, &r->l, 7) == POBJ_OK && pobj_set_ulong(r, &r->ul, 8) == POBJ_OK);
  CHECK(pobj_set_llong(r, &r->ll, 9) == POBJ_OK && pobj_set_ullong(r, &r->ull, 10) == POBJ_OK);
  CHECK(pobj_set_size(r, &r->z, 11) == POBJ_OK && pobj_set_float(r, &r->f, 12) == POBJ_OK);
  CHECK(pobj_set_double(r, &r->d, 13) == POBJ_OK && pobj_set_ref(r, &r->next, t) == POBJ_OK);
  CHECK(pobj_memcpy(r, r->text, "text", 5) == POBJ_OK && pobj_memset(r, r->text + 6, 'x', 2) == POBJ_OK);
  CHECK(pobj_static_set_ref(&list, r) == POBJ_OK && pobj_static_update_ref(&list) == POBJ_OK);
  CHECK(pobj_end() == POBJ_OK);

  CHECK(pobj_start() == POBJ_OK);
  CHECK(pobj_set_int(r, &r->i, 500) == POBJ_OK);
  CHECK(pobj_start_inner() == POBJ_OK && pobj_depth() == 2);
  CHECK(pobj_set_int(r, &r->i, 501) == POBJ_OK);
  CHECK(pobj_abort() == POBJ_OK && r->i == 500 && pobj_depth() == 1);
  CHECK(pobj_abort() == POBJ_OK && r->i == 5);
  r->u = 600;
  CHECK(pobj_restore(r) == POBJ_OK && r->u == 6);

  other[0] = pobj_malloc_transient(8);
  other[1] = pobj_calloc(2, 8);
  other[2] = pobj_malloc_adhoc(8, &libc);
  other[3] = pobj_calloc_adhoc(2, 8, &libc);
  other[4] = pobj_malloc_transient_adhoc(8, &libc);
  other[5] = pobj_malloc_adhoc(8, &libc);
  CHECK(pobj_ref_flag(other[1], other[1]) == POBJ_OK && pobj_ref_unflag(other[1], other[1]) == POBJ_OK);
  CHECK(pobj_persistify(other[0]) == POBJ_OK && pobj_unpersistify(other[0]) == POBJ_OK);
  for (i = 0; i < 5; ++i) CHECK(pobj_free(other[i]) == POBJ_OK);
  CHECK(pobj_free(other[0]) == POBJ_EHANDLE && strlen(pobj_error()) > 0);
  CHECK(pobj_finalize(other[5]) == POBJ_OK);
  free((char*)other[5] - POBJ_HEADER_SIZE);
  other[5] = pobj_malloc_adhoc(8, &libc);
  pobj_finalize_block((char*)other[5] - POBJ_HEADER_SIZE, NULL);
  free((char*)other[5] - POBJ_HEADER_SIZE);
  other[5] = pobj_malloc(8);
  CHECK(pobj_sweep(&freed) == POBJ_OK && freed == 1);

  counters[2] = 3;
  CHECK(pobj_static_update(counters, sizeof counters, NULL) == POBJ_OK);
  CHECK(pobj_static_named("every_call.named", &named, sizeof named, references) == POBJ_OK);
  CHECK(pobj_static_set_ref(&named, t) == POBJ_OK);
  CHECK(pobj_close() == POBJ_OK);
}

static void second(void) {
  static struct record* again;
  pobj_report report;
  CHECK(pobj_get_report(&report) == POBJ_OK);
  CHECK(!report.created && report.objects == 2 && report.statics == 2 && report.unbound == 1);
  CHECK(strcmp(pobj_unbound(0), "every_call.named") == 0 && pobj_unbound(1) == NULL);
  CHECK(pobj_static_bind("every_call.named", &again, sizeof again) == POBJ_OK);
  CHECK(pobj_static_bind("every_call.named", &again, sizeof again) == POBJ_ESTATIC);
  CHECK(pobj_static_bind("every_call.named", NULL, 0) == POBJ_OK && again != NULL);
  CHECK(pobj_static_forget("every_call.named") == POBJ_OK);
  CHECK(pobj_static_named("every_call.named", &again, sizeof again, NULL) == POBJ_OK);
  CHECK(pobj_static_named("every_call.named", NULL, 0, NULL) == POBJ_OK);
  CHECK(again->i == 77 && list->next == again && list->scratch == 0 && counters[2] == 3);
  CHECK(list->c == 'c' && list->uc == 2 && list->s == 3 && list->us == 4 && list->i == 5 && list->u == 6);
  CHECK(list->l == 7 && list->ul == 8 && list->ll == 9 && list->ull == 10 && list->z == 11);
  CHECK(list->f == 12 && list->d == 13 && strcmp(list->text, "text") == 0 && list->text[7] == 'x');
  puts("ok");
}

int main(int count, char** arguments) {
  pobj_options options;
  pobj_report report;
  memset(&options, 0, sizeof options);
  CHECK(count == 2);
  options.path = arguments[1];
  options.flags = POBJ_STRICT;
  CHECK(pobj_init_with(&options) == POBJ_OK);
  CHECK(pobj_init() == POBJ_ESTATE);
  CHECK(pobj_get_report(&report) == POBJ_OK);
  if (report.created)
    first();
  else
    second();
  return 0;
}
