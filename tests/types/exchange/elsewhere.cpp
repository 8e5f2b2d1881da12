// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes the order in which a program is linked matter: has vtables of its own.
#include "types/exchange/elsewhere.hpp"

namespace elsewhere {
namespace {

struct question {
  virtual ~question() = default;
  virtual int first() const { return 40; }
  virtual int second() const { return 2; }
};
struct other_question : question {
  int second() const override { return 3; }
};
question asked;
other_question not_asked;

}  // namespace

int answer() {
  const question* one = &asked;
  const question* other = &not_asked;
  asm volatile("" : "+r"(one), "+r"(other));
  return one->first() + one->second() + other->second() - 3;
}

}  // namespace elsewhere
