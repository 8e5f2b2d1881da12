// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A memory policy that knows what it gave out: it reports blocks that are given back twice, with another type or count, or
// that it never gave out, and blocks that are left; it can refuse; and it shows what is in the blocks. Each block is of its
// own from malloc, so that AddressSanitizer sees what is written beside it. For one thread.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <typeinfo>

#include <tenure/fields.hpp>

namespace tenure::testing {

class checked_memory {
 public:
  struct block {
    const std::type_info* of;
    std::size_t count, bytes;
    bool (*is_reference)(std::uint64_t offset);  // in an element, by its description
  };

  template <class T>
  [[nodiscard]] static T* allocate(std::size_t count, const void* near) {
    // The heap asks for the description: it must be exact, and there must be one.
    EXPECT_FALSE(type_of<T>().is_conservative) << type_of<T>().name;
    EXPECT_NE(near, nullptr);
    EXPECT_GT(count, 0U);
    if (refuse_after == 0) throw std::bad_alloc();
    if (refuse_after > 0) --refuse_after;
    void* room = std::calloc(count, sizeof(T));
    blocks[room] = {&typeid(T), count, count * sizeof(T), &is_reference_in<T>};
    last_near = near;
    return static_cast<T*>(room);
  }
  template <class T>
  static void deallocate(T* first, std::size_t count) noexcept {
    const auto found = blocks.find(first);
    if (found == blocks.end()) {
      ADD_FAILURE() << "given back twice, or never given out";
      return;
    }
    EXPECT_EQ(*found->second.of, typeid(T));
    EXPECT_EQ(found->second.count, count);
    std::free(static_cast<void*>(first));
    blocks.erase(found);
  }

  // How many aligned words in all blocks hold the value.
  static std::size_t words_with(std::uint64_t value) {
    std::size_t found = 0;
    for (const auto& [start, is] : blocks) {
      for (std::size_t at = 0; at + sizeof value <= is.bytes; at += sizeof value) {
        std::uint64_t word = 0;
        std::memcpy(&word, static_cast<const std::byte*>(start) + at, sizeof word);
        found += word == value;
      }
    }
    return found;
  }

  template <class T>
  static bool is_reference_in(std::uint64_t offset) {
    static const pointer_map words(type_of<T>());
    for (const auto& word : words.words())
      if (word.offset == offset && word.kind == field_kind::reference) return true;
    return false;
  }

  static inline std::map<const void*, block> blocks;
  static inline long refuse_after = -1;  // allocations; below 0: never
  static inline const void* last_near = nullptr;
};

// Of a test: there are no blocks before and after it.
class containers : public ::testing::Test {
 protected:
  void SetUp() override { clean(); }
  void TearDown() override { clean(); }

 private:
  static void clean() {
    EXPECT_TRUE(checked_memory::blocks.empty()) << checked_memory::blocks.size() << " blocks";
    checked_memory::blocks.clear();
    checked_memory::refuse_after = -1;
  }
};

}  // namespace tenure::testing
