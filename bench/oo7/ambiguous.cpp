// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo7/ambiguous.hpp"

#include <map>
#include <set>
#include <vector>

#include "oo7/generation.hpp"
#include "worlds/heap_world.hpp"

namespace tenure::bench::oo7 {
namespace {

constexpr std::uint64_t page_size = 8192;  // PM3's

// An object that was taken out. The list of them keeps none: addresses are complements.
struct dropped_object {
  std::uint64_t hidden;
  std::uint64_t bytes;
  std::uint64_t group;  // of the composite part; all of its objects lead to all others
  [[nodiscard]] std::uint64_t address() const { return ~hidden; }
};

class ambiguity {
  using w = heap_world;
  using s = schema<w>;

 public:
  ambiguity(const configuration& how, const ambiguity_plan& plan) : how_(how), plan_(plan) {}

  nlohmann::json run(const std::filesystem::path& directory) {
    w::create(directory, 0);
    change([&](auto& by) { by.build(); });
    if (plan_.inserts) {
      const auto before = w::breakdown();
      for (std::uint64_t round = 0; round < plan_.rounds; ++round) {
        restart_random();
        change([&](auto& by) { by.insert_composites(); });
        if (round == 0) tell_stabilized(before);
        change([&](auto& by) { by.take_out_inserted([&](s::composite_part* part) { note(*part); }); });
      }
    } else {
      tell_stabilized({});
    }
    collect();
    w::close();
    return said_;
  }

 private:
  template <class F>
  void change(F&& f) {
    w::begin();
    generation<w> by{how_, w::root<s::database>()};
    f(by);
    w::commit();
  }

  void tell_stabilized(const breakdown_counts& before) {
    for (const auto& [name, value] : w::breakdown()) {
      const auto found = before.find(name);
      const double more = value - (found == before.end() ? 0 : found->second);
      if (more != 0) said_[name] = more;
    }
  }

  // --- What was taken out ---

  void note(const s::composite_part& part) {
    note(&part, sizeof part);
    note_outside(part, part.parts);
    note_outside(part, part.used_in_private);
    note_outside(part, part.used_in_shared);
    const s::document& document = *part.documentation;
    note(&document, sizeof document);
    note_outside(document, document.text);
    for (const s::atomic_part* atomic : part.parts) {
      note(atomic, sizeof *atomic);
      note_outside(*atomic, atomic->to);
      note_outside(*atomic, atomic->from);
      for (const s::connection* one : atomic->to) note(one, sizeof *one);
    }
    ++groups_;
  }
  void note(const void* object, std::uint64_t bytes) {
    dropped_.push_back({~reinterpret_cast<std::uint64_t>(object), bytes, groups_});
  }
  // A container's array, if it is an object of its own.
  template <class Object, class Container>
  void note_outside(const Object& in, const Container& of) {
    if (of.empty()) return;
    const auto at = reinterpret_cast<std::uint64_t>(&*of.begin()), begin = reinterpret_cast<std::uint64_t>(&in);
    if (at - begin >= sizeof in) note(&*of.begin(), of.size() * sizeof(*of.begin()));
  }

  // --- Collections ---

  void collect() {
    tenure::store& store = w::open_store();
    std::vector<const void*> words;  // in the program's memory, as any pointer that it has forgotten
    std::uint64_t draw = 1;
    for (std::uint64_t n = 0; n < plan_.words && !dropped_.empty(); ++n) {
      draw = draw * 6364136223846793005u + 1442695040888963407u;
      words.push_back(reinterpret_cast<const void*>(dropped_[(draw >> 33) % dropped_.size()].address()));
    }
    const collect_report exact = store.collect({.dry_run = true, .roots = program_roots::handles});
    const collect_report found = store.collect({.dry_run = !plan_.inserts});
    tell_ambiguous(exact, found);
    if (plan_.inserts) tell_pages(words);
  }

  void tell_ambiguous(const collect_report& exact, const collect_report& found) {
    std::map<std::string, type_count> before;
    for (const type_count& one : exact.kept_types) before[one.type] = one;
    for (const type_count& one : found.kept_types) {
      const auto at = before.find(one.type);
      const type_count least = at == before.end() ? type_count{} : at->second;
      if (one.objects == least.objects) continue;
      const std::string name = w::short_name(one.type);
      add("ambiguous-objects/" + name, difference(one.objects, least.objects));
      add("ambiguous-bytes/" + name, difference(one.bytes, least.bytes));
    }
    said_["ambiguous-objects"] = difference(found.kept, exact.kept);
    said_["ambiguous-bytes"] = difference(found.kept_bytes, exact.kept_bytes);
    said_["ambiguous-transient"] = difference(exact.transient_garbage, found.transient_garbage);
    said_["kept-bytes"] = exact.kept_bytes;
    said_["kept-pages"] = (exact.kept_bytes + page_size - 1) / page_size;
  }

  // Objects do not move, so an address that still is that of a persistent object is that of one that was kept.
  void tell_pages(const std::vector<const void*>& words) {
    std::set<std::uint64_t> touched, led_to;
    std::uint64_t bytes = 0;
    for (const dropped_object& one : dropped_) {
      bytes += one.bytes;
      if (w::open_store().is_persistent(reinterpret_cast<const void*>(one.address()))) add_pages(one, touched);
    }
    for (const void* word : words) led_to.insert(reinterpret_cast<std::uint64_t>(word) / page_size);
    said_["dropped-objects"] = dropped_.size();
    said_["dropped-bytes"] = bytes;
    said_["touched-pages"] = touched.size();
    if (!words.empty()) said_["word-pages"] = led_to.size();
    tell_kept_by(words.empty() ? touched : led_to);
  }
  void tell_kept_by(const std::set<std::uint64_t>& pages) {
    std::vector<bool> stays(groups_);
    for (const dropped_object& one : dropped_) {
      std::set<std::uint64_t> own;
      add_pages(one, own);
      for (const std::uint64_t page : own)
        if (pages.count(page) != 0) stays[one.group] = true;
    }
    std::uint64_t objects = 0, bytes = 0;
    for (const dropped_object& one : dropped_)
      if (stays[one.group]) {
        ++objects;
        bytes += one.bytes;
      }
    said_["by-pages-objects"] = objects;
    said_["by-pages-bytes"] = bytes;
  }
  static void add_pages(const dropped_object& one, std::set<std::uint64_t>& to) {
    for (std::uint64_t page = one.address() / page_size; page <= (one.address() + one.bytes - 1) / page_size; ++page)
      to.insert(page);
  }

  static double difference(std::uint64_t more, std::uint64_t less) {
    return static_cast<double>(more) - static_cast<double>(less);
  }
  void add(const std::string& name, double value) { said_[name] = said_.value(name, 0.0) + value; }

  const configuration& how_;
  const ambiguity_plan plan_;
  std::vector<dropped_object> dropped_;
  std::uint64_t groups_ = 0;
  nlohmann::json said_ = nlohmann::json::object();
};

}  // namespace

nlohmann::json find_ambiguous(const std::filesystem::path& directory, const configuration& how,
                              const ambiguity_plan& plan) {
  return ambiguity{how, plan}.run(directory);
}

}  // namespace tenure::bench::oo7
