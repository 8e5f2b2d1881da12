// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// They do nothing. Whoever refers to them has these members of the archive in his program.
#pragma once

namespace tenure::barriers {

void link_shadow() noexcept;
void link_memory_writers() noexcept;
void link_string_writers() noexcept;
void link_text_writers() noexcept;
void link_wide_writers() noexcept;
void link_input_writers() noexcept;
void link_standard_lists() noexcept;
void link_standard_trees() noexcept;

}  // namespace tenure::barriers
