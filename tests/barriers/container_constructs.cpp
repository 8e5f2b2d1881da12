// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The standard library's containers that tenure/allocator.hpp supports, in random operations: memory is compared after each
// of them.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "barriers/construct.hpp"

using namespace constructs;

namespace {

using text = std::basic_string<char, std::char_traits<char>, watched_allocator<char>>;

struct text_hash {
  std::size_t operator()(const text& t) const { return std::hash<std::string_view>()({t.data(), t.size()}); }
};

struct generator {
  std::uint64_t state;
  std::size_t operator()(std::size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % below;
  }
};

template <class T>
struct value_of;
template <>
struct value_of<int> {
  static int make(std::size_t n) { return static_cast<int>(n); }
};
template <>
struct value_of<text> {
  static text make(std::size_t n) {
    text made(n % 40, 'x');
    made += std::to_string(n).c_str();
    return made;
  }
};

constexpr std::size_t most = 60;
constexpr int operations = 600;

// Two containers, what is done with them drawn.
template <class Container, class Step>
void run(const std::string& name, Step step) {
  construct(name, [step] {
    auto& one = place<Container>();
    auto& other = place<Container>();
    generator draw{12345};
    watch();
    for (int n = 0; n < operations; ++n) {
      step(one, other, draw);
      look();
    }
    one.~Container();
    other.~Container();
  });
}

// What all can do.
template <class Container>
bool common_step(Container& one, Container& other, generator& draw) {
  switch (draw(24)) {
    case 0: one.swap(other); return true;
    case 1: one = other; return true;
    case 2:
      other = std::move(one);
      one.clear();
      return true;
    case 3:
      if (draw(4) == 0) one.clear();
      return true;
    case 4: {
      Container copy(one);
      other.swap(copy);
      return true;
    }
    case 5: {
      Container moved(std::move(other));
      other = std::move(moved);
      return true;
    }
    default: return false;
  }
}

template <class T>
T drawn(generator& draw) {
  return value_of<T>::make(draw(200));
}

template <class Container, class T>
void sequence(const std::string& name) {
  run<Container>(name, [](Container& one, Container& other, generator& draw) {
    if (common_step(one, other, draw)) return;
    const auto place_in = [&](Container& c) {
      return std::next(c.begin(), static_cast<std::ptrdiff_t>(draw(c.size() + 1)));
    };
    if (one.size() >= most) {
      one.erase(std::next(one.begin(), 5), std::next(one.begin(), static_cast<std::ptrdiff_t>(one.size()) - 7));
      return;
    }
    switch (draw(13)) {
      case 0: one.push_back(drawn<T>(draw)); break;
      case 1: one.insert(place_in(one), drawn<T>(draw)); break;
      case 2: one.insert(place_in(one), draw(6), drawn<T>(draw)); break;
      case 3:
        one.insert(place_in(one), other.begin(),
                   std::next(other.begin(), static_cast<std::ptrdiff_t>(other.size() / 4)));
        break;
      case 4:
        if (!one.empty()) one.pop_back();
        break;
      case 5:
        if (!one.empty()) one.erase(std::next(one.begin(), static_cast<std::ptrdiff_t>(draw(one.size()))));
        break;
      case 6: one.resize(draw(most)); break;
      case 7: one.assign(draw(20), drawn<T>(draw)); break;
      case 8:
        if (!one.empty()) *std::next(one.begin(), static_cast<std::ptrdiff_t>(draw(one.size()))) = drawn<T>(draw);
        break;
      case 9: one.emplace_back(drawn<T>(draw)); break;
      case 10: std::reverse(one.begin(), one.end()); break;
      case 11:
        if constexpr (requires { one.sort(); })
          one.sort();
        else
          std::sort(one.begin(), one.end());
        break;
      default:
        if constexpr (requires { one.push_front(drawn<T>(draw)); })
          one.push_front(drawn<T>(draw));
        else
          one.shrink_to_fit();
    }
    if constexpr (requires { one.splice(one.begin(), other); }) {
      switch (draw(12)) {
        case 0: one.splice(place_in(one), other); break;
        case 1:
          if (!other.empty()) one.splice(one.begin(), other, other.begin());
          break;
        case 2: one.splice(one.end(), one, one.begin(), place_in(one)); break;
        case 3: one.reverse(); break;
        case 4:
          one.sort();
          other.sort();
          one.merge(other);
          break;
        case 5: one.unique(); break;
        case 6: one.remove(drawn<T>(draw)); break;
        default: break;
      }
      if (one.size() > most) one.resize(most / 2);
    }
  });
}

template <class Container>
void forward(const std::string& name) {
  run<Container>(name, [](Container& one, Container& other, generator& draw) {
    if (common_step(one, other, draw)) return;
    switch (draw(9)) {
      case 0: one.push_front(drawn<int>(draw)); break;
      case 1: one.insert_after(one.before_begin(), draw(5), drawn<int>(draw)); break;
      case 2:
        if (!one.empty()) one.erase_after(one.before_begin());
        break;
      case 3: one.sort(); break;
      case 4: one.reverse(); break;
      case 5: one.splice_after(one.before_begin(), other); break;
      case 6: one.resize(draw(20)); break;
      case 7:
        one.sort();
        other.sort();
        one.merge(other);
        break;
      default: one.unique();
    }
    if (std::distance(one.begin(), one.end()) > static_cast<int>(most)) one.resize(10);
  });
}

template <class Container, class Make>
void associative(const std::string& name, Make make) {
  run<Container>(name, [make](Container& one, Container& other, generator& draw) {
    if (common_step(one, other, draw)) return;
    using key = typename Container::key_type;
    if (one.size() >= most) {
      one.erase(std::next(one.begin(), 3), std::next(one.begin(), static_cast<std::ptrdiff_t>(one.size()) - 9));
      return;
    }
    switch (draw(11)) {
      case 0: one.erase(drawn<key>(draw)); break;
      case 1:
        if (!one.empty()) one.erase(std::next(one.begin(), static_cast<std::ptrdiff_t>(draw(one.size()))));
        break;
      case 2: other.merge(one); break;
      case 3: {
        if (one.empty()) break;
        auto node = one.extract(one.begin());
        other.insert(std::move(node));
        break;
      }
      case 4: one.insert(other.begin(), std::next(other.begin(), static_cast<std::ptrdiff_t>(other.size() / 3))); break;
      case 5:
        if constexpr (requires { one.rehash(1); }) one.rehash(draw(300));
        break;
      case 6:
        if constexpr (requires { one[drawn<key>(draw)]; }) one[drawn<key>(draw)] = 5;
        break;
      default: one.insert(make(draw)); one.emplace(make(draw));
    }
  });
}

template <class K>
using pair_with = std::pair<const K, int>;
template <class K>
using hash_of = std::conditional_t<std::is_same_v<K, text>, text_hash, std::hash<K>>;

template <class K>
void associatives(const std::string& key) {
  const auto of_map = [](generator& draw) { return pair_with<K>(drawn<K>(draw), drawn<int>(draw)); };
  const auto of_set = [](generator& draw) { return drawn<K>(draw); };
  using less = std::less<K>;
  using equal = std::equal_to<K>;
  using pairs = watched_allocator<pair_with<K>>;
  using keys = watched_allocator<K>;
  associative<std::map<K, int, less, pairs>>("map_of_" + key, of_map);
  associative<std::multimap<K, int, less, pairs>>("multimap_of_" + key, of_map);
  associative<std::set<K, less, keys>>("set_of_" + key, of_set);
  associative<std::multiset<K, less, keys>>("multiset_of_" + key, of_set);
  associative<std::unordered_map<K, int, hash_of<K>, equal, pairs>>("unordered_map_of_" + key, of_map);
  associative<std::unordered_multimap<K, int, hash_of<K>, equal, pairs>>("unordered_multimap_of_" + key, of_map);
  associative<std::unordered_set<K, hash_of<K>, equal, keys>>("unordered_set_of_" + key, of_set);
  associative<std::unordered_multiset<K, hash_of<K>, equal, keys>>("unordered_multiset_of_" + key, of_set);
}

template <class T>
void sequences(const std::string& element) {
  sequence<std::vector<T, watched_allocator<T>>, T>("vector_of_" + element);
  sequence<std::deque<T, watched_allocator<T>>, T>("deque_of_" + element);
  sequence<std::list<T, watched_allocator<T>>, T>("list_of_" + element);
}

void strings() {
  run<text>("string", [](text& one, text& other, generator& draw) {
    if (common_step(one, other, draw)) return;
    const std::size_t at = draw(one.size() + 1), length = draw(20);
    const std::string plain(draw(30), static_cast<char>('a' + draw(26)));
    if (one.size() > 300) one.erase(10);
    switch (draw(18)) {
      case 0: one += 'c'; break;
      case 1: one.append(plain.c_str()); break;
      case 2: one.insert(std::min(at, one.size()), plain.c_str()); break;
      case 3: one.erase(std::min(at, one.size()), length); break;
      case 4: one.replace(std::min(at, one.size()), length, plain.c_str()); break;
      case 5: one.resize(draw(100), 'r'); break;
      case 6: one.reserve(draw(200)); break;
      case 7: one.shrink_to_fit(); break;
      case 8: one.push_back('p'); break;
      case 9:
        if (!one.empty()) one.pop_back();
        break;
      case 10: one.assign(length, 'q'); break;
      case 11: one = plain.c_str(); break;
      case 12: one = 'z'; break;
      case 13:
        if (!one.empty()) one[draw(one.size())] = '!';
        break;
      case 14: one += other.substr(0, 20); break;
      case 15: one.insert(one.begin(), 'i'); break;
      case 16: one.append(length, 'n'); break;
      default: std::reverse(one.begin(), one.end());
    }
    if (other.size() > 300) other.clear();
  });
}

const bool all = [] {
  sequences<int>("int");
  sequences<text>("string");
  forward<std::forward_list<int, watched_allocator<int>>>("forward_list_of_int");
  associatives<int>("int");
  associatives<text>("string");
  strings();
  return true;
}();

}  // namespace

