// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Participants: the order of calls at a transaction's end, and what is put back when it fails.
#include <gtest/gtest.h>

#include <stdexcept>

#include <tenure/rvm/participant.hpp>

#include "support/small_memory.hpp"
#include "support/temp_dir.hpp"

namespace tenure::rvm {
namespace {

using namespace support;

struct recorder final : participant {
  recorder(std::string& into, char as) : calls(into), name(as) {}
  void prepare(commit_scope& tx) override {
    calls += std::string("p") + name;
    if (refuse) throw std::runtime_error("not now");
    if (where != nullptr) tx.modify(*where, *where + 1);
  }
  void undo_prepare(commit_scope&) noexcept override {
    calls += std::string("u") + name;
    if (where != nullptr && !refuse) --*where;
  }
  void committed(commit_scope& tx) noexcept override {
    EXPECT_NE(tx.id(), 0u);
    calls += std::string("c") + name;
  }
  void aborted(commit_scope& tx) noexcept override {
    EXPECT_NE(tx.id(), 0u);
    calls += std::string("a") + name;
  }
  std::string& calls;
  char name;
  bool refuse = false;
  int* where = nullptr;
};

TEST(participants, order_of_calls) {
  temp_dir dir;
  options how = small_log();
  how.log.size = how.log.max_size = 64 * kib;
  memory m(dir / "log", how);
  region r = m.map(dir / "seg", {.create_length = 128 * kib});
  std::string calls;
  recorder one(calls, '1'), two(calls, '2');
  two.where = &r.at<int>(0);
  {
    transaction tx = m.begin();
    tx.join(one);
    tx.join(two);
    tx.join(one);
    tx.commit();
  }
  EXPECT_EQ(calls, "p1p2c1c2");
  EXPECT_EQ(r.at<int>(0), 1);
  calls.clear();
  {
    transaction tx = m.begin();
    tx.join(two);
    tx.join(one);
    tx.abort();
  }
  EXPECT_EQ(calls, "a2a1");
  calls.clear();
  {
    transaction tx = m.begin();
    tx.join(one);
  }
  EXPECT_EQ(calls, "a1");
  calls.clear();
  {
    transaction tx = m.begin(restore_mode::no_restore);
    tx.join(one);
  }
  EXPECT_EQ(calls, "a1");
  // One that refuses: those before it take back what they wrote, and the transaction can be committed again.
  calls.clear();
  {
    transaction tx = m.begin();
    tx.join(two);
    tx.join(one);
    one.refuse = true;
    EXPECT_THROW(tx.commit(), std::runtime_error);
    EXPECT_EQ(calls, "p2p1u1u2");
    EXPECT_EQ(r.at<int>(0), 1);
    one.refuse = false;
    calls.clear();
    tx.commit();
    EXPECT_EQ(calls, "p2p1c2c1");
    EXPECT_EQ(r.at<int>(0), 2);
  }
  // Too big for the log: known only after all have prepared.
  calls.clear();
  {
    transaction tx = m.begin();
    tx.join(one);
    tx.join(two);
    tx.modify(r.at<int>(64), 7);
    tx.set_range(r.data() + 4 * kib, 100'000);
    EXPECT_THROW(tx.commit(), error);
    EXPECT_EQ(calls, "p1p2u2u1");
    EXPECT_EQ(r.at<int>(0), 2);
    put(m, r, 128, "meanwhile");
    tx.abort();
    EXPECT_EQ(calls, "p1p2u2u1a1a2");
  }
  EXPECT_EQ(r.at<int>(0), 2);
  EXPECT_EQ(r.at<int>(64), 0);
  EXPECT_EQ(get(r, 128, 9), "meanwhile");
}

}  // namespace
}  // namespace tenure::rvm
