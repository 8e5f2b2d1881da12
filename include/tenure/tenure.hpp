// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Everything for programs with persistent objects: stores, and containers that live in them. It does not include
// headers that are costly to compile and rarely needed: the containers of the standard library with memory of the store
// (allocator.hpp).
#pragma once

#include <tenure/field.hpp>
#include <tenure/finalization_queue.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/hash_set.hpp>
#include <tenure/map.hpp>
#include <tenure/ordered_index.hpp>
#include <tenure/registry.hpp>
#include <tenure/set.hpp>
#include <tenure/store.hpp>
#include <tenure/string.hpp>
#include <tenure/transient.hpp>
#include <tenure/vector.hpp>
#include <tenure/weak.hpp>
#include <tenure/weak_map.hpp>
