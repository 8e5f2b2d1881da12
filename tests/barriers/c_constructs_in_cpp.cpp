// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <complex>
#include <cstdint>

#include "barriers/construct.hpp"

using namespace constructs;

extern "C" {
struct part {
  int id;
  short kind;
  char name[11];
  double at[3];
  part* next;
};
void c_assign_field(part* to, int n);
void c_assign_struct(part* to, const part* from);
void c_compound_literal(part* to, int n);
void c_pointer_walk(part* to, int n);
void c_array_of_arrays(double (*to)[4], int n);
void c_link(part* to, part* other);
void c_bits(unsigned* to, int n);
void c_flexible(int* to, int n);
void c_union(std::uint64_t* to, float f);
void c_atomic(int* to);
void c_variable_array(int* to, int n);
void c_arguments(int* to, int n, ...);
void c_restrict(int* to, const int* from, int n);
void c_complex(void* to, double a, double b);
void c_goto(int* to, int n);
void c_duff(char* to, const char* from, int n);
}

#define C_CONSTRUCT(name, type, count, call) \
  CONSTRUCT(name##_in_c) {                   \
    type* const to = places<type>(count);    \
    watch();                                 \
    call;                                    \
  }

C_CONSTRUCT(assign_field, part, 1, c_assign_field(to, hidden(4)))
C_CONSTRUCT(assign_struct, part, 2, to[1].id = 7; to[1].at[2] = 3; c_assign_struct(to, to + 1))
C_CONSTRUCT(compound_literal, part, 1, c_compound_literal(to, hidden(4)))
C_CONSTRUCT(pointer_walk, part, 1, c_pointer_walk(to, hidden(9)))
C_CONSTRUCT(array_of_arrays, double, 40, c_array_of_arrays(reinterpret_cast<double (*)[4]>(to), hidden(10)))
C_CONSTRUCT(link, part, 2, c_link(to, to + 1))
C_CONSTRUCT(bits, unsigned, 3, to[1] = ~0u; c_bits(to, hidden(7)))
C_CONSTRUCT(flexible, int, 20, c_flexible(to, hidden(17)))
C_CONSTRUCT(union, std::uint64_t, 1, c_union(to, 1.5f))
C_CONSTRUCT(atomic, int, 1, c_atomic(to))
C_CONSTRUCT(variable_array, int, 30, c_variable_array(to, hidden(25)))
C_CONSTRUCT(arguments, int, 3, c_arguments(to, 3, 1, 2, 3))
C_CONSTRUCT(restrict, int, 80, to[40] = 5; to[79] = 8; c_restrict(to, to + 40, hidden(40)))
C_CONSTRUCT(complex, double, 2, c_complex(to, hidden(3), hidden(4)))
C_CONSTRUCT(goto, int, 1, c_goto(to, hidden(4)))
C_CONSTRUCT(duff, char, 80, to[40] = 'x'; c_duff(to, to + 37, hidden(23)))
