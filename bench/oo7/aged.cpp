// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo7/aged.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "oo7/object_contender.hpp"
#include "worlds/heap_world.hpp"

namespace tenure::bench::oo7 {
namespace {

constexpr double mib = 1 << 20;

template <class W>
class aged_contender : public object_contender<W> {
 public:
  aged_contender(const std::filesystem::path& directory, const configuration& how, const age& one, std::uint64_t rounds)
      : object_contender<W>(directory, how), age_(one), rounds_(one.is_new ? 0 : rounds) {}
  std::string setting() const override { return age_.setting; }
  void create() override {
    object_contender<W>::create();
    restart_random();
    const auto began = std::chrono::steady_clock::now();
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      W::begin();
      generation<W>{this->how_, this->database()}.replace_composites(age_.is_plain ||
                                                                     age_.become == old_parts::destroyed);
      W::commit();
    }
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }
  [[nodiscard]] double round_ms() const { return rounds_ == 0 ? 0 : seconds_ * 1e3 / static_cast<double>(rounds_); }

 private:
  const age age_;
  const std::uint64_t rounds_;
  double seconds_ = 0;
};

// Of T6, which visits one atomic part of each composite part.
std::string record_accesses(const std::filesystem::path& directory, const configuration& how) {
  const std::string file = (directory / "accesses").string();
  heap_world::how.mode = rvm::open_mode::read_only;
  heap_world::how.record_accesses = file;
  heap_world::open(directory);
  operations<heap_world> program{how, heap_world::root<schema<heap_world>::database>()};
  (void)program.run(operation::t6);
  heap_world::close();
  heap_world::how = {};
  return file;
}

}  // namespace

std::span<const age> all_ages() {
  static const age all[] = {
      {"plain", true, true, old_parts::destroyed, "new, not persistent"},
      {"plain-aged", true, false, old_parts::destroyed, "new and delete"},
      {"tenure", false, true, old_parts::left, "as it was generated"},
      {"tenure-destroyed", false, false, old_parts::destroyed, "the program destroys what it takes out"},
      {"tenure-collected", false, false, old_parts::collected, "collected in the background"},
      {"tenure-collected-last", false, false, old_parts::collected_last, "collected once, when all is done"},
      {"tenure-left", false, false, old_parts::left, "not collected"},
      {"tenure-breadth-first", false, false, old_parts::left, "not collected, then written anew breadth first",
       object_order::breadth_first},
      {"tenure-depth-first", false, false, old_parts::left, "not collected, then written anew depth first",
       object_order::depth_first},
      {"tenure-by-address", false, false, old_parts::left, "not collected, then written anew in the order of addresses",
       object_order::by_address},
      {"tenure-by-type", false, false, old_parts::left, "not collected, then written anew type by type",
       object_order::by_type},
      {"tenure-by-access", false, false, old_parts::left, "not collected, then written anew as T6 has used it",
       object_order::by_access},
  };
  return all;
}
const age& age_named(const std::string& name) {
  const auto all = all_ages();
  const auto found = std::find_if(all.begin(), all.end(), [&](const age& one) { return one.name == name; });
  if (found == all.end()) throw std::invalid_argument("no database is named " + name);
  return *found;
}

std::unique_ptr<contender> make_aged(const age& one, std::uint64_t rounds, const std::filesystem::path& directory,
                                     const configuration& how) {
  if (one.is_plain) return std::make_unique<aged_contender<plain_world>>(directory, how, one, rounds);
  return std::make_unique<aged_contender<heap_world>>(directory, how, one, rounds);
}

nlohmann::json make_aged_store(const age& one, std::uint64_t rounds, const std::filesystem::path& directory,
                               const configuration& how) {
  std::uint64_t cycles = 0;  // the collector's thread writes it
  heap_world::how.collection.enabled = one.become == old_parts::collected;
  heap_world::how.collection.after_bytes = std::uint64_t{1} << 20;
  heap_world::how.collection.on_collected = [&](const collect_report&) { ++cycles; };
  aged_contender<heap_world> who{directory, how, one, rounds};
  who.create();
  if (one.become == old_parts::collected_last) heap_world::open_store().collect({.trim = true});
  const auto objects = static_cast<double>(heap_world::open_store().space().object_bytes);
  who.close();
  heap_world::how.collection = {};
  nlohmann::json said{{"round_ms", who.round_ms()}, {"cycles", cycles}, {"objects_mib", objects / mib}};
  const auto file_mib = [&] {
    return static_cast<double>(std::filesystem::file_size(directory / "store" / "main.db")) / mib;
  };
  if (one.order) {
    const std::string accesses = one.order == object_order::by_access ? record_accesses(directory, how) : "";
    const rewrite_report report = compact((directory / "store").string(), {.order = *one.order, .accesses = accesses});
    said["objects_mib"] = static_cast<double>(report.bytes) / mib;
    said["rewrite_s"] = report.seconds;
    said["rewrite_mib_s"] = file_mib() / report.seconds;
  }
  said["file_mib"] = file_mib();
  return said;
}

nlohmann::json find_answers_of_aged(const age& one, std::uint64_t rounds, const std::filesystem::path& directory,
                                    const configuration& how) {
  age plain = one;
  plain.is_plain = true;
  const auto who = make_aged(plain, rounds, directory, how);
  who->create();
  who->begin();
  restart_random();
  nlohmann::json said{{"sums", to_json(who->sum())}};
  const auto known = golden_of(how).counts;
  for (const auto what : {operation::t1, operation::t6}) {
    const std::uint64_t count = who->run(what);
    const std::string name{name_of(what)};
    if (const auto found = known.find(what); found != known.end() && found->second != count)
      throw std::runtime_error("wrong answer: " + name + " of plain objects");
    said[name] = count;
  }
  who->commit();
  return said;
}

}  // namespace tenure::bench::oo7
