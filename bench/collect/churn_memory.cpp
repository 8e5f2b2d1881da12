// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The churned graph in memory that is no file: of new and delete, and of the Boehm collector.
#include <cstdlib>
#include <new>
#include <vector>

#include <malloc.h>

#ifdef TENURE_HAVE_BOEHM
#include <gc.h>
#endif

#include "collect/contender.hpp"
#include "collect/group.hpp"

namespace tenure::bench::collect {
namespace {

class of_new : public contender {
 public:
  using contender::contender;
  ~of_new() override { of_new::close(); }
  std::string setting() const override { return "new and delete"; }
  void create() override { all_.resize(slots_); }
  void replace(std::uint64_t slot, std::uint64_t serial) override {
    end(all_[slot]);
    all_[slot] = make_group(serial, []<class T>(T*& made) { made = new T; });
  }
  std::uint64_t sum(std::uint64_t slot) override { return sum_by_following(all_[slot]); }
  void tidy() override { ::malloc_trim(0); }
  void close() override {
    for (node* each : all_) end(each);
    all_.clear();
  }

 private:
  static void end(node* first) {
    if (first != nullptr) end_group(first, [](auto* each) { delete each; });
  }
  std::vector<node*> all_;
};

#ifdef TENURE_HAVE_BOEHM
class of_boehm : public contender {
 public:
  using contender::contender;
  std::string setting() const override { return "the Boehm collector, as it is"; }
  void create() override {
    GC_INIT();
    all_ = static_cast<node**>(GC_MALLOC_UNCOLLECTABLE(slots_ * sizeof(node*)));
    if (all_ == nullptr) throw std::bad_alloc();
  }
  void replace(std::uint64_t slot, std::uint64_t serial) override {
    all_[slot] = make_group(serial, []<class T>(T*& made) {
      void* const memory = GC_MALLOC(sizeof(T));
      if (memory == nullptr) throw std::bad_alloc();
      made = new (memory) T;
    });
  }
  std::uint64_t sum(std::uint64_t slot) override { return sum_by_following(all_[slot]); }
  void tidy() override { GC_gcollect_and_unmap(); }
  std::map<std::string, double> told() const override { return {{"cycles", static_cast<double>(GC_get_gc_no())}}; }

 private:
  node** all_ = nullptr;
};
#endif

}  // namespace

std::unique_ptr<contender> make_new(const std::filesystem::path& directory, std::uint64_t slots) {
  return std::make_unique<of_new>(directory, slots);
}
std::unique_ptr<contender> make_boehm([[maybe_unused]] const std::filesystem::path& directory,
                                      [[maybe_unused]] std::uint64_t slots) {
#ifdef TENURE_HAVE_BOEHM
  return std::make_unique<of_boehm>(directory, slots);
#else
  return nullptr;
#endif
}

}  // namespace tenure::bench::collect
