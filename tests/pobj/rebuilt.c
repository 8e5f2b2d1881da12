/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 *     pobj_rebuilt STORE
 *
 * A program in two builds. Each prints how many nodes it finds from a global and from a static variable, and adds one to
 * each; the variables lie elsewhere in the second build, which loads at fixed addresses besides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/pobj.h>

typedef struct node {
  struct node* next;
} node;
static const size_t references[] = {offsetof(node, next), POBJ_END};

#ifdef BUILD_2
static node* something_new[100];
node* something_else = NULL;
static node* private_list;
node* list;
#else
node* list;
static node* private_list;
#endif

static void must(int code) {
  if (code == POBJ_OK) return;
  fprintf(stderr, "%s\n", pobj_error());
  exit(1);
}

static int count(const node* n) { return n == NULL ? 0 : 1 + count(n->next); }

static void add(node** to) {
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
  printf("%d %d\n", count(list), count(private_list));
  must(pobj_start());
  add(&list);
  add(&private_list);
#ifdef BUILD_2
  something_new[50] = something_else;
  must(pobj_static_update_ref(&something_new[50]));
#endif
  must(pobj_end());
  return 0;
}
