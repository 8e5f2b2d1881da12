// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A full backup of a store in use, from a warm source to other files, against copying the same files; and lazy commits while
// one is made.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "paging/chain.hpp"
#include "paging/figures.hpp"

namespace tenure::bench::paging {
namespace {

using clock = std::chrono::steady_clock;
using sheet = link<4000>;
using book = chain<sheet>;
constexpr double mib = 1 << 20;

class opened_file {
 public:
  opened_file(const std::filesystem::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
    if (fd_ < 0) throw std::runtime_error("cannot open " + path.string());
  }
  ~opened_file() { ::close(fd_); }
  opened_file(const opened_file&) = delete;
  opened_file& operator=(const opened_file&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// As dd bs=1M conv=fdatasync. Returns the bytes.
double copy_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  const opened_file in(from, O_RDONLY), out(to, O_WRONLY | O_CREAT | O_TRUNC);
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  double bytes = 0;
  for (ssize_t got; (got = ::read(in.get(), buffer.data(), buffer.size())) > 0; bytes += static_cast<double>(got))
    if (::write(out.get(), buffer.data(), static_cast<std::size_t>(got)) != got)
      throw std::runtime_error("cannot write " + to.string());
  if (::fdatasync(out.get()) != 0) throw std::runtime_error("cannot sync " + to.string());
  return bytes;
}

class backed_up {
 public:
  explicit backed_up(const program_options& how)
      : source_(how.directory / "backup-source"), target_(how.directory / "backup-target") {
    std::filesystem::create_directories(source_);
    opened_.emplace(store_in(source_));
    append(*opened_, opened_->root<book>("book"), how.memory / sizeof(sheet));
    counter_ = &opened_->root<std::uint64_t>("counter");
    for (const auto& file : files_in(source_)) load_into_cache(file);
  }

  measurement back_up() {
    clear();
    const auto start = clock::now();
    const auto made = opened_->backup(target_.string());
    return rate(static_cast<double>(made.bytes), start);
  }
  measurement copy() {
    clear();
    std::filesystem::create_directories(target_);
    const auto start = clock::now();
    double bytes = 0;
    for (const auto& file : files_in(source_)) bytes += copy_durably(file, target_ / file.filename());
    return rate(bytes, start);
  }
  measurement commit_alone() {
    return commits([] { std::this_thread::sleep_for(std::chrono::milliseconds(500)); });
  }
  measurement commit_during_backup() {
    clear();
    return commits([&] { (void)opened_->backup(target_.string()); });
  }

 private:
  void clear() const { std::filesystem::remove_all(target_); }
  static measurement rate(double bytes, clock::time_point start) {
    return {{"mib_per_s", bytes / mib / (milliseconds_since(start) / 1e3)}};
  }
  // Lazy commits of one thread for as long as `meanwhile` runs.
  template <class F>
  measurement commits(F&& meanwhile) {
    std::atomic<bool> stop{false};
    std::uint64_t done = 0;
    const auto start = clock::now();
    std::jthread writer([&] {
      for (; !stop; ++done) {
        auto tx = opened_->begin();
        ++*counter_;
        tx.commit(commit_mode::lazy);
      }
    });
    meanwhile();
    stop = true;
    writer.join();
    return {{"commits_per_s", static_cast<double>(done) / (milliseconds_since(start) / 1e3)}};
  }

  const std::filesystem::path source_, target_;
  std::optional<store> opened_;
  std::uint64_t* counter_ = nullptr;
};

bool say(const program_options& how, const std::vector<outcome>& all, const std::string& case_name,
         const std::string& metric, const std::string& unit) {
  bool good = true;
  table rows{{case_name, unit, "[min .. max]", "ratio", "[min .. max]"}};
  for (const outcome& of : all) {
    if (!of.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", of.name, of.failure);
      good = false;
      continue;
    }
    std::vector<std::string> row{of.name};
    report(how, {of.name, case_name, metric, unit, true}, of, row);
    rows.add(row);
  }
  rows.print();
  return good;
}

}  // namespace

bool run_backups(const program_options& how) {
  if (!how.wants("backup")) return true;
  fmt::print("backup: a full backup of {} MiB in use, warm; baseline: the same files, copied and synced\n",
             how.memory >> 20);
  backed_up of(how);
  round_options rounds;
  rounds.repeat = how.repeat;
  rounds.compared = "mib_per_s";
  bool good =
      say(how,
          run_rounds({{"tenure", [&] { return of.back_up(); }, "copy"}}, {{"copy", [&] { return of.copy(); }}}, rounds),
          "backup", "mib_per_s", "MiB/s");
  fmt::print("  lazy commits of a counter by one thread meanwhile; baseline: without a backup\n");
  rounds.compared = "commits_per_s";
  good = say(how,
             run_rounds({{"tenure", [&] { return of.commit_during_backup(); }, "alone"}},
                        {{"alone", [&] { return of.commit_alone(); }}}, rounds),
             "backup-commits", "commits_per_s", "1/s") &&
         good;
  fmt::print("\n");
  return good;
}

}  // namespace tenure::bench::paging
