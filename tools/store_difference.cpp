// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store_difference.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/error.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "progress_line.hpp"

namespace tenure::tools {

namespace {

// Breadth first over both at once: each object of the one is the counterpart of one of the other.
class comparison {
 public:
  comparison(compared_store& one, compared_store& other, std::size_t most) : one_(one), other_(other), most_(most) {}

  found_differences run() {
    std::map<std::string, std::pair<heap::stored_address, heap::stored_address>> roots;
    for (const root_facts& r : one_.roots()) roots[name_of(r)].first = r.object;
    for (const root_facts& r : other_.roots()) roots[name_of(r)].second = r.object;
    for (const auto& [name, objects] : roots) {
      const auto& [a, b] = objects;
      if (a == heap::stored_address::none) say(name, "is a root that only the second one has");
      if (b == heap::stored_address::none) say(name, "is a root that only the first one has");
      if (a != heap::stored_address::none && b != heap::stored_address::none)
        pair(static_cast<heap::address>(a), static_cast<heap::address>(b), name);
    }
    for (;;) {
      for (; !waiting_.empty(); waiting_.pop_front()) {
        const auto [a, b, path] = waiting_.front();
        compare_objects(a, b, path);
      }
      if (weak_.empty()) break;
      pair(weak_.front().one, weak_.front().other, weak_.front().path);
      weak_.pop_front();
    }
    return std::move(found_);
  }

 private:
  using kind = shown_value::kind;
  struct waiting {
    heap::address one, other;
    std::string path;
  };

  static std::string name_of(const root_facts& r) { return r.database == "main" ? r.name : r.database + ":" + r.name; }
  void say(const std::string& path, const std::string& what) {
    ++found_.all;
    if (found_.lines.size() < most_) found_.lines.push_back(path + ": " + what);
  }

  void pair(heap::address a, heap::address b, const std::string& path) {
    const auto [of_one, is_new] = counterparts_.emplace(a, b);
    const auto [of_other, is_new_there] = counterparts_back_.emplace(b, a);
    if (of_one->second != b || of_other->second != a) return say(path, "refers to another object");
    if (is_new) waiting_.push_back({a, b, path});
    (void)is_new_there;
  }

  void compare_objects(heap::address a, heap::address b, const std::string& path) {
    ++found_.objects;
    constexpr std::size_t at_once = 100;
    std::vector<heap::address> soon;
    for (std::size_t n = 1; n < std::min(waiting_.size(), at_once); ++n) soon.push_back(waiting_[n].other);
    const std::optional<compared_object> one = one_.object_at(a, {}), other = other_.object_at(b, soon);
    if (!one || !other) return say(path, "leads to no object in one of the two");
    if (one->type != other->type) say(path, "was a " + one->type + ", is a " + other->type);
    compare(one->value, other->value, path);
  }

  void compare(const shown_value& a, const shown_value& b, const std::string& path) {
    if (a.is != b.is) return say(path, "was " + text_of(a) + ", is " + text_of(b));
    switch (a.is) {
      case kind::none: return;
      case kind::number:
      case kind::text:
      case kind::note:
        if (a.text != b.text) say(path, "was " + text_of(a) + ", is " + text_of(b));
        return;
      case kind::reference: return compare_references(a, b, path);
      case kind::list: return compare_lists(a, b, path);
      case kind::fields: return compare_fields(a, b, path);
    }
  }
  void compare_references(const shown_value& a, const shown_value& b, const std::string& path) {
    if ((a.to_object == 0) != (b.to_object == 0)) return say(path, "was " + text_of(a) + ", is " + text_of(b));
    if (a.to_object == 0) return;
    if (a.to_field != b.to_field) say(path, "led to its " + a.to_field + ", leads to its " + b.to_field);
    if (a.is_weak)
      weak_.push_back({a.to_object, b.to_object, path});
    else
      pair(a.to_object, b.to_object, path);
  }
  void compare_lists(const shown_value& a, const shown_value& b, const std::string& path) {
    if (a.parts.size() != b.parts.size())
      say(path, fmt::format("had {} elements, has {}", a.parts.size(), b.parts.size()));
    for (std::size_t n = 0; n < std::min(a.parts.size(), b.parts.size()); ++n)
      compare(a.parts[n].second, b.parts[n].second, fmt::format("{}[{}]", path, n));
  }
  void compare_fields(const shown_value& a, const shown_value& b, const std::string& path) {
    for (std::size_t n = 0; n < a.parts.size(); ++n) {
      const auto& [name, value] = a.parts[n];
      if (name == "capacity_" && a.parts[0].first == "first_") continue;  // of a vector
      const shown_value* const other = part_named(b, name, n);
      if (other == nullptr)
        say(path, "has no field `" + name + "` any more; it was " + text_of(value));
      else
        compare(value, *other, fmt::format("{}.{}", path, name));
    }
    for (std::size_t n = 0; n < b.parts.size(); ++n)
      if (part_named(a, b.parts[n].first, n) == nullptr)
        say(path, "has a new field `" + b.parts[n].first + "`; it is " + text_of(b.parts[n].second));
  }
  // Fields without a name are found by their place.
  static const shown_value* part_named(const shown_value& in, const std::string& name, std::size_t n) {
    if (n < in.parts.size() && in.parts[n].first == name) return &in.parts[n].second;
    for (const auto& [other, value] : in.parts)
      if (other == name && !name.empty()) return &value;
    return nullptr;
  }

  compared_store &one_, &other_;
  const std::size_t most_;
  std::unordered_map<heap::address, heap::address> counterparts_, counterparts_back_;
  std::deque<waiting> waiting_;
  std::deque<waiting> weak_;  // last: what keeps an object says which one is its counterpart
  found_differences found_;
};

}  // namespace

found_differences differences_of(compared_store& one, compared_store& other, std::size_t most) {
  return comparison(one, other, most).run();
}

int show_store_difference(const std::string& one, const std::string& other, std::uint64_t most, bool as_json,
                          std::FILE* out, progress_line* progress) {
  const rvm::progress_callback show = [progress](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  std::unique_ptr<compared_store> a = open_here(one, show), b;
  try {
    b = open_here(other, show);
  } catch (const error& e) {  // as those of a store and its backup are
    if (e.code() != errc::address_taken) throw;
    a.reset();  // the addresses must be free in the other process
    b = open_in_process_of_its_own(other);
    a = open_here(one, show);
  }
  const found_differences found = differences_of(*a, *b, most);
  if (progress != nullptr) progress->hide();
  if (as_json) {
    fmt::print(out, "{}\n",
               json_text({{"one", one},
                          {"other", other},
                          {"objects", found.objects},
                          {"differences", found.all},
                          {"first", found.lines}}));
  } else {
    for (const std::string& line : found.lines) fmt::print(out, "{}\n", line);
    if (found.all > found.lines.size()) fmt::print(out, "... {} more\n", found.all - found.lines.size());
    if (found.all == 0) fmt::print(out, "{} and {}: {} objects are the same\n", one, other, found.objects);
  }
  return found.all == 0 ? exit_ok : exit_damaged;
}

}  // namespace tenure::tools
