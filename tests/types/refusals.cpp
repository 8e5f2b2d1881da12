// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What cannot persist, and what the compiler says about it. refusals.py compiles this file once for each case, and looks for
// the words behind its name in the first error.
#include <any>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include <tenure/fields.hpp>

namespace {
struct anonymous {
  int number;
};
}  // namespace
struct other {
  int number;
};
struct virtual_without_trait {
  virtual ~virtual_without_trait() = default;
};
struct virtual_without_constructor {
  explicit virtual_without_constructor(int) {}
  virtual ~virtual_without_constructor() = default;
  static constexpr auto persistent = tenure::members<>{};
};
struct with_trait {
  virtual ~with_trait() = default;
  static constexpr auto persistent = tenure::members<>{};
};
template <class T>
struct with_bit_field {
  unsigned flags : 3;
  T member;
};
inline auto lambda = [] {};

struct example {
  int first;
#if defined(CASE_none)  // compiles
  other* second;
#elif defined(CASE_reference)                         // a reference cannot persist: make it a pointer
  other& second;
#elif defined(CASE_volatile_number)                   // a volatile value cannot persist
  volatile int second;
#elif defined(CASE_function_pointer)                  // a function pointer cannot persist
  void (*second)(int);
#elif defined(CASE_member_pointer)                    // a pointer to a member cannot persist
  int other::*second;
#elif defined(CASE_member_function_pointer)           // a pointer to a member cannot persist
  int (other::*second)();
#elif defined(CASE_complex_of_c)                      // use std::complex
  __complex__ double second;
#elif defined(CASE_vector_of_compiler)                // or an array
  float __attribute__((vector_size(16))) second;
#elif defined(CASE_anonymous_type)                    // in an anonymous namespace, cannot persist
  anonymous second;
#elif defined(CASE_pointer_to_anonymous_type)         // in an anonymous namespace, cannot persist
  anonymous* second;
#elif defined(CASE_unnamed_type)                      // a type without a name
  struct {
    int number;
  } second;
#elif defined(CASE_lambda)                            // a lambda
  decltype(lambda) second;
#elif defined(CASE_function)                          // std::function and its like cannot persist
  std::function<void()> second;
#elif defined(CASE_unique_ptr)                        // use a plain pointer, reachability keeps the object alive
  std::unique_ptr<other> second;
#elif defined(CASE_shared_ptr)                        // use a plain pointer
  std::shared_ptr<other> second;
#elif defined(CASE_weak_ptr)                          // use a plain pointer
  std::weak_ptr<other> second;
#elif defined(CASE_thread)                            // threads, futures and coroutines cannot persist
  std::thread second;
#elif defined(CASE_pointer_to_thread)                 // threads, futures and coroutines cannot persist
  std::thread* second;
#elif defined(CASE_future)                            // threads, futures and coroutines cannot persist
  std::future<int> second;
#elif defined(CASE_mutex)                             // mutexes, locks and condition variables cannot persist
  std::mutex second;
#elif defined(CASE_condition_variable)                // mutexes, locks and condition variables cannot persist
  std::condition_variable second;
#elif defined(CASE_string_view)                       // string_view, span and reference_wrapper cannot persist
  std::string_view second;
#elif defined(CASE_span)                              // string_view, span and reference_wrapper cannot persist
  std::span<int> second;
#elif defined(CASE_string)                            // the standard containers with tenure::allocator
  std::string second;
#elif defined(CASE_vector)                            // the standard containers with tenure::allocator
  std::vector<int> second;
#elif defined(CASE_map)                               // the standard containers with tenure::allocator
  std::map<int, int> second;
#elif defined(CASE_optional_unordered_map)            // the standard containers with tenure::allocator
  std::optional<std::unordered_map<int, int>> second;
#elif defined(CASE_array_of_strings)                  // the standard containers with tenure::allocator
  std::string second[2];
#elif defined(CASE_any)                               // because its memory is not the store's
  std::any second;
#elif defined(CASE_path)                              // because its memory is not the store's
  std::filesystem::path second;
#elif defined(CASE_error_code)                        // because it refers to things of this process
  std::error_code second;
#elif defined(CASE_virtual_without_trait)             // says which members and bases it has
  virtual_without_trait second;
#elif defined(CASE_pointer_to_virtual_without_trait)  // says which members and bases it has
  virtual_without_trait* second;
#elif defined(CASE_virtual_without_constructor)       // give the class a default constructor
  virtual_without_constructor second;
#elif defined(CASE_virtual_beside_bit_field)          // a class with bit-fields
  with_bit_field<with_trait> second;
#elif defined(CASE_virtuals_beside_bit_field)         // a class with bit-fields
  with_bit_field<with_trait[2]> second;
#elif defined(CASE_deep_virtual_beside_bit_field)     // a class with bit-fields
  with_bit_field<with_bit_field<with_trait>> second;
#elif defined(CASE_string_beside_bit_field)           // the standard containers with tenure::allocator
  with_bit_field<std::string> second;
#elif defined(CASE_transient_string)                  // a transient field is all zero bytes in a new process
  tenure::transient<std::string> second;
#endif
};

int main() { return tenure::type_of<example>().size == 0 ? 1 : 0; }
