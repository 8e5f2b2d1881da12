// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Fields of objects in the image of a damaged store, by their names.
#pragma once

#include <string_view>

#include <tenure/type.hpp>

#include "rewrite/container_places.hpp"
#include "rewrite/damaged_image.hpp"

namespace tenure::rewriting {

[[nodiscard]] inline address at_field(const type& of, address object, std::string_view name) {
  return object + offset_of(of, name);
}
template <class T = address>
[[nodiscard]] T field_value(const type& of, address object, std::string_view name) {
  return damaged_image::get<T>(at_field(of, object, name));
}
template <class T>
void put_field(const type& of, address object, std::string_view name, T value) {
  damaged_image::put(at_field(of, object, name), value);
}

}  // namespace tenure::rewriting
