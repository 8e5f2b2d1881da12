// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A thread's transaction. It is on the thread's list (open_stores.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/lock_words.hpp"
#include "cache/made_objects.hpp"

namespace tenure::cache {

class store_state;
struct cached_object;
struct open_database;

enum class lock_mode : std::uint8_t { shared, exclusive };

struct open_transaction {
  open_transaction(std::shared_ptr<store_state> in, std::shared_ptr<store_state> kept, bool is_writer)
      : of(std::move(in)), keeps_open(std::move(kept)), writes(is_writer) {}

  const std::shared_ptr<store_state> of;
  std::shared_ptr<store_state> keeps_open;  // the same, until it has ended
  const bool writes;
  std::vector<cached_object*> changed;  // announced; they are held
  made_objects made;                    // and not discarded; they are held
  // Roots that it has set, by database and name: the home address of the object; nullopt: it has removed them.
  using root_changes = std::map<std::string, std::optional<std::uint64_t>, std::less<>>;
  std::map<open_database*, root_changes> roots;
  // With object locks: its thread's bit and its store's number in lock words, and one object of each group that it has a lock of.
  // bit 0: there was none left.
  std::uint64_t bit = 0, store = 0;
  std::shared_ptr<const given_number> bit_holder;
  std::vector<const object_guard*> locked;
  bool has_locked_what_is_gone = false;  // by some of these guards
  std::vector<cached_object*> locked_without_bit;
  const cached_object* waits_for = nullptr;
  lock_mode wants = lock_mode::shared;
  // What containers in it stored went on while another transaction had a lock of it: this one must not commit.
  const cached_object* written_unlocked = nullptr;
  const std::thread::id thread = std::this_thread::get_id();
  // Who destroys a handle in another thread ends the transaction there, and this thread's list has it still.
  std::atomic<bool> has_ended{false};
  std::shared_ptr<open_transaction> until_ended;  // itself
};

}  // namespace tenure::cache
