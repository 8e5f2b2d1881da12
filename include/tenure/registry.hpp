// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The types that a program wants to be compared with a store's when it opens the store, and not only when it first uses them:
//
//     const tenure::register_type<package, version> registered;
//
// at namespace scope, in any source file of the program. Registered types are also those whose virtual functions can be called
// in objects that the program itself never makes.
#pragma once

#include <vector>

#include <tenure/fields.hpp>
#include <tenure/type.hpp>

namespace tenure {

// All registered types, each once, in the order of registration. Makes their descriptions, and throws what that throws.
// Thread-safe.
[[nodiscard]] std::vector<const type*> registered_types();

namespace detail {
void register_type(const type& (*make)());
}

template <class... T>
struct register_type {
  register_type() { (detail::register_type(&type_of<T>), ...); }
};

}  // namespace tenure
