// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libc's functions that write to memory, as _FORTIFY_SOURCE has them called: they are also told how much room there is.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>

#include <sys/socket.h>
#include <unistd.h>

#include "barriers/construct.hpp"
#include "barriers/library_calls.hpp"

extern "C" {
void* __memcpy_chk(void*, const void*, std::size_t, std::size_t);
void* __memmove_chk(void*, const void*, std::size_t, std::size_t);
void* __mempcpy_chk(void*, const void*, std::size_t, std::size_t);
void* __memset_chk(void*, int, std::size_t, std::size_t);
void __explicit_bzero_chk(void*, std::size_t, std::size_t);
char* __strcpy_chk(char*, const char*, std::size_t);
char* __stpcpy_chk(char*, const char*, std::size_t);
char* __strcat_chk(char*, const char*, std::size_t);
char* __strncpy_chk(char*, const char*, std::size_t, std::size_t);
char* __stpncpy_chk(char*, const char*, std::size_t, std::size_t);
char* __strncat_chk(char*, const char*, std::size_t, std::size_t);
std::size_t __strlcpy_chk(char*, const char*, std::size_t, std::size_t);
std::size_t __strlcat_chk(char*, const char*, std::size_t, std::size_t);
int __snprintf_chk(char*, std::size_t, int, std::size_t, const char*, ...);
int __sprintf_chk(char*, int, std::size_t, const char*, ...);
int __swprintf_chk(wchar_t*, std::size_t, int, std::size_t, const wchar_t*, ...);
wchar_t* __wmemcpy_chk(wchar_t*, const wchar_t*, std::size_t, std::size_t);
wchar_t* __wmemmove_chk(wchar_t*, const wchar_t*, std::size_t, std::size_t);
wchar_t* __wmempcpy_chk(wchar_t*, const wchar_t*, std::size_t, std::size_t);
wchar_t* __wmemset_chk(wchar_t*, wchar_t, std::size_t, std::size_t);
wchar_t* __wcscpy_chk(wchar_t*, const wchar_t*, std::size_t);
wchar_t* __wcpcpy_chk(wchar_t*, const wchar_t*, std::size_t);
wchar_t* __wcscat_chk(wchar_t*, const wchar_t*, std::size_t);
wchar_t* __wcsncpy_chk(wchar_t*, const wchar_t*, std::size_t, std::size_t);
wchar_t* __wcpncpy_chk(wchar_t*, const wchar_t*, std::size_t, std::size_t);
wchar_t* __wcsncat_chk(wchar_t*, const wchar_t*, std::size_t, std::size_t);
ssize_t __read_chk(int, void*, std::size_t, std::size_t);
ssize_t __pread_chk(int, void*, std::size_t, off_t, std::size_t);
ssize_t __recv_chk(int, void*, std::size_t, std::size_t, int);
ssize_t __recvfrom_chk(int, void*, std::size_t, std::size_t, int, sockaddr*, socklen_t*);
std::size_t __fread_chk(void*, std::size_t, std::size_t, std::size_t, std::FILE*);
std::size_t __fread_unlocked_chk(void*, std::size_t, std::size_t, std::size_t, std::FILE*);
char* __fgets_chk(char*, std::size_t, int, std::FILE*);
char* __fgets_unlocked_chk(char*, std::size_t, int, std::FILE*);
wchar_t* __fgetws_chk(wchar_t*, std::size_t, int, std::FILE*);
}

using namespace constructs;

namespace {

wchar_t* wide_room() {
  wchar_t* const to = places<wchar_t>(100);
  for (int n = 0; n < 99; ++n) to[n] = L'r';
  return to;
}
const wchar_t* wide_words() { return hidden(L"some wide words to be written"); }

// Two ends of a connection, one of which has sent something.
struct connection {
  connection() {
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 || send(ends[1], "some bytes", 10, 0) != 10) std::abort();
  }
  ~connection() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2];
};

}  // namespace

#define WRITES(name, prepare, call)                      \
  CONSTRUCT(name) {                                      \
    prepare;                                             \
    const auto n = static_cast<std::size_t>(hidden(20)); \
    (void)n;                                             \
    watch();                                             \
    call;                                                \
  }
#define WRITES_TO_ROOM(name, call) WRITES(name, char* const to = room(), call)
#define WRITES_WIDE(name, call) WRITES(name, wchar_t* const to = wide_room(), call)
#define READS_A_FILE(name, call) WRITES(name, char* const to = room(); const file_of_bytes from, call)

