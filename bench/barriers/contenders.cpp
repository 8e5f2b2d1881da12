// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "barriers/contender.hpp"

namespace tenure::bench::barriers {

const std::vector<contender_kind>& all_contenders() {
  static const std::vector<contender_kind> all{
      {"tenure-rvm", make_recoverable_memory},
      {"tenure", make_store},
      {"tenure-traps", make_store_traps},
      {"tenure-hot", make_store_hot},
      {"tenure-notes", make_store_notes},
      {"tenure-copies", make_store_copies},
      {"tenure-announced", make_store_announced},
      {"tenure-cards", make_store_cards},
      {"tenure-checking", make_store_checking},
      {"lmdb", make_lmdb},
      {"pmemobj", make_pmemobj},
  };
  return all;
}

}  // namespace tenure::bench::barriers
