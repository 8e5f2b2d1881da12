// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The red-black trees of std::map and std::set, which libstdc++.so would write to: insertion and erasure of a node [Cormen,
// Leiserson, Rivest, Stein: Introduction to Algorithms, chapter 13], with libstdc++'s nodes. Leaves are null pointers. The
// header's parent is the root, its left and right are the first and the last node, or itself.
#include <map>

#include "barriers/linked.hpp"
#include "barriers/watched.hpp"

#ifdef __GLIBCXX__

using tenure::barriers::before_store;

namespace {

using node = std::_Rb_tree_node_base;

template <class T>
void write(T& field, T value) noexcept {
  if (field == value) return;
  before_store(&field, sizeof field);
  field = value;
}

void colour(node* at, std::_Rb_tree_color c) noexcept { write(at->_M_color, c); }
bool is_red(const node* at) noexcept { return at != nullptr && at->_M_color == std::_S_red; }

enum class side { left, right };
side other(side s) noexcept { return s == side::left ? side::right : side::left; }
node*& child(node* of, side s) noexcept { return s == side::left ? of->_M_left : of->_M_right; }
side side_of(const node* at) noexcept { return at->_M_parent->_M_left == at ? side::left : side::right; }

// `next`, or nothing, takes the place of `at` below its parent. at's own links stay.
void replace(const node* at, node* next, node& header) noexcept {
  node* const parent = at->_M_parent;
  if (header._M_parent == at)
    write(header._M_parent, next);
  else
    write(child(parent, side_of(at)), next);
  if (next != nullptr) write(next->_M_parent, parent);
}

// `at` goes down to side s, its child of the other side takes its place.
void rotate(node* at, side s, node& header) noexcept {
  node* const up = child(at, other(s));
  node* const middle = child(up, s);
  replace(at, up, header);
  write(child(at, other(s)), middle);
  if (middle != nullptr) write(middle->_M_parent, at);
  write(child(up, s), at);
  write(at->_M_parent, up);
}

// `at` is red, and its parent may be.
void repair_red(node* at, node& header) noexcept {
  while (at != header._M_parent && is_red(at->_M_parent)) {
    node* parent = at->_M_parent;
    node* const grandparent = parent->_M_parent;  // there is one: the root is black
    const side s = side_of(parent);
    node* const uncle = child(grandparent, other(s));
    if (is_red(uncle)) {
      colour(parent, std::_S_black);
      colour(uncle, std::_S_black);
      colour(grandparent, std::_S_red);
      at = grandparent;
      continue;
    }
    if (side_of(at) != s) {
      rotate(parent, s, header);
      parent = at;
    }
    colour(parent, std::_S_black);
    colour(grandparent, std::_S_red);
    rotate(grandparent, other(s), header);
    break;
  }
  colour(header._M_parent, std::_S_black);
}

// The paths through the child of `parent` on side s, which is `at` or empty, have one black node too few.
void repair_black(node* at, node* parent, side s, node& header) noexcept {
  while (at != header._M_parent && !is_red(at)) {
    if (at != nullptr) s = side_of(at);
    node* sibling = child(parent, other(s));
    if (is_red(sibling)) {
      colour(sibling, std::_S_black);
      colour(parent, std::_S_red);
      rotate(parent, s, header);
      sibling = child(parent, other(s));
    }
    if (!is_red(sibling->_M_left) && !is_red(sibling->_M_right)) {
      colour(sibling, std::_S_red);
      at = parent;
      parent = at->_M_parent;
      continue;
    }
    if (!is_red(child(sibling, other(s)))) {
      colour(child(sibling, s), std::_S_black);
      colour(sibling, std::_S_red);
      rotate(sibling, other(s), header);
      sibling = child(parent, other(s));
    }
    colour(sibling, parent->_M_color);
    colour(parent, std::_S_black);
    colour(child(sibling, other(s)), std::_S_black);
    rotate(parent, s, header);
    return;
  }
  if (at != nullptr) colour(at, std::_S_black);
}

}  // namespace

namespace std {

void _Rb_tree_insert_and_rebalance(const bool left, node* at, node* parent, node& header) noexcept {
  before_store(at, sizeof *at);
  at->_M_parent = parent;
  at->_M_left = at->_M_right = nullptr;
  at->_M_color = _S_red;
  if (parent == &header) {
    write(header._M_parent, at);
    write(header._M_left, at);
    write(header._M_right, at);
  } else {
    node*& end = left ? header._M_left : header._M_right;
    if (parent == end) write(end, at);
    write(child(parent, left ? side::left : side::right), at);
  }
  repair_red(at, header);
}

node* _Rb_tree_rebalance_for_erase(node* const at, node& header) noexcept {
  if (header._M_left == at)
    write(header._M_left, at->_M_right != nullptr ? node::_S_minimum(at->_M_right) : at->_M_parent);
  if (header._M_right == at)
    write(header._M_right, at->_M_left != nullptr ? node::_S_maximum(at->_M_left) : at->_M_parent);

  node* moved_up;                      // to where a node went missing
  node* parent = at->_M_parent;        // of that place
  _Rb_tree_color lost = at->_M_color;  // of the node
  side s = side::left;
  if (at->_M_left == nullptr || at->_M_right == nullptr) {
    if (header._M_parent != at) s = side_of(at);
    moved_up = at->_M_left != nullptr ? at->_M_left : at->_M_right;
    replace(at, moved_up, header);
  } else {
    node* const next = node::_S_minimum(at->_M_right);  // takes the place of `at`
    moved_up = next->_M_right;
    lost = next->_M_color;
    s = side_of(next);
    if (next->_M_parent == at) {
      parent = next;
    } else {
      parent = next->_M_parent;
      replace(next, moved_up, header);
      write(next->_M_right, at->_M_right);
      write(next->_M_right->_M_parent, next);
    }
    write(next->_M_left, at->_M_left);
    write(next->_M_left->_M_parent, next);
    replace(at, next, header);
    colour(next, at->_M_color);
  }
  if (lost == _S_black) repair_black(moved_up, parent, s, header);
  return at;
}

}  // namespace std

#endif

void tenure::barriers::link_standard_trees() noexcept {}
