// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Trees of the standard library. Nodes below a lost one can be reached only at the ends, from which there is a way up.
#include <algorithm>
#include <bit>

#include "rewrite/salvaged_containers.hpp"

namespace tenure::rewriting {

namespace {

// A node begins with its color, then these. The container has the same, for the root, the first and the last one.
constexpr std::uint64_t parent_at = 8, left_at = 16, right_at = 24, size_at = 32;
constexpr std::uint32_t red = 0, black = 1;
constexpr int deepest = 128;  // 2^64 nodes

[[nodiscard]] address at_link(address node, std::uint64_t link) { return damaged_image::get(node + link); }

}  // namespace

void salvaged_containers::find_nodes(address top, const std::string& name, const type*& like,
                                     std::unordered_set<address>& seen, found_nodes& found) {
  std::vector<address> above;
  for (address node = top; node != 0 || !above.empty();) {
    while (node != 0) {
      if (!is_node(node, name, like) || !seen.insert(node).second) {
        found.is_whole = false;
        break;
      }
      above.push_back(node);
      node = at_link(node, left_at);
    }
    if (above.empty()) return;
    node = above.back();
    above.pop_back();
    found.order.push_back(node);
    node = at_link(node, right_at);
  }
}

// The number of black nodes on each way down; -1: it differs, or colors or links are wrong.
int salvaged_containers::black_height(address node, int depth) {
  if (node == 0) return 0;
  if (depth > deepest) return -1;
  const auto color = damaged_image::get<std::uint32_t>(node);
  for (const std::uint64_t link : {left_at, right_at}) {
    const address child = at_link(node, link);
    if (child != 0 &&
        (at_link(child, parent_at) != node || (color == red && damaged_image::get<std::uint32_t>(child) == red)))
      return -1;
  }
  const int left = black_height(at_link(node, left_at), depth + 1),
            right = black_height(at_link(node, right_at), depth + 1);
  if (color > black || left < 0 || left != right) return -1;
  return left + static_cast<int>(color);
}

// Nodes of the lowest level are red, all others black.
address salvaged_containers::link_balanced(const std::vector<address>& nodes, std::size_t first, std::size_t end,
                                           address parent, int depth, int height) {
  if (first == end) return 0;
  const std::size_t middle = first + (end - first) / 2;
  const address node = nodes[middle];
  damaged_image::put(node, depth == height && depth != 0 ? red : black);
  damaged_image::put(node + parent_at, parent);
  damaged_image::put(node + left_at, link_balanced(nodes, first, middle, node, depth + 1, height));
  damaged_image::put(node + right_at, link_balanced(nodes, middle + 1, end, node, depth + 1, height));
  return node;
}

std::string salvaged_containers::mend_tree(const type& of, address at) {
  const address header = at + offset_of(of, "color"), root = at_link(header, parent_at);
  const std::uint64_t size = damaged_image::get(header + size_at);
  const std::string name = node_name(of, "std::_Rb_tree_node<") + ">";
  const type* like = nullptr;
  std::unordered_set<address> seen;
  found_nodes all;
  find_nodes(root, name, like, seen, all);
  if (!all.is_whole || all.order.size() != size) {
    // From an end up to the last node that can be reached.
    const auto find_end = [&](address node) {
      found_nodes end;
      if (node == header || seen.contains(node) || !is_node(node, name, like)) return end;
      for (int depth = 0; depth < deepest; ++depth) {
        const address up = at_link(node, parent_at);
        if (up == header || seen.contains(up) || !is_node(up, name, like) ||
            (at_link(up, left_at) != node && at_link(up, right_at) != node))
          break;
        node = up;
      }
      find_nodes(node, name, like, seen, end);
      return end;
    };
    const found_nodes first = find_end(at_link(header, left_at)), last = find_end(at_link(header, right_at));
    all.order.insert(all.order.begin(), first.order.begin(), first.order.end());
    all.order.insert(all.order.end(), last.order.begin(), last.order.end());
    all.is_whole = false;
  }
  std::erase_if(all.order, [&](address node) {
    const type_field* const value = container_field(*like, "value");
    if (value == nullptr) return false;
    const bool is_map = name_is_map(of);
    const type_field* const key = is_map && value->of ? container_field(value->of(), "first") : nullptr;
    const std::uint64_t from = value->offset + (key != nullptr ? key->offset : 0);
    if (claim(node, at) &&
        is_sound_key(*image_.find(node).type, node, from, from + (key != nullptr ? key->size : value->size)))
      return false;
    if (claim(node, at)) damaged_image::clear(node + parent_at, 3 * sizeof(address));
    all.is_whole = false;
    return true;
  });
  const address first = all.order.empty() ? header : all.order.front(),
                last = all.order.empty() ? header : all.order.back();
  if (all.is_whole && (root == 0 || (at_link(root, parent_at) == header && black_height(root, 0) >= 0)) &&
      at_link(header, left_at) == first && at_link(header, right_at) == last &&
      damaged_image::get<std::uint32_t>(header) == red)
    return "";
  const int height = static_cast<int>(std::bit_width(all.order.size())) - 1;
  damaged_image::put(header, red);
  damaged_image::put(header + parent_at, link_balanced(all.order, 0, all.order.size(), header, 0, height));
  damaged_image::put(header + left_at, first);
  damaged_image::put(header + right_at, last);
  damaged_image::put(header + size_at, std::uint64_t{all.order.size()});
  return entries_left(all.order.size(), size);
}

}  // namespace tenure::rewriting
