// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "compared_store.hpp"

#include <cstring>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "os/answering_process.hpp"
#include "rewrite/live_elements.hpp"

namespace tenure::tools {

namespace {

constexpr value_limits no_limits{.elements = ~std::uint64_t{0}, .text = ~std::uint64_t{0}};

class local_store final : public compared_store {
 public:
  local_store(const std::string& directory, const rvm::progress_callback& progress) : survey_(directory, progress) {}
  std::vector<root_facts> roots() override { return survey_.roots("", false); }
  std::optional<compared_object> object_at(heap::address at, std::span<const heap::address> /*soon*/) override {
    const heap::sound_object found = survey_.find(reinterpret_cast<const void*>(at));
    if (!found) return std::nullopt;
    const rewriting::live_elements::range live = live_.of(found.at, found.count());
    look_at_vectors(found, live);
    return compared_object{found.type->of->name, value_of(survey_.set(), found, no_limits, {live.first, live.end})};
  }

 private:
  // Arrays come after what has them, and may have slots behind its elements.
  void look_at_vectors(const heap::sound_object& in, rewriting::live_elements::range live) {
    const type& of = *in.type->of;
    const auto [known, is_new] = vectors_.try_emplace(&of);
    if (is_new) known->second = rewriting::vectors_in(of);
    if (known->second.empty()) return;
    const auto size_of_elements = [&](std::uintptr_t array) -> std::uint64_t {
      const heap::sound_object found = survey_.find(reinterpret_cast<const void*>(array));
      return found && found.at == array ? found.type->of->size : 0;
    };
    for (std::uint64_t n = live.first; n < live.end; ++n)
      for (const rewriting::vector_place& each : known->second) {
        const auto* const value = reinterpret_cast<const std::byte*>(in.at + n * of.size);
        if (each.is != rewriting::vector_place::kind::deque || has_sound_map(value + each.offset))
          live_.look_at(each, value, size_of_elements, [](std::uintptr_t, rewriting::live_elements::range) {});
      }
  }
  // Whether the blocks of a deque, from the one of its first element to the one of its last, are listed in one object: in a damaged
  // store they may be anywhere.
  [[nodiscard]] bool has_sound_map(const std::byte* deque) {
    heap::address words[10];
    std::memcpy(words, deque, sizeof words);
    const heap::address first = words[5], last = words[9];
    const heap::sound_object map = survey_.find(reinterpret_cast<const void*>(first));
    return map && last >= first && last + sizeof last <= map.at + map.size;
  }

  const surveyed_store survey_;
  std::unordered_map<const type*, std::vector<rewriting::vector_place>> vectors_;
  rewriting::live_elements live_;
};

// Both processes are the same program, so numbers are as they are in memory.
class message_writer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> message_writer& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  message_writer& put(const std::string& text) {
    put(text.size());
    bytes_ += text;
    return *this;
  }
  void put(const shown_value& value) {
    put(value.is).put(value.text).put(value.left_out).put(value.to).put(value.to_type);
    put(value.to_count).put(value.to_object).put(value.to_field).put(value.is_weak).put(value.parts.size());
    for (const auto& [name, part] : value.parts) {
      put(name);
      put(part);
    }
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};
class message_reader {
 public:
  explicit message_reader(std::string_view bytes) : left_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const auto length = get<std::size_t>();
    std::string read(left_.substr(0, length));
    left_.remove_prefix(length);
    return read;
  }
  shown_value value() {
    shown_value v;
    v.is = get<enum shown_value::kind>();
    v.text = text();
    v.left_out = get<std::uint64_t>();
    v.to = get<heap::stored_address>();
    v.to_type = text();
    v.to_count = get<std::uint64_t>();
    v.to_object = get<heap::address>();
    v.to_field = text();
    v.is_weak = get<bool>();
    for (auto left = get<std::size_t>(); left != 0; --left) {
      std::string name = text();
      v.parts.emplace_back(std::move(name), value());
    }
    return v;
  }

 private:
  std::string_view left_;
};

// The question is a list of addresses; an empty one asks for the roots.
std::string answer(compared_store& store, std::string_view question) {
  message_writer to;
  if (question.empty()) {
    const std::vector<root_facts> roots = store.roots();
    to.put(roots.size());
    for (const root_facts& r : roots) to.put(r.database).put(r.name).put(r.object).put(r.type);
  }
  message_reader from(question);
  for (std::size_t left = question.size() / sizeof(heap::address); left != 0; --left) {
    const std::optional<compared_object> found = store.object_at(from.get<heap::address>(), {});
    to.put(found.has_value());
    if (found) to.put(found->type).put(found->value);
  }
  return to.take();
}

class distant_store final : public compared_store {
 public:
  explicit distant_store(const std::string& directory)
      : process_([directory, opened = std::shared_ptr<compared_store>()](std::string_view question) mutable {
          if (opened == nullptr) opened = open_here(directory, {});
          return answer(*opened, question);
        }) {}
  std::vector<root_facts> roots() override {
    const std::string said = process_.ask("");
    message_reader from(said);
    std::vector<root_facts> found(from.get<std::size_t>());
    for (root_facts& r : found) {
      r.database = from.text();
      r.name = from.text();
      r.object = from.get<heap::stored_address>();
      r.type = from.text();
    }
    return found;
  }
  std::optional<compared_object> object_at(heap::address at, std::span<const heap::address> soon) override {
    if (!known_.contains(at)) ask(at, soon);
    const auto known = known_.find(at);
    std::optional<compared_object> object = std::move(known->second);
    known_.erase(known);
    return object;
  }

 private:
  void ask(heap::address at, std::span<const heap::address> soon) {
    std::vector<heap::address> all{at};
    for (const heap::address each : soon)
      if (!known_.contains(each) && each != at) all.push_back(each);
    const std::string said =
        process_.ask({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(heap::address)});
    message_reader from(said);
    for (const heap::address each : all) {
      std::optional<compared_object>& object = known_[each];
      if (!from.get<bool>()) continue;
      object.emplace().type = from.text();
      object->value = from.value();
    }
  }
  os::answering_process process_;
  std::unordered_map<heap::address, std::optional<compared_object>> known_;  // that were asked for in advance
};

}  // namespace

std::unique_ptr<compared_store> open_here(const std::string& directory, const rvm::progress_callback& progress) {
  return std::make_unique<local_store>(directory, progress);
}
std::unique_ptr<compared_store> open_in_process_of_its_own(const std::string& directory) {
  return std::make_unique<distant_store>(directory);
}

}  // namespace tenure::tools
