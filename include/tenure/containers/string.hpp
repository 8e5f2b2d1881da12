// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure::string: a string of char that can persist, with the interface of std::string. It converts from and to
// std::string_view implicitly, and compares with everything that is convertible to std::string_view. docs/containers.md
// lists the differences from std::string.
//
// Up to 14 characters are in the string itself, which has 24 bytes. It has no pointers into itself, so its bytes may be
// moved. 24 zero bytes are the empty string.
//
// Thread-safety is as for std::string. Throws what std::string throws (std::out_of_range, std::length_error), and, if
// memory is needed, what the memory policy throws (heap_memory.hpp).
#pragma once

#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/rearrange.hpp>
#include <tenure/containers/detail/relocate.hpp>
#include <tenure/containers/heap_memory.hpp>
#include <tenure/types/detail/standard_parts.hpp>
#include <tenure/types/persist.hpp>

namespace tenure {

template <class Memory>
class basic_string;
using string = basic_string<heap_memory>;

namespace detail {

template <class T>
inline constexpr bool is_string = false;
template <class Memory>
inline constexpr bool is_string<basic_string<Memory>> = true;

// The types that a string accepts as text: std::string, std::string_view, const char*, strings with another memory
// policy.
template <class S>
concept characters = std::is_convertible_v<const S&, std::string_view> && !std::is_null_pointer_v<S>;

}  // namespace detail

template <class Memory>
class basic_string {
 public:
  using value_type = char;
  using traits_type = std::char_traits<char>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = char&;
  using const_reference = const char&;
  using pointer = char*;
  using const_pointer = const char*;
  using iterator = char*;
  using const_iterator = const char*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;
  using relocatable = basic_string;

  static constexpr size_type npos = std::string_view::npos;

  basic_string() noexcept = default;
  template <detail::characters S>
  requires(!std::is_same_v<S, basic_string>) basic_string(const S& text)
      : basic_string(std::string_view(text), construct{}) {}
  basic_string(const char* text, size_type size) : basic_string(std::string_view(text, size), construct{}) {}
  basic_string(size_type count, char c) { std::memset(set_size_discarding(count), c, count); }
  template <std::input_iterator I>
  basic_string(I first, I last) {
    destroy_unless_done guard{*this};
    for (; first != last; ++first) push_back(static_cast<char>(*first));
    guard.owner = nullptr;
  }
  basic_string(std::initializer_list<char> text) : basic_string(text.begin(), text.size()) {}
  basic_string(const basic_string& other) : basic_string(other.view(), construct{}) {}
  basic_string(const basic_string& other, size_type at, size_type count = npos)
      : basic_string(other.view().substr(at, count), construct{}) {}
  basic_string(basic_string&& other) noexcept { take(other); }
  basic_string(std::nullptr_t) = delete;
  ~basic_string() { free_text(); }

  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): assign takes a part of this string, and all of it
  basic_string& operator=(const basic_string& other) { return assign(other.view()); }
  basic_string& operator=(basic_string&& other) noexcept {
    if (this != &other) {
      free_text();
      detail::announce_each(*this);
      take(other);
    }
    return *this;
  }
  template <detail::characters S>
  requires(!std::is_same_v<S, basic_string>) basic_string& operator=(const S& text) {
    return assign(std::string_view(text));
  }
  basic_string& operator=(char c) { return assign(std::string_view(&c, 1)); }
  basic_string& operator=(std::initializer_list<char> text) { return assign(view_of(text)); }
  // `text` may be a part of this string.
  basic_string& assign(std::string_view text) {
    if (text.size() <= capacity()) {
      announce_text(0, text.size());
      std::memmove(data(), text.data(), text.size());
      set_size(text.size());
    } else {
      basic_string fresh = near_copy(text, text.size());
      swap(fresh);
    }
    return *this;
  }
  basic_string& assign(const char* text, size_type size) { return assign(std::string_view(text, size)); }
  basic_string& assign(size_type count, char c) {
    clear();
    return append(count, c);
  }
  template <std::input_iterator I>
  basic_string& assign(I first, I last) {
    return *this = basic_string(first, last);
  }

