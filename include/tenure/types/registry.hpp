// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Registered types are compared with a store's types when the store is opened, and not only when they are first used. A
// program registers types with
//
//     const tenure::register_type<package, version> registered;
//
// at namespace scope, in any source file. Types for which the program calls make() and root() are registered
// automatically. Together with a type, all types are registered that it consists of, or to which its pointers are
// declared to refer, if they are complete types there. So only classes that are reached only through pointers to a base
// must be registered explicitly. This also makes their virtual functions work in objects that the program itself never
// makes [PM3 §6.2.3].
#pragma once

#include <vector>

#include <tenure/types/fields.hpp>
#include <tenure/types/type.hpp>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

// All registered types, in the order of registration; then all types that these consist of or refer to, directly or
// indirectly. Each type comes once. Makes their descriptions, and throws the errors of that (errc::bad_type).
// Thread-safe.
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
