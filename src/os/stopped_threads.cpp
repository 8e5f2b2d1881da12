// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// READ THIS BEFORE A CHANGE: between stop() and resume() any other thread may have any lock, malloc's too. What runs then,
// and the handler, makes system calls and nothing else.
#include "os/stopped_threads.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string_view>

#include "os/system_error.hpp"

namespace tenure::os {
namespace {

constexpr int attempts = 10;
constexpr long longest_wait_ns = 300'000'000;  // an attempt
constexpr long longest_wait_of_blocked_ns = 20'000'000;
constexpr long look_every_ns = 2'000'000;  // at threads that do not answer

struct thread_slot {
  pid_t id;
  bool gone;
  std::atomic<std::uint32_t> stopped_in;  // the epoch in which it was stopped last
};
// Handlers may be late, so the table stays where it is.
std::array<thread_slot, 16384> thread_slots;
std::atomic<std::uint32_t> epoch{0};    // odd: threads are being stopped, or are stopped
std::atomic<std::uint32_t> answers{0};  // of threads
int signal_number = 0;

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout = nullptr) {
  static_assert(sizeof word == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free);
  return ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

void wait_here(int, siginfo_t* info, void*) {
  const int saved = errno;
  // Not one that somebody else has sent, nor one of an attempt that was given up.
  const auto value = reinterpret_cast<std::uintptr_t>(info->si_value.sival_ptr);
  const auto of_epoch = static_cast<std::uint32_t>(value >> 16);
  if (info->si_code == SI_QUEUE && info->si_pid == ::getpid() && epoch.load(std::memory_order_acquire) == of_epoch) {
    thread_slots[value & 0xffff].stopped_in.store(of_epoch, std::memory_order_release);
    answers.fetch_add(1, std::memory_order_release);
    futex(answers, FUTEX_WAKE, 1);
    while (epoch.load(std::memory_order_acquire) == of_epoch) futex(epoch, FUTEX_WAIT, of_epoch);
  }
  errno = saved;
}

void set_handler(int signal) {
  struct sigaction ours {};
  ours.sa_sigaction = wait_here;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;  // a stack of the program's own may be small
  ::sigfillset(&ours.sa_mask);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT}) ::sigdelset(&ours.sa_mask, fault);
  if (::sigaction(signal, &ours, nullptr) != 0) throw_system_error(errno, "cannot set a signal's handler");
}
bool is_ours(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == wait_here;
}

// "/proc/self/task/17/stat"
struct task_path {
  task_path(pid_t thread, std::string_view file) {
    char* at = std::copy_n("/proc/self/task/", 16, text);
    at = std::to_chars(at, text + sizeof text, thread).ptr;
    *at++ = '/';
    *std::copy(file.begin(), file.end(), at) = 0;
  }
  char text[64];
};

// The beginning of a small file; empty if it cannot be read.
template <std::size_t N>
std::string_view read_small(const char* path, std::array<char, N>& into) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::size_t got = 0;
  for (ssize_t n; got < N && (n = ::read(file, into.data() + got, N - got)) > 0;) got += static_cast<std::size_t>(n);
  ::close(file);
  return {into.data(), got};
}

enum class thread_state { runs, runs_and_blocks, sleeps_and_blocks, is_gone };

// Whether our signal is in a set: "SigBlk:\t0000000000010000".
bool has_signal(std::string_view status, std::string_view set) {
  const std::size_t at = status.find(set);
  std::uint64_t mask = 0;
  if (at != std::string_view::npos)
    std::from_chars(status.data() + at + set.size(), status.data() + status.size(), mask, 16);
  return (mask >> (signal_number - 1) & 1) != 0;
}

