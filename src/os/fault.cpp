// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// READ THIS BEFORE A CHANGE: most of this file runs in a signal handler, at any moment, in any thread, while other
// threads register and remove ranges. The handler may use lock-free atomics, the stack and write(2). It may not use
// locks, allocate memory, throw exceptions or call stdio.
#include "os/fault.hpp"

#include <execinfo.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <span>

#include "os/process.hpp"
#include "os/storage_guard.hpp"
#include "os/system_error.hpp"

namespace tenure::os {
namespace {

// --- The table of ranges ---------------------------------------------------------------------------------------------

constexpr std::size_t name_words = 32;
constexpr std::size_t name_size = name_words * sizeof(std::uint64_t);  // with the zero at its end

// One range. Every field is atomic because a handler may read a slot while another thread reuses it; `version` tells
// the handler that this happened. It is a seqlock without fences, because ThreadSanitizer does not understand fences:
// every field is stored with release and loaded with acquire. [os.fault.slot]
struct slot {
  // The lowest two bits are the state; the rest counts changes.
  static constexpr std::uint32_t free = 0, changing = 1, live = 2, state = 3, one_change = 4;
  std::atomic<std::uint32_t> version{free};
  std::atomic<std::uint32_t> generation{0};  // fork_generation() at registration
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::uint64_t> offset{0};
  std::atomic<write_trap*> trap{nullptr};
  std::array<std::atomic<std::uint64_t>, name_words> name{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uintptr_t>::is_always_lock_free);

// If all slots are taken, faults in a further range are not explained.
std::array<slot, 1024> slots;
// Slots from this index on were never used.
std::atomic<std::size_t> slots_used{0};

// A consistent copy of a slot.
struct known_range {
  std::uintptr_t begin;
  std::uint64_t offset;
  bool forked;  // registered by an ancestor of this process
  char name[name_size];
};

// Whether the slot covers the address. If it does, copies the slot to `out`.
bool look_up(const slot& in, std::uintptr_t address, std::uint32_t generation, known_range& out) {
  const std::uint32_t version = in.version.load(std::memory_order_acquire);
  if ((version & slot::state) != slot::live) return false;
  out.begin = in.begin.load(std::memory_order_acquire);
  if (address < out.begin || address >= in.end.load(std::memory_order_acquire)) return false;
  out.offset = in.offset.load(std::memory_order_acquire);
  out.forked = in.generation.load(std::memory_order_acquire) != generation;
  for (std::size_t i = 0; i < name_words; ++i) {
    const std::uint64_t word = in.name[i].load(std::memory_order_acquire);
    std::memcpy(out.name + i * sizeof word, &word, sizeof word);
  }
  return in.version.load(std::memory_order_relaxed) == version;
}

// A range that this process registered itself hides an inherited range, because a child may map the same file again.
bool look_up(std::uintptr_t address, known_range& out) {
  const std::uint32_t generation = fork_generation();
  const slot* inherited = nullptr;
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  for (const slot& each : std::span(slots).first(used)) {
    if (!look_up(each, address, generation, out)) continue;
    if (!out.forked) return true;
    inherited = &each;
  }
  return inherited != nullptr && look_up(*inherited, address, generation, out);
}

// The trap that this process has registered at the address, or nullptr.
write_trap* find_trap(std::uintptr_t address) {
  const std::uint32_t generation = fork_generation();
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  for (const slot& each : std::span(slots).first(used)) {
    const std::uint32_t version = each.version.load(std::memory_order_acquire);
    if ((version & slot::state) != slot::live || address < each.begin.load(std::memory_order_acquire) ||
        address >= each.end.load(std::memory_order_acquire) ||
        each.generation.load(std::memory_order_acquire) != generation)
      continue;
    write_trap* const trap = each.trap.load(std::memory_order_acquire);
    if (trap != nullptr && each.version.load(std::memory_order_relaxed) == version) return trap;
  }
  return nullptr;
}

int take_slot(std::uintptr_t begin, std::size_t length, const std::string& name, std::uint64_t offset,
              write_trap* trap) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slot& s = slots[i];
    std::uint32_t version = s.version.load(std::memory_order_relaxed);
    if ((version & slot::state) != slot::free) continue;
    if (!s.version.compare_exchange_strong(version, version + slot::changing, std::memory_order_acquire)) continue;

