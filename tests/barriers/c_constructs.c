// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A program in C. The functions are called by c_constructs_in_cpp.cpp.
#include <complex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

struct part {
  int id;
  short kind;
  char name[11];
  double at[3];
  struct part* next;
};

void c_assign_field(struct part* to, int n) { to->id = n; }
void c_assign_struct(struct part* to, const struct part* from) { *to = *from; }
void c_compound_literal(struct part* to, int n) { *to = (struct part){.id = n, .name = "compound"}; }
void c_pointer_walk(struct part* to, int n) {
  for (char* p = to->name; p < to->name + n; *p++ = 'w') continue;
}
void c_array_of_arrays(double (*to)[4], int n) {
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < 4; ++k) to[i][k] = i + k;
}
void c_link(struct part* to, struct part* other) { to->next = other, other->next = to; }
void c_bits(unsigned* to, int n) { to[0] |= 1u << n, to[1] &= ~(1u << n), to[2] ^= 7u; }
void c_flexible(int* to, int n) {
  struct flexible {
    int n;
    int values[];
  }* f = (struct flexible*)to;
  f->n = n;
  for (int i = 0; i < n; ++i) f->values[i] = i;
}
void c_union(uint64_t* to, float f) {
  union {
    float f;
    uint32_t i;
  } u = {.f = f};
  *to = u.i;
}
void c_atomic(_Atomic int* to) { *to += 5; }
void c_variable_array(int* to, int n) {
  int values[n];
  for (int i = 0; i < n; ++i) values[i] = i * i;
  memcpy(to, values, sizeof values);
}
void c_arguments(int* to, int n, ...) {
  va_list arguments;
  va_start(arguments, n);
  while (n-- > 0) *to++ = va_arg(arguments, int);
  va_end(arguments);
}
void c_restrict(int* restrict to, const int* restrict from, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i] * 3;
}
void c_complex(double _Complex* to, double a, double b) { *to = a + b * I; }
void c_goto(int* to, int n) {
again:
  *to += n;
  if (--n > 0) goto again;
}
void c_duff(char* to, const char* from, int n) {
  switch (n % 4) {
    case 0:
      do {
        *to++ = *from++;
        // fall through
        case 3: *to++ = *from++;
        // fall through
        case 2: *to++ = *from++;
        // fall through
        case 1: *to++ = *from++;
      } while ((n -= 4) > 0);
  }
}