thread_state state_of(pid_t thread) {
  std::array<char, 2048> text;
  // "17 (a name) S 1 ...": behind the state and five more fields come the kernel's flags.
  const std::string_view stat = read_small(task_path(thread, "stat").text, text);
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return thread_state::is_gone;
  const char state = stat[name_end + 2];
  if (state == 'Z' || state == 'X') return thread_state::is_gone;
  // The kernel's own threads, as those of io_uring, run nothing of the program, and no signal reaches them.
  constexpr std::uint64_t is_io_worker = 0x10, is_user_worker = 0x4000;
  std::size_t field = name_end + 2;
  for (int n = 0; n < 6 && field != std::string_view::npos; ++n) field = stat.find(' ', field + 1);
  std::uint64_t flags = 0;
  if (field != std::string_view::npos) std::from_chars(stat.data() + field + 1, stat.data() + stat.size(), flags);
  if ((flags & (is_io_worker | is_user_worker)) != 0) return thread_state::is_gone;
  const std::string_view status = read_small(task_path(thread, "status").text, text);
  const bool blocks = has_signal(status, "\nSigBlk:\t");
  // While it is in sigwait(), the signals that it waits for do not look blocked. It has taken this one, and waits again.
  if (state == 'S')
    return blocks || !has_signal(status, "\nSigPnd:\t") ? thread_state::sleeps_and_blocks : thread_state::runs;
  return blocks ? thread_state::runs_and_blocks : thread_state::runs;
}

// Sends the signal to a thread, with the number of its slot. Returns 0, or an errno: ESRCH if the thread has ended.
int send(std::size_t slot, std::uint32_t in_epoch) {
  siginfo_t info{};
  info.si_signo = signal_number;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = reinterpret_cast<void*>(std::uintptr_t{in_epoch} << 16 | slot);
  // EAGAIN: as many signals wait as may wait. They become fewer.
  for (int tries = 0;; ++tries) {
    if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread_slots[slot].id, signal_number, &info) == 0) return 0;
    if (errno != EAGAIN || tries == 100) return errno;
    ::sched_yield();
  }
}

// Calls f(thread) for each thread of the process. Returns false if the kernel does not tell.
template <class F>
bool for_each_thread(F&& f) {
  const int directory = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  alignas(dirent64) std::array<char, 8192> buffer;
  ssize_t got = 0;
  while ((got = ::getdents64(directory, buffer.data(), buffer.size())) > 0)
    for (ssize_t at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      pid_t thread = 0;
      const char* const name = entry->d_name;
      if (std::from_chars(name, name + std::strlen(name), thread).ec == std::errc()) f(thread);
      at += entry->d_reclen;
    }
  ::close(directory);
  return got == 0;
}

}  // namespace

void stopped_threads::prepare() {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (signal_number != 0) return;
  for (int signal = SIGRTMAX - 1; signal > SIGRTMIN; --signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
      continue;
    set_handler(signal);
    signal_number = signal;
    return;
  }
  throw_system_error(EBUSY, "cannot stop the threads of this process: the program uses all real-time signals",
                     "leave one to the library");
}

