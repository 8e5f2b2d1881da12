// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What evolve<T> has declared of a class, read from the version of a stored one on. The names that fields had and got are
// followed through the versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/types/evolve.hpp>

namespace tenure::types {

class declared_changes {
 public:
  // `all`: what evolve<T> has said; nullptr: nothing.
  declared_changes(const type_changes* all, std::uint32_t stored_version);

  struct source {
    std::string path;                             // in the stored class; empty: it has none
    const detail::field_change* added = nullptr;  // or it is new
  };
  // Of a field of the program's class: backwards through the versions.
  [[nodiscard]] source source_of(std::string path) const;
  // Whether a stored field, or what it is in, was declared to be gone.
  [[nodiscard]] bool is_removed(std::string path) const;
  // The name that a stored field itself was given, not what it is in; empty: none.
  [[nodiscard]] std::string new_name(std::string path) const;
  // Of a field that was given a name: whether a function of a later version may use it.
  [[nodiscard]] bool has_function_after_renaming(std::string path) const;
  // Whether some declaration says what became of a part of a stored field, under the name that it had then.
  [[nodiscard]] bool takes_apart(std::string path) const;
  // Under the name that the field had after each version.
  [[nodiscard]] bool is_narrowed(std::string path) const;
  // Whether some declaration leads into a new field, under the name that it had after each version.
  [[nodiscard]] bool leads_to_parts_of(std::string path) const;
  [[nodiscard]] std::vector<const detail::version_changes*> functions() const;
  // Declarations that can do nothing in the program's class, a sentence each.
  [[nodiscard]] std::vector<std::string> mistakes(const type& program) const;

 private:
  [[nodiscard]] static bool removes(const detail::version_changes& in, std::string_view path);
  // All renamings of a version hold at once, so that names can be exchanged. The longest name that fits decides.
  [[nodiscard]] static std::string renamed(const detail::version_changes& in, const std::string& path,
                                           std::string detail::field_change::*from,
                                           std::string detail::field_change::*to);

  // Whether a field of that name is one of the program's class, or was declared to be gone later.
  [[nodiscard]] static bool is_known(std::string path, std::span<const detail::version_changes* const> later,
                                     const type& program);

  std::vector<const detail::version_changes*> versions_;
};

// The bytes of a field that was added. `problem`: why the value that was declared cannot be that of the field, to be put behind its
// name. Nothing, if the value is not known.
[[nodiscard]] std::vector<std::byte> bytes_of_added(const detail::field_change& added, const type_field& field,
                                                    std::string& problem);

}  // namespace tenure::types
