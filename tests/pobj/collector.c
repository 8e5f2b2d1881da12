/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 *     collector STORE
 *
 * Persistent objects in the heap of the Boehm collector, which takes those that the program has lost, and tells pobj, which
 * frees their images. Two executions; each leaves a list of 1000 nodes that is reachable, and no more than a few others: a
 * conservative collector may take any word for a pointer. [pobj 5.3.3]
 */
#include <gc.h>
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

enum { NODES = 1000, GARBAGE = 20000, LEFT_OVER = 500 };

typedef struct node {
  struct node* next;
  char* text;
  long value;
} node;
static const size_t references[] = {offsetof(node, next), offsetof(node, text), POBJ_END};

static node* list;
static long taken;

static void finalize(void* block, void* unused) {
  ++taken;
  pobj_finalize_block(block, unused);
}

static void* collected_malloc(size_t size) {
  void* block = GC_MALLOC(size);
  if (block != NULL) GC_REGISTER_FINALIZER_NO_ORDER(block, finalize, NULL, NULL, NULL);
  return block;
}
static void* control_malloc(size_t size) { return GC_MALLOC_UNCOLLECTABLE(size); }
static void control_free(void* block) { GC_FREE(block); }

static node* make(long value, node* next) {
  char text[32];
  node* n = (node*)pobj_malloc(sizeof *n);
  CHECK(n != NULL);
  CHECK(pobj_ref_typify(n, references) == POBJ_OK);
  n->next = next;
  n->value = value;
  snprintf(text, sizeof text, "node %ld", value);
  n->text = (char*)pobj_malloc(strlen(text) + 1);
  CHECK(n->text != NULL);
  strcpy(n->text, text);
  CHECK(pobj_update(n->text) == POBJ_OK && pobj_update(n) == POBJ_OK);
  return n;
}

static void make_garbage(void) {
  long i;
  for (i = 0; i < GARBAGE; i += 100) {
    int k;
    CHECK(pobj_start() == POBJ_OK);
    for (k = 0; k < 50; ++k) (void)make(-i, NULL); /* two objects each */
    CHECK(pobj_end() == POBJ_OK);
  }
}

static void check_list(void) {
  long i = NODES;
  const node* n;
  for (n = list; n != NULL; n = n->next) {
    char text[32];
    --i;
    snprintf(text, sizeof text, "node %ld", i);
    CHECK(n->value == i && strcmp(n->text, text) == 0 && pobj_is_persistent(n));
  }
  CHECK(i == 0);
}

int main(int count, char** arguments) {
  pobj_options options;
  pobj_report report;
  int i;
  GC_INIT();
  CHECK(count == 2);
  memset(&options, 0, sizeof options);
  options.path = arguments[1];
  options.objects.malloc = collected_malloc;
  options.control.malloc = control_malloc;
  options.control.free = control_free;
  CHECK(pobj_init_with(&options) == POBJ_OK);
  CHECK(pobj_get_report(&report) == POBJ_OK);
  if (report.created) {
    CHECK(pobj_start() == POBJ_OK);
    for (i = 0; i < NODES; ++i) list = make(i, list);
    CHECK(pobj_static_update_ref(&list) == POBJ_OK);
    CHECK(pobj_end() == POBJ_OK);
  } else {
    CHECK(report.objects >= 2 * NODES && report.objects < 2 * NODES + LEFT_OVER);
  }
  make_garbage();
  for (i = 0; i < 4; ++i) {
    GC_gcollect();
    GC_invoke_finalizers();
  }
  check_list();
  CHECK(taken > GARBAGE - LEFT_OVER);
  CHECK(pobj_close() == POBJ_OK);
  printf("objects found: %s\n", report.created ? "none" : "as expected");
  return 0;
}