bool stopped_threads::stop() noexcept {
  for (int n = 0; n < attempts; ++n) {
    met_ = try_to_stop();
    stopped_ = true;
    if (met_ == obstacle::none) return true;
    resume();
    if (met_ != obstacle::blocks_the_signal && met_ != obstacle::cannot_send) return false;
    // In our own handler of faults a thread blocks all signals for a moment, and may wait for a lock that a stopped one has.
    const timespec pause{0, 200'000L << std::min(n, 6)};
    ::nanosleep(&pause, nullptr);
  }
  return false;
}

stopped_threads::obstacle stopped_threads::try_to_stop() noexcept {
  if (!is_ours(signal_number)) return obstacle::signal_taken;
  // It is odd already in the child of a bare fork that came while the parent stopped its threads.
  const std::uint32_t last = epoch.load(std::memory_order_relaxed), now = last + 1 + (last & 1);
  epoch.store(now, std::memory_order_release);
  const pid_t self = static_cast<pid_t>(::syscall(SYS_gettid));
  // A thread that is not stopped yet may make new ones. When all that are known are stopped, and the list has no other, nobody
  // is left who could.
  std::size_t known = 0;
  for (;;) {
    const std::size_t before = known;
    std::size_t place = 0;
    bool fits = true;
    const bool listed = for_each_thread([&](pid_t thread) {
      if (thread == self) return;
      // Mostly the list comes in the same order.
      if (place < before && thread_slots[place].id == thread) return void(++place);
      const auto end = thread_slots.begin() + static_cast<std::ptrdiff_t>(known);
      if (const auto found =
              std::find_if(thread_slots.begin(), end, [&](const thread_slot& s) { return s.id == thread; });
          found != end) {
        place = static_cast<std::size_t>(found - thread_slots.begin()) + 1;
        return;
      }
      if (known == thread_slots.size()) return void(fits = false);
      thread_slots[known].id = thread;
      thread_slots[known].gone = false;
      thread_slots[known].stopped_in.store(0, std::memory_order_relaxed);
      ++known;
    });
    if (!listed) return obstacle::no_list;
    if (!fits) return obstacle::too_many;
    if (known == before) return obstacle::none;
    for (std::size_t n = before; n < known; ++n) {
      const int refused = send(n, now);
      thread_slots[n].gone = refused == ESRCH;
      if (refused != 0 && refused != ESRCH) return obstacle::cannot_send;
    }
    if (const obstacle met = wait_for(known); met != obstacle::none) return met;
  }
}

stopped_threads::obstacle stopped_threads::wait_for(std::size_t threads) noexcept {
  const std::uint32_t now = epoch.load(std::memory_order_relaxed);
  long waited = 0;
  int seen_blocking = 0;
  for (std::size_t first = 0;;) {
    const std::uint32_t seen = answers.load(std::memory_order_acquire);
    const auto is_done = [&](const thread_slot& s) {
      return s.gone || s.stopped_in.load(std::memory_order_acquire) == now;
    };
    while (first < threads && is_done(thread_slots[first])) ++first;
    if (first == threads) return obstacle::none;
    const timespec a_while{0, look_every_ns};
    if (futex(answers, FUTEX_WAIT, seen, &a_while) == 0 || errno != ETIMEDOUT) continue;
    waited += look_every_ns;
    for (std::size_t n = first; n < threads; ++n) {
      thread_slot& s = thread_slots[n];
      if (is_done(s)) continue;
      const thread_state state = state_of(s.id);
      if (is_done(s)) continue;  // it was seen in the handler
      if (state == thread_state::is_gone) s.gone = true;
      thread_ = s.id;
      if (state == thread_state::sleeps_and_blocks && ++seen_blocking == 3) return obstacle::blocks_the_signal;
      if (state == thread_state::runs_and_blocks && waited >= longest_wait_of_blocked_ns)
        return obstacle::blocks_the_signal;
      if (waited >= longest_wait_ns) return obstacle::does_not_run;
    }
  }
}

void stopped_threads::resume() noexcept {
  if (!stopped_) return;
  stopped_ = false;
  if ((epoch.load(std::memory_order_relaxed) & 1) == 0) return;  // no attempt was made
  epoch.fetch_add(1, std::memory_order_acq_rel);
  futex(epoch, FUTEX_WAKE, ~0U >> 1);
}

std::string stopped_threads::why_not() const {
  std::array<char, 64> text;
  const auto thread = [&] {
    std::string_view name = read_small(task_path(thread_, "comm").text, text);
    while (!name.empty() && name.back() == '\n') name.remove_suffix(1);
    return "thread " + std::to_string(thread_) + (name.empty() ? "" : " (" + std::string(name) + ")");
  };
  const std::string signal = "signal " + std::to_string(signal_number);
  switch (met_) {
    case obstacle::none: break;
    case obstacle::blocks_the_signal: return thread() + " blocks " + signal + "; have it unblock this signal";
    case obstacle::does_not_run: return thread() + " did not answer " + signal;
    case obstacle::too_many: return "there are more than " + std::to_string(thread_slots.size()) + " threads";
    case obstacle::cannot_send:
      return signal + " cannot be sent to all threads: as many signals wait as may wait (ulimit -i), or a filter of " +
             "system calls refuses it";
    case obstacle::signal_taken: return "the program has set another handler for " + signal;
    case obstacle::no_list: return "the kernel does not list the threads in /proc/self/task";
  }
  return {};
}

}  // namespace tenure::os
