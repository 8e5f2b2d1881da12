// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure::vector<T>: a std::vector that can persist. Its interface, complexities, exception guarantees and rules of
// invalidation are those of std::vector. docs/containers.md lists the differences. Iterators are T*.
//
// Thread-safety is as for std::vector. Throws what std::vector throws (std::out_of_range, std::length_error), and, if
// memory is needed, what the memory policy throws (heap_memory.hpp).
#pragma once

#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/rearrange.hpp>
#include <tenure/containers/detail/relocate.hpp>
#include <tenure/containers/heap_memory.hpp>
#include <tenure/types/detail/standard_parts.hpp>
#include <tenure/types/persist.hpp>

namespace tenure {

template <class T, class Memory = heap_memory>
class vector {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>, "a vector's elements are objects, and not const");

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using pointer = T*;
  using const_pointer = const T*;
  using iterator = T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;
  using relocatable = vector;

  vector() noexcept = default;
  explicit vector(size_type count) {
    filling guard{*this};
    resize(count);
    guard.done();
  }
  vector(size_type count, const T& value) {
    filling guard{*this};
    resize(count, value);
    guard.done();
  }
  template <std::input_iterator I>
  vector(I first, I last) {
    filling guard{*this};
    append(first, last);
    guard.done();
  }
  vector(std::initializer_list<T> values) : vector(values.begin(), values.end()) {}
  vector(const vector& other) : vector(other.begin(), other.end()) {}
  vector(vector&& other) noexcept { take(other); }
  ~vector() { free_elements(); }

  vector& operator=(const vector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  // The elements do not move, even if they are in another database; they do if that is in another store.
  vector& operator=(vector&& other) noexcept {
    if (detail::is_elsewhere<Memory>(other.first_, this)) {
      vector old;
      swap(old);
      take(other);
      return *this;
    }
    vector moved(std::move(other));
    swap(moved);
    return *this;
  }
  vector& operator=(std::initializer_list<T> values) {
    assign(values.begin(), values.end());
    return *this;
  }
  void assign(size_type count, const T& value) {
    const T copy(value);  // NOLINT(performance-unnecessary-copy-initialization): it may be one of the elements
    clear();
    resize(count, copy);
  }
  template <std::input_iterator I>
  void assign(I first, I last) {
    clear();
    append(first, last);
  }
  void assign(std::initializer_list<T> values) { assign(values.begin(), values.end()); }

  [[nodiscard]] reference operator[](size_type i) noexcept {
    assert(i < size_);
    return first_[i];
  }
  [[nodiscard]] const_reference operator[](size_type i) const noexcept {
    assert(i < size_);
    return first_[i];
  }
  [[nodiscard]] reference at(size_type i) { return first_[checked(i)]; }
  [[nodiscard]] const_reference at(size_type i) const { return first_[checked(i)]; }
  [[nodiscard]] reference front() noexcept { return (*this)[0]; }
  [[nodiscard]] const_reference front() const noexcept { return (*this)[0]; }
  [[nodiscard]] reference back() noexcept { return (*this)[size_ - 1]; }
  [[nodiscard]] const_reference back() const noexcept { return (*this)[size_ - 1]; }
  [[nodiscard]] T* data() noexcept { return first_; }
  [[nodiscard]] const T* data() const noexcept { return first_; }

  [[nodiscard]] iterator begin() noexcept { return first_; }
  [[nodiscard]] const_iterator begin() const noexcept { return first_; }
  [[nodiscard]] const_iterator cbegin() const noexcept { return first_; }
  [[nodiscard]] iterator end() noexcept { return first_ + size_; }
  [[nodiscard]] const_iterator end() const noexcept { return first_ + size_; }
  [[nodiscard]] const_iterator cend() const noexcept { return first_ + size_; }
  [[nodiscard]] reverse_iterator rbegin() noexcept { return reverse_iterator(end()); }
  [[nodiscard]] const_reverse_iterator rbegin() const noexcept { return const_reverse_iterator(end()); }
  [[nodiscard]] const_reverse_iterator crbegin() const noexcept { return const_reverse_iterator(end()); }
  [[nodiscard]] reverse_iterator rend() noexcept { return reverse_iterator(begin()); }
  [[nodiscard]] const_reverse_iterator rend() const noexcept { return const_reverse_iterator(begin()); }
  [[nodiscard]] const_reverse_iterator crend() const noexcept { return const_reverse_iterator(begin()); }

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] size_type size() const noexcept { return size_; }
  [[nodiscard]] static constexpr size_type max_size() noexcept {
    return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(T);
  }
  [[nodiscard]] size_type capacity() const noexcept { return capacity_; }
  void reserve(size_type count) {
    if (count > capacity_) move_to(limited(count));
  }
  void shrink_to_fit() {
    if (size_ == 0)
      release();
    else if (size_ < capacity_)
      move_to(size_);
  }

