// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_rewriting: stores that are half garbage and holes, written anew: compacted, cloned in each order, converted; beside what
// does the same in other systems. Each run is a process of its own, right after a run that writes and syncs as many bytes as the
// compacted store has.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "command_line.hpp"
#include "harness/child.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "os/file.hpp"
#include "rewriting/contender.hpp"

namespace {

using namespace tenure::bench;
using rewriting::contender_kind;

struct program_options : common_options {
  std::vector<std::uint64_t> objects{2'000'000};
  std::vector<std::string> contenders;
  std::string child;  // of a child process
  std::uint64_t bytes = 0;
};

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The most anonymous memory that the process has while this lives.
class watched_memory {
 public:
  watched_memory()
      : before_(resident_now().anonymous), watching_([this] {
          while (!done_) {
            most_ = std::max<std::uint64_t>(most_, resident_now().anonymous);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
        }) {}
  ~watched_memory() { stop(); }
  watched_memory(const watched_memory&) = delete;
  watched_memory& operator=(const watched_memory&) = delete;
  double stop() {
    done_ = true;
    if (watching_.joinable()) watching_.join();
    return static_cast<double>(most_ - std::min<std::uint64_t>(most_, before_)) / (1 << 20);
  }

 private:
  const std::uint64_t before_;
  std::atomic<bool> done_{false};
  std::atomic<std::uint64_t> most_{0};
  std::thread watching_;
};

double write_and_sync(const std::filesystem::path& file, std::uint64_t bytes) {
  const std::vector<std::byte> piece(1 << 20, std::byte{7});
  const auto start = std::chrono::steady_clock::now();
  const auto out = tenure::os::real_disk().create(file.string(), 0600);
  for (std::uint64_t at = 0; at < bytes; at += piece.size())
    out->write_at(at, {piece.data(), static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - at))});
  out->sync();
  return milliseconds_since(start);
}

std::uint64_t bytes_below(const std::filesystem::path& directory) {
  std::uint64_t all = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{directory})
    if (entry.is_regular_file() && entry.path().extension() != "") all += entry.file_size();
  return all;
}

const contender_kind& kind_named(const std::string& name) {
  for (const contender_kind& kind : rewriting::all_contenders())
    if (kind.name == name) return kind;
  throw std::runtime_error("there is no contender " + name);
}

void run_child(const program_options& how) {
  const raised_priority priority;
  if (how.child == "raw") {
    std::filesystem::create_directories(how.directory);
    return tell_parent({{"ms", write_and_sync(how.directory / "raw", how.bytes)}});
  }
  const auto who = kind_named(how.contenders.at(0)).make(how.directory);
  const rewriting::size size{how.objects.at(0)};
  if (how.child == "make") {
    who->make(size);
    return tell_parent({{"bytes", bytes_below(how.directory / "made")}});
  }
  who->prepare();
  ::sync();  // what was copied
  watched_memory memory;
  const auto start = std::chrono::steady_clock::now();
  const rewriting::rewritten is = who->rewrite();
  const double taken = milliseconds_since(start);
  const double most = memory.stop();
  who->check(size);
  tell_parent({{"ms", taken}, {"memory_mib", most}, {"bytes", is.bytes}, {"live", is.live}});
}

class size_run {
 public:
  size_run(const program_options& how, std::uint64_t objects) : how_(how), objects_(objects) {}

  bool run() {
    std::vector<entrant> entrants;
    std::map<std::string, std::string> settings;
    for (const contender_kind& kind : rewriting::all_contenders()) {
      if (!is_wanted(kind.name, how_.contenders)) continue;
      const auto made = kind.make(how_.directory);
      if (made == nullptr) {
        fmt::print("  {}: not built\n", kind.name);
        continue;
      }
      settings[kind.name] = made->setting();
      entrants.push_back({kind.name, [this, &kind] { return measure(kind); }, "raw"});
    }
    const auto outcomes =
        run_rounds(entrants, {{"raw", [this] { return measure_raw(); }}}, {.repeat = how_.repeat, .compared = "ms"});
    nlohmann::json extra = describe(how_.machine, how_.quick);
    extra["objects"] = objects_;
    const shown_case one{"rewriting",
                         fmt::format("rewrite-{}", objects_),
                         fmt::format("{} objects, half of them garbage and holes; baseline: write and sync of as many "
                                     "bytes as the compacted store has",
                                     objects_),
                         "ms",
                         true,
                         extra,
                         settings,
                         {"mib_per_s", "before_mib", "after_mib", "after_by_live", "memory_mib", "memory_allowed_mib"}};
    return show_case(one, outcomes, how_.json);
  }

