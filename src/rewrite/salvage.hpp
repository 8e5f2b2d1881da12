// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes a damaged store sound in memory, before it is written anew: cuts references to what is lost, and puts containers in
// order [heap.rewrite.repair].
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "rewrite/damaged_image.hpp"
#include "rewrite/salvaged_containers.hpp"

namespace tenure::rewriting {

class salvage {
 public:
  salvage(const database_set& store, os::disk& disk, damaged_image::finding_callback found)
      : store_(store),
        found_(std::move(found)),
        image_(store, disk, [this](repair_finding f) { found_(std::move(f)); }) {}

  // Afterwards the store is sound in memory, as far as roots lead. Throws errc::damaged if nothing can be found any more.
  void run(const rvm::progress_callback& on_progress);

 private:
  // How an object was reached.
  struct step {
    address from;  // 0: a root
    std::uint64_t offset;
    std::string root;
  };
  void check_roots(const database_state& in);
  void reach(const sound_object& object, step how);
  void follow_all(const rvm::progress_callback& on_progress);
  void follow(address object);
  void follow_array(const sound_object& object, salvaged_containers::range live);
  void follow_element(const sound_object& object, address element);
  // `is_value`: otherwise it is a slot that may have old pointers, which a rewriting follows, or clears.
  void follow_words(const sound_object& object, address element, bool is_value);
  void check_cell(const sound_object& object);
  void cut(const sound_object& object, address at, address was);
  void follow_moved_entries();
  [[nodiscard]] std::string path_of(address object) const;
  [[nodiscard]] std::string place_of(const sound_object& object, address at) const;

  const database_set& store_;
  const damaged_image::finding_callback found_;
  damaged_image image_;
  salvaged_containers containers_{image_};
  std::unordered_map<address, step> reached_;
  std::deque<address> next_;
  std::vector<address> order_, later_;  // later_: arrays with stale slots
};

}  // namespace tenure::rewriting
