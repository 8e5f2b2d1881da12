// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure schema export, diff, check: layouts of stores and of programs. A schema is a store's directory, or a file with what
// tenure::schema() has returned, or `tenure schema export` printed.
#pragma once

#include <cstdio>
#include <string>

namespace tenure::tools {

// As JSON, always.
int export_schema(const std::string& schema, std::FILE* out);
// Returns exit_damaged if they differ.
int show_schema_difference(const std::string& one, const std::string& other, bool as_json, std::FILE* out);
// Whether a program with the second schema can open a store with the first one, as it is or by converting it. Returns
// exit_damaged if not.
int check_schema(const std::string& store, const std::string& program, bool as_json, std::FILE* out);

}  // namespace tenure::tools
