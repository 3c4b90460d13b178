// `tinymlperf serve`: the leaderboard at a port of this machine until Ctrl-C.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <tinymlperf/board/web/server.hpp>

namespace tinymlperf::board {

struct ServeOptions {
  std::filesystem::path database = "build/board/board.sqlite";
  ServerOptions server;
};

// While this object lives, SIGINT and SIGTERM call `stop` on any thread. Only one may exist at a time.
class StopOnSignal {
 public:
  template <class F>
  explicit StopOnSignal(F stop) {
    raised_file() = raised_.file();
    struct sigaction action {};
    action.sa_handler = [](int) {  // a handler may only write
      const uint64_t one = 1;
      if (::write(raised_file(), &one, sizeof one) < 0) return;
    };
    for (size_t i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &before_[i]);
    waiter_ = std::thread([this, stop] {
      while (!raised_.wait(std::chrono::hours(1))) {
      }
      if (!over_) stop();
    });
  }
  ~StopOnSignal() {
    for (size_t i = 0; i < 2; ++i) sigaction(kSignals[i], &before_[i], nullptr);
    over_ = true;
    raised_.raise();
    waiter_.join();
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  static volatile int& raised_file() {
    static volatile int file = -1;
    return file;
  }
  StopFlag raised_;
  struct sigaction before_[2];
  std::atomic<bool> over_{false};
  std::thread waiter_;
};

inline bool is_loopback(const std::string& host) {
  const bool number = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "::1" || (number && host.starts_with("127."));
}

// Exit status: 0 it was stopped, 2 it could not start. The caller owns the database and passes its two
// interfaces.
inline int serve(Source& source, Uploads& uploads, const ServeOptions& options, WorkDesk* desk = nullptr) {
  try {
    Server server(source, uploads, options.server, desk);
    const int port = server.bind();
    if (!is_loopback(options.server.host))
      fmt::print(stderr,
                 "tinymlperf: warning: --host {} lets other machines in. Tokens and bundles travel "
                 "unencrypted; put a server that "
                 "speaks HTTPS before this one.\n",
                 options.server.host);
    const StopOnSignal stop_on_signal([&server] { server.stop(); });
    fmt::print("the leaderboard of {} is at http://{}:{}/ until Ctrl-C\n", options.database.string(),
               options.server.host, port);
    std::fflush(stdout);
    server.run();
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "tinymlperf: {}\n", e.what());
    return 2;
  }
}

}  // namespace tinymlperf::board
