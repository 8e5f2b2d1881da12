// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/made_objects.hpp"

#include "cache/object_table.hpp"
#include "os/room_for_one.hpp"

namespace tenure::cache {

void made_objects::reserve_one_more() { os::reserve_one_more(objects_); }

void made_objects::add(cached_object& object) {
  objects_.push_back(&object);
  object.number_of_made = static_cast<std::uint32_t>(objects_.size() - 1);
}

void made_objects::remove(cached_object& object) noexcept {
  objects_.back()->number_of_made = object.number_of_made;
  objects_[object.number_of_made] = objects_.back();
  objects_.pop_back();
}

}  // namespace tenure::cache
