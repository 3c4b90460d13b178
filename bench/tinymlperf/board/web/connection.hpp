// One visitor's connection, with a timeout for every wait and a limit on the head of a request.
//
// cpp-httplib reads a request through this class. A visitor who sends one byte a second, or a line without
// end, loses the connection at the deadline. A visitor who waits before the next request holds an idle
// thread. All waits end at once when the server stops.
#pragma once

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/board/web/http_library.hpp>

namespace tinymlperf::board {

// An event that is raised once and ends every wait that watches it.
class StopFlag {
 public:
  StopFlag() : file_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (file_ < 0) throw std::runtime_error("cannot make an event file: too many files are open");
  }
  ~StopFlag() { close(file_); }
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;
  void raise() {
    if (eventfd_write(file_, 1) != 0) return;  // the counter cannot overflow
  }
  bool wait(std::chrono::milliseconds time) const {
    pollfd p{file_, POLLIN, 0};
    return poll(&p, 1, static_cast<int>(time.count())) > 0;
  }
  int file() const { return file_; }

 private:
  int file_;
};

struct ConnectionLimits {
  std::chrono::milliseconds idle{5000};    // between two requests
  std::chrono::milliseconds hurried{500};  // between two requests if many visitors are connected
  std::chrono::milliseconds head{10000};   // until the head of a request has arrived
  std::chrono::milliseconds body{120000};  // until its body has arrived
  std::chrono::milliseconds write{10000};  // until some of a response is taken
  size_t head_bytes = 32768;
};

class Connection : public httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(int socket, const StopFlag& stop, const ConnectionLimits& limits)
      : socket_(socket), stop_(stop), limits_(limits) {}
  ~Connection() override { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // False: the visitor is gone or silent for too long, or the server stops.
  bool wait_for_request(bool hurried) {
    head_left_ = limits_.head_bytes;
    in_head_ = true, too_large_ = too_slow_ = false;
    written_ = 0;
    if (at_ == end_ && !wait_readable(Clock::now() + (hurried ? limits_.hurried : limits_.idle)))
      return false;
    deadline_ = Clock::now() + limits_.head;
    return true;
  }
  void head_is_there() {
    in_head_ = false;
    deadline_ = Clock::now() + limits_.body;
  }
  bool too_large() const { return too_large_; }
  bool too_slow() const { return too_slow_; }
  bool answered() const { return written_ > 0; }

  ssize_t read(char* to, size_t size) override {
    if (in_head_ && head_left_ == 0) return too_large_ = true, -1;
    if (at_ == end_ && !fill()) return -1;
    size_t count = std::min(size, end_ - at_);
    if (in_head_) count = std::min(count, head_left_), head_left_ -= count;
    std::copy_n(buffer_.data() + at_, count, to);
    at_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, size_t size) override {
    for (size_t done = 0; done < size;) {
      const ssize_t sent = send(socket_, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        done += static_cast<size_t>(sent);
        continue;
      }
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return -1;
      pollfd p{socket_, POLLOUT, 0};
      if (poll(&p, 1, static_cast<int>(limits_.write.count())) <= 0 || (p.revents & (POLLERR | POLLHUP)))
        return -1;
    }
    written_ += size;
    return static_cast<ssize_t>(size);
  }

  bool is_readable() const override { return at_ < end_ || ready(POLLIN); }
  bool is_writable() const override { return ready(POLLOUT); }
  socket_t socket() const override { return socket_; }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { address(getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { address(getsockname, ip, port); }

  // Closes the connection so that the visitor can read the answer: unread bytes would cut it off.
  void finish() {
    shutdown(socket_, SHUT_WR);
    const auto until = Clock::now() + std::chrono::seconds(1);
    for (size_t total = 0; total < (size_t{1} << 20) && wait_readable(until);) {
      const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (got <= 0) return;
      total += static_cast<size_t>(got);
    }
  }

 private:
  bool ready(short what) const {
    pollfd p{socket_, static_cast<short>(what | POLLRDHUP), 0};
    return poll(&p, 1, 0) > 0 && (p.revents & what) && !(p.revents & (POLLERR | POLLHUP | POLLRDHUP));
  }
  bool wait_readable(Clock::time_point until) {
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) return too_slow_ = true, false;
      pollfd both[] = {{socket_, POLLIN, 0}, {stop_.file(), POLLIN, 0}};
      const int count = poll(both, 2, static_cast<int>(left));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 || both[1].revents) return false;
      if (both[0].revents) return true;  // bytes, or the end
    }
  }
  bool fill() {
    while (wait_readable(deadline_)) {
      const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
      if (got <= 0) return false;
      at_ = 0, end_ = static_cast<size_t>(got);
      return true;
    }
    return false;
  }
  template <class Ask>
  void address(Ask ask, std::string& ip, int& port) const {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    char host[NI_MAXHOST], service[NI_MAXSERV];
    auto* const name = reinterpret_cast<sockaddr*>(&storage);
    if (ask(socket_, name, &size) != 0 || getnameinfo(name, size, host, sizeof host, service, sizeof service,
                                                      NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return;
    ip = host, port = std::atoi(service);
  }

  int socket_;
  const StopFlag& stop_;
  ConnectionLimits limits_;
  std::array<char, 8192> buffer_;
  size_t at_ = 0, end_ = 0, head_left_ = 0, written_ = 0;
  bool in_head_ = true, too_large_ = false, too_slow_ = false;
  Clock::time_point deadline_;
};

}  // namespace tinymlperf::board
