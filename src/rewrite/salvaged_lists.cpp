// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Lists, and the two lists of a finalization queue.
#include <algorithm>

#include <tenure/store/weak_cell.hpp>

#include "rewrite/salvaged_containers.hpp"

namespace tenure::rewriting {

namespace {

constexpr std::uint64_t link_size = sizeof(address);  // nodes begin with the next one, then the previous one

}  // namespace

// The container is a node without a value.
std::string salvaged_containers::mend_list(const type& of, address at) {
  const std::string name = node_name(of, "std::_List_node<") + ">";
  const std::uint64_t size = damaged_image::get(at + 2 * link_size);
  const type* like = nullptr;
  std::vector<address> nodes, behind;
  std::unordered_set<address> seen;
  const auto walk = [&](address from, std::uint64_t by, std::vector<address>& found) {
    for (; from != at; from = damaged_image::get(from + by)) {
      if (!is_node(from, name, like) || !claim(from, at) || !seen.insert(from).second) return false;
      found.push_back(from);
    }
    return true;
  };
  bool is_whole = walk(damaged_image::get(at), 0, nodes);
  if (!is_whole) {
    (void)walk(damaged_image::get(at + link_size), link_size, behind);
    nodes.insert(nodes.end(), behind.rbegin(), behind.rend());
  }
  address last = at;
  for (const address node : nodes) {
    is_whole = is_whole && damaged_image::get(node + link_size) == last && damaged_image::get(last) == node;
    last = node;
  }
  if (is_whole && damaged_image::get(at + link_size) == last && nodes.size() == size) return "";
  last = at;
  nodes.push_back(at);
  for (const address node : nodes) {
    damaged_image::put(last, node);
    damaged_image::put(node + link_size, last);
    last = node;
  }
  damaged_image::put(at + 2 * link_size, std::uint64_t{nodes.size() - 1});
  return entries_left(nodes.size() - 1, size);
}

std::string salvaged_containers::mend_forward_list(const type& of, address at) {
  const std::string name = node_name(of, "std::_Fwd_list_node<") + ">";
  const type* like = nullptr;
  std::unordered_set<address> seen;
  address last = at;
  for (address node = damaged_image::get(at); node != 0; node = damaged_image::get(node)) {
    if (!is_node(node, name, like) || !claim(node, at) || !seen.insert(node).second) {
      damaged_image::put(last, address{0});
      return "has lost its end; " + std::to_string(seen.size() - (seen.contains(node) ? 1 : 0)) + " entries are left";
    }
    last = node;
  }
  return "";
}

// Entries watch objects, in a list, or are messages of them, in another one. One whose object is lost goes.
std::string salvaged_containers::mend_queue(const type& of, address at) {
  using entry = tenure::detail::finalization_entry;
  const auto field = [&](std::string_view name) { return at + offset_of(of, name); };
  const address watched = field("watched_"), first = field("first_"), last = field("last_"), size = field("size_");
  bool is_whole = true;
  const auto entry_at = [](address where) { return reinterpret_cast<entry*>(where); };
  const auto walk = [&](address from, bool forward, std::vector<address>& found) {
    std::unordered_set<address> seen;
    while (from != 0) {
      const sound_object object = image_.find(from, "tenure::detail::finalization_entry");
      if (!object || object.at != from || object.type->cell != heap::cell_kind::finalization || !claim(from, at) ||
          !seen.insert(from).second)
        return is_whole = false, void();
      found.push_back(from);
      const entry& e = *entry_at(from);
      from = reinterpret_cast<address>(forward ? e.next : e.before);
    }
  };
  std::uint64_t lost = 0;
  const auto relink = [&](std::vector<address>& all, bool of_messages) {
    const std::size_t had = all.size();
    std::erase_if(all, [&](address each) {
      const entry& e = *entry_at(each);
      const void* const to = of_messages ? e.object : tenure::detail::shown(e.watched.hidden);
      return to == nullptr || !image_.find(reinterpret_cast<address>(to));
    });
    lost += had - all.size();
    entry* before = nullptr;
    for (std::size_t n = 0; n < all.size(); ++n) {
      entry& e = *entry_at(all[n]);
      entry* const next = n + 1 < all.size() ? entry_at(all[n + 1]) : nullptr;
      is_whole = is_whole && e.before == before && e.next == next && reinterpret_cast<address>(e.of) == at;
      e.before = before;
      e.next = next;
      e.of = reinterpret_cast<tenure::detail::finalization_list*>(at);
      before = &e;
    }
  };
  std::vector<address> watching, messages, behind;
  walk(damaged_image::get(watched), true, watching);
  walk(damaged_image::get(first), true, messages);
  walk(damaged_image::get(last), false, behind);
  for (auto each = behind.rbegin(); each != behind.rend(); ++each)
    if (std::ranges::find(messages, *each) == messages.end()) messages.push_back(*each);
  relink(watching, false);
  relink(messages, true);
  const auto end_of = [](const std::vector<address>& all, bool is_last) {
    return all.empty() ? address{0} : is_last ? all.back() : all.front();
  };
  const std::uint64_t had = damaged_image::get(size);
  is_whole = is_whole && lost == 0 && had == messages.size() && damaged_image::get(last) == end_of(messages, true);
  damaged_image::put(watched, end_of(watching, false));
  damaged_image::put(first, end_of(messages, false));
  damaged_image::put(last, end_of(messages, true));
  damaged_image::put(size, std::uint64_t{messages.size()});
  if (is_whole) return "";
  return "has lost entries; " + std::to_string(watching.size()) + " objects are watched, and " +
         std::to_string(messages.size()) + " messages are left, of " + std::to_string(had);
}

}  // namespace tenure::rewriting
