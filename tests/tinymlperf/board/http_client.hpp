// A board's server for tests, and a client that sends bytes as they are, also those that no library would
// send.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <tinymlperf/board/web/server.hpp>
#include <utility>

#include <tinymlperf/board/memory_board.hpp>

namespace tinymlperf::board::testing {

struct Response {
  int status = 0;                              // 0: nothing that is an answer
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
  std::string header(const std::string& name) const { return headers.count(name) ? headers.at(name) : ""; }
};

class Client {
 public:
  explicit Client(int port, std::chrono::milliseconds patience = std::chrono::seconds(10))
      : patience_(patience) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (socket_ < 0 || connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error(std::string("cannot connect: ") + std::strerror(errno));
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False: the server does not take it (any more).
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void end_of_input() { shutdown(socket_, SHUT_WR); }

  // Up to and with `mark`; what came until the end, or the end of patience, when there is none.
  std::string read_until(std::string_view mark) {
    size_t found;
    while ((found = buffer_.find(mark)) == std::string::npos)
      if (!more()) return std::exchange(buffer_, "");
    return take(found + mark.size());
  }
  std::string read_all() {
    while (more()) {
    }
    return std::exchange(buffer_, "");
  }
  // One answer; `with_body` false: to HEAD.
  Response read_answer(bool with_body = true) {
    Response out;
    const std::string head = read_until("\r\n\r\n");
    if (!head.starts_with("HTTP/1.1 ") || head.size() < 13 || !head.ends_with("\r\n\r\n")) return out;
    out.status = std::atoi(head.substr(9, 3).c_str());
    for (size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
      const size_t end = head.find("\r\n", at), colon = head.find(": ", at);
      if (colon < end) {
        std::string name = head.substr(at, colon - at);
        for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        out.headers[name] = head.substr(colon + 2, end - colon - 2);
      }
      at = end + 2;
    }
    if (out.status == 100) return read_answer(with_body);
    const auto length = static_cast<size_t>(std::atoll(out.header("content-length").c_str()));
    if (!with_body || out.status == 304 || out.status == 204) return out;
    while (buffer_.size() < length && more()) {
    }
    out.body = take(std::min(length, buffer_.size()));
    return out;
  }

 private:
  bool more() {
    pollfd p{socket_, POLLIN, 0};
    if (poll(&p, 1, static_cast<int>(patience_.count())) <= 0) return false;
    char bytes[16384];
    const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }
  std::string take(size_t count) {
    std::string out = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return out;
  }
  int socket_;
  std::chrono::milliseconds patience_;
  std::string buffer_;
};

// A server at a free port, and what visitors ask of it.
class RunningServer {
 public:
  RunningServer(Source& source, Uploads& uploads, ServerOptions options, WorkDesk* desk = nullptr)
      : server_(source, uploads, with_any_port(options), desk),
        port(server_.bind()),
        thread_([this] { server_.run(); }) {
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~RunningServer() { stop(); }
  void stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  Response ask(const std::string& bytes) const {
    Client client(port);
    client.write(bytes);
    return client.read_answer(!bytes.starts_with("HEAD"));
  }
  Response get(const std::string& target, const std::string& headers = "") const {
    return ask("GET " + target + " HTTP/1.1\r\nHost: board\r\nConnection: close\r\n" + headers + "\r\n");
  }
  Response post(const std::string& target, const std::string& type, const std::string& body,
                const std::string& headers = "") const {
    return ask("POST " + target + " HTTP/1.1\r\nHost: board\r\nContent-Type: " + type +
               "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
  }
  Response submit(const std::string& token, const std::string& bundle,
                  const std::string& headers = "") const {
    return post("/submit", "multipart/form-data; boundary=xyz", multipart(token, bundle), headers);
  }
  static std::string multipart(const std::string& token, const std::string& bundle) {
    return "--xyz\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n" + token +
           "\r\n--xyz\r\nContent-Disposition: form-data; name=\"bundle\"; "
           "filename=\"mine.tmlp\"\r\nContent-Type: "
           "application/octet-stream\r\n\r\n" +
           bundle + "\r\n--xyz--\r\n";
  }

 private:
  static ServerOptions with_any_port(ServerOptions o) {
    o.port = 0;
    return o;
  }
  Server server_;

 public:
  const int port;

 private:
  std::thread thread_;
};

struct MadeUpBoard {
  MemoryBoard board;
};

// The made-up board behind a server.
class RunningBoard : public MadeUpBoard, public RunningServer {
 public:
  explicit RunningBoard(ServerOptions options = {}, bool hostile = false)
      : MadeUpBoard{MemoryBoard(hostile)}, RunningServer(board, board, always_new(options)) {}

 private:
  static ServerOptions always_new(ServerOptions o) {
    o.page_age = {};
    return o;
  }
};

}  // namespace tinymlperf::board::testing
