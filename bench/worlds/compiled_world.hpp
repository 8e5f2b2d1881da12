// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The object heap for a source file that is compiled with barriers (docs/barriers.md): plain members, and a type of its own, so
// that nothing of it is taken for what other files have.
#pragma once

#include "worlds/heap_world.hpp"

namespace tenure::bench {

struct compiled_world : heap_world {};

}  // namespace tenure::bench
