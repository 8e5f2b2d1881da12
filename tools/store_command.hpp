// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure info | roots | types | dump | verify: what is in a store, for people, for programs (as JSON) and as a picture.
// Nothing is changed, and no type of the program is needed. All but verify throw if the store cannot be opened.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace tenure::tools {

class progress_line;

// All return an exit code (log_command.hpp).

int show_store(const std::string& directory, bool as_json, std::FILE* out);

// `database`: empty for all.
int show_roots(const std::string& directory, const std::string& database, bool with_sizes, bool as_json,
               std::FILE* out);

struct type_selection {
  std::string database = {};
  std::string name = {};  // part of it; empty: all
  bool with_fields = false;
};
int show_types(const std::string& directory, const type_selection& which, bool as_json, std::FILE* out);

enum class dump_form { text, json, dot };
struct dump_selection {
  std::string root = {}, address = {};      // where to begin; both empty: at all roots
  std::optional<std::uint64_t> depth = {};  // references to follow, one after the other
  std::uint64_t limit = 100;                // objects shown
  std::string type = {};                    // only objects with this in their type's name; the way goes through all
  std::uint64_t elements = 16;              // of arrays
};
// `notes`: for people, where `out` is for programs and does not show all; may be nullptr.
int dump_objects(const std::string& directory, const dump_selection& which, dump_form form, std::FILE* out,
                 std::FILE* notes = nullptr);

// exit_damaged if anything is wrong. `progress`: may be nullptr.
int verify_store(const std::string& directory, bool as_json, std::FILE* out, progress_line* progress);

}  // namespace tenure::tools
