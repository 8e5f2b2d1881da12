// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An example to read, and a demonstration: the dependencies of all Debian packages as C++ structs with ordinary
// pointers, in recoverable memory. Built once; found again, in place, by every later run; kept whole through kill -9.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tenure/loader.hpp>

namespace fs = std::filesystem;
namespace rvm = tenure::rvm;
using rvm::transaction;

// --- The graph ---

struct package;

struct user {  // of a package: one that depends on it
  package* who;
  user* next;
};
struct package {
  const char* name = nullptr;
  const char* version = nullptr;  // nullptr: only mentioned by others, as virtual packages are
  const char* section = nullptr;
  std::uint64_t kib = 0;        // installed size
  package** depends = nullptr;  // the first alternative of each dependency, every package once
  std::uint64_t depends_count = 0;
  user* users = nullptr;
  std::uint64_t user_count = 0;
  std::uint64_t installs = 0;         // how often it was installed; see Updates
  package* next_in_bucket = nullptr;  // of the catalog's hash table
};
struct receipt {  // of an installation
  std::uint64_t number = 0;
  package* what = nullptr;
  receipt* next = nullptr;
};
struct catalog {
  std::uint64_t packages = 0, dependencies = 0;
  double built_in = 0;                             // seconds, reading included; 0: not finished
  package** buckets = nullptr;                     // bucket_count of them
  std::uint64_t installations = 0, installed = 0;  // how many; of how many packages in all
  receipt *oldest = nullptr, *newest = nullptr;    // the latest receipts are kept
};

constexpr std::size_t bucket_count = 1 << 16;
constexpr std::uint64_t receipts_kept = 500;
struct stanza {  // what a package index says about a package
  std::string_view name, version, section;
  std::uint64_t kib = 0;
  std::vector<std::string_view> depends;
};

struct graph {
  // Recovers what the log still has, maps the segment at its home address, and finds the graph there, or begins one.
  explicit graph(const std::string& dir)
      : memory(dir + "/log"), heap(memory, dir + "/packages.seg", {.length = 64 << 20}), all(heap->root<catalog>(0)) {
    if (all != nullptr) return;
    memory.transact([&](transaction& tx) {
      all = heap->make<catalog>(tx);
      all->buckets = heap->make_array<package*>(tx, bucket_count).data();
      heap->set_root(tx, 0, all);
    });
  }

  // The pointer to the package, or to where one of that name would be linked in.
  package** place_of(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: what is stored must not depend on the process, as std::hash may
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    package** at = &all->buckets[hash % bucket_count];
    while (*at != nullptr && (*at)->name != name) at = &(*at)->next_in_bucket;
    return at;
  }
  package* find_or_add(transaction& tx, std::string_view name) {
    package** at = place_of(name);
    if (*at == nullptr) {
      tx.modify(*at, heap->make<package>(tx, package{.name = text(tx, name)}));
      tx.modify(all->packages, all->packages + 1);
    }
    return *at;
  }
  const char* text(transaction& tx, std::string_view from) {
    auto bytes = heap->make_array<char>(tx, from.size() + 1);  // new memory is declared already: no set_range
    std::ranges::copy(from, bytes.begin());
    return bytes.data();
  }

  void add(transaction& tx, const stanza& s) {
    package* p = find_or_add(tx, s.name);
    if (p->version != nullptr) return;  // from an earlier run, which was interrupted
    tx.set_range(*p);
    p->version = text(tx, s.version);
    p->section = text(tx, s.section);
    p->kib = s.kib;
    p->depends = heap->make_array<package*>(tx, s.depends.size()).data();
    for (const auto name : s.depends) {
      package* needed = find_or_add(tx, name);
      if (needed == p || std::count(p->depends, p->depends + p->depends_count, needed) != 0) continue;
      p->depends[p->depends_count++] = needed;
      tx.modify(needed->users, heap->make<user>(tx, p, needed->users));
      tx.modify(needed->user_count, needed->user_count + 1);
    }
    tx.modify(all->dependencies, all->dependencies + p->depends_count);
  }

  std::vector<package*> packages() const {
    std::vector<package*> found;
    for (std::size_t i = 0; i < bucket_count; ++i)
      for (package* p = all->buckets[i]; p != nullptr; p = p->next_in_bucket) found.push_back(p);
    return found;
  }

