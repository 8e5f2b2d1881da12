// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/lock_words.hpp"

#include <bitset>
#include <mutex>
#include <optional>

namespace tenure::cache {

namespace {

struct numbers {
  std::mutex mutex;
  std::bitset<holder_bits> threads;
  std::bitset<store_numbers> stores;
  void give_back(given_number::purpose of, unsigned number) {
    if (of == given_number::purpose::thread)
      threads.reset(number);
    else
      stores.reset(number);
  }
};
// Never destroyed, because stores at namespace scope are closed at any time.
numbers& given() {
  static numbers* const the_numbers = new numbers;
  return *the_numbers;
}

template <std::size_t N>
std::optional<unsigned> take_from(std::bitset<N>& taken, unsigned first) {
  for (unsigned n = first; n < N; ++n)
    if (!taken[n]) {
      taken.set(n);
      return n;
    }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const given_number> given_number::take(purpose of) {
  numbers& all = given();
  const std::scoped_lock lock(all.mutex);
  const auto number = of == purpose::thread ? take_from(all.threads, 0) : take_from(all.stores, 1);
  if (!number) return nullptr;
  try {
    return std::make_shared<const given_number>(of, *number);
  } catch (...) {
    all.give_back(of, *number);
    throw;
  }
}

given_number::~given_number() {
  numbers& all = given();
  const std::scoped_lock lock(all.mutex);
  all.give_back(of_, number_);
}

}  // namespace tenure::cache