WRITES_TO_ROOM(checked_memcpy, __memcpy_chk(to, words(), n, 100))
WRITES_TO_ROOM(checked_memmove, __memmove_chk(to + 3, words(), n, 97))
WRITES_TO_ROOM(checked_mempcpy, __mempcpy_chk(to, words(), n, 100))
WRITES_TO_ROOM(checked_memset, __memset_chk(to, 'x', n, 100))
WRITES_TO_ROOM(checked_explicit_bzero, __explicit_bzero_chk(to, n, 100))
WRITES_TO_ROOM(checked_strcpy, __strcpy_chk(to, words(), 100))
WRITES_TO_ROOM(checked_stpcpy, __stpcpy_chk(to, words(), 100))
WRITES_TO_ROOM(checked_strcat, to[9] = 0; __strcat_chk(to, words(), 100))
WRITES_TO_ROOM(checked_strncpy, __strncpy_chk(to, words(), 50, 100))
WRITES_TO_ROOM(checked_stpncpy, __stpncpy_chk(to, words(), n, 100))
WRITES_TO_ROOM(checked_strncat, to[9] = 0; __strncat_chk(to, words(), 7, 100))
WRITES_TO_ROOM(checked_strlcpy, hidden(__strlcpy_chk(to, words(), 12, 100)))
WRITES_TO_ROOM(checked_strlcat, to[9] = 0; hidden(__strlcat_chk(to, words(), 100, 100)))
WRITES_TO_ROOM(checked_snprintf, __snprintf_chk(to, 90, 1, 100, "%s and %d", words(), 5))
WRITES_TO_ROOM(checked_sprintf, __sprintf_chk(to, 1, 100, "%s and %d", words(), 5))

WRITES_WIDE(checked_swprintf, __swprintf_chk(to, 90, 1, 100, L"%ls and %d", wide_words(), 5))
WRITES_WIDE(checked_wmemcpy, __wmemcpy_chk(to, wide_words(), n, 100))
WRITES_WIDE(checked_wmemmove, __wmemmove_chk(to + 3, wide_words(), n, 97))
WRITES_WIDE(checked_wmempcpy, __wmempcpy_chk(to, wide_words(), n, 100))
WRITES_WIDE(checked_wmemset, __wmemset_chk(to, L'x', n, 100))
WRITES_WIDE(checked_wcscpy, __wcscpy_chk(to, wide_words(), 100))
WRITES_WIDE(checked_wcpcpy, __wcpcpy_chk(to, wide_words(), 100))
WRITES_WIDE(checked_wcscat, to[9] = 0; __wcscat_chk(to, wide_words(), 100))
WRITES_WIDE(checked_wcsncpy, __wcsncpy_chk(to, wide_words(), 50, 100))
WRITES_WIDE(checked_wcpncpy, __wcpncpy_chk(to, wide_words(), n, 100))
WRITES_WIDE(checked_wcsncat, to[9] = 0; __wcsncat_chk(to, wide_words(), 7, 100))

READS_A_FILE(checked_read, if (__read_chk(fileno(from.file), to, n, 100) < 0) std::abort())
READS_A_FILE(checked_pread, std::fflush(from.file);
             if (__pread_chk(fileno(from.file), to, n, 5, 100) != 20) std::abort())
READS_A_FILE(checked_fread, if (__fread_chk(to, 100, 3, 5, from.file) != 5) std::abort())
READS_A_FILE(checked_fread_unlocked, if (__fread_unlocked_chk(to, 100, 3, 5, from.file) != 5) std::abort())
READS_A_FILE(checked_fgets, if (__fgets_chk(to, 100, 50, from.file) == nullptr) std::abort())
READS_A_FILE(checked_fgets_unlocked, if (__fgets_unlocked_chk(to, 100, 50, from.file) == nullptr) std::abort())
WRITES(checked_fgetws, wchar_t* const to = wide_room();
       const file_of_characters from, if (__fgetws_chk(to, 100, 50, from.file) == nullptr) std::abort())
WRITES(checked_recv, char* const to = room();
       const connection from, if (__recv_chk(from.ends[0], to, 50, 100, 0) != 10) std::abort())
WRITES(checked_recvfrom, char* const to = room(); const connection from; auto& name = place<sockaddr_storage>();
       auto& length = place<socklen_t>(socklen_t{sizeof(sockaddr_storage)}),
       if (__recvfrom_chk(from.ends[0], to, 50, 100, 0, reinterpret_cast<sockaddr*>(&name), &length) != 10)
           std::abort())