  void clear() noexcept { truncate(0); }
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  template <class... A>
  reference emplace_back(A&&... arguments) {
    if (size_ == capacity_) return grow_and_emplace(std::forward<A>(arguments)...);
    detail::announce_each(first_[size_], size_);
    detail::make_in(first_ + size_, [&](T* place) noexcept(std::is_nothrow_constructible_v<T, A...>) {
      std::construct_at(place, std::forward<A>(arguments)...);
    });
    return first_[size_++];
  }
  void pop_back() noexcept {
    assert(size_ > 0);
    truncate(size_ - 1);
  }
  void resize(size_type count) {
    if (count <= size_) return truncate(count);
    reserve_geometrically(count);
    appending guard{*this};
    while (size_ < count) emplace_back();
    guard.done();
  }
  void resize(size_type count, const T& value) {
    if (count <= size_) return truncate(count);
    append_copies(count - size_, value);
  }

  template <class... A>
  iterator emplace(const_iterator where, A&&... arguments) {
    const size_type at = index_of(where);
    emplace_back(std::forward<A>(arguments)...);  // first, because an argument may be an element that is about to move
    return last_to(at);
  }
  iterator insert(const_iterator where, const T& value) { return emplace(where, value); }
  iterator insert(const_iterator where, T&& value) { return emplace(where, std::move(value)); }
  iterator insert(const_iterator where, size_type count, const T& value) {
    const size_type at = index_of(where), old = size_;
    append_copies(count, value);
    return tail_to(at, old);
  }
  template <std::input_iterator I>
  iterator insert(const_iterator where, I first, I last) {
    const size_type at = index_of(where), old = size_;
    append(first, last);
    return tail_to(at, old);
  }
  iterator insert(const_iterator where, std::initializer_list<T> values) {
    return insert(where, values.begin(), values.end());
  }

