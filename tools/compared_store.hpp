// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store that is compared with another one: its roots, and its objects by address. It is open here, or, if the other one has
// its addresses, in a process of its own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "object_values.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

struct compared_object {
  std::string type;
  shown_value value;
};

class compared_store {
 public:
  compared_store() = default;
  virtual ~compared_store() = default;
  compared_store(const compared_store&) = delete;
  compared_store& operator=(const compared_store&) = delete;

  [[nodiscard]] virtual std::vector<root_facts> roots() = 0;
  // Nothing if no object is there. `soon`: those that will be asked for next.
  [[nodiscard]] virtual std::optional<compared_object> object_at(heap::address at,
                                                                 std::span<const heap::address> soon) = 0;
};

[[nodiscard]] std::unique_ptr<compared_store> open_here(const std::string& directory,
                                                        const rvm::progress_callback& progress);
// What goes wrong there is thrown at the first call.
[[nodiscard]] std::unique_ptr<compared_store> open_in_process_of_its_own(const std::string& directory);

}  // namespace tenure::tools
