// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// When a transaction of a store is on the disk, mapped or in a cache.
#pragma once

namespace tenure {

enum class commit_mode {
  durable,  // on the disk when commit returns
  lazy,     // atomic and ordered, but on the disk only with a later durable commit, wait() or close
};

}  // namespace tenure
