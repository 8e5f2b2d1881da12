// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "faulting/blocks.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/virtual_memory.hpp"

namespace tenure::bench::faulting {
namespace {

protected_blocks* in_use = nullptr;
struct sigaction before {};

}  // namespace

protected_blocks::protected_blocks(fault_function on_fault, void* who) : on_fault_(on_fault), who_(who) {
  begin_ = reinterpret_cast<std::uintptr_t>(os::reserve_address_space(nullptr, capacity));
  in_use = this;
  install();
}

protected_blocks::~protected_blocks() {
  sigaction(SIGSEGV, &before, nullptr);
  in_use = nullptr;
  os::unmap(reinterpret_cast<void*>(begin_), capacity);
}

void protected_blocks::install() {
  struct sigaction how {};
  how.sa_sigaction = [](int signal, siginfo_t* information, void* context) { handle(signal, information, context); };
  how.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &how, &before);
}

resident* protected_blocks::make(word identifier) {
  constexpr std::size_t step = 1 << 20;
  if (used_ % step == 0) {
    if (used_ == capacity) throw std::bad_alloc();
    os::map_anonymous_over(reinterpret_cast<void*>(begin_ + used_), step);
  }
  auto* const made = reinterpret_cast<resident*>(begin_ + used_);
  used_ += sizeof(resident);
  made->first = identifier;
  return made;
}

protected_blocks::opening::opening(protected_blocks& of) : of_(of) {
  if (of_.open_++ == 0) of_.allow(true);
}

protected_blocks::opening::~opening() {
  if (--of_.open_ == 0) of_.allow(false);
}

void protected_blocks::allow(bool access) {
  const std::size_t page = os::page_size(), length = (used_ + page - 1) / page * page;
  if (length == 0) return;
  if (mprotect(reinterpret_cast<void*>(begin_), length, access ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    std::terminate();
}

// Runs where the program has read a block, and nowhere else, so what it calls need not be async-signal-safe.
void protected_blocks::handle(int, void* information, void* context) {
#if defined(__x86_64__)
  const auto address = reinterpret_cast<std::uintptr_t>(static_cast<siginfo_t*>(information)->si_addr);
  if (in_use == nullptr || !in_use->contains(address) || in_use->open_ != 0) {
    sigaction(SIGSEGV, &before, nullptr);  // the instruction faults again
    return;
  }
  ++in_use->traps_;
  greg_t& rax = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX];
  try {
    rax = static_cast<greg_t>(in_use->on_fault_(in_use->who_, static_cast<word>(rax)));
  } catch (const std::exception& e) {  // nothing can be thrown through the instruction
    std::fprintf(stderr, "an object that was trapped cannot be read: %s\n", e.what());
    _exit(1);
  }
#else
  (void)information;
  (void)context;
  std::terminate();
#endif
}

}  // namespace tenure::bench::faulting
