// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The churned graph in a store: collected in the background, or destroyed by the program, or left lying.
#include <algorithm>
#include <optional>

#include <tenure/tenure.hpp>

#include "collect/contender.hpp"
#include "collect/group.hpp"

namespace tenure::bench::collect {

struct slot_table {
  tenure::vector<node*> slots;
};

namespace {

enum class ending { collected, collected_by_handles, destroyed, none };

class of_store : public contender {
 public:
  of_store(const std::filesystem::path& directory, std::uint64_t slots, ending how)
      : contender(directory, slots), how_(how) {}
  ~of_store() override { of_store::close(); }
  std::string setting() const override {
    switch (how_) {
      case ending::collected: return "collected in the background; lazy commits";
      case ending::collected_by_handles: return "collected in the background, roots are handles; lazy commits";
      case ending::destroyed: return "the program destroys; lazy commits";
      case ending::none: return "garbage stays; collected in the end; lazy commits";
    }
    return "";
  }
  void create() override {
    store_options how;
    how.collection.enabled = how_ == ending::collected || how_ == ending::collected_by_handles;
    how.collection.roots = roots();
    how.collection.after_bytes = std::uint64_t{1} << 20;
    how.collection.after_percent = 20;
    how.collection.on_collected = [this](const collect_report& told) {
      ++cycles_;
      longest_stop_ = std::max(longest_stop_, told.stopped_seconds);
    };
    store_.emplace((directory_ / "store").string(), how);
    all_ = &store_->root<slot_table>("slots");
    store_->transact([&] { all_->slots.resize(slots_); });
  }
  void begin() override { open_ = store_->begin(); }
  void commit() override { open_.commit(commit_mode::lazy); }
  void replace(std::uint64_t slot, std::uint64_t serial) override {
    node*& at = all_->slots[slot];
    if (how_ == ending::destroyed && at != nullptr) end_group(at, [&](auto* each) { store_->destroy(each); });
    at = make_group(serial, [&]<class T>(T*& made) { made = store_->make<T>(); });
  }
  void settle() override { store_->flush(); }
  std::uint64_t sum(std::uint64_t slot) override { return sum_by_following(all_->slots[slot]); }
  void tidy() override { store_->collect({.roots = roots(), .trim = true}); }
  void close() override {
    if (store_) store_->close();
    store_.reset();
  }
  std::string file() const override { return "store/main.db"; }
  std::map<std::string, double> told() const override {
    if (how_ == ending::destroyed || how_ == ending::none) return {};
    return {{"cycles", static_cast<double>(cycles_)}, {"longest_stop_ms", longest_stop_ * 1e3}};
  }

 private:
  [[nodiscard]] program_roots roots() const {
    return how_ == ending::collected_by_handles ? program_roots::handles : program_roots::all_memory;
  }
  const ending how_;
  std::optional<store> store_;
  slot_table* all_ = nullptr;
  transaction open_;
  // Written by the collector's thread, read when the store is closed.
  std::uint64_t cycles_ = 0;
  double longest_stop_ = 0;
};

}  // namespace

std::unique_ptr<contender> make_tenure(const std::filesystem::path& directory, std::uint64_t slots) {
  return std::make_unique<of_store>(directory, slots, ending::collected);
}
std::unique_ptr<contender> make_tenure_handles(const std::filesystem::path& directory, std::uint64_t slots) {
  return std::make_unique<of_store>(directory, slots, ending::collected_by_handles);
}
std::unique_ptr<contender> make_tenure_destroys(const std::filesystem::path& directory, std::uint64_t slots) {
  return std::make_unique<of_store>(directory, slots, ending::destroyed);
}
std::unique_ptr<contender> make_tenure_keeps(const std::filesystem::path& directory, std::uint64_t slots) {
  return std::make_unique<of_store>(directory, slots, ending::none);
}

}  // namespace tenure::bench::collect
