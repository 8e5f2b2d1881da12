// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The one program over a world, as a contender.
#pragma once

#include <optional>

#include "oo7/contender.hpp"
#include "oo7/operations.hpp"

namespace tenure::bench::oo7 {

template <class W>
class object_contender : public contender {
 public:
  using contender::contender;
  ~object_contender() override { W::close(); }

  std::string setting() const override { return W::setting(); }
  bool persistent() const override { return W::persistent; }
  void create() override {
    W::create(directory_, how_.bytes());
    W::begin();
    find_root();
    generation<W>{how_, *in_}.build();
    W::commit();
  }
  void open() override {
    W::open(directory_);
    W::begin();
    find_root();
    W::commit();
  }
  void close() override {
    program_.reset();
    W::close();
  }
  void begin() override { W::begin(); }
  void commit() override { W::commit(); }
  void checkpoint() override { W::checkpoint(); }
  std::uint64_t run(operation what) override { return program_->run(what); }
  totals sum() override { return program_->sum(); }
  breakdown_counts breakdown() const override { return W::breakdown(); }

 protected:
  [[nodiscard]] typename schema<W>::database& database() { return *in_; }

 private:
  void find_root() {
    in_ = &W::template root<typename schema<W>::database>();
    program_.emplace(how_, *in_);
  }
  typename schema<W>::database* in_ = nullptr;
  std::optional<operations<W>> program_;
};

}  // namespace tenure::bench::oo7
