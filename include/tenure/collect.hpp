// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Collection of a store that no program has open: objects that no root leads to are destroyed, and their space is used for
// new ones [PM3 §4].
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tenure/callback.hpp>
#include <tenure/rvm/log_options.hpp>
#include <tenure/store/collection.hpp>

namespace tenure::os {
class disk;
}

namespace tenure {

struct collect_options {
  bool dry_run = false;  // only find out what would be destroyed; the store is opened for reading
  std::uint64_t objects_at_once =
      50'000;                 // that a transaction destroys, at least 1; fewer if the log has no room for so many
  std::uint32_t markers = 1;  // threads that mark, from 1 to 64
  std::optional<rvm::archive_options> archive =
      {};  // as rvm::options::archive; without: the one beside the log, if there is one
  rvm::progress_callback on_progress = {};  // phases "marking", "sweeping", in objects
  callback<void(const void* object)> on_garbage =
      {};  // with dry_run: of each object that would be destroyed; it can be read
  os::disk* disk = nullptr;
};

#pragma GCC visibility push(default)  // libtenure.so exports it

// Destroys all objects of the store in `directory` that no root of any of its databases leads to, in transactions of bounded
// size. Nobody may have the store open (errc::in_use). No destructors run. Pointers into objects, and words of types of unknown
// layout that could be pointers, keep their objects. Pointers that no type shows keep nothing: those in integers, compressed or
// combined with others, in transient fields, in other stores or files. Needs at most 5 % of the databases' size as memory, and
// 8 MiB for each marker.
//
// If it fails or is interrupted, some of the garbage is gone, and nothing else; begin again. Free space goes back to the file
// system by store::trim().
//
// Throws errc::damaged, before anything is destroyed, if a reference leads to where no object is, or if what a block says of its
// objects makes no sense; what opening a store throws.
collect_report collect(const std::string& directory, const collect_options& how = {});

#pragma GCC visibility pop

}  // namespace tenure
