// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Two ways without a system. raw: what any of them must do: one write and sync of the bytes that tenure logs into a
// preallocated, zero-filled file; a mapped image of the nodes; one block written and synced. manual: the encoding of the
// paper, (id, value, next id) for each node, written through a buffer and synced; to change a node is to write it all anew,
// into a new file that takes the old one's name.
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "list/contender.hpp"

namespace tenure::bench::list {
namespace {

constexpr std::size_t block = 4096;

class open_file {
 public:
  open_file(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
    require(fd_ >= 0);
  }
  ~open_file() { ::close(fd_); }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  static void require(bool good) {
    if (!good) throw std::system_error(errno, std::generic_category(), "a file of the list");
  }
  void write(std::uint64_t at, const void* from, std::size_t length) const {
    const auto* bytes = static_cast<const char*>(from);
    while (length != 0) {
      const ssize_t done = ::pwrite(fd_, bytes, length, static_cast<off_t>(at));
      require(done > 0);
      bytes += done;
      at += static_cast<std::uint64_t>(done);
      length -= static_cast<std::size_t>(done);
    }
  }
  void sync() const { require(::fdatasync(fd_) == 0); }
  [[nodiscard]] std::size_t size() const {
    struct stat found {};
    require(::fstat(fd_, &found) == 0);
    return static_cast<std::size_t>(found.st_size);
  }
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  int fd_;
};

void* const home = reinterpret_cast<void*>(std::uintptr_t{0x210000000000});

class raw_list : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return "pwrite + fdatasync; mmap; not atomic"; }
  void prepare(std::uint64_t nodes) override {
    // Headers and padding of the log are half of one per cent: as many bytes more.
    bytes_.assign(nodes * sizeof(node) * 1005 / 1000 / block * block + block, 1);
    const std::vector<char> zeros(bytes_.size());
    const open_file log(file("log"), O_CREAT | O_RDWR);
    log.write(0, zeros.data(), zeros.size());
    log.sync();
    std::vector<node> all(nodes);
    for (std::uint64_t i = 0; i < nodes; ++i)
      all[i] = {static_cast<std::int64_t>(i), i + 1 < nodes ? static_cast<node*>(home) + i + 1 : nullptr};
    const open_file image(file("image"), O_CREAT | O_RDWR);
    image.write(0, all.data(), nodes * sizeof(node));
    image.sync();
  }
  void save(std::uint64_t) override {
    const open_file log(file("log"), O_RDWR);
    log.write(0, bytes_.data(), bytes_.size());
    log.sync();
  }
  std::optional<std::uint64_t> bytes_saved() const override { return bytes_.size(); }
  std::uint64_t open_and_walk() override {
    const open_file image(file("image"), O_RDWR);
    size_ = image.size();
    void* const at = ::mmap(home, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE,
                            image.descriptor(), 0);
    open_file::require(at == home);
    log_ = std::make_unique<open_file>(file("log"), O_RDWR);
    return walk(static_cast<node*>(home));
  }
  void update(std::uint64_t index, std::int64_t value) override {
    const std::vector<char> changed(block, static_cast<char>(value));
    log_->write(index * sizeof(node) / block * block % (size_ / block * block), changed.data(), block);
    log_->sync();
  }
  void close() override {
    ::munmap(home, size_);
    log_.reset();
  }

 private:
  std::vector<char> bytes_;
  std::size_t size_ = 0;
  std::unique_ptr<open_file> log_;
};

class manual_list : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return "(id, value, next id) tuples, one fsync; an update writes all anew"; }
  void prepare(std::uint64_t nodes) override {
    const std::vector<char> zeros(nodes * sizeof(tuple));
    const open_file out(file("list"), O_CREAT | O_RDWR);
    out.write(0, zeros.data(), zeros.size());
    out.sync();
  }
  void build(std::uint64_t nodes) override {
    nodes_.resize(nodes);
    for (std::uint64_t i = 0; i < nodes; ++i)
      nodes_[i] = {static_cast<std::int64_t>(i), i + 1 < nodes ? &nodes_[i + 1] : nullptr};
  }
  void save(std::uint64_t) override { write(open_file(file("list"), O_RDWR)); }
  std::uint64_t open_and_walk() override {
    const open_file in(file("list"), O_RDONLY);
    std::vector<tuple> stored(in.size() / sizeof(tuple));
    open_file::require(::pread(in.descriptor(), stored.data(), stored.size() * sizeof(tuple), 0) ==
                       static_cast<ssize_t>(stored.size() * sizeof(tuple)));
    nodes_.resize(stored.size());
    for (const tuple& t : stored) nodes_[t.id] = {t.value, t.next < nodes_.size() ? &nodes_[t.next] : nullptr};
    return walk(nodes_.data());
  }
  void update(std::uint64_t index, std::int64_t value) override {
    nodes_[index].value = value;
    write(open_file(file("list.new"), O_CREAT | O_TRUNC | O_RDWR));
    open_file::require(::rename(file("list.new").c_str(), file("list").c_str()) == 0);
    open_file::require(::fsync(open_file(directory_.string(), O_RDONLY | O_DIRECTORY).descriptor()) == 0);
  }
  void close() override {}

 private:
  struct tuple {
    std::uint64_t id;
    std::int64_t value;
    std::uint64_t next;
  };
  void write(const open_file& out) const {
    std::vector<tuple> buffer;
    std::uint64_t at = 0;
    const auto flush = [&] {
      out.write(at, buffer.data(), buffer.size() * sizeof(tuple));
      at += buffer.size() * sizeof(tuple);
      buffer.clear();
    };
    for (const node* n = nodes_.data(); n != nullptr; n = n->next) {
      const auto id = static_cast<std::uint64_t>(n - nodes_.data());
      buffer.push_back({id, n->value, n->next != nullptr ? static_cast<std::uint64_t>(n->next - nodes_.data()) : ~id});
      if (buffer.size() == 43690) flush();  // 1 MiB
    }
    flush();
    out.sync();
  }
  std::vector<node> nodes_;
};

}  // namespace

std::unique_ptr<contender> make_raw(const std::filesystem::path& directory) {
  return std::make_unique<raw_list>(directory);
}
std::unique_ptr<contender> make_manual(const std::filesystem::path& directory) {
  return std::make_unique<manual_list>(directory);
}

}  // namespace tenure::bench::list