  rvm::memory memory;
  rvm::loaded_heap heap;
  catalog* all;
};

std::string_view cut(std::string_view& from, std::string_view at) {  // takes what is before `at` off the front
  const auto end = std::min(from.find(at), from.size());
  const auto part = from.substr(0, end);
  from.remove_prefix(std::min(end + at.size(), from.size()));
  return part;
}
std::vector<stanza> parse(std::string_view text) {
  std::vector<stanza> all;
  while (!text.empty()) {
    stanza s;
    for (std::string_view lines = cut(text, "\n\n"); !lines.empty();) {
      std::string_view value = cut(lines, "\n");
      const std::string_view field = cut(value, ": ");
      if (field == "Package") s.name = value;
      if (field == "Version") s.version = value;
      if (field == "Section") s.section = value;
      if (field == "Installed-Size") s.kib = std::strtoull(value.data(), nullptr, 10);
      if (field != "Depends" && field != "Pre-Depends") continue;
      while (!value.empty()) {  // "libc6 (>= 2.34), awk | mawk, python3:any"
        const std::string_view one = cut(value, ", ");
        s.depends.push_back(one.substr(0, one.find_first_of(" :|(")));
      }
    }
    if (!s.name.empty() && !s.version.empty()) all.push_back(std::move(s));
  }
  return all;
}

// --- Questions ---

// Everything that `from` needs, itself included, nearest first; with the package that each was reached from.
struct closure {
  std::vector<package*> found;
  std::unordered_map<package*, package*> reached_from;
};
closure closure_of(package* from, std::size_t limit = SIZE_MAX) {
  closure c{{from}, {{from, nullptr}}};
  for (std::size_t i = 0; i < c.found.size() && c.found.size() < limit; ++i)
    for (std::uint64_t d = 0; d < c.found[i]->depends_count && c.found.size() < limit; ++d)
      if (package* next = c.found[i]->depends[d]; c.reached_from.emplace(next, c.found[i]).second)
        c.found.push_back(next);
  return c;
}

// --- Updates ---

// "Installs" a package with what it needs: counts in each of them, files a receipt, throws the oldest one away.
void install(graph& g, transaction& tx, package* chosen) {
  const auto needed = closure_of(chosen, 40).found;
  for (package* p : needed) tx.modify(p->installs, p->installs + 1);
  catalog& all = *g.all;
  tx.set_range(all);
  auto* filed = g.heap->make<receipt>(tx, ++all.installations, chosen, nullptr);
  all.installed += needed.size();
  tx.modify(all.newest != nullptr ? all.newest->next : all.oldest, filed);
  all.newest = filed;
  if (all.installations <= receipts_kept) return;
  g.heap->destroy(tx, std::exchange(all.oldest, all.oldest->next));
}

// The child: installs one package after the other, until it is killed. Tells its parent how many, after each commit.
[[noreturn]] void update(const std::string& dir, std::uint64_t seed, int pipe) {
  graph g(dir);
  std::mt19937_64 random(seed);
  const std::vector<package*> all = g.packages();
  for (;;) {
    transaction tx = g.memory.begin();
    install(g, tx, all[random() % all.size()]);
    if (random() % 10 == 0) {
      tx.abort();  // changed its mind: as if nothing had happened
    } else {
      tx.commit();  // durable when this returns
      if (const auto done = g.all->installations; ::write(pipe, &done, sizeof done) < 0) std::exit(1);
    }
  }
}

// --- Invariants ---

void require(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(fmt::format("INVARIANT VIOLATED: {}", what));
}

void check(const graph& g) {
  g.heap->check();
  const catalog& all = *g.all;
  std::vector<std::pair<package*, package*>> forward, backward;
  const std::vector<package*> packages = g.packages();
  std::uint64_t installed = 0, objects = 2;  // the catalog and its table
  for (package* p : packages) {
    installed += p->installs;
    objects += p->version == nullptr ? 2 : 5;  // itself and its texts; the array of what it needs
    for (std::uint64_t i = 0; i < p->depends_count; ++i) forward.emplace_back(p, p->depends[i]);
    for (const user* u = p->users; u != nullptr; u = u->next) backward.emplace_back(u->who, p);
  }
  std::ranges::sort(forward);
  std::ranges::sort(backward);
  require(packages.size() == all.packages && forward.size() == all.dependencies,
          "no package, no dependency is missing");
  require(forward == backward, "reverse dependencies mirror dependencies");
  require(installed == all.installed, "the packages' counters add up to the catalog's");
  const std::uint64_t receipts = std::min(all.installations, receipts_kept);
  std::uint64_t number = all.installations - receipts;
  for (const receipt* r = all.oldest; r != nullptr; r = r->next)
    require(r->number == ++number && (r->next != nullptr || r == all.newest), "the trail of receipts has no gap");
  require(number == all.installations, "no receipt is missing");
  require(g.heap->stats().objects == objects + backward.size() + receipts, "no memory leaked, none is used twice");
}

