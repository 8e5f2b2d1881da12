// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Boost.Interprocess: nodes with offset pointers in a managed mapped file, made durable by msync (its own flush() only
// starts to write). Nothing is atomic.
#include "list/contender.hpp"

#if __has_include(<boost/interprocess/managed_mapped_file.hpp>)
#include <cerrno>
#include <system_error>

#include <sys/mman.h>
#include <boost/interprocess/managed_mapped_file.hpp>
#include <boost/interprocess/offset_ptr.hpp>

namespace tenure::bench::list {
namespace {

namespace bi = boost::interprocess;

class boost_list : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return "offset_ptr, msync of the file; not atomic"; }
  void prepare(std::uint64_t nodes) override {
    mapped_ = bi::managed_mapped_file(bi::create_only, file("file").c_str(), nodes * sizeof(shared_node) + (1 << 20));
  }
  void build(std::uint64_t nodes) override {
    auto* const all = mapped_.construct<shared_node>("list")[nodes]();
    for (std::uint64_t i = 0; i < nodes; ++i) {
      all[i].value = static_cast<std::int64_t>(i);
      all[i].next = i + 1 < nodes ? &all[i + 1] : nullptr;
    }
  }
  void save(std::uint64_t) override { sync(); }
  std::uint64_t open_and_walk() override {
    mapped_ = bi::managed_mapped_file(bi::open_only, file("file").c_str());
    all_ = mapped_.find<shared_node>("list").first;
    std::uint64_t sum = 0;
    for (const shared_node* at = all_; at != nullptr; at = at->next.get())
      sum = sum * 31 + static_cast<std::uint64_t>(at->value);
    return sum;
  }
  void update(std::uint64_t index, std::int64_t value) override {
    all_[index].value = value;
    sync();
  }
  void close() override { mapped_ = bi::managed_mapped_file(); }

 private:
  struct shared_node {
    std::int64_t value;
    bi::offset_ptr<shared_node> next;
  };
  void sync() const {
    if (::msync(mapped_.get_address(), mapped_.get_size(), MS_SYNC) != 0)
      throw std::system_error(errno, std::generic_category(), "msync");
  }
  bi::managed_mapped_file mapped_;
  shared_node* all_ = nullptr;
};

}  // namespace

std::unique_ptr<contender> make_boost(const std::filesystem::path& directory) {
  return std::make_unique<boost_list>(directory);
}

}  // namespace tenure::bench::list
#else
namespace tenure::bench::list {
std::unique_ptr<contender> make_boost(const std::filesystem::path&) { return nullptr; }
}  // namespace tenure::bench::list
#endif
