// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Vector and string over any memory: the same algorithms for the floor (new) and for the peers that have no containers
// of their own. A memory M supplies
//   ptr<T>                    a pointer that can be stored there
//   allocate<T>(n), deallocate(ptr<T>, n)
//   writing(address, bytes)   called before stored bytes change
// Moves of elements are assignments: offset pointers cannot be copied as bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace tenure::bench {

// Unordered on erasure, since bags are.
template <class M, class T>
class memory_vector {
 public:
  memory_vector() = default;
  ~memory_vector() { release(); }
  memory_vector(const memory_vector&) = delete;
  memory_vector& operator=(const memory_vector&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const T* begin() const { return data_ ? &*data_ : nullptr; }
  [[nodiscard]] const T* end() const { return begin() + size_; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return begin()[i]; }

  void push_back(const T& value) {
    M::writing(this, sizeof *this);
    if (size_ == capacity_) grow();
    M::writing(at(size_), sizeof(T));
    std::construct_at(at(size_), value);
    ++size_;
  }
  void pop_back() {
    M::writing(this, sizeof *this);
    --size_;
  }
  // For assignments, so that what is overwritten is announced.
  void set(std::size_t i, const T& value) {
    M::writing(at(i), sizeof(T));
    *at(i) = value;
  }

 private:
  T* at(std::size_t i) { return &*data_ + i; }
  void grow() {
    const std::uint32_t capacity = capacity_ == 0 ? 4 : capacity_ * 2;
    auto data = M::template allocate<T>(capacity);
    std::uninitialized_copy(begin(), end(), &*data);
    release();
    data_ = data;
    capacity_ = capacity;
  }
  void release() {
    if (data_) M::template deallocate<T>(data_, capacity_);
  }
  typename M::template ptr<T> data_ = nullptr;
  std::uint32_t size_ = 0, capacity_ = 0;  // elements
};

template <class M>
class memory_string {
 public:
  memory_string() = default;
  ~memory_string() { release(); }
  memory_string(const memory_string&) = delete;
  memory_string& operator=(const memory_string&) = delete;

  [[nodiscard]] std::string_view view() const { return data_ ? std::string_view{&*data_, size_} : std::string_view{}; }
  void assign(std::string_view text) {
    M::writing(this, sizeof *this);
    if (text.size() > capacity_) {
      release();
      data_ = M::template allocate<char>(text.size());
      capacity_ = text.size();
    }
    if (text.empty()) return void(size_ = 0);
    M::writing(&*data_, text.size());
    std::copy(text.begin(), text.end(), &*data_);
    size_ = text.size();
  }
  // The first `length` characters become `by`.
  void replace_front(std::size_t length, std::string_view by) {
    M::writing(this, sizeof *this);
    const std::size_t size = size_ - length + by.size();
    if (size > capacity_) {
      auto data = M::template allocate<char>(size);
      std::copy(&*data_ + length, &*data_ + size_, &*data + by.size());
      release();
      data_ = data;
      capacity_ = size;
    } else {
      M::writing(&*data_, std::max<std::size_t>(size, size_));
      if (by.size() < length) {
        std::copy(&*data_ + length, &*data_ + size_, &*data_ + by.size());
      } else {
        std::copy_backward(&*data_ + length, &*data_ + size_, &*data_ + size);
      }
    }
    std::copy(by.begin(), by.end(), &*data_);
    size_ = size;
  }

 private:
  void release() {
    if (data_) M::template deallocate<char>(data_, capacity_);
  }
  typename M::template ptr<char> data_ = nullptr;
  std::uint64_t size_ = 0, capacity_ = 0;
};

}  // namespace tenure::bench