  [[nodiscard]] operator std::string_view() const noexcept { return view(); }
  [[nodiscard]] std::string_view view() const noexcept { return {data(), size()}; }
  [[nodiscard]] const char* c_str() const noexcept { return data(); }
  [[nodiscard]] const char* data() const noexcept { return heap_ != nullptr ? heap_ : inside(); }
  [[nodiscard]] char* data() noexcept { return heap_ != nullptr ? heap_ : inside(); }
  [[nodiscard]] size_type size() const noexcept { return heap_ != nullptr ? words_[0] : inside_size(); }
  [[nodiscard]] size_type length() const noexcept { return size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] static constexpr size_type max_size() noexcept { return (npos >> 1U) - 1; }
  [[nodiscard]] size_type capacity() const noexcept { return heap_ != nullptr ? words_[1] : inside_capacity; }
  void reserve(size_type count) {
    if (count > capacity()) move_to(count);
  }
  void shrink_to_fit() {
    if (heap_ == nullptr || words_[0] == words_[1]) return;
    basic_string fresh = near_copy(view(), size());
    swap(fresh);
  }
  void clear() noexcept { truncate(0); }
  void resize(size_type count, char c = '\0') {
    if (count <= size())
      truncate(count);
    else
      append(count - size(), c);
  }

  [[nodiscard]] char& operator[](size_type i) noexcept {
    assert(i <= size());
    return data()[i];
  }
  [[nodiscard]] const char& operator[](size_type i) const noexcept {
    assert(i <= size());
    return data()[i];
  }
  [[nodiscard]] char& at(size_type i) {
    check_below(i, size());
    return data()[i];
  }
  [[nodiscard]] const char& at(size_type i) const {
    check_below(i, size());
    return data()[i];
  }
  [[nodiscard]] char& front() noexcept { return (*this)[0]; }
  [[nodiscard]] const char& front() const noexcept { return (*this)[0]; }
  [[nodiscard]] char& back() noexcept { return (*this)[size() - 1]; }
  [[nodiscard]] const char& back() const noexcept { return (*this)[size() - 1]; }

  [[nodiscard]] iterator begin() noexcept { return data(); }
  [[nodiscard]] const_iterator begin() const noexcept { return data(); }
  [[nodiscard]] const_iterator cbegin() const noexcept { return data(); }
  [[nodiscard]] iterator end() noexcept { return data() + size(); }
  [[nodiscard]] const_iterator end() const noexcept { return data() + size(); }
  [[nodiscard]] const_iterator cend() const noexcept { return data() + size(); }
  [[nodiscard]] reverse_iterator rbegin() noexcept { return reverse_iterator(end()); }
  [[nodiscard]] const_reverse_iterator rbegin() const noexcept { return const_reverse_iterator(end()); }
  [[nodiscard]] reverse_iterator rend() noexcept { return reverse_iterator(begin()); }
  [[nodiscard]] const_reverse_iterator rend() const noexcept { return const_reverse_iterator(begin()); }

  void push_back(char c) {
    const size_type old = size();
    if (old == capacity()) move_to(larger_capacity(old + 1));
    announce_text(old, old + 1);
    data()[old] = c;
    set_size(old + 1);
  }
  void pop_back() noexcept {
    assert(!empty());
    truncate(size() - 1);
  }
  // `text` may be a part of this string, here and below.
  basic_string& append(std::string_view text) { return replace(size(), 0, text); }
  basic_string& append(const char* text, size_type size) { return append(std::string_view(text, size)); }
  basic_string& append(size_type count, char c) {
    std::memset(open_gap(size(), 0, count), c, count);
    return *this;
  }
  template <std::input_iterator I>
  basic_string& append(I first, I last) {
    return append(basic_string(first, last).view());
  }
  basic_string& operator+=(std::string_view text) { return append(text); }
  basic_string& operator+=(char c) {
    push_back(c);
    return *this;
  }
  basic_string& operator+=(std::initializer_list<char> text) { return append(view_of(text)); }