  iterator erase(const_iterator where) { return erase(where, where + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    T* at = first_ + index_of(first);
    const auto count = static_cast<size_type>(last - first);
    assert(first <= last && last <= end());
    if (count == 0) return at;
    if constexpr (is_relocatable<T>::value) {
      detail::erase_slots(at, count, end());
      detail::announced_set(size_, size_ - count);
    } else {
      detail::announce(at, size_ - index_of(first));
      std::move(at + count, end(), at);
      truncate(size_ - count);
    }
    return at;
  }

  void swap(vector& other) noexcept {
    detail::announce_each(*this, other);
    std::swap(first_, other.first_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  friend void swap(vector& a, vector& b) noexcept { a.swap(b); }

  friend bool operator==(const vector& a, const vector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(const vector& a, const vector& b) requires requires(const T& x) { x < x; }
  {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) {
      if constexpr (std::three_way_comparable<T>)
        return x <=> y;
      else
        return x < y ? std::weak_ordering::less : y < x ? std::weak_ordering::greater : std::weak_ordering::equivalent;
    });
  }

 private:
  // Removes the appended elements again, unless done() was called.
  class appending {
   public:
    explicit appending(vector& owner) noexcept : owner_(owner), old_(owner.size_) {}
    appending(const appending&) = delete;
    appending& operator=(const appending&) = delete;
    ~appending() {
      if (!done_) owner_.truncate(old_);
    }
    void done() noexcept { done_ = true; }

   private:
    vector& owner_;
    const size_type old_;
    bool done_ = false;
  };
  // Releases everything, unless done() was called: if a constructor throws, the destructor does not run.
  class filling {
   public:
    explicit filling(vector& owner) noexcept : owner_(owner) {}
    filling(const filling&) = delete;
    filling& operator=(const filling&) = delete;
    ~filling() {
      if (!done_) owner_.release();
    }
    void done() noexcept { done_ = true; }

   private:
    vector& owner_;
    bool done_ = false;
  };

  [[nodiscard]] size_type checked(size_type i) const {
    if (i >= size_) throw std::out_of_range("tenure::vector::at: the index is not below the size");
    return i;
  }
  [[nodiscard]] static size_type limited(size_type count) {
    if (count > max_size()) throw std::length_error("tenure::vector: more elements than an address space can hold");
    return count;
  }
  [[nodiscard]] size_type index_of(const_iterator where) const noexcept {
    assert(begin() <= where && where <= end());
    return static_cast<size_type>(where - first_);
  }
  [[nodiscard]] size_type larger_capacity(size_type at_least) const {
    constexpr size_type smallest = std::max<size_type>(1, 32 / sizeof(T));
    return std::max(std::max(limited(at_least), smallest), std::min<size_type>(capacity_ * 2, max_size()));
  }
  void reserve_geometrically(size_type count) {
    if (count > capacity_) move_to(larger_capacity(count));
  }

  void truncate(size_type count) noexcept {
    detail::destroy_slots(first_ + count, size_ - count);
    detail::announced_set(size_, count);
  }
  void free_elements() noexcept {
    if (first_ == nullptr) return;
    detail::destroy_elements(first_, size_);
    Memory::template deallocate<T>(first_, capacity_);
  }
  void forget() noexcept {
    detail::announce_each(*this);
    first_ = nullptr;
    size_ = capacity_ = 0;
  }
  void release() noexcept {
    free_elements();
    forget();
  }
  // This vector has no memory, and is announced or in no store. Where the other's memory is in another store, its elements move
  // into memory here; without memory for that, the commit refuses what it leads to.
  void take(vector& other) noexcept {
    assert(first_ == nullptr);
    if (detail::is_elsewhere<Memory>(other.first_, this) && move_from(other)) return;
    first_ = other.first_;
    size_ = other.size_;
    capacity_ = other.capacity_;
    other.forget();
  }
  [[gnu::noinline]] bool move_from(vector& other) noexcept {
    if constexpr (std::is_nothrow_move_constructible_v<T>) {
      const size_type size = other.size_;
      if (size != 0) {
        try {
          first_ = Memory::template allocate<T>(size, this);
        } catch (...) {
          return false;
        }
        for (size_type n = 0; n < size; ++n) std::construct_at(first_ + n, std::move(other.first_[n]));
      }
      size_ = capacity_ = size;
      other.release();
      return true;
    } else {
      return false;
    }
  }

  // Elements whose moves may throw are copied, so that an exception leaves the vector unchanged.
  void move_elements(T* to) {
    if constexpr (detail::relocates_safely<T>::value) {
      detail::relocate(to, first_, size_);
    } else {
      detail::announce(first_, size_);
      size_type moved = 0;
      try {
        for (; moved < size_; ++moved) std::construct_at(to + moved, std::move_if_noexcept(first_[moved]));
      } catch (...) {
        std::destroy_n(to, moved);
        throw;
      }
      std::destroy_n(first_, size_);
    }
  }
  void adopt(T* first, size_type capacity) noexcept {
    if (first_ != nullptr) Memory::template deallocate<T>(first_, capacity_);
    detail::announce_each(*this);
    first_ = first;
    capacity_ = capacity;
  }
  void move_to(size_type capacity) {
    detail::fresh_memory<T, Memory> fresh{capacity, this};
    move_elements(fresh.get());
    adopt(fresh.release(), capacity);
  }
  // Constructs the new element first, because the arguments may refer to an old one.
  template <class... A>
  [[gnu::noinline]] reference grow_and_emplace(A&&... arguments) {
    const size_type capacity = larger_capacity(size_ + 1);
    detail::fresh_memory<T, Memory> fresh{capacity, this};
    T* place = std::construct_at(fresh.get() + size_, std::forward<A>(arguments)...);
    if constexpr (detail::relocates_safely<T>::value) {
      move_elements(fresh.get());
    } else {
      try {
        move_elements(fresh.get());
      } catch (...) {
        std::destroy_at(place);
        throw;
      }
    }
    adopt(fresh.release(), capacity);
    ++size_;  // announced by adopt()
    return *place;
  }

  void append_copies(size_type count, const T& value) {
    if (count > capacity_ - size_) {
      const T copy(value);  // NOLINT(performance-unnecessary-copy-initialization): it may be one of the elements
      reserve_geometrically(size_ + limited(count));
      return append_copies(count, copy);
    }
    appending guard{*this};
    for (; count > 0; --count) emplace_back(value);
    guard.done();
  }
  template <std::input_iterator I>
  void append(I first, I last) {
    if constexpr (std::forward_iterator<I>)
      reserve_geometrically(size_ + limited(static_cast<size_type>(std::distance(first, last))));
    appending guard{*this};
    for (; first != last; ++first) emplace_back(*first);
    guard.done();
  }

  iterator last_to(size_type at) {
    if constexpr (detail::relocates_safely<T>::value)
      detail::rotate_down(first_ + at, end() - 1);
    else
      detail::rotate(first_ + at, end() - 1, end());
    return first_ + at;
  }
  iterator tail_to(size_type at, size_type tail) {
    if (size_ - tail == 1) return last_to(at);
    detail::rotate(first_ + at, first_ + tail, end());
    return first_ + at;
  }

  // Slots from size_ to capacity_ are zero, unless T is a number.
  T* first_ = nullptr;  // nullptr: no capacity
  std::uint64_t size_ = 0, capacity_ = 0;

 public:
  static constexpr auto persistent = members<&vector::first_, &vector::size_, &vector::capacity_>{};
};

template <std::input_iterator I>
vector(I, I) -> vector<typename std::iterator_traits<I>::value_type>;

template <class T, class Memory, class U>
std::size_t erase(vector<T, Memory>& from, const U& value) {
  return erase_if(from, [&](const T& element) { return element == value; });
}
template <class T, class Memory, class Predicate>
std::size_t erase_if(vector<T, Memory>& from, Predicate predicate) {
  return detail::erase_values_if(from, predicate);
}

}  // namespace tenure
