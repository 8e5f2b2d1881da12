// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Recovery: a child process fills a log and dies without closing it; others open it, each from a copy of what the first
// one left. Only the children use the library here, so that their memory is their own.
#include <chrono>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>
#include <tenure/rvm.hpp>

#include "harness/child.hpp"
#include "peers/bare_log.hpp"
#include "peers/tpca_contender.hpp"
#include "tpca/options.hpp"

namespace tenure::bench::tpca {
namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

[[noreturn]] void die(const nlohmann::json& last_words) {
  tell_parent(last_words);
  std::fflush(stdout);
  ::_exit(0);
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) all.push_back(entry.path());
  return all;
}

// --- many small transactions -----------------------------------------------------------------------------------------

setup small_setup(const std::filesystem::path& directory, std::uint64_t transactions) {
  setup with;
  with.directory = directory;
  with.bank = {65536, 1};
  with.lazy = true;
  with.whole_records = false;
  with.log_size = std::max<std::uint64_t>(64 * mib, transactions * 512 / mib * mib);
  with.truncation_threshold = 2;  // never by itself
  return with;
}

generator small_transfers(const layout& bank) { return {bank, pattern::localized, 1, 0, 7}; }

void fill_with_small(const std::filesystem::path& directory, std::uint64_t transactions) {
  const setup with = small_setup(directory, transactions);
  const auto bank = make_tenure(with);
  bank->create();
  bank->open();
  auto from = small_transfers(with.bank);
  const auto in = bank->start(0);
  for (std::uint64_t i = 0; i < transactions; ++i) in->run(from.next());
  bank->flush();
  die({{"amount", transactions}});
}

void verify_small(const std::filesystem::path& directory, std::uint64_t transactions) {
  const setup with = small_setup(directory, transactions);
  auto from = small_transfers(with.bank);
  ledger expected;
  for (std::uint64_t i = 0; i < transactions; ++i) expected.add(from.next());
  const auto bank = make_tenure(with);
  bank->open();
  auditor by{with.bank};
  bank->audit(by);
  by.expect(expected);
  bank->close();
}

// --- a full log ------------------------------------------------------------------------------------------------------

constexpr std::size_t chunk_bytes = 64 * 1024;
constexpr std::size_t chunk_words = chunk_bytes / sizeof(std::uint64_t);

// The i-th transaction changes this chunk, of a power of two of them: all over the segment, none twice.
std::uint64_t chunk_of(std::uint64_t i, std::uint64_t chunks) { return (i * 0x9e3779b1) & (chunks - 1); }
std::uint64_t word_of(std::uint64_t chunk, std::size_t word) { return (chunk + 1) * 0x9e3779b97f4a7c15 + word; }

void fill_with_large(const std::filesystem::path& directory, std::uint64_t log_size) {
  const std::string log = (directory / "bank.log").string();
  rvm::memory::create_log(log, {.size = log_size, .max_size = log_size});
  rvm::options how;
  how.mode = rvm::open_mode::open;
  how.tune.truncation_threshold = 2;
  rvm::memory memory{log, how};
  const auto region = memory.map((directory / "bank.seg").string(), {.create_length = log_size});
  const std::uint64_t chunks = log_size / chunk_bytes;
  std::uint64_t done = 0;
  for (; done < chunks; ++done) {
    const auto before = memory.stats();
    // `log_size` of the statistics is what the log has so far: it takes a file more when it needs one.
    if (before.log_used + 2 * (chunk_bytes + 16384) > log_size) break;
    const std::uint64_t chunk = chunk_of(done, chunks);
    const auto words = region.array<std::uint64_t>(chunk * chunk_bytes, chunk_words);
    memory.transact([&](rvm::transaction& tx) {
      tx.set_range(words.data(), words.size_bytes());
      for (std::size_t w = 0; w < words.size(); ++w) words[w] = word_of(chunk, w);
    });
  }
  const auto full = memory.stats();
  if (full.incremental_truncations + full.epoch_truncations != 0) throw std::runtime_error("the log was truncated");
  die({{"amount", done}, {"log_used", full.log_used}, {"log_size", full.log_size}});
}

