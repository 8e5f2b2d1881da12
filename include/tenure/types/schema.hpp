// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The layouts of a program's types as text, to keep and to compare: in tests, and in the continuous integration of programs
// whose stores are in use. `tenure schema` compares it with stores and with other programs' (tenure(1)).
//
//     if (argc == 2 && argv[1] == std::string("--schema")) std::puts(tenure::schema().c_str());
#pragma once

#include <string>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

// The registered types (registry.hpp), and what evolve<T> declares of them, as JSON: see docs/formats.md. Throws what making
// their descriptions throws (errc::bad_type). Thread-safe.
[[nodiscard]] std::string schema();

#pragma GCC visibility pop

}  // namespace tenure
