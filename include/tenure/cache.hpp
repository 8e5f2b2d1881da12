// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores in a cache: the objects of a store that is not mapped come into the program's memory one by one, when they are used,
// and go again.
//
//     struct part {
//       int weight;
//       tenure::cache::ref<part> next;
//     };
//     tenure::cache::store store{"parts", {.pool_pages = 256, .object_bytes = 16 << 20}};
//     const int sum = store.read([&] {
//       int weights = 0;
//       for (auto p = store.root<part>("first"); p; p = p->next) weights += p->weight;
//       return weights;
//     });
//     store.transact([&] {
//       const auto made = store.make<part>();
//       made.change().weight = sum;
//       store.root<part>("first").change().next = made;
//     });
//
// The store is an ordinary one, made by tenure::store. It is open mapped or in a cache, never both. In a cache its objects are
// read, changed, made and destroyed, and so are roots. See docs/cache.md.
//
// After White & DeWitt, "A Performance Study of Alternative Object Faulting and Pointer Swizzling Strategies" (1992), and
// Hosking, "Lightweight Support for Fine-Grained Persistence on Stock Hardware" (1995), chapters 3 to 5.
#pragma once

#include <tenure/cache/map.hpp>
#include <tenure/cache/method_cache.hpp>
#include <tenure/cache/options.hpp>
#include <tenure/cache/ref.hpp>
#include <tenure/cache/store.hpp>
#include <tenure/cache/transaction.hpp>
#include <tenure/error.hpp>
