// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libc's functions that write to memory.
#include <strings.h>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>

#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "barriers/construct.hpp"
#include "barriers/library_calls.hpp"

using namespace constructs;

namespace {

struct pipe_of {
  explicit pipe_of(const char* content) {
    if (pipe(ends) != 0 || write(ends[1], content, std::strlen(content)) < 0) std::abort();
    close(ends[1]);
  }
  ~pipe_of() { close(ends[0]); }
  int ends[2];
};

}  // namespace

#define WRITES_TO_ROOM(name, call)                       \
  CONSTRUCT(name) {                                      \
    char* const to = room();                             \
    const auto n = static_cast<std::size_t>(hidden(20)); \
    (void)n;                                             \
    watch();                                             \
    call;                                                \
  }

WRITES_TO_ROOM(memcpy_variable, std::memcpy(to, words(), n))
WRITES_TO_ROOM(memmove_variable, std::memmove(to + 3, to, n); std::memmove(to, words(), n))
WRITES_TO_ROOM(memset_variable, std::memset(to, 'x', n))
WRITES_TO_ROOM(memset_zero_length, std::memset(to, 'x', n - 20))
WRITES_TO_ROOM(mempcpy_variable, (void)mempcpy(to, words(), n))
WRITES_TO_ROOM(memccpy_variable, (void)memccpy(to, words(), 'w', n))
WRITES_TO_ROOM(bcopy_variable, bcopy(words(), to, n))
WRITES_TO_ROOM(bzero_variable, bzero(to, n))
WRITES_TO_ROOM(explicit_bzero_variable, explicit_bzero(to, n))
WRITES_TO_ROOM(swab_variable, swab(words(), to, static_cast<ssize_t>(n)))
WRITES_TO_ROOM(strcpy_variable, std::strcpy(to, words()))
WRITES_TO_ROOM(strcpy_constant, std::strcpy(to, "seven c"))
WRITES_TO_ROOM(stpcpy_variable, (void)stpcpy(to, words()))
WRITES_TO_ROOM(strncpy_longer, std::strncpy(to, words(), 50))
WRITES_TO_ROOM(strncpy_shorter, std::strncpy(to, words(), 5))
WRITES_TO_ROOM(stpncpy_variable, (void)stpncpy(to, words(), n))
WRITES_TO_ROOM(strcat_variable, to[10] = 0; std::strcat(to, words()))
WRITES_TO_ROOM(strncat_variable, to[10] = 0; std::strncat(to, words(), 7))
WRITES_TO_ROOM(sprintf_text, std::sprintf(to, "%s and %d", words(), 5))
WRITES_TO_ROOM(snprintf_fits, std::snprintf(to, 90, "%s and %d", words(), 5))
WRITES_TO_ROOM(snprintf_is_cut, std::snprintf(to, 7, "%s and %d", words(), 5))
WRITES_TO_ROOM(snprintf_double, std::snprintf(to, 90, "%g", 1.25 * hidden(3)))
WRITES_TO_ROOM(getrandom_bytes, if (getrandom(to, n, 0) < 0) std::abort())
WRITES_TO_ROOM(wmemset_wide, std::wmemset(reinterpret_cast<wchar_t*>(to), L'x', n))
WRITES_TO_ROOM(wmemcpy_wide, std::wmemcpy(reinterpret_cast<wchar_t*>(to), hidden(L"wide words, a few of them"), n))
WRITES_TO_ROOM(wcscpy_wide, std::wcscpy(reinterpret_cast<wchar_t*>(to), hidden(L"wide words")))
WRITES_TO_ROOM(wcsncpy_wide, std::wcsncpy(reinterpret_cast<wchar_t*>(to), hidden(L"wide words"), n))
WRITES_TO_ROOM(wmempcpy_wide, (void)wmempcpy(reinterpret_cast<wchar_t*>(to), hidden(L"wide words, a few of them"), n))
WRITES_TO_ROOM(wmemmove_wide, std::wmemmove(reinterpret_cast<wchar_t*>(to), hidden(L"wide words, a few of them"), n))
WRITES_TO_ROOM(wcpcpy_wide, (void)wcpcpy(reinterpret_cast<wchar_t*>(to), hidden(L"wide words")))
WRITES_TO_ROOM(wcpncpy_wide, (void)wcpncpy(reinterpret_cast<wchar_t*>(to), hidden(L"wide words"), n))
WRITES_TO_ROOM(wcscat_wide, *reinterpret_cast<wchar_t*>(to) = 0;
               std::wcscat(reinterpret_cast<wchar_t*>(to), hidden(L"wide")))
WRITES_TO_ROOM(wcsncat_wide, *reinterpret_cast<wchar_t*>(to) = 0;
               std::wcsncat(reinterpret_cast<wchar_t*>(to), hidden(L"wide"), 3))
WRITES_TO_ROOM(swprintf_wide, std::swprintf(reinterpret_cast<wchar_t*>(to), 20, L"%ls", hidden(L"wide words")))

static void print(char* to, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(to, 90, format, arguments);
  va_end(arguments);
  va_start(arguments, format);
  std::vsprintf(to + std::strlen(to), format, arguments);
  va_end(arguments);
}
WRITES_TO_ROOM(vsnprintf_text, print(to, "%s %d.", words(), 7))

