// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The table of roots, as a commit leaves it that has set or removed some.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include "cache/databases.hpp"
#include "cache/descriptions.hpp"
#include "cache/edited_pages.hpp"
#include "cache/open_transaction.hpp"

namespace tenure::cache {

// Called before the table of types is written.
void write_roots(open_database& in, const open_transaction::root_changes& changes, descriptions& objects,
                 edited_pages& pages);

}  // namespace tenure::cache
