// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Recoverable memory: the nodes lie in one region, always at the same address, and point to each other.
#include <tenure/rvm.hpp>

#include "list/contender.hpp"

namespace tenure::bench::list {
namespace {

void* const home = reinterpret_cast<void*>(std::uintptr_t{0x200000000000});

class tenure_list : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return "one region, one transaction"; }
  void prepare(std::uint64_t nodes) override {
    rvm::memory::create_log(file("log"), {.size = log_size(nodes)});
    open(nodes * sizeof(node));
  }
  void build(std::uint64_t nodes) override {
    const auto all = region_.array<node>(0, nodes);
    tx_ = memory_->begin(rvm::restore_mode::no_restore);
    tx_.set_range(all.data(), all.size_bytes());
    for (std::uint64_t i = 0; i < nodes; ++i)
      all[i] = {static_cast<std::int64_t>(i), i + 1 < nodes ? &all[i + 1] : nullptr};
  }
  void save(std::uint64_t) override { tx_.commit(); }
  std::optional<std::uint64_t> bytes_saved() const override { return memory_->stats().log_bytes_written; }
  std::uint64_t open_and_walk() override {
    open(0);
    return walk(&region_.at<node>(0));
  }
  void update(std::uint64_t index, std::int64_t value) override {
    auto tx = memory_->begin();
    tx.modify(region_.array<node>(0, index + 1)[index].value, value);
    tx.commit();
  }
  void close() override {
    region_.unmap();
    memory_->close();
  }

 private:
  static std::uint64_t log_size(std::uint64_t nodes) {
    return std::max<std::uint64_t>(std::uint64_t{16} << 20, 4 * nodes * sizeof(node));
  }
  void open(std::uint64_t create_length) {
    rvm::options how;
    how.mode = rvm::open_mode::open;
    memory_ = std::make_unique<rvm::memory>(file("log"), how);
    region_ = memory_->map(file("segment"), {.address = home, .create_length = create_length});
  }

  std::unique_ptr<rvm::memory> memory_;
  rvm::region region_;
  rvm::transaction tx_;
};

}  // namespace

std::unique_ptr<contender> make_tenure(const std::filesystem::path& directory) {
  return std::make_unique<tenure_list>(directory);
}

}  // namespace tenure::bench::list