// --- The program ---

double now() {  // seconds
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
std::string read_index(const std::string& file, std::string& source) {
  source = file.empty() ? "apt-cache dumpavail" : file;
  FILE* from = file.empty() ? ::popen("apt-cache dumpavail 2>/dev/null", "r") : std::fopen(file.c_str(), "r");
  if (from == nullptr) throw std::runtime_error(source + ": cannot be read");
  std::string text, part(1 << 20, '\0');
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), from)) text.append(part, 0, got);
  file.empty() ? ::pclose(from) : std::fclose(from);
  if (!text.empty() || !file.empty()) return text;
  return read_index(fs::path(__FILE__).parent_path() / "data/packages-sample.txt", source);  // not on Debian
}
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

// Builds the graph, a thousand packages a transaction. If it is interrupted, the next run goes on where it was.
void build(graph& g, const std::string& file) {
  const double start = now();
  std::string source;
  const std::string text = read_index(file, source);
  const double read_in = now() - start;
  const std::vector<stanza> from = parse(text);
  if (from.empty()) throw std::runtime_error(source + ": there are no packages in it");
  const double parsed_in = now() - start;
  fmt::print("  read      {} bytes of package index, {}, in {:.2f} s\n", grouped(text.size()), source, read_in);
  for (std::size_t i = 0; i < from.size(); i += 1000) {
    const std::size_t end = std::min(i + 1000, from.size());
    g.memory.transact([&](transaction& tx) {
      for (std::size_t k = i; k < end; ++k) g.add(tx, from[k]);
      if (end == from.size()) tx.modify(g.all->built_in, now() - start);
    });
    if (::isatty(STDERR_FILENO))
      fmt::print(stderr, "\r  building  {:3}%{}", end * 100 / from.size(), end == from.size() ? "\r\x1b[K" : "");
  }
  const rvm::statistics log = g.memory.stats();
  fmt::print("  parsed    {} packages in {:.2f} s\n  built     in {:.2f} s, {} durable transactions\n",
             grouped(from.size()), parsed_in - read_in, now() - start - parsed_in, log.flush_commits);
  fmt::print("  declared  {} changed ranges, {} bytes; merged and logged {}, {} bytes\n", grouped(log.ranges_declared),
             grouped(log.bytes_declared), grouped(log.ranges_logged), grouped(log.bytes_logged));
}

void ask(const graph& g) {
  const std::vector<package*> all = g.packages();
  package* popular = *std::ranges::max_element(all, {}, &package::user_count);
  package* greedy = *std::ranges::max_element(all, {}, &package::depends_count);
  const closure c = closure_of(greedy);
  std::uint64_t kib = 0;
  for (const package* p : c.found) kib += p->kib;
  std::string path;
  for (package* p = c.found.back(); p != nullptr; p = c.reached_from.at(p))
    path.insert(0, p->name + std::string(path.empty() ? "" : " → "));
  fmt::print("  needed by most   {}: {} packages depend on it\n", popular->name, popular->user_count);
  fmt::print("  needs most       {} ({}): {} packages, and {} with all that these need, {} MiB\n", greedy->name,
             greedy->section, greedy->depends_count, c.found.size() - 1, kib / 1024);
  fmt::print("  shortest path    to the one farthest away: {}\n", path);
}

