// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores for tests: small, at addresses that are free under every sanitizer, with a verifier that looks at everything when
// the test asks for it or closes the store.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <tenure/store.hpp>

#include "store/open_stores.hpp"
#include "support/sanitizers.hpp"
#include "support/temp_dir.hpp"

namespace tenure::support {

// A home that no other store of this process has. ThreadSanitizer leaves 0x550000000000 to 0x555555554000. Elsewhere there
// is more room: programs are loaded behind these addresses, and a thousand stores would reach them.
inline std::uint64_t next_home(std::uint64_t reservation) {
  static std::atomic<std::uint64_t> next{thread_sanitizer ? 0x550000000000 : 0x300000000000};
  return (next.fetch_add(2 * reservation) + reservation - 1) / reservation * reservation;
}

inline store_options small_store() {
  store_options how;
  how.create.reservation = std::uint64_t{1} << 28;
  how.create.home = next_home(how.create.reservation);
  how.memory.log.size = 4 << 20;
  how.tune.typed_from = 64;  // tests have few objects: most lie in typed pages, and some have headers
  return how;
}

// What the library knows in memory.
inline void expect_invariants(const store& s) {
  EXPECT_NO_THROW(check_store_at(reinterpret_cast<const void*>(s.default_database().home())));
}
inline void expect_sound(const store& s) {
  expect_invariants(s);
  const auto wrong = s.verify();
  for (std::size_t n = 0; n < std::min<std::size_t>(wrong.size(), 10); ++n) ADD_FAILURE() << wrong[n];
}

// A store that can be closed and opened again.
class reopened_store : public ::testing::Test {
 protected:
  reopened_store() { open(); }
  ~reopened_store() override {
    if (opened) expect_sound(*opened);
  }
  void open() { opened = std::make_unique<store>(path, how); }
  void reopen() {
    expect_sound(*opened);
    opened->close();
    opened.reset();
    open();
    expect_sound(*opened);
  }
  store& s() { return *opened; }

  temp_dir dir;
  std::string path = dir / "store";
  store_options how = small_store();
  std::unique_ptr<store> opened;
};

}  // namespace tenure::support
