// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A shared object with barriers compiled in, which the program loads.
#include <cstring>
#include <list>
#include <new>

extern "C" {

void write_number(long* to, long n) { *to = n; }
void write_bytes(char* to, const char* from, std::size_t length) { std::memcpy(to, from, length); }
void write_text(char* to, const char* from) { std::strcpy(to, from); }
// At `to` and in the bytes behind it.
void write_list(void* to) {
  struct node : std::__detail::_List_node_base {};
  auto* const nodes = new (to) node[3];
  nodes[0]._M_next = nodes[0]._M_prev = &nodes[0];
  nodes[1]._M_hook(&nodes[0]);
  nodes[2]._M_hook(&nodes[1]);
  nodes[0]._M_reverse();
}

}  // extern "C"