CONSTRUCT(vector_of_bool) {
  auto& to = place<std::vector<bool, watched_allocator<bool>>>();
  watch();
  for (int n = 0; n < 100; ++n) to.push_back(n % 3 == 0);
  to[17] = true;
  to.flip();
  to.insert(to.begin() + 5, true);
  to.erase(to.begin());
}

// A tree is right after many operations: the order, the balance and the ends.
CONSTRUCT(tree_is_balanced) {
  using tree = std::set<int, std::less<>, watched_allocator<int>>;
  auto& to = place<tree>();
  std::set<int> right;  // libstdc++'s algorithm is replaced in it too
  std::vector<bool> is_in(400, false);
  generator draw{99};
  watch();
  bool good = true;
  for (int n = 0; n < 20000 && good; ++n) {
    const int key = static_cast<int>(draw(400));
    if (draw(2) == 0)
      is_in[static_cast<std::size_t>(key)] = to.insert(key).second || is_in[static_cast<std::size_t>(key)];
    else
      to.erase(key), is_in[static_cast<std::size_t>(key)] = false;
    if (n % 50 != 0) continue;
    std::vector<int> expected;
    for (int k = 0; k < 400; ++k)
      if (is_in[static_cast<std::size_t>(k)]) expected.push_back(k);
    good = std::equal(to.begin(), to.end(), expected.begin(), expected.end()) &&
           std::equal(to.rbegin(), to.rend(), expected.rbegin(), expected.rend());
    // libstdc++ has the layout's own check in debug mode only: count black nodes on all paths.
    struct node {
      static int height(const std::_Rb_tree_node_base* at) {
        if (at == nullptr) return 0;
        const auto is_red = [](const std::_Rb_tree_node_base* of) {
          return of != nullptr && of->_M_color == std::_S_red;
        };
        if (is_red(at) && (is_red(at->_M_left) || is_red(at->_M_right))) return -1;
        for (const auto* below : {at->_M_left, at->_M_right})
          if (below != nullptr && below->_M_parent != at) return -1;
        const int left = height(at->_M_left), right_side = height(at->_M_right);
        if (left < 0 || left != right_side) return -1;
        return left + (is_red(at) ? 0 : 1);
      }
    };
    const std::_Rb_tree_node_base* const root = to.end()._M_node->_M_parent;
    good = good && node::height(root) >= 0 && (root == nullptr || root->_M_color == std::_S_black);
  }
  if (!good) *static_cast<volatile int*>(nullptr) = 1;
}
