// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The three layers of Tenure that have objects: pobj, the object heap, and the allocator of recoverable memory.
#include <optional>
#include <stdexcept>
#include <vector>

#include <tenure/pobj.h>
#include <tenure/recoverable_heap.hpp>
#include <tenure/tenure.hpp>

#include "objects/contender.hpp"

namespace tenure::bench::objects {

struct small {
  std::int64_t value;
  small* next;
};

struct heap_root {
  small* last;
  tenure::vector<std::int64_t> words;
};

namespace {

// When pobj is told of a write: at each, with the field or with all of the object, or once before the commit.
enum class reflection { field, whole, once };

class pobj_objects : public contender {
 public:
  explicit pobj_objects(reflection when) : when_(when) {}
  std::string setting() const override {
    switch (when_) {
      case reflection::field: return "pobj_update_range after each write";
      case reflection::whole: return "pobj_update after each write";
      case reflection::once: return "one pobj_update before the commit";
    }
    return "";
  }
  void open(const std::filesystem::path& directory) override {
    const std::string path = (directory / "pobj").string();
    pobj_options how{};
    how.path = path.c_str();
    require(pobj_init_with(&how));
    static constexpr std::size_t references[] = {offsetof(small, next), POBJ_END};
    type_ = pobj_type_define("small", sizeof(small), references, nullptr);
  }
  void close() override { require(pobj_close()); }
  void begin() override { require(pobj_start()); }
  void commit() override {
    if (when_ == reflection::once && object_ != nullptr) require(pobj_update(object_));
    require(pobj_end());
  }
  void allocate() override {
    auto* const made = static_cast<small*>(allocated(pobj_malloc(sizeof(small))));
    *made = {1, last_};
    require(pobj_set_type(made, type_));
    require(pobj_update(made));
    last_ = made;
  }
  void prepare(std::size_t size) override { object_ = static_cast<std::int64_t*>(allocated(pobj_calloc(1, size))); }
  void write(std::size_t offset, std::int64_t value) override {
    std::int64_t& field = object_[offset / sizeof(std::int64_t)];
    field = value;
    if (when_ == reflection::field) require(pobj_update_range(object_, &field, sizeof field));
    if (when_ == reflection::whole) require(pobj_update(object_));
  }

 private:
  static void require(int code) {
    if (code != POBJ_OK) throw std::runtime_error(pobj_error());
  }
  static void* allocated(void* object) {
    if (object == nullptr) throw std::runtime_error(pobj_error());
    return object;
  }
  const reflection when_;
  const pobj_type* type_ = nullptr;
  small* last_ = nullptr;
  std::int64_t* object_ = nullptr;
};

class heap_objects : public contender {
 public:
  std::string setting() const override { return "plain writes; changes are found"; }
  void open(const std::filesystem::path& directory) override {
    store_.emplace(directory / "store");
    root_ = &store_->root<heap_root>("objects");
  }
  void close() override {
    store_->close();
    store_.reset();
  }
  void begin() override { tx_ = store_->begin(); }
  void commit() override { tx_.commit(); }
  void allocate() override {
    auto* const made = store_->make<small>();
    *made = {1, root_->last};
    root_->last = made;
  }
  void prepare(std::size_t size) override { root_->words.resize(size / sizeof(std::int64_t)); }
  void write(std::size_t offset, std::int64_t value) override { root_->words[offset / sizeof value] = value; }

 private:
  std::optional<store> store_;
  transaction tx_;
  heap_root* root_ = nullptr;
};

class recoverable_objects : public contender {
 public:
  std::string setting() const override { return "recoverable_heap; set_range of the field"; }
  void open(const std::filesystem::path& directory) override {
    memory_.emplace((directory / "log").string());
    region_ = memory_->map((directory / "segment").string(), {.create_length = std::uint64_t{64} << 20});
    memory_->transact([&](rvm::transaction& tx) { rvm::recoverable_heap::format(tx, region_); });
    heap_.emplace(region_);
  }
  void close() override {
    heap_.reset();
    region_.unmap();
    memory_->close();
  }
  void begin() override { tx_ = memory_->begin(); }
  void commit() override { tx_.commit(); }
  void allocate() override { last_ = heap_->make<small>(tx_, std::int64_t{1}, last_); }
  void prepare(std::size_t size) override {
    object_ = static_cast<std::int64_t*>(heap_->allocate(tx_, size));
    const std::vector<std::int64_t> zeros(size / sizeof(std::int64_t));
    tx_.modify(object_, zeros.data(), size);
  }
  void write(std::size_t offset, std::int64_t value) override { tx_.modify(object_[offset / sizeof value], value); }

 private:
  std::optional<rvm::memory> memory_;
  rvm::region region_;
  std::optional<rvm::recoverable_heap> heap_;
  rvm::transaction tx_;
  small* last_ = nullptr;
  std::int64_t* object_ = nullptr;
};

}  // namespace

std::unique_ptr<contender> make_pobj() { return std::make_unique<pobj_objects>(reflection::field); }
std::unique_ptr<contender> make_pobj_once() { return std::make_unique<pobj_objects>(reflection::once); }
std::unique_ptr<contender> make_pobj_whole() { return std::make_unique<pobj_objects>(reflection::whole); }
std::unique_ptr<contender> make_heap() { return std::make_unique<heap_objects>(); }
std::unique_ptr<contender> make_recoverable() { return std::make_unique<recoverable_objects>(); }

}  // namespace tenure::bench::objects
