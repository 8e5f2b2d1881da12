// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/containers/detail/errors.hpp>

#include <cstdio>
#include <string>

#include <tenure/error.hpp>

namespace tenure::detail {
namespace {

std::string hexadecimal(const void* address) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
  return text;
}

}  // namespace

void refuse_hash_function(const void* map, std::uint64_t entries, std::uint32_t stored, std::uint32_t own) {
  throw error(errc::wrong_version, "hash map at " + hexadecimal(map) + ": its " + std::to_string(entries) +
                                       " entries were placed by the hash function with id " + std::to_string(stored) +
                                       ", this program's has id " + std::to_string(own) +
                                       ". Call rehash() in a transaction.");
}

void report_damaged_tree(const void* node, const char* what) {
  throw error(errc::damaged, "tree: node " + hexadecimal(node) + ": " + what +
                                 ". The container was damaged, or changed by two threads at once; build it again.");
}

void report_damaged_hash_map(const void* map, const char* what) {
  throw error(errc::damaged, "hash map at " + hexadecimal(map) + ": " + what +
                                 ". It was damaged, changed by two threads at once, or its hash function or equality "
                                 "has changed without a new id; rehash() repairs the latter.");
}

}  // namespace tenure::detail