// Starts this program again as a child that updates the graph, and kills it after a while, whatever it is doing then.
// Returns how many installations it had reported, 0 for none.
std::uint64_t run_and_kill(const std::string& dir, std::uint64_t seed, std::chrono::milliseconds lifetime) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const std::string seed_is = std::to_string(seed), pipe_is = std::to_string(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    const char* self = "/proc/self/exe";
    ::execl(self, self, "--dir", dir.c_str(), "--seed", seed_is.c_str(), "--update", pipe_is.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  std::this_thread::sleep_for(lifetime);
  ::kill(child, SIGKILL);
  std::uint64_t last = 0, next = 0;
  while (::read(ends[0], &next, sizeof next) == sizeof next) last = next;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  require(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child works until it is killed");
  return last;
}

// Kills the child again and again, and looks at what it left.
void kill_and_check(const std::string& dir, unsigned kills, std::uint64_t seed, std::uint64_t known) {
  fmt::print(
      "\nA child process changes the objects, reports its commits, and is killed with SIGKILL. What it reported must\n"
      "be found, and at most one more. (It \"installs\" packages: 40 counters, a new receipt, an old one freed.)\n"
      "  killed at    reported       found    recovered from the log                       opened in   invariants\n");
  std::mt19937_64 random(seed);
  for (unsigned i = 0; i < kills; ++i) {
    const std::chrono::milliseconds lifetime(std::uniform_int_distribution(200, 1200)(random));
    known = std::max(known, run_and_kill(dir, random(), lifetime));
    const double start = now();
    graph g(dir);
    const double opened_in = now() - start;
    const auto& r = g.memory.recovery();
    const std::uint64_t found = g.all->installations;
    require(known <= found && found <= known + 1, "what was reported is found, and at most one more");
    check(g);
    fmt::print("  {:>6} ms {:>11} {:>11}    {:>5} transactions, {:>9} bytes applied {:>10.1f} ms   all hold\n",
               lifetime.count(), grouped(known), grouped(found), grouped(r.transactions), grouped(r.bytes_applied),
               1e3 * opened_in);
    known = found;
  }
}

// Opens, building what is not there yet; closes; opens again and asks. Returns how many installations there were so
// far.
std::uint64_t build_and_ask(const std::string& dir, const std::string& file) {
  fmt::print("Debian's packages as C++ objects, in {}\n", dir);
  auto g = std::make_unique<graph>(dir);
  const bool found = g->all->built_in != 0;
  if (!found) build(*g, file);
  fmt::print("  {}     {} packages, {} dependencies: {} objects, at {}\n", found ? "found" : "made ",
             grouped(g->all->packages), grouped(g->all->dependencies), grouped(g->heap->stats().objects),
             fmt::ptr(g->heap.segment().home()));
  g = nullptr;
  fmt::print("\nClosed and opened again: the same pointers, nothing parsed\n");
  const double start = now();
  g = std::make_unique<graph>(dir);
  fmt::print("  opened in        {:.1f} ms; to read, parse and build it took {:.1f} ms\n", 1e3 * (now() - start),
             1e3 * g->all->built_in);
  ask(*g);
  check(*g);
  return g->all->installations;
}

int main(int argc, char** argv) {
  std::string file, dir;
  unsigned kills = 5;
  std::uint64_t seed = std::random_device{}();
  int update_pipe = -1;
  CLI::App app("Debian's dependency graph in recoverable memory: built once, found again, kept through kill -9.");
  app.add_option("FILE", file, "A package index like `apt-cache dumpavail` prints it (default: that, or a sample)");
  app.add_option("--dir", dir, "Where the graph is kept, or has been kept by an earlier run (default: a new one)");
  app.add_option("--kills", kills, "How often to kill the child that changes the graph")->capture_default_str();
  app.add_option("--seed", seed, "Decides what the children do and when they are killed (default: random)");
  app.add_option("--update", update_pipe)->group("");  // hidden: this is the child
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    const auto base = fs::is_directory("build") ? fs::path("build") : fs::temp_directory_path();
    if (dir.empty()) dir = base / fmt::format("packages-{}", ::getpid());
    fs::create_directories(dir);
    if (update_pipe >= 0) update(dir, seed, update_pipe);
    const std::uint64_t known = build_and_ask(dir, file);
    if (kills != 0) kill_and_check(dir, kills, seed, known);
    fmt::print("\nAll of it is kept. To find it again: packages --dir {}\n", dir);
  } catch (const std::exception& e) {
    fmt::print(stderr, "packages_rvm: {}\n", e.what());
    return 1;
  }
}