CONSTRUCT(strtok_splits) {
  char* const to = places<char>(40);
  std::strcpy(to, "a text of words");
  watch();
  for (char* word = std::strtok(to, " "); word != nullptr; word = std::strtok(nullptr, " ")) look();
}
CONSTRUCT(strtok_r_splits) {
  char* const to = places<char>(40);
  std::strcpy(to, "a text of words");
  char*& rest = place<char*>(nullptr);
  watch();
  for (char* word = strtok_r(to, " ", &rest); word != nullptr; word = strtok_r(nullptr, " ", &rest)) look();
}
CONSTRUCT(strsep_splits) {
  char* const to = places<char>(40);
  std::strcpy(to, "a text of words");
  char*& rest = place<char*>(to);
  watch();
  while (strsep(&rest, " ") != nullptr) look();
}
CONSTRUCT(strftime_text) {
  char* const to = room();
  const std::tm time{};
  watch();
  std::strftime(to, 90, "%Y-%m-%d", &time);
}

CONSTRUCT(read_from_pipe) {
  char* const to = room();
  const pipe_of from("some bytes");
  watch();
  if (read(from.ends[0], to, 50) != 10) std::abort();
}
CONSTRUCT(readv_from_pipe) {
  char* const to = room();
  char* const second = room();
  const pipe_of from("some bytes");
  const iovec parts[2] = {{to, 4}, {second, 20}};
  watch();
  if (readv(from.ends[0], parts, 2) != 10) std::abort();
}
CONSTRUCT(pread_from_file) {
  char* const to = room();
  const file_of_bytes from;
  std::fflush(from.file);
  watch();
  if (pread(fileno(from.file), to, 20, 5) != 20) std::abort();
}
CONSTRUCT(fread_small) {
  char* const to = room();
  const file_of_bytes from;
  watch();
  if (std::fread(to, 3, 5, from.file) != 5) std::abort();
}
CONSTRUCT(fread_all) {
  char* const to = room();
  const file_of_bytes from;
  watch();
  if (std::fread(to, 1, 100, from.file) != 90) std::abort();
}
CONSTRUCT(fgets_line) {
  char* const to = room();
  const file_of_bytes from;
  watch();
  if (std::fgets(to, 50, from.file) == nullptr) std::abort();
}
CONSTRUCT(fgets_unlocked_line) {
  char* const to = room();
  const file_of_bytes from;
  watch();
  if (fgets_unlocked(to, 50, from.file) == nullptr) std::abort();
}
CONSTRUCT(fgetws_line) {
  auto* const to = reinterpret_cast<wchar_t*>(room());
  const file_of_characters from;
  watch();
  if (std::fgetws(to, 20, from.file) == nullptr) std::abort();
}
CONSTRUCT(getline_line) {
  char*& line = place<char*>(nullptr);
  auto& length = place<std::size_t>(std::size_t{0});
  const file_of_bytes from;
  watch();
  if (getline(&line, &length, from.file) != 10 || getdelim(&line, &length, '5', from.file) != 5) std::abort();
  std::free(line);
}
CONSTRUCT(preadv2_from_file) {
  char* const to = room();
  const file_of_bytes from;
  std::fflush(from.file);
  const iovec part = {to, 20};
  watch();
  if (preadv2(fileno(from.file), &part, 1, 5, 0) != 20) std::abort();
}
CONSTRUCT(recvmsg_from_socket) {
  char* const to = room();
  auto& name = place<sockaddr_storage>();
  auto& part = place<iovec>(iovec{to, 50});
  auto& message = place<msghdr>();
  message.msg_name = &name;
  message.msg_namelen = sizeof name;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 || send(ends[1], "some bytes", 10, 0) != 10) std::abort();
  watch();
  if (recvmsg(ends[0], &message, 0) != 10) std::abort();
  close(ends[0]);
  close(ends[1]);
}
CONSTRUCT(recv_from_socket) {
  char* const to = room();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || send(ends[1], "some bytes", 10, 0) != 10) std::abort();
  watch();
  if (recv(ends[0], to, 50, 0) != 10) std::abort();
  close(ends[0]);
  close(ends[1]);
}
CONSTRUCT(qsort_ints) {
  int* const to = places<int>(50);
  for (int n = 0; n < 50; ++n) to[n] = n * 37 % 53;
  watch();
  std::qsort(to, 50, sizeof *to,
             [](const void* a, const void* b) { return *static_cast<const int*>(a) - *static_cast<const int*>(b); });
}
CONSTRUCT(copy_by_volatile_pointer) {
  char* const to = room();
  watch();
  volatile char* const by = to;
  for (int n = 0; n < 30; ++n) by[n] = 'v';
}

// Known to be missed.
CONSTRUCT(sscanf_number) {
  int& to = place<int>(0);
  watch();
  if (std::sscanf("17", "%d", &to) != 1) std::abort();
}
CONSTRUCT(frexp_exponent) {
  int& to = place<int>(0);
  watch();
  const double d = std::frexp(static_cast<double>(hidden(1000)), &to);
  hidden(&d);
}
CONSTRUCT(clock_gettime_time) {
  auto& to = place<timespec>();
  watch();
  clock_gettime(CLOCK_REALTIME, &to);
}
CONSTRUCT(mutex_lock) {
  auto& to = place<pthread_mutex_t>();
  pthread_mutex_init(&to, nullptr);
  watch();
  pthread_mutex_lock(&to);
}
CONSTRUCT(strtol_end) {
  char*& to = place<char*>(nullptr);
  watch();
  hidden(std::strtol(words(), &to, 10));
}
CONSTRUCT(setjmp_buffer) {
  struct with_buffer {
    std::jmp_buf buffer;
  };
  auto& to = place<with_buffer>();
  watch();
  if (setjmp(to.buffer) != 0) std::abort();
}
