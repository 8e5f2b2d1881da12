/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A list of lines that grows from execution to execution: Figure 2 of Arnold and Kamil's paper on pobj.
 *
 *     $ echo one | ./lines
 *     one
 *     $ echo two | ./lines
 *     two
 *     one
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/pobj.h>

typedef struct node {
  char* str;
  struct node* next;
} Node;

static const size_t node_ref_fields[] = {offsetof(Node, str), offsetof(Node, next), POBJ_END};

Node* list = NULL;

static void must(int code) {
  if (code == POBJ_OK) return;
  fprintf(stderr, "%s\n", pobj_error());
  exit(1);
}

static void add_line(const char* line) {
  size_t len = strlen(line);

  must(pobj_start());

  Node* node = (Node*)pobj_malloc(sizeof(Node));
  char* str = (char*)pobj_malloc(sizeof(char) * (len + 1));
  if (node == NULL || str == NULL) must(POBJ_ENOMEM);
  must(pobj_ref_typify(node, node_ref_fields));

  memcpy(str, line, len + 1);
  node->str = str;
  node->next = list;

  must(pobj_update(str));
  must(pobj_update(node));
  must(pobj_static_set_ref(&list, node));

  must(pobj_end());
}

static int get_line(char* line, int size) {
  if (fgets(line, size, stdin) == NULL) return 0;
  line[strcspn(line, "\n")] = '\0';
  return 1;
}

static void print_list(void) {
  for (const Node* node = list; node != NULL; node = node->next) puts(node->str);
}

int main(void) {
  char line[256];

  must(pobj_init());
  while (get_line(line, sizeof(line))) add_line(line);
  print_list();
  return 0;
}
