// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "collect/churn.hpp"

#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <sys/stat.h>

#include "harness/machine.hpp"
#include "harness/meter.hpp"

namespace tenure::bench::collect {
namespace {

constexpr std::uint64_t groups_at_once = 10;  // that a transaction replaces

struct size {
  std::uint64_t length = 0, on_disk = 0;  // bytes
};
size size_of(const std::filesystem::path& file) {
  struct stat found = {};
  if (::stat(file.c_str(), &found) != 0) return {};
  return {static_cast<std::uint64_t>(found.st_size), static_cast<std::uint64_t>(found.st_blocks) * 512};
}

class run {
 public:
  run(contender& who, const std::filesystem::path& directory, const churn_plan& how)
      : who_(who), directory_(directory), serials_(how.slots()) {}

  nlohmann::json operator()(double turnover) {
    before_ = resident_now();
    who_.create();
    build();
    note("built");
    const auto groups = static_cast<std::uint64_t>(turnover * static_cast<double>(serials_.size()));
    churn(groups);
    note("churned");
    note_log();
    audit();
    tidy();
    audit();
    note_memory("tidied");
    who_.close();
    if (has_file()) said_["tidied_file"] = per_live(size_of(file()).on_disk);
    for (const auto& [name, value] : who_.told()) said_[name] = value;
    return said_;
  }

 private:
  void build() {
    for (std::uint64_t slot = 0; slot < serials_.size();) {
      who_.begin();
      for (std::uint64_t n = 0; n < 1000 && slot < serials_.size(); ++n) replace(slot++);
      who_.commit();
    }
    who_.settle();
  }
  void churn(std::uint64_t groups) {
    const meter spent(directory_);
    std::uint64_t draw = 1;
    for (std::uint64_t done = 0; done < groups;) {
      who_.begin();
      for (std::uint64_t n = 0; n < groups_at_once && done < groups; ++n, ++done) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        replace((draw >> 33) % serials_.size());
      }
      who_.commit();
    }
    who_.settle();
    const cost all = spent.read();
    const auto objects = static_cast<double>(groups * group_size);
    said_["ns_per_object"] = all.seconds * 1e9 / objects;
    said_["cpu_ns_per_object"] = all.cpu_seconds() * 1e9 / objects;
  }
  void replace(std::uint64_t slot) {
    who_.replace(slot, next_);
    serials_[slot] = next_++;
  }
  void tidy() {
    const meter spent;
    who_.tidy();
    said_["tidy_ms"] = spent.read().seconds * 1e3;
  }
  void audit() {
    who_.begin();
    for (std::uint64_t slot = 0; slot < serials_.size(); ++slot)
      if (who_.sum(slot) != sum_of(serials_[slot]))
        throw std::runtime_error(
            fmt::format("wrong answer: slot {} does not have the group that was put there last", slot));
    who_.commit();
  }

  void note(const std::string& when) {
    if (has_file()) said_[when + "_file"] = per_live(size_of(file()).length);
    note_memory(when);
  }
  void note_memory(const std::string& when) {
    const resident_memory now = resident_now();
    said_[when + "_memory"] = per_live(beyond(now.all, before_.all));
    said_[when + "_anonymous"] = per_live(beyond(now.anonymous, before_.anonymous));
  }
  void note_log() {
    if (!has_file()) return;
    std::uint64_t bytes = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator{directory_})
      if (each.is_regular_file() && each.path() != file()) bytes += each.file_size();
    said_["log_mib"] = static_cast<double>(bytes) / (1 << 20);
  }
  [[nodiscard]] bool has_file() const { return !who_.file().empty(); }
  [[nodiscard]] std::filesystem::path file() const { return directory_ / who_.file(); }
  static std::uint64_t beyond(std::uint64_t now, std::uint64_t before) { return now > before ? now - before : 0; }
  [[nodiscard]] double per_live(std::uint64_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(serials_.size() * group_bytes);
  }

  contender& who_;
  const std::filesystem::path directory_;
  std::vector<std::uint64_t> serials_;  // what each slot must have
  std::uint64_t next_ = 0;
  resident_memory before_;
  nlohmann::json said_ = nlohmann::json::object();
};

}  // namespace

nlohmann::json churn(contender& who, const std::filesystem::path& directory, const churn_plan& how) {
  return run{who, directory, how}(how.turnover);
}

}  // namespace tenure::bench::collect
