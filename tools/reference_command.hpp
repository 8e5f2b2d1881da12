// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure who-refers, tenure path-to-root: why an object of a store is kept.
#pragma once

#include <cstdio>
#include <string>

namespace tenure::tools {

// All references to the object in which the address `where` lies: roots, and fields of objects, reachable or not. Words of unknown
// layout count if they could be such a reference.
int show_referrers(const std::string& directory, const std::string& where, bool as_json, std::FILE* out);
// A shortest way from a root to it. Remembers each object that it meets: some 200 bytes.
int show_path(const std::string& directory, const std::string& where, bool as_json, std::FILE* out);

}  // namespace tenure::tools
