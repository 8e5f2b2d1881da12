// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Algorithms over watched arrays, and small classes of the standard library.
#include <algorithm>
#include <any>
#include <array>
#include <bitset>
#include <charconv>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <sstream>
#include <stack>
#include <string>
#include <tuple>
#include <utility>
#include <valarray>
#include <variant>
#include <vector>

#include "barriers/construct.hpp"

using namespace constructs;

namespace {

struct big {
  int key;
  char name[20];
  friend bool operator<(const big& a, const big& b) { return a.key < b.key; }
  friend bool operator==(const big& a, const big& b) { return a.key == b.key; }
};

template <class T>
T made(int n) {
  if constexpr (std::is_same_v<T, big>)
    return {n, "a name"};
  else
    return T(n);
}

// Each over an array of n elements, in no order.
template <class T>
struct algorithm_constructs {
  template <class Run>
  void add(const char* name, const std::string& type, Run run) {
    construct(name + ("_of_" + type), [run] {
      constexpr int n = 90;
      T* const to = places<T>(n);
      for (int i = 0; i < n; ++i) to[i] = made<T>(i * 53 % 97);
      const std::span<T> all(to, static_cast<std::size_t>(hidden(n)));
      watch();
      run(all);
    });
  }
  explicit algorithm_constructs(const std::string& type) {
    add("copy", type, [](std::span<T> a) { std::copy(a.begin(), a.begin() + 40, a.begin() + 45); });
    add("copy_backward", type, [](std::span<T> a) { std::copy_backward(a.begin(), a.begin() + 80, a.end()); });
    add("move", type, [](std::span<T> a) { std::move(a.begin() + 3, a.end(), a.begin()); });
    add("fill", type, [](std::span<T> a) { std::fill(a.begin(), a.end(), made<T>(5)); });
    add("generate", type,
        [](std::span<T> a) { std::generate(a.begin(), a.end(), [n = 0]() mutable { return made<T>(n++); }); });
    add("sort", type, [](std::span<T> a) { std::sort(a.begin(), a.end()); });
    add("stable_sort", type, [](std::span<T> a) { std::stable_sort(a.begin(), a.end()); });
    add("partial_sort", type, [](std::span<T> a) { std::partial_sort(a.begin(), a.begin() + 20, a.end()); });
    add("nth_element", type, [](std::span<T> a) { std::nth_element(a.begin(), a.begin() + 20, a.end()); });
    add("ranges_sort", type, [](std::span<T> a) { std::ranges::sort(a, std::less<>()); });
    add("rotate", type, [](std::span<T> a) { std::rotate(a.begin(), a.begin() + 31, a.end()); });
    add("reverse", type, [](std::span<T> a) { std::reverse(a.begin(), a.end()); });
    add("swap_ranges", type, [](std::span<T> a) { std::swap_ranges(a.begin(), a.begin() + 45, a.begin() + 45); });
    add("iter_swap", type, [](std::span<T> a) { std::iter_swap(a.begin(), a.begin() + 7); });
    add("partition", type,
        [](std::span<T> a) { std::partition(a.begin(), a.end(), [](const T& t) { return t < made<T>(40); }); });
    add("stable_partition", type,
        [](std::span<T> a) { std::stable_partition(a.begin(), a.end(), [](const T& t) { return t < made<T>(40); }); });
    add("unique", type, [](std::span<T> a) {
      std::fill(a.begin(), a.begin() + 9, a[50]);
      (void)std::unique(a.begin(), a.end());
    });
    add("remove", type, [](std::span<T> a) { (void)std::remove(a.begin(), a.end(), made<T>(53)); });
    add("replace", type, [](std::span<T> a) { std::replace(a.begin(), a.end(), made<T>(53), made<T>(1)); });
    add("shuffle", type, [](std::span<T> a) { std::shuffle(a.begin(), a.end(), std::minstd_rand(3)); });
    add("heap", type, [](std::span<T> a) {
      std::make_heap(a.begin(), a.end());
      std::pop_heap(a.begin(), a.end());
      std::push_heap(a.begin(), a.end());
      std::sort_heap(a.begin(), a.end() - 1);
    });
    add("next_permutation", type, [](std::span<T> a) {
      for (int n = 0; n < 9; ++n) std::next_permutation(a.begin(), a.end());
    });
    add("inplace_merge", type, [](std::span<T> a) {
      std::sort(a.begin(), a.begin() + 45);
      std::sort(a.begin() + 45, a.end());
      std::inplace_merge(a.begin(), a.begin() + 45, a.end());
    });
    add("transform", type,
        [](std::span<T> a) { std::transform(a.begin(), a.end(), a.begin(), [](const T&) { return made<T>(8); }); });
    add("shift", type, [](std::span<T> a) { std::shift_left(a.begin(), a.end(), 4); });
  }
};
const algorithm_constructs<char> chars("char");
const algorithm_constructs<int> ints("int");
const algorithm_constructs<double> doubles("double");
const algorithm_constructs<big> bigs("struct");

using text = std::basic_string<char, std::char_traits<char>, watched_allocator<char>>;

}  // namespace

