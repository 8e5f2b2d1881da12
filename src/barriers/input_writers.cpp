// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libc's functions that bring something from outside into memory, and those that order it. See memory_writers.cpp. All the
// memory that they are given is announced, whatever they bring. The kernel writes only to pages that are open, which the
// announcement sees to.
#include <cstddef>
#include <cstdio>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "barriers/linked.hpp"
#include "barriers/next_definition.hpp"
#include "barriers/watched.hpp"

using tenure::barriers::before_store;
using tenure::barriers::next_definition;

namespace {

constinit next_definition<ssize_t(int, void*, std::size_t)> next_read("read");
constinit next_definition<ssize_t(int, void*, std::size_t, off_t)> next_pread("pread");
constinit next_definition<ssize_t(int, const iovec*, int)> next_readv("readv");
constinit next_definition<ssize_t(int, const iovec*, int, off_t)> next_preadv("preadv");
constinit next_definition<ssize_t(int, const iovec*, int, off_t, int)> next_preadv2("preadv2");
constinit next_definition<ssize_t(int, void*, std::size_t, int)> next_recv("recv");
constinit next_definition<ssize_t(int, void*, std::size_t, int, sockaddr*, socklen_t*)> next_recvfrom("recvfrom");
constinit next_definition<ssize_t(int, msghdr*, int)> next_recvmsg("recvmsg");
constinit next_definition<ssize_t(void*, std::size_t, unsigned)> next_getrandom("getrandom");
constinit next_definition<int(void*, std::size_t)> next_getentropy("getentropy");

constinit next_definition<ssize_t(int, void*, std::size_t, std::size_t)> next_read_chk("__read_chk");
constinit next_definition<ssize_t(int, void*, std::size_t, off_t, std::size_t)> next_pread_chk("__pread_chk");
constinit next_definition<ssize_t(int, void*, std::size_t, std::size_t, int)> next_recv_chk("__recv_chk");
constinit next_definition<ssize_t(int, void*, std::size_t, std::size_t, int, sockaddr*, socklen_t*)> next_recvfrom_chk(
    "__recvfrom_chk");

constinit next_definition<std::size_t(void*, std::size_t, std::size_t, std::FILE*)> next_fread("fread"),
    next_fread_unlocked("fread_unlocked");
constinit next_definition<char*(char*, int, std::FILE*)> next_fgets("fgets"), next_fgets_unlocked("fgets_unlocked");
constinit next_definition<std::size_t(void*, std::size_t, std::size_t, std::size_t, std::FILE*)> next_fread_chk(
    "__fread_chk"),
    next_fread_unlocked_chk("__fread_unlocked_chk");
constinit next_definition<char*(char*, std::size_t, int, std::FILE*)> next_fgets_chk("__fgets_chk"),
    next_fgets_unlocked_chk("__fgets_unlocked_chk");
constinit next_definition<ssize_t(char**, std::size_t*, int, std::FILE*)> next_getdelim("getdelim");

using order = int(const void*, const void*);
using order_with = int(const void*, const void*, void*);
constinit next_definition<void(void*, std::size_t, std::size_t, order*)> next_qsort("qsort");
constinit next_definition<void(void*, std::size_t, std::size_t, order_with*, void*)> next_qsort_r("qsort_r");

void before_stores(const iovec* parts, std::size_t count) {
  for (std::size_t n = 0; n < count; ++n) before_store(parts[n].iov_base, parts[n].iov_len);
}
void before_stores(const iovec* parts, int count) {
  if (count > 0) before_stores(parts, static_cast<std::size_t>(count));
}
void before_address(const sockaddr* from, const socklen_t* length) {
  if (from == nullptr || length == nullptr) return;
  before_store(from, *length);
  before_store(length, sizeof *length);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t read(int file, void* to, std::size_t length) {
  before_store(to, length);
  return next_read(file, to, length);
}
ssize_t pread(int file, void* to, std::size_t length, off_t at) {
  before_store(to, length);
  return next_pread(file, to, length, at);
}
ssize_t pread64(int file, void* to, std::size_t length, off_t at) { return pread(file, to, length, at); }
ssize_t readv(int file, const iovec* parts, int count) {
  before_stores(parts, count);
  return next_readv(file, parts, count);
}
ssize_t preadv(int file, const iovec* parts, int count, off_t at) {
  before_stores(parts, count);
  return next_preadv(file, parts, count, at);
}
ssize_t preadv64(int file, const iovec* parts, int count, off_t at) { return preadv(file, parts, count, at); }
ssize_t preadv2(int file, const iovec* parts, int count, off_t at, int flags) {
  before_stores(parts, count);
  return next_preadv2(file, parts, count, at, flags);
}
ssize_t preadv64v2(int file, const iovec* parts, int count, off_t at, int flags) {
  return preadv2(file, parts, count, at, flags);
}
ssize_t recv(int socket, void* to, std::size_t length, int flags) {
  before_store(to, length);
  return next_recv(socket, to, length, flags);
}
ssize_t recvfrom(int socket, void* to, std::size_t length, int flags, sockaddr* from, socklen_t* from_length) {
  before_store(to, length);
  before_address(from, from_length);
  return next_recvfrom(socket, to, length, flags, from, from_length);
}
ssize_t recvmsg(int socket, msghdr* message, int flags) {
  before_store(message, sizeof *message);
  // Their lengths mean nothing where they are not given.
  if (message->msg_name != nullptr) before_store(message->msg_name, message->msg_namelen);
  if (message->msg_control != nullptr) before_store(message->msg_control, message->msg_controllen);
  before_stores(message->msg_iov, message->msg_iovlen);
  return next_recvmsg(socket, message, flags);
}
ssize_t getrandom(void* to, std::size_t length, unsigned flags) {
  before_store(to, length);
  return next_getrandom(to, length, flags);
}
int getentropy(void* to, std::size_t length) {
  before_store(to, length);
  return next_getentropy(to, length);
}

ssize_t __read_chk(int file, void* to, std::size_t length, std::size_t room) {
  before_store(to, length);
  return next_read_chk(file, to, length, room);
}
ssize_t __pread_chk(int file, void* to, std::size_t length, off_t at, std::size_t room) {
  before_store(to, length);
  return next_pread_chk(file, to, length, at, room);
}
ssize_t __pread64_chk(int file, void* to, std::size_t length, off_t at, std::size_t room) {
  return __pread_chk(file, to, length, at, room);
}
ssize_t __recv_chk(int socket, void* to, std::size_t length, std::size_t room, int flags) {
  before_store(to, length);
  return next_recv_chk(socket, to, length, room, flags);
}
ssize_t __recvfrom_chk(int socket, void* to, std::size_t length, std::size_t room, int flags, sockaddr* from,
                       socklen_t* from_length) {
  before_store(to, length);
  before_address(from, from_length);
  return next_recvfrom_chk(socket, to, length, room, flags, from, from_length);
}

std::size_t fread(void* to, std::size_t size, std::size_t count, std::FILE* file) {
  before_store(to, size * count);
  return next_fread(to, size, count, file);
}
std::size_t fread_unlocked(void* to, std::size_t size, std::size_t count, std::FILE* file) {
  before_store(to, size * count);
  return next_fread_unlocked(to, size, count, file);
}
char* fgets(char* to, int room, std::FILE* file) {
  if (room > 0) before_store(to, static_cast<std::size_t>(room));
  return next_fgets(to, room, file);
}
char* fgets_unlocked(char* to, int room, std::FILE* file) {
  if (room > 0) before_store(to, static_cast<std::size_t>(room));
  return next_fgets_unlocked(to, room, file);
}
// The line is in memory of malloc, but who leads to it need not be.
ssize_t getdelim(char** line, std::size_t* room, int end, std::FILE* file) {
  before_store(line, sizeof *line);
  before_store(room, sizeof *room);
  return next_getdelim(line, room, end, file);
}
ssize_t __getdelim(char** line, std::size_t* room, int end, std::FILE* file) { return getdelim(line, room, end, file); }
ssize_t getline(char** line, std::size_t* room, std::FILE* file) { return getdelim(line, room, '\n', file); }
std::size_t __fread_chk(void* to, std::size_t room, std::size_t size, std::size_t count, std::FILE* file) {
  before_store(to, size * count);
  return next_fread_chk(to, room, size, count, file);
}
char* __fgets_chk(char* to, std::size_t room, int length, std::FILE* file) {
  if (length > 0) before_store(to, static_cast<std::size_t>(length));
  return next_fgets_chk(to, room, length, file);
}
std::size_t __fread_unlocked_chk(void* to, std::size_t room, std::size_t size, std::size_t count, std::FILE* file) {
  before_store(to, size * count);
  return next_fread_unlocked_chk(to, room, size, count, file);
}
char* __fgets_unlocked_chk(char* to, std::size_t room, int length, std::FILE* file) {
  if (length > 0) before_store(to, static_cast<std::size_t>(length));
  return next_fgets_unlocked_chk(to, room, length, file);
}

void qsort(void* base, std::size_t count, std::size_t size, order* less) {
  before_store(base, count * size);
  next_qsort(base, count, size, less);
}
void qsort_r(void* base, std::size_t count, std::size_t size, order_with* less, void* with) {
  before_store(base, count * size);
  next_qsort_r(base, count, size, less, with);
}

}  // extern "C"
#pragma GCC visibility pop

void tenure::barriers::link_input_writers() noexcept {}