 private:
  nlohmann::json run_for(const std::string& task, const std::string& name, const std::string& directory) const {
    return tenure::bench::run_child({"--child", task, "--contenders", name, "--objects", std::to_string(objects_),
                                     "--bytes", std::to_string(compacted_), "--dir", directory});
  }
  // The original, and how many bytes its databases have.
  std::pair<std::filesystem::path, double> original_of(const contender_kind& kind) {
    const std::string& name = kind.like.empty() ? kind.name : kind.like;
    const std::filesystem::path directory = how_.directory / fmt::format("{}-{}", name, objects_);
    const auto [at, is_new] = originals_.try_emplace(name);
    if (is_new) {
      std::filesystem::create_directories(directory);
      at->second = run_for("make", name, directory.string()).at("bytes").get<double>();
    }
    return {directory, at->second};
  }
  nlohmann::json rewrite(const contender_kind& kind) {
    const auto [directory, bytes] = original_of(kind);
    auto said = run_for("rewrite", kind.name, directory.string());
    said["before"] = bytes;
    std::filesystem::remove_all(directory / "anew");
    return said;
  }
  measurement measure_raw() {
    if (compacted_ == 0) compacted_ = rewrite(kind_named("compact")).at("bytes");
    const auto directory = how_.directory / "raw";
    const auto said = run_for("raw", "compact", directory.string());
    std::filesystem::remove_all(directory);
    return {{"ms", said.at("ms")},
            {"mib_per_s", static_cast<double>(compacted_) / (1 << 20) / said.at("ms").get<double>() * 1e3}};
  }
  measurement measure(const contender_kind& kind) {
    constexpr double mib = 1 << 20;
    const auto said = rewrite(kind);
    const double bytes = said.at("bytes"), live = said.at("live"), before = said.at("before"), ms = said.at("ms");
    measurement m{{"ms", ms},
                  {"mib_per_s", bytes / mib / ms * 1e3},
                  {"before_mib", before / mib},
                  {"after_mib", bytes / mib},
                  {"memory_mib", said.at("memory_mib")},
                  {"memory_allowed_mib", 64 + 0.02 * before / mib}};
    if (live != 0) m["after_by_live"] = bytes / live;
    return m;
  }

  const program_options& how_;
  const std::uint64_t objects_;
  std::uint64_t compacted_ = 0;  // bytes
  std::map<std::string, double> originals_;
};

bool run_plan(const program_options& how) {
  const std::vector<entrant> entrants{{"plan", [] { return measurement{{"ms", rewriting::plan_types()}}; }, ""}};
  const shown_case one{
      "rewriting",
      "plan",
      fmt::format("what becomes of {} types is planned; however many objects there are", rewriting::planned_types),
      "ms",
      false,
      describe(how.machine, how.quick),
      {}};
  return show_case(one, run_rounds(entrants, {}, {.repeat = how.repeat, .compared = "ms"}), how.json);
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  how.repeat = 7;
  tenure::tools::command_line app{"Stores that are half garbage and holes, written anew and converted"};
  app.option("--objects", how.objects, "that are made, of about 200 bytes each").separated_by_commas().shows_default();
  app.option("--contenders", how.contenders, "only these").separated_by_commas();
  add_common_options(app, how);
  app.option("--child", how.child, "").hidden();
  app.option("--bytes", how.bytes, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  const auto work = [&] {
    if (!how.child.empty()) {
      run_child(how);
      return true;
    }
    if (how.quick) {
      if (!app.has("--repeat")) how.repeat = 3;
      if (!app.has("--objects")) how.objects = {200'000};
    }
    const benchmark_run running("bench_rewriting", how);
    bool good = run_plan(how);
    for (const std::uint64_t objects : how.objects) good = size_run{how, objects}.run() && good;
    return good;
  };
  return run_program("bench_rewriting", work, how.child.empty() ? stderr : stdout);
}
