// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The types that a program wants to be compared with a store's when it opens the store, and not only when it first uses them:
//
//     const tenure::register_type<package, version> registered;
//
// at namespace scope, in any source file of the program. What make() and root() are called for is registered by itself; so is,
// with a type, everything that it consists of or that its pointers are declared to refer to, as far as it is a complete type
// there. What is left are classes that are only reached through pointers to a base: registering them is also what makes their
// virtual functions work in objects that the program itself never makes [PM3 §6.2.3].
#pragma once

#include <vector>

#include <tenure/fields.hpp>
#include <tenure/type.hpp>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

// All registered types, in the order of registration, and then all that they consist of or refer to, directly or not; each
// once. Makes their descriptions, and throws what that throws (errc::bad_type). Thread-safe.
[[nodiscard]] std::vector<const type*> registered_types();

namespace detail {
void register_type(const type& (*make)());
}

template <class... T>
struct register_type {
  register_type() { (detail::register_type(&type_of<T>), ...); }
};

#pragma GCC visibility pop

}  // namespace tenure
