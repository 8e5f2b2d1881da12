// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Compiled with FORM=bare, inline or outlined.
#include "barriers/updates.hpp"

#define JOINED(a, b) a##b
#define NAME(function, form) JOINED(function, form)

namespace tenure::bench::barriers {

void NAME(make_, FORM)(record* const* records, std::span<const update> updates) {
  for (const update& u : updates) records[u.record]->words[u.word] = u.value;
}

}  // namespace tenure::bench::barriers
