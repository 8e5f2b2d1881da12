// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/answering_process.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <stdexcept>

#include "os/system_error.hpp"

namespace tenure::os {

namespace {

// Messages have their length and whether they are an answer in front of them. False: the other side has ended.
struct message_head {
  std::uint64_t length = 0;
  std::uint64_t is_failure = 0;
};

[[nodiscard]] bool send_bytes(int to, const void* bytes, std::size_t length) {
  const auto* at = static_cast<const char*>(bytes);
  while (length != 0) {
    const ssize_t sent = ::send(to, at, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    length -= static_cast<std::size_t>(sent);
  }
  return true;
}
[[nodiscard]] bool receive_bytes(int from, void* bytes, std::size_t length) {
  auto* at = static_cast<char*>(bytes);
  while (length != 0) {
    const ssize_t got = ::recv(from, at, length, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    length -= static_cast<std::size_t>(got);
  }
  return true;
}
[[nodiscard]] bool send_message(int to, std::string_view text, bool is_failure) {
  const message_head head{text.size(), is_failure ? 1U : 0U};
  return send_bytes(to, &head, sizeof head) && send_bytes(to, text.data(), text.size());
}
[[nodiscard]] bool receive_message(int from, std::string& text, bool& is_failure) {
  message_head head;
  if (!receive_bytes(from, &head, sizeof head)) return false;
  is_failure = head.is_failure != 0;
  text.resize(head.length);
  return receive_bytes(from, text.data(), text.size());
}

void serve(int socket, const std::function<std::string(std::string_view)>& answer) {
  std::string question;
  for (bool ignored = false; receive_message(socket, question, ignored);) {
    std::string text;
    bool has_failed = false;
    try {
      text = answer(question);
    } catch (const std::exception& e) {
      text = e.what();
      has_failed = true;
    }
    if (!send_message(socket, text, has_failed)) return;
  }
}

}  // namespace

answering_process::answering_process(const std::function<std::string(std::string_view question)>& answer) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw_system_error(errno, "cannot connect a child process");
  process_ = ::fork();
  if (process_ == 0) {
    ::close(ends[0]);
    serve(ends[1], answer);
    ::_exit(0);
  }
  const int why = errno;
  ::close(ends[1]);
  socket_ = ends[0];
  if (process_ > 0) return;
  ::close(socket_);
  throw_system_error(why, "cannot make a child process");
}

answering_process::~answering_process() {
  ::close(socket_);  // which it notices
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string answering_process::ask(std::string_view question) {
  std::string text;
  bool has_failed = false;
  if (!send_message(socket_, question, false) || !receive_message(socket_, text, has_failed))
    throw std::runtime_error("a child process that was to answer has ended");
  if (has_failed) throw std::runtime_error(text);
  return text;
}

}  // namespace tenure::os