void verify_large(const std::filesystem::path& directory, std::uint64_t transactions) {
  rvm::memory memory{(directory / "bank.log").string(), {.mode = rvm::open_mode::open}};
  const auto region = memory.map((directory / "bank.seg").string());
  const std::uint64_t chunks = region.size() / chunk_bytes;
  std::vector<bool> changed(chunks);
  for (std::uint64_t i = 0; i < transactions; ++i) changed[chunk_of(i, chunks)] = true;
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto words = region.array<std::uint64_t>(chunk * chunk_bytes, chunk_words);
    for (std::size_t w = 0; w < words.size(); ++w) {
      if (words[w] != (changed[chunk] ? word_of(chunk, w) : 0))
        throw std::runtime_error(fmt::format("wrong answer: word {} of chunk {}", w, chunk));
    }
  }
}

// --- both ------------------------------------------------------------------------------------------------------------

// Opens the log, which recovers, and says what that took.
nlohmann::json recover(const std::filesystem::path& directory) {
  const auto start = clock::now();
  // Files that were put back have other inodes than those that the log had.
  rvm::options how;
  how.mode = rvm::open_mode::open;
  how.copied = rvm::copied_files::adopt;
  rvm::memory memory{(directory / "bank.log").string(), how};
  const double taken = seconds_since(start);
  const auto& found = memory.recovery();
  std::uint64_t pages = 0;
  for (const auto& segment : found.segments) pages += segment.pages;
  nlohmann::json said{{"seconds", taken}, {"peak_rss", peak_resident_bytes()}, {"transactions", found.transactions},
                      {"pages", pages},   {"bytes_read", found.bytes_read},    {"bytes_applied", found.bytes_applied}};
  memory.close();
  return said;
}

struct recovery_case {
  std::string name, what;
  std::string fill, recover;  // tasks of children
  std::uint64_t amount;       // given to the first
};

class recovery_run {
 public:
  recovery_run(const program_options& how, const recovery_case& of)
      : case_(of), live_(how.directory / of.name), saved_(how.directory / (of.name + "-saved")) {
    std::filesystem::create_directories(live_);
    std::filesystem::create_directories(saved_);
    amount_ =
        run_child({"--child", of.fill, "--dir", live_.string(), "--amount", std::to_string(of.amount)}).at("amount");
    for (const auto& file : files_in(live_)) std::filesystem::copy_file(file, saved_ / file.filename());
    for (const auto& file : files_in(saved_))
      if (file.filename().string().starts_with("bank.log")) log_files_.push_back(file);
    first_ = recover_once();
    // A page that recovery writes twice has to be written once.
    to_write_ = std::min<std::uint64_t>(first_.at("pages").get<std::uint64_t>() * 4096,
                                        std::filesystem::file_size(live_ / "bank.seg"));
    ring_file::create(live_ / "baseline", to_write_);
  }
  ~recovery_run() {
    std::error_code ignored;
    std::filesystem::remove_all(live_, ignored);
    std::filesystem::remove_all(saved_, ignored);
  }
  recovery_run(const recovery_run&) = delete;
  recovery_run& operator=(const recovery_run&) = delete;

  measurement recover_cold() {
    const auto said = recover_once();
    return {{"seconds", said.at("seconds")},
            {"peak_rss_mib", said.at("peak_rss").get<double>() / static_cast<double>(mib)},
            {"transactions", said.at("transactions")},
            {"pages_written", said.at("pages")},
            {"log_mib_read", said.at("bytes_read").get<double>() / static_cast<double>(mib)}};
  }
  // The same log read from one end to the other, and as many bytes as there were pages written and synced.
  measurement baseline() {
    const std::uint64_t to_read = first_.at("bytes_read");
    for (const auto& file : log_files_) drop_from_cache(file);
    drop_from_cache(live_ / "baseline");
    const auto start = clock::now();
    std::uint64_t left = to_read;
    for (const auto& file : log_files_) left -= read_sequentially(file, left);
    ring_file out{live_ / "baseline"};
    const std::vector<std::byte> data(mib, std::byte{0x77});
    for (std::uint64_t at = 0; at < to_write_; at += mib)
      out.append({data.data(), static_cast<std::size_t>(std::min(mib, to_write_ - at))});
    out.sync();
    return {{"seconds", seconds_since(start)}};
  }
  [[nodiscard]] std::uint64_t bytes_to_write() const { return to_write_; }
  [[nodiscard]] double left_in_cache() const { return left_in_cache_; }
  [[nodiscard]] const nlohmann::json& first() const { return first_; }

