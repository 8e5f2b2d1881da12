// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/scratch_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <utility>

#include "os/system_error.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::os {
namespace {

std::atomic<std::size_t> file_from{std::size_t{32} << 20};

// A file without a name; where the file system has no such files, one whose name is removed at once.
int open_unnamed(const std::string& directory) {
  const int unnamed = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0) return unnamed;
  std::string name = directory + "/tenure-scratch-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) throw_system_error(errno, "cannot make a file for tables in " + directory);
  ::unlink(name.c_str());
  return named;
}

}  // namespace

void scratch_memory::use_file_from(std::size_t length) noexcept { file_from = length; }

scratch_memory::scratch_memory(const std::string& directory, std::size_t length)
    : length_((length + page_size() - 1) / page_size() * page_size()) {
  if (length_ == 0) return;
  if (length_ < file_from) {
    data_ = static_cast<std::byte*>(map_anonymous(nullptr, length_));
    return;
  }
  const int file = open_unnamed(directory);
  // All of its space at once: a page that cannot be written later would end the process.
  int failed = ::posix_fallocate(file, 0, static_cast<off_t>(length_));
  void* at = MAP_FAILED;
  if (failed == 0) {
    at = ::mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    failed = at == MAP_FAILED ? errno : 0;
  }
  ::close(file);
  if (failed != 0)
    throw_system_error(failed,
                       "cannot make a file of " + std::to_string(length_) + " bytes for tables in " + directory);
  data_ = static_cast<std::byte*>(at);
}

scratch_memory::~scratch_memory() {
  if (data_ != nullptr) unmap(data_, length_);
}

scratch_memory::scratch_memory(scratch_memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), length_(std::exchange(other.length_, 0)) {}

scratch_memory& scratch_memory::operator=(scratch_memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(length_, other.length_);
  return *this;
}

}  // namespace tenure::os
