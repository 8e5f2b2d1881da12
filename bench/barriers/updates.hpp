// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The updates of a transaction, compiled several times: without barriers, and with either form of compiled-in ones
// (docs/barriers.md).
#pragma once

#include <span>

#include "barriers/contender.hpp"

namespace tenure::bench::barriers {

void make_bare(record* const* records, std::span<const update> updates);
void make_inline(record* const* records, std::span<const update> updates);
void make_outlined(record* const* records, std::span<const update> updates);

}  // namespace tenure::bench::barriers