    // The end of a long path says more than its beginning.
    const std::string shown = name.size() < name_size ? name : "..." + name.substr(name.size() - (name_size - 4));
    char text[name_size] = {};
    std::copy(shown.begin(), shown.end(), text);
    for (std::size_t word = 0; word < name_words; ++word) {
      std::uint64_t value;
      std::memcpy(&value, text + word * sizeof value, sizeof value);
      s.name[word].store(value, std::memory_order_release);
    }
    s.begin.store(begin, std::memory_order_release);
    s.end.store(begin + length, std::memory_order_release);
    s.offset.store(offset, std::memory_order_release);
    s.trap.store(trap, std::memory_order_release);
    s.generation.store(fork_generation(), std::memory_order_release);
    s.version.store(version + slot::live, std::memory_order_release);
    for (std::size_t now = slots_used.load(); now <= i && !slots_used.compare_exchange_weak(now, i + 1);) {
    }
    return static_cast<int>(i);
  }
  return -1;
}

void give_back(int index) {
  if (index < 0) return;
  slot& s = slots[static_cast<std::size_t>(index)];
  const std::uint32_t version = s.version.load(std::memory_order_relaxed);
  s.version.store((version & ~slot::state) + slot::one_change + slot::free, std::memory_order_release);
}

// --- The message -----------------------------------------------------------------------------------------------------

// Text in a fixed buffer. Text that does not fit is cut off.
class line {
 public:
  line& operator<<(const char* text) {
    while (*text != 0 && used_ < sizeof text_) text_[used_++] = *text++;
    return *this;
  }
  line& number(std::uint64_t value, unsigned base) {
    char digits[65];
    char* next = digits + sizeof digits;
    *--next = 0;
    do *--next = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    return *this << next;
  }
  void write() const {
    for (std::size_t done = 0; done < used_;) {
      const ssize_t written = ::write(STDERR_FILENO, text_ + done, used_ - done);
      if (written > 0) done += static_cast<std::size_t>(written);
      if (written == 0 || (written < 0 && errno != EINTR)) return;
    }
  }

 private:
  char text_[1024];
  std::size_t used_ = 0;
};

void explain(int signal, const siginfo_t& info, bool stray) {
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  known_range range;
  if (!look_up(address, range)) return;
  const auto point = [&](line& l) -> line& {
    l << "address 0x";
    l.number(address, 16) << " = " << range.name << " offset ";
    return l.number(range.offset + (address - range.begin), 10);
  };
  line text;
  text << "tenure: ";
  if (signal == SIGBUS) {
    const bool memory = info.si_code == BUS_MCEERR_AR || info.si_code == BUS_MCEERR_AO;
    text << (memory ? "memory failure (SIGBUS) at " : "I/O error (SIGBUS) at ");
    point(text) << (memory ? ": the machine's memory has lost this page; look into the kernel's log (dmesg)\n"
                           : ": the storage could not deliver this page; the file was cut short by another program, or "
                             "the device failed: look into the kernel's log (dmesg)\n");
  } else if (range.forked) {
    text << "this process is the child of a fork; the recoverable memory of " << range.name
         << " was not inherited; open it again in the child after the parent has closed it (";
    point(text) << ")\n";
  } else if (stray) {
    text << "write to recoverable memory outside of any transaction, at ";
    point(text) << "; begin an automatic transaction before the write. It came from here:\n";
    text.write();
    void* frames[64];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), STDERR_FILENO);
    return;
  } else if (info.si_code == SEGV_ACCERR) {
    text << "write to recoverable memory that is mapped read-only, at ";
    point(text) << "\n";
  } else {
    return;
  }
  text.write();
}

// --- The handler -----------------------------------------------------------------------------------------------------

// The handler of one signal that was installed before ours.
struct earlier_handler {
  std::atomic<bool> known{false};
  std::atomic<bool> spent{false};  // it had SA_RESETHAND and has been called
  struct sigaction action {};      // set before `known`, constant since
};
earlier_handler earlier_segv, earlier_bus;