CONSTRUCT(iota) {
  int* const to = places<int>(50);
  watch();
  std::iota(to, to + hidden(50), 3);
}
CONSTRUCT(partial_sum) {
  int* const to = places<int>(50);
  std::fill_n(to, 50, 3);
  watch();
  std::partial_sum(to, to + hidden(50), to);
}
CONSTRUCT(optional) {
  auto& to = place<std::optional<big>>();
  watch();
  to = big{hidden(3), "x"};
  look();
  to->key = 4;
  look();
  to.reset();
  look();
  to.emplace(made<big>(4));
}
CONSTRUCT(optional_of_string) {
  auto& to = place<std::optional<text>>();
  watch();
  to = "a text that is too long to be inside";
  look();
  to->append("and more");
  look();
  to.reset();
}
CONSTRUCT(variant) {
  auto& to = place<std::variant<int, double, text>>();
  watch();
  to = 3.5;
  look();
  to = text("a text that is too long to be inside");
  look();
  to = text("b");
  look();
  to.emplace<int>(4);
}
CONSTRUCT(variant_swap) {
  using either = std::variant<int, text>;
  auto& one = place<either>(3);
  auto& other = place<either>(text("a text that is too long to be inside"));
  watch();
  one.swap(other);
}
CONSTRUCT(any) {
  auto& to = place<std::any>();
  watch();
  to = hidden(3);
  look();
  to = std::string("abc");
  look();
  to.reset();
}
CONSTRUCT(function) {
  auto& to = place<std::function<int(int)>>();
  int n = 3;
  watch();
  to = [n](int m) { return n + m; };
  look();
  to = [&n](int m) { return n * m; };
  look();
  to = nullptr;
}
CONSTRUCT(bitset) {
  auto& to = place<std::bitset<200>>();
  watch();
  to.set(static_cast<std::size_t>(hidden(77)));
  look();
  to.flip();
  look();
  to <<= 13;
  look();
  to[5] = true;
  look();
  to.reset();
}
CONSTRUCT(array) {
  auto& to = place<std::array<int, 30>>();
  watch();
  to.fill(hidden(4));
  look();
  to[static_cast<std::size_t>(hidden(3))] = 7;
  look();
  std::array<int, 30> other{};
  to.swap(other);
}
CONSTRUCT(pair) {
  auto& to = place<std::pair<int, text>>();
  watch();
  to = {hidden(3), "a text that is too long to be inside"};
  look();
  to.first = 4;
}
CONSTRUCT(tuple) {
  auto& to = place<std::tuple<int, double, char, text>>();
  watch();
  to = std::make_tuple(hidden(3), 4.5, 'c', text("t"));
  look();
  std::get<1>(to) = 6;
}
CONSTRUCT(tie) {
  auto& to = place<std::pair<int, double>>();
  watch();
  std::tie(to.first, to.second) = std::make_pair(hidden(3), 5.5);
}
CONSTRUCT(exchange) {
  int& to = place<int>(3);
  watch();
  hidden(std::exchange(to, 8));
}
CONSTRUCT(priority_queue) {
  auto& to = place<std::priority_queue<int, std::vector<int, watched_allocator<int>>>>();
  watch();
  for (int n = 0; n < 50; ++n) to.push(n * 37 % 41), look();
  for (int n = 0; n < 50; ++n) to.pop(), look();
}
CONSTRUCT(valarray) {
  auto& to = place<std::valarray<double>>();
  watch();
  to.resize(3);
}
CONSTRUCT(random_engine) {
  auto& to = place<std::mt19937>(5u);
  watch();
  hidden(to());
}
CONSTRUCT(random_distribution) {
  auto& to = place<std::normal_distribution<double>>();
  std::minstd_rand engine(4);
  watch();
  const double d = to(engine);
  hidden(&d);
}
CONSTRUCT(to_chars_int) {
  char* const to = places<char>(30);
  watch();
  std::to_chars(to, to + 30, hidden(123456789));
}
CONSTRUCT(to_chars_double) {
  char* const to = places<char>(30);
  watch();
  std::to_chars(to, to + 30, 1.5 * hidden(3));
}
CONSTRUCT(from_chars_double) {
  double& to = place<double>(0.0);
  const char from[] = "47.25";
  watch();
  std::from_chars(from, from + 5, to);
}
CONSTRUCT(from_chars_int) {
  int& to = place<int>(0);
  const char from[] = "12345";
  watch();
  std::from_chars(from, from + 5, to);
}
CONSTRUCT(plain_string_in_place) {
  auto& to = place<std::string>();
  watch();
  to = "short";
  look();
  to += 'c';
  look();
  to = "a text that is too long to be inside";
  look();
  to.clear();
  look();
  to.assign(3, 'x');
  look();
  to.push_back('y');
  look();
  to.insert(1, "zz");
  look();
  to.replace(0, 2, "u");
  look();
  to.resize(9);
  look();
  to.swap(place<std::string>("other"));
  look();
  to = std::string("moved");
}
CONSTRUCT(string_from_stream) {
  auto& to = place<std::string>();
  std::istringstream from("word another");
  watch();
  from >> to;
}
CONSTRUCT(line_from_stream) {
  auto& to = place<std::string>();
  std::istringstream from("a line\nanother");
  watch();
  std::getline(from, to);
}
CONSTRUCT(int_from_stream) {
  int& to = place<int>(0);
  std::istringstream from("123");
  watch();
  from >> to;
}
CONSTRUCT(bytes_from_stream) {
  char* const to = places<char>(30);
  std::istringstream from("some bytes and more of them");
  watch();
  from.read(to, hidden(20));
}
CONSTRUCT(char_from_stream) {
  char& to = place<char>('a');
  std::istringstream from("xyz");
  watch();
  from.get(to);
}
CONSTRUCT(copy_to_array_from_list) {
  int* const to = places<int>(5);
  const std::vector<int> from{1, 2, 3, 4, 5};
  watch();
  std::ranges::copy(from, to);
}
CONSTRUCT(insert_iterator) {
  auto& to = place<std::vector<int, watched_allocator<int>>>();
  watch();
  std::fill_n(std::back_inserter(to), hidden(9), 4);
}
