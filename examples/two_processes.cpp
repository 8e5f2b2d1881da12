// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A transaction of two processes. Each has a store of its own; a pipe carries what they say to each other. The parent
// coordinates: it asks the child to prepare, commits what it has decided in its own store, and tells the child. If the child is
// killed in between, it is left in doubt, and asks when it is started again.
//
//     two_processes DIR [--kill]
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

#include <tenure/set.hpp>
#include <tenure/tenure.hpp>

namespace example {

struct counter {
  std::uint64_t value = 0;
};

}  // namespace example

namespace {

using example::counter;

// One line each way.
class line_channel {
 public:
  line_channel(int from, int to) : from_(from), to_(to) {}
  void say(const std::string& what) const {
    const std::string line = what + "\n";
    if (::write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::system_error(errno, std::generic_category(), "cannot write to the pipe");
  }
  [[nodiscard]] std::string hear() const {
    std::string line;
    for (char c = 0; ::read(from_, &c, 1) == 1;) {
      if (c == '\n') return line;
      line += c;
    }
    return "";  // the other one has ended
  }

 private:
  int from_, to_;
};

// The participant: does what it is told, and asks what became of what it has prepared.
int participate(const std::string& directory, const line_channel& coordinator, bool is_killed) {
  tenure::store_options how;
  how.memory.in_doubt = [&](const tenure::rvm::prepared_transaction& what) {
    coordinator.say("outcome of " + what.global_id + "?");
    const bool committed = coordinator.hear() == "committed";
    std::cout << "child: " << what.global_id << " was in doubt, and was " << (committed ? "committed" : "aborted")
              << '\n';
    return committed ? tenure::rvm::outcome::committed : tenure::rvm::outcome::aborted;
  };
  tenure::store store(directory + "/child", how);
  auto& number = store.root<counter>("number");
  coordinator.say("ready");
  for (std::string id = coordinator.hear(); !id.empty(); id = coordinator.hear()) {
    tenure::transaction tx = store.begin();
    ++number.value;
    tx.prepare(id);
    coordinator.say("prepared");
    const std::string outcome = coordinator.hear();
    if (is_killed) std::_Exit(0);  // as if it had been killed: it does not learn the outcome
    if (outcome == "committed")
      tx.commit();
    else if (outcome == "aborted")
      tx.abort();
    else
      tx.leave_in_doubt();
  }
  std::cout << "child: " << number.value << '\n';
  return 0;
}

// The child, which has no store of the parent's: it is started before any is open.
class child_process {
 public:
  child_process(const std::string& directory, bool is_killed) {
    std::array<int, 2> down{}, up{};
    if (::pipe2(down.data(), O_CLOEXEC) != 0 || ::pipe2(up.data(), O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
    id_ = ::fork();
    if (id_ < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
    if (id_ == 0) {
      ::close(down[1]);
      ::close(up[0]);
      int code = 1;
      try {
        code = participate(directory, line_channel(down[0], up[1]), is_killed);
      } catch (const std::exception& e) {
        std::cerr << "child: " << e.what() << '\n';
      }
      std::cout.flush();
      std::_Exit(code);
    }
    ::close(down[0]);
    ::close(up[1]);
    from_ = up[0];
    to_ = down[1];
  }
  [[nodiscard]] line_channel channel() const { return {from_, to_}; }
  void wait() const {
    ::close(to_);
    ::close(from_);
    ::waitpid(id_, nullptr, 0);
  }

 private:
  pid_t id_ = 0;
  int from_ = -1, to_ = -1;
};

// The coordinator keeps the ids of what it has committed: whatever is not among them was aborted.
std::uint64_t coordinate(const std::string& directory, const line_channel& child) {
  tenure::store store(directory + "/parent");
  auto& number = store.root<counter>("number");
  auto& committed = store.root<tenure::set<tenure::string>>("committed");
  const std::string id = "example/" + std::to_string(number.value + 1);
  std::string heard = child.hear();
  if (heard.starts_with("outcome of ")) {
    const std::string asked = heard.substr(11, heard.size() - 12);
    child.say(committed.contains(tenure::string(asked)) ? "committed" : "aborted");
    heard = child.hear();
  }
  if (heard != "ready") return number.value;
  tenure::transaction tx = store.begin();
  ++number.value;
  committed.insert(tenure::string(id));
  child.say(id);
  if (child.hear() == "prepared") {
    tx.commit();  // this is the moment
    child.say("committed");
  } else {
    tx.abort();
  }
  return number.value;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A transaction of two processes, each with a store of its own"};
  std::string directory;
  bool kills = false;
  app.add_option("DIR", directory, "Where the stores are, or will be")->required();
  app.add_flag("--kill", kills, "Kill the child before it learns the outcome");
  CLI11_PARSE(app, argc, argv);
  try {
    std::filesystem::create_directories(directory);
    const child_process child(directory, kills);
    const std::uint64_t number = coordinate(directory, child.channel());
    child.wait();
    std::cout << "parent: " << number << '\n';
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
