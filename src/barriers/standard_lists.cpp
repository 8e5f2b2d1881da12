// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What std::list and the unordered containers have libstdc++.so write: the links of lists are written here, and the state of
// the hash tables' growth is announced.
#include <list>
#include <unordered_map>
#include <utility>

#include "barriers/linked.hpp"
#include "barriers/next_definition.hpp"
#include "barriers/watched.hpp"

#ifdef __GLIBCXX__

using tenure::barriers::before_store;

namespace {

using node = std::__detail::_List_node_base;

void write(node*& link, node* value) noexcept {
  before_store(&link, sizeof link);
  link = value;
}

void connect(node* first, node* second) noexcept {
  write(first->_M_next, second);
  write(second->_M_prev, first);
}

}  // namespace

namespace std {
namespace __detail {

void _List_node_base::_M_hook(_List_node_base* const before) noexcept {
  node* const last = before->_M_prev;
  connect(last, this);
  connect(this, before);
}

void _List_node_base::_M_unhook() noexcept { connect(_M_prev, _M_next); }

// Takes [first, end) out of its list, and puts it before this one.
void _List_node_base::_M_transfer(_List_node_base* const first, _List_node_base* const end) noexcept {
  if (first == end || this == end) return;
  node* const last = end->_M_prev;
  connect(first->_M_prev, end);
  node* const left = _M_prev;
  connect(left, first);
  connect(last, this);
}

void _List_node_base::_M_reverse() noexcept {
  node* at = this;
  do {
    node* const next = at->_M_next;
    write(at->_M_next, at->_M_prev);
    write(at->_M_prev, next);
    at = next;
  } while (at != this);
}

// Of two heads.
void _List_node_base::swap(_List_node_base& one, _List_node_base& other) noexcept {
  node* const first = one._M_next;
  node* const last = one._M_prev;
  const bool was_empty = first == &one;
  if (other._M_next != &other) {
    node* const other_last = other._M_prev;
    connect(&one, other._M_next);
    connect(other_last, &one);
  } else {
    connect(&one, &one);
  }
  if (was_empty) {
    connect(&other, &other);
  } else {
    connect(&other, first);
    connect(last, &other);
  }
}

namespace {

using policy = _Prime_rehash_policy;
constinit tenure::barriers::next_definition<size_t(const policy*, size_t)> next_bucket_count(
    "_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm");
constinit tenure::barriers::next_definition<pair<bool, size_t>(const policy*, size_t, size_t, size_t)> next_need_rehash(
    "_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm");

}  // namespace

size_t _Prime_rehash_policy::_M_next_bkt(size_t count) const {
  before_store(&_M_next_resize, sizeof _M_next_resize);
  return next_bucket_count(this, count);
}

pair<bool, size_t> _Prime_rehash_policy::_M_need_rehash(size_t buckets, size_t elements, size_t more) const {
  before_store(&_M_next_resize, sizeof _M_next_resize);
  return next_need_rehash(this, buckets, elements, more);
}

}  // namespace __detail
}  // namespace std

#endif

void tenure::barriers::link_standard_lists() noexcept {}
