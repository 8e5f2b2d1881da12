// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "peers/bare_log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenure::bench::tpca {
namespace {

struct record_header {
  std::uint32_t checksum, length;
  std::uint64_t ranges;
};
struct range_header {
  std::uint64_t place, length;
};

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c(const std::byte* data, std::size_t length) {
  std::uint64_t crc = 0xffffffff;
  for (; length >= 8; data += 8, length -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  return ~static_cast<std::uint32_t>(crc);
}
#else
// No instruction for it that we know of: one multiplication a word instead, so that the data is read all the same.
std::uint32_t crc32c(const std::byte* data, std::size_t length) {
  std::uint64_t sum = 0xffffffff;
  for (; length >= 8; data += 8, length -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;
  }
  return static_cast<std::uint32_t>(sum >> 32);
}
#endif

[[noreturn]] void fail(const std::filesystem::path& what) {
  throw std::system_error(errno, std::generic_category(), what.string());
}

void write_all(int fd, std::span<const std::byte> data, std::uint64_t at) {
  while (!data.empty()) {
    const auto written = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("pwrite");
    data = data.subspan(static_cast<std::size_t>(written));
    at += static_cast<std::uint64_t>(written);
  }
}

}  // namespace

memory_bank::memory_bank(const layout& bank)
    : bank_(bank), accounts_(bank.accounts), tellers_(bank.tellers()), branches_(bank.branches), trail_(bank.trail()) {
  for (auto* records : {&accounts_, &tellers_, &branches_}) {
    for (std::size_t i = 0; i < records->size(); ++i) (*records)[i] = fresh_record(i);
  }
}

memory_bank::places memory_bank::run(const transfer& what) {
  record& branch = branches_[what.branch];
  const places at{&accounts_[what.account], &tellers_[what.teller], &branch,
                  &trail_[bank_.trail_index(what.branch, branch.transactions + 1)]};
  apply(what, *at.account, *at.teller, branch, *at.trail);
  return at;
}

void memory_bank::audit(auditor& by) const {
  for (const auto& one : accounts_) by.account(one.balance, one.transactions);
  for (const auto& one : tellers_) by.teller(static_cast<std::uint32_t>(one.id), one.balance, one.transactions);
  for (const auto& one : branches_) by.branch(static_cast<std::uint32_t>(one.id), one.balance, one.transactions);
  for (std::size_t i = 0; i < trail_.size(); ++i) by.trail(i, trail_[i]);
}

std::size_t encoded_size(bool whole_records) {
  return sizeof(record_header) + 4 * sizeof(range_header) + (whole_records ? declared_whole : declared_fields);
}

void encode(const memory_bank::places& at, bool whole_records, std::byte* into) {
  std::byte* out = into + sizeof(record_header);
  const auto add = [&](const void* place, std::size_t length) {
    const range_header header{memory_bank::name_of(place), length};
    std::memcpy(out, &header, sizeof(header));
    std::memcpy(out + sizeof(header), place, length);
    out += sizeof(header) + length;
  };
  for (const record* one : {at.account, at.teller, at.branch}) {
    if (whole_records) {
      add(one, sizeof(record));
    } else {
      add(&one->balance, changed_bytes);
    }
  }
  add(at.trail, whole_records ? sizeof(history) : history_bytes);
  record_header header{0, static_cast<std::uint32_t>(out - into), 4};
  std::memcpy(into, &header, sizeof(header));
  header.checksum = crc32c(into + 8, header.length - 8);
  std::memcpy(into, &header.checksum, sizeof(header.checksum));
}

void ring_file::create(const std::filesystem::path& path, std::uint64_t size) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail(path);
  const std::vector<std::byte> zeros(std::size_t{1} << 20);
  for (std::uint64_t at = 0; at < size; at += zeros.size())
    write_all(fd, {zeros.data(), static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), size - at))}, at);
  if (::fsync(fd) != 0) fail(path);
  ::close(fd);
}

ring_file::ring_file(const std::filesystem::path& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  struct stat found = {};
  if (fd_ < 0 || ::fstat(fd_, &found) != 0) fail(path);
  size_ = static_cast<std::uint64_t>(found.st_size);
}

ring_file::~ring_file() { ::close(fd_); }

void ring_file::append(std::span<const std::byte> data) {
  if (at_ + data.size() > size_) at_ = 0;
  write_all(fd_, data, at_);
  at_ += data.size();
}

void ring_file::sync() {
  if (::fdatasync(fd_) != 0) fail("fdatasync");
}

}  // namespace tenure::bench::tpca