  basic_string& insert(size_type at, std::string_view text) { return replace(at, 0, text); }
  basic_string& insert(size_type at, size_type count, char c) { return replace(at, 0, count, c); }
  iterator insert(const_iterator at, char c) {
    const auto offset = static_cast<size_type>(at - begin());
    insert(offset, 1, c);
    return begin() + offset;
  }
  basic_string& erase(size_type at = 0, size_type count = npos) {
    check_at(at);
    open_gap(at, std::min(count, size() - at), 0);
    return *this;
  }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    const auto offset = static_cast<size_type>(first - begin());
    erase(offset, static_cast<size_type>(last - first));
    return begin() + offset;
  }
  basic_string& replace(size_type at, size_type count, std::string_view text) {
    check_at(at);
    count = std::min(count, size() - at);
    if (!overlaps(text)) {
      copy_to(open_gap(at, count, text.size()), text);
      return *this;
    }
    basic_string fresh = near_copy(view().substr(0, at), larger_capacity(size() - count + text.size()));
    fresh.append(text);
    fresh.append(view().substr(at + count));
    swap(fresh);
    return *this;
  }
  basic_string& replace(size_type at, size_type count, size_type copies, char c) {
    check_at(at);
    std::memset(open_gap(at, std::min(count, size() - at), copies), c, copies);
    return *this;
  }
  basic_string& replace(const_iterator first, const_iterator last, std::string_view text) {
    return replace(static_cast<size_type>(first - begin()), static_cast<size_type>(last - first), text);
  }

  // The result is a value of the caller. If it is long, its memory is in the default database.
  [[nodiscard]] basic_string substr(size_type at = 0, size_type count = npos) const {
    return basic_string(*this, at, count);
  }
  size_type copy(char* to, size_type count, size_type at = 0) const { return view().copy(to, count, at); }

  [[nodiscard]] int compare(std::string_view other) const noexcept { return view().compare(other); }
  [[nodiscard]] int compare(size_type at, size_type count, std::string_view other) const {
    return view().substr(at, count).compare(other);
  }
  [[nodiscard]] bool starts_with(std::string_view text) const noexcept { return view().starts_with(text); }
  [[nodiscard]] bool starts_with(char c) const noexcept { return view().starts_with(c); }
  [[nodiscard]] bool ends_with(std::string_view text) const noexcept { return view().ends_with(text); }
  [[nodiscard]] bool ends_with(char c) const noexcept { return view().ends_with(c); }
  [[nodiscard]] bool contains(std::string_view text) const noexcept { return view().find(text) != npos; }
  [[nodiscard]] bool contains(char c) const noexcept { return view().find(c) != npos; }

  [[nodiscard]] size_type find(std::string_view what, size_type at = 0) const noexcept { return view().find(what, at); }
  [[nodiscard]] size_type find(char what, size_type at = 0) const noexcept { return view().find(what, at); }
  [[nodiscard]] size_type rfind(std::string_view what, size_type at = npos) const noexcept {
    return view().rfind(what, at);
  }
  [[nodiscard]] size_type rfind(char what, size_type at = npos) const noexcept { return view().rfind(what, at); }
  [[nodiscard]] size_type find_first_of(std::string_view any, size_type at = 0) const noexcept {
    return view().find_first_of(any, at);
  }
  [[nodiscard]] size_type find_last_of(std::string_view any, size_type at = npos) const noexcept {
    return view().find_last_of(any, at);
  }
  [[nodiscard]] size_type find_first_not_of(std::string_view any, size_type at = 0) const noexcept {
    return view().find_first_not_of(any, at);
  }
  [[nodiscard]] size_type find_last_not_of(std::string_view any, size_type at = npos) const noexcept {
    return view().find_last_not_of(any, at);
  }

  void swap(basic_string& other) noexcept {
    detail::announce_each(*this, other);
    std::swap(heap_, other.heap_);
    std::swap(words_, other.words_);
  }
  friend void swap(basic_string& a, basic_string& b) noexcept { a.swap(b); }

  friend bool operator==(const basic_string& a, const basic_string& b) noexcept { return a.view() == b.view(); }
  friend std::strong_ordering operator<=>(const basic_string& a, const basic_string& b) noexcept {
    return a.view() <=> b.view();
  }
  template <detail::characters S>
  requires(!detail::is_string<S>) friend bool operator==(const basic_string& a, const S& b) noexcept {
    return a.view() == std::string_view(b);
  }
  template <detail::characters S>
  requires(!detail::is_string<S>) friend std::strong_ordering operator<=>(const basic_string& a, const S& b) noexcept {
    return a.view() <=> std::string_view(b);
  }

  friend basic_string operator+(const basic_string& a, const basic_string& b) { return joined(a.view(), b.view()); }
  friend basic_string operator+(basic_string&& a, const basic_string& b) { return std::move(a.append(b.view())); }
  template <detail::characters S>
  requires(!detail::is_string<S>) friend basic_string operator+(const basic_string& a, const S& b) {
    return joined(a.view(), std::string_view(b));
  }
  template <detail::characters S>
  requires(!detail::is_string<S>) friend basic_string operator+(basic_string&& a, const S& b) {
    return std::move(a.append(std::string_view(b)));
  }
  template <detail::characters S>
  requires(!detail::is_string<S>) friend basic_string operator+(const S& a, const basic_string& b) {
    return joined(std::string_view(a), b.view());
  }
  friend basic_string operator+(const basic_string& a, char b) { return joined(a.view(), std::string_view(&b, 1)); }
  friend basic_string operator+(char a, const basic_string& b) { return joined(std::string_view(&a, 1), b.view()); }

  template <class Traits>
  friend std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const basic_string& s) {
    return out << s.view();
  }

 private:
  struct construct {};
  struct destroy_unless_done {
    explicit destroy_unless_done(basic_string& unfinished) : owner(&unfinished) {}
    destroy_unless_done(const destroy_unless_done&) = delete;
    destroy_unless_done& operator=(const destroy_unless_done&) = delete;
    ~destroy_unless_done() {
      if (owner != nullptr) owner->free_text();
    }
    basic_string* owner;
  };

  static constexpr size_type inside_capacity = 14;

  basic_string(std::string_view text, construct) { copy_to(set_size_discarding(text.size()), text); }

  static std::string_view view_of(std::initializer_list<char> text) { return {text.begin(), text.size()}; }
  static void copy_to(char* to, std::string_view text) noexcept {
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
  }
  static void check_below(size_type i, size_type size) {
    if (i >= size) throw std::out_of_range("tenure::string: the index is not below the size");
  }
  void check_at(size_type at) const {
    if (at > size()) throw std::out_of_range("tenure::string: the position is beyond the end");
  }
  [[nodiscard]] bool overlaps(std::string_view text) const noexcept {
    const auto address = [](const char* at) { return reinterpret_cast<std::uintptr_t>(at); };
    return !text.empty() && address(text.data()) >= address(data()) && address(text.data()) <= address(data() + size());
  }
  static basic_string joined(std::string_view a, std::string_view b) {
    basic_string both;
    char* to = both.set_size_discarding(a.size() + b.size());
    copy_to(to, a);
    copy_to(to + a.size(), b);
    return both;
  }
  [[nodiscard]] size_type larger_capacity(size_type at_least) const {
    return std::max(at_least, std::min(capacity() * 2, max_size()));
  }

  [[nodiscard]] char* inside() noexcept { return reinterpret_cast<char*>(words_); }
  [[nodiscard]] const char* inside() const noexcept { return reinterpret_cast<const char*>(words_); }
  [[nodiscard]] size_type inside_size() const noexcept { return static_cast<size_type>(inside()[inside_capacity + 1]); }

  // What lies from character `at` on up to the end of a text of this size, and the size, is about to change.
  void announce_text(size_type at, size_type size) const noexcept {
    if (detail::end_of_watched() != 0) [[unlikely]]
      announce_watched_text(at, size);
  }
  [[gnu::noinline, gnu::cold]] void announce_watched_text(size_type at, size_type size) const noexcept {
    if (heap_ == nullptr) return detail::announce_each(words_);
    detail::announce(heap_ + at, size + 1 - at);
    detail::announce_each(words_[0]);
  }
  void truncate(size_type size) noexcept {
    announce_text(size, size);
    set_size(size);
  }
  // Announced by the caller.
  void set_size(size_type size) noexcept {
    if (heap_ != nullptr) {
      words_[0] = size;
      heap_[size] = '\0';
    } else {
      set_inside_size(size);
    }
  }
  void set_inside_size(size_type size) noexcept {
    inside()[size] = '\0';
    inside()[inside_capacity + 1] = static_cast<char>(size);
  }
  // For a string that has no memory yet: sets the size. The caller writes the characters.
  char* set_size_discarding(size_type size) {
    if (size <= inside_capacity) {
      set_inside_size(size);
      return inside();
    }
    allocate(size, this);
    words_[0] = size;
    return heap_;
  }
  void allocate(size_type capacity, const void* near) {
    if (capacity > max_size()) throw std::length_error("tenure::string: longer than an address space");
    heap_ = Memory::template allocate<char>(capacity + 1, near);
    words_[0] = 0;
    words_[1] = capacity;
  }
  // A string with this text and capacity, and memory in the same database as this string. It is then swapped with this
  // string.
  basic_string near_copy(std::string_view text, size_type capacity) const {
    basic_string fresh;
    if (capacity <= inside_capacity) {
      copy_to(fresh.inside(), text);
      fresh.set_inside_size(text.size());
    } else {
      fresh.allocate(capacity, this);
      copy_to(fresh.heap_, text);
      fresh.words_[0] = text.size();
    }
    return fresh;
  }
  void move_to(size_type capacity) {
    basic_string fresh = near_copy(view(), capacity);
    swap(fresh);
  }
  // Replaces `count` characters by `room` new ones, which the caller writes.
  char* open_gap(size_type at, size_type count, size_type room) {
    const size_type old = size();
    if (room > max_size() - (old - count)) throw std::length_error("tenure::string: longer than an address space");
    const size_type size = old - count + room;
    if (size > capacity()) move_to(larger_capacity(size));
    announce_text(at, size);
    char* text = data();
    if (room != count) std::memmove(text + at + room, text + at + count, old - at - count);
    set_size(size);
    return text + at;
  }
  // A long one, which becomes empty. false: there is no memory.
  [[gnu::noinline]] bool copy_from(basic_string& other) noexcept {
    const size_type size = other.words_[0];
    try {
      heap_ = Memory::template allocate<char>(size + 1, this);
    } catch (...) {
      return false;
    }
    std::memcpy(heap_, other.heap_, size + 1);
    words_[0] = words_[1] = size;
    other.free_text();
    detail::announce_each(other);
    other.heap_ = nullptr;
    other.words_[0] = other.words_[1] = 0;
    return true;
  }
  void free_text() noexcept {
    if (heap_ != nullptr) Memory::template deallocate<char>(heap_, words_[1] + 1);
  }
  // This string has no memory, and is announced or in no store. Where the other's memory is in another store, the text is
  // copied; without memory for that, the commit refuses what it leads to.
  void take(basic_string& other) noexcept {
    if (detail::is_elsewhere<Memory>(other.heap_, this) && copy_from(other)) return;
    heap_ = other.heap_;
    words_[0] = other.words_[0];
    words_[1] = other.words_[1];
    detail::announce_each(other);
    other.heap_ = nullptr;
    other.words_[0] = other.words_[1] = 0;
  }

  // Long strings: size and capacity. The terminating zero is not counted, but heap_ has space for it. Short strings: up
  // to 14 characters, the zero, and in the last byte the size.
  char* heap_ = nullptr;
  std::uint64_t words_[2] = {};

 public:
  static constexpr auto persistent = members<&basic_string::heap_, &basic_string::words_>{};
};

template <class Memory, class U>
std::size_t erase(basic_string<Memory>& from, const U& value) {
  return erase_if(from, [&](char c) { return c == value; });
}
template <class Memory, class Predicate>
std::size_t erase_if(basic_string<Memory>& from, Predicate predicate) {
  return detail::erase_values_if(from, predicate);
}

}  // namespace tenure

// Equal to the hash of an equal std::string_view.
template <class Memory>
struct std::hash<tenure::basic_string<Memory>> {
  std::size_t operator()(const tenure::basic_string<Memory>& s) const noexcept {
    return std::hash<std::string_view>{}(s.view());
  }
};