// Whether the signal comes again when the handler returns. A fault does. A signal that a process has sent, or an early
// warning of bad memory, does not.
bool happens_again(int signal, const siginfo_t& info) {
  return info.si_code > 0 && !(signal == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

// Ends the process as if there had been no handler, with the faulting instruction in the core dump. tools/tenure-gdb.py
// stops here.
[[gnu::noinline]] void end_by_fault(int signal, const siginfo_t& info) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  if (!happens_again(signal, info)) ::raise(signal);  // it arrives when the handler returns
}

// The mask that the program had when the signal came.
sigset_t interrupted_mask(const void* context) {
  sigset_t mask;
  ::sigemptyset(&mask);
  // The kernel's mask is shorter than the C library's type. The C library, too, reads only this many bytes of it.
  std::memcpy(&mask, &static_cast<const ucontext_t*>(context)->uc_sigmask, sizeof(std::uint64_t));
  return mask;
}

void chain(earlier_handler& earlier, int signal, siginfo_t* info, void* context) {
  if (!earlier.known.load(std::memory_order_acquire)) return end_by_fault(signal, *info);
  const struct sigaction& action = earlier.action;
  const bool with_info = (action.sa_flags & SA_SIGINFO) != 0;
  if (!with_info && action.sa_handler == SIG_DFL) return end_by_fault(signal, *info);
  if (!with_info && action.sa_handler == SIG_IGN) {
    if (happens_again(signal, *info)) end_by_fault(signal, *info);  // the kernel does not let faults be ignored
    return;
  }
  if ((action.sa_flags & static_cast<int>(SA_RESETHAND)) != 0 && earlier.spent.exchange(true))
    return end_by_fault(signal, *info);

  // The signal mask that the earlier handler asked for. The return from ours restores the program's.
  sigset_t mask = interrupted_mask(context);
  ::sigorset(&mask, &mask, &action.sa_mask);
  if ((action.sa_flags & SA_NODEFER) == 0) ::sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (with_info) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
}

// Whether the refused access was a write. It could also be a read, or an execution.
bool was_write([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  constexpr greg_t write = 2;  // a bit of the page fault's error code
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & write) != 0;
#else
  return true;
#endif
}

// Returns whether the program may go on.
bool let_trap_resolve(const siginfo_t& info, const void* context, bool& stray) {
  write_trap* const trap = find_trap(reinterpret_cast<std::uintptr_t>(info.si_addr));
  if (trap == nullptr) return false;
  auto* const at = static_cast<std::byte*>(info.si_addr);
  if (trap->on_access(at, was_write(context))) return true;
  if (!was_write(context)) return false;
  const auto answer = trap->on_write(at);
  stray = answer == write_trap::answer::stray;
  return answer == write_trap::answer::resume;
}

// Whether the library reads there, and expects that the storage may fail.
bool is_replaced(std::uintptr_t address) {
  known_range range;
  return look_up(address, range) && !range.forked &&
         storage_guard::replace(address, range.name, range.offset + (address - range.begin));
}

// A fault in this handler finds the signal blocked and ends the process. So no thread enters the handler twice. The
// exception is an earlier handler with SA_NODEFER that causes a fault itself. Then there is no state of ours to damage.
void handle(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  bool stray = false;
  if (signal == SIGSEGV && info->si_code == SEGV_ACCERR && let_trap_resolve(*info, context, stray)) {
    errno = saved;
    return;
  }
  if (signal == SIGBUS && info->si_code == BUS_ADRERR && is_replaced(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = saved;
    return;
  }
  if (info->si_code > 0 && info->si_code != SI_KERNEL) explain(signal, *info, stray);  // otherwise it has no address
  errno = saved;
  chain(signal == SIGSEGV ? earlier_segv : earlier_bus, signal, info, context);
}

void install_for(int signal, earlier_handler& earlier) {
  // Gets the earlier handler before ours is installed, because a fault may come at once.
  if (::sigaction(signal, nullptr, &earlier.action) != 0) throw_system_error(errno, "cannot get a signal's handler");
  earlier.known.store(true, std::memory_order_release);
  struct sigaction ours {};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigfillset(&ours.sa_mask);  // a trap may hold pages that a handler of the program needs
  if (::sigaction(signal, &ours, nullptr) != 0) throw_system_error(errno, "cannot set a signal's handler");
}

}  // namespace

fault_range::fault_range(const void* address, std::size_t length, const std::string& name, std::uint64_t offset,
                         write_trap* trap) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    install_for(SIGSEGV, earlier_segv);
    install_for(SIGBUS, earlier_bus);
    void* frame;
    ::backtrace(&frame, 1);  // the first call loads a library; the handler must not
  });
  if (length > 0) slot_ = take_slot(reinterpret_cast<std::uintptr_t>(address), length, name, offset, trap);
}

fault_range::~fault_range() { give_back(slot_); }

fault_range& fault_range::operator=(fault_range&& other) noexcept {
  if (this != &other) {
    give_back(slot_);
    slot_ = other.slot_;
    other.slot_ = -1;
  }
  return *this;
}

void unblock_faults() noexcept {
  thread_local bool done = false;
  if (done) return;
  sigset_t faults;
  ::sigemptyset(&faults);
  ::sigaddset(&faults, SIGSEGV);
  ::sigaddset(&faults, SIGBUS);
  done = ::pthread_sigmask(SIG_UNBLOCK, &faults, nullptr) == 0;
}

}  // namespace tenure::os
