// `tinymlperf serve`: the leaderboard at a port of this machine until Ctrl-C.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <tinymlperf/board/server.hpp>

namespace tinymlperf::board {

struct ServeOptions {
  std::filesystem::path database = "build/board/board.sqlite";
  ServerOptions server;
};

// SIGINT and SIGTERM, taken from the process as long as this lives: a thread waits for them and calls `stop`.
class StopOnSignal {
 public:
  template <class F>
  explicit StopOnSignal(F stop) {
    sigemptyset(&signals_);
    for (const int s : {SIGINT, SIGTERM}) sigaddset(&signals_, s);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);  // threads begun from here on have it too
    waiter_ = std::thread([this, stop] {
      const timespec step{0, 200'000'000};
      while (!over_) {
        if (sigtimedwait(&signals_, nullptr, &step) > 0) return stop();
      }
    });
  }
  ~StopOnSignal() {
    over_ = true;
    waiter_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  sigset_t signals_, before_;
  std::atomic<bool> over_{false};
  std::thread waiter_;
};

inline bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Exit status: 0 it was stopped, 2 it could not begin. The database is the caller's, who gives its two sides.
inline int serve(Source& source, Uploads& uploads, const ServeOptions& options) {
  try {
    Server server(source, uploads, options.server);
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