 private:
  // The log is several files, of which recovery may have made or removed some.
  nlohmann::json recover_once() {
    for (const auto& file : files_in(live_))
      if (file.filename().string().starts_with("bank.") && !std::filesystem::exists(saved_ / file.filename()))
        std::filesystem::remove(file);
    for (const auto& file : files_in(saved_)) {
      const auto live = live_ / file.filename();
      std::filesystem::copy_file(file, live, std::filesystem::copy_options::overwrite_existing);
      left_in_cache_ = std::max(left_in_cache_, drop_from_cache(live));
    }
    return run_child({"--child", case_.recover, "--dir", live_.string(), "--amount", std::to_string(amount_)});
  }
  // Returns how many bytes it has read.
  static std::uint64_t read_sequentially(const std::filesystem::path& path, std::uint64_t length) {
    std::FILE* in = std::fopen(path.c_str(), "rb");
    if (in == nullptr) throw std::runtime_error("cannot read the log");
    std::setvbuf(in, nullptr, _IONBF, 0);
    std::vector<std::byte> buffer(mib);
    std::uint64_t done = 0;
    while (done < length) {
      const std::size_t part = std::fread(buffer.data(), 1, std::min<std::uint64_t>(mib, length - done), in);
      if (part == 0) break;
      done += part;
    }
    std::fclose(in);
    return done;
  }

  const recovery_case& case_;
  std::filesystem::path live_, saved_;
  std::vector<std::filesystem::path> log_files_;  // of the saved copy
  std::uint64_t amount_ = 0, to_write_ = 0;
  nlohmann::json first_;
  double left_in_cache_ = 0;
};

bool run_case(const program_options& how, const recovery_case& of) {
  fmt::print("{}: {}\n", of.name, of.what);
  try {
    recovery_run run{how, of};
    fmt::print(
        "  cold: log and segment dropped from the page cache (posix_fadvise; {:.1f} % stayed); baseline: sequential"
        " read of the log's live {} MiB, cold, and write and sync of the {} MiB of pages that recovery changes, to a"
        " preallocated file; huge pages {}\n",
        100 * run.left_in_cache(), run.first().at("bytes_read").get<std::uint64_t>() / mib, run.bytes_to_write() / mib,
        how.machine.huge_pages);
    round_options rounds;
    rounds.repeat = how.repeat != 0 ? how.repeat : how.quick ? 3 : 5;
    rounds.compared = "seconds";
    const auto outcomes = run_rounds({{"tenure", [&] { return run.recover_cold(); }, "raw"}},
                                     {{"raw", [&] { return run.baseline(); }}}, rounds);
    const nlohmann::json context{{"huge_pages", how.machine.huge_pages},
                                 {"kernel", how.machine.kernel},
                                 {"file_system", how.machine.file_system},
                                 {"quick", how.quick},
                                 {"page_cache", "cold"},
                                 {"log_bytes", run.first().at("bytes_read")}};
    const bool good = report_case(how, of.name, outcomes,
                                  {{"seconds", "s", "seconds"},
                                   {"peak_rss_mib", "MiB", "peak RSS MiB"},
                                   {"transactions", "1", "transactions"},
                                   {"log_mib_read", "MiB", "log MiB read"},
                                   {"pages_written", "1", "pages written"}},
                                  {}, context);
    fmt::print("\n");
    return good;
  } catch (const std::exception& e) {
    fmt::print("  FAILED: {}\n\n", e.what());
    return false;
  }
}

}  // namespace

bool run_recovery_cases(const program_options& how) {
  const std::vector<recovery_case> cases{
      {how.quick ? "recover-50k" : "recover-1M",
       "opening a log of small localized transactions (changed fields) after a"
       " crash, in a process of its own",
       "fill-small", "recover-small", how.quick ? 50000U : 1000000U},
      {how.quick ? "recover-full-64MiB" : "recover-full-1GiB",
       "opening a log full of 64 KiB changes after a crash, in a"
       " process of its own",
       "fill-large", "recover-large", (how.quick ? 64 : 1024) * mib},
  };
  bool good = true;
  for (const auto& one : cases) {
    if (how.wants_case(one.name)) good = run_case(how, one) && good;
  }
  return good;
}

void run_recovery_child(const std::string& task, const std::filesystem::path& directory, std::uint64_t amount) {
  if (task == "fill-small") fill_with_small(directory, amount);
  if (task == "fill-large") fill_with_large(directory, amount);
  const nlohmann::json said = recover(directory);
  if (task == "recover-small") verify_small(directory, amount);
  if (task == "recover-large") verify_large(directory, amount);
  tell_parent(said);
}

}  // namespace tenure::bench::tpca
