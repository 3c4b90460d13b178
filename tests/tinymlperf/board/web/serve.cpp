// The command `serve`: it prints its address, ends by a signal, and says why it cannot start.
#include <doctest/doctest.h>
#include <signal.h>

#include <tinymlperf/board/web/serve.hpp>

#include <tinymlperf/board/http_client.hpp>

using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;

TEST_CASE("a signal stops it, also one that meets a thread from before") {
  for (const int signal : {SIGTERM, SIGINT}) {
    StopFlag never;
    std::thread earlier([&] { never.wait(std::chrono::seconds(20)); });
    std::atomic<bool> stopped{false};
    {
      const StopOnSignal stop_on_signal([&] { stopped = true; });
      pthread_kill(earlier.native_handle(), signal);
      for (int i = 0; i < 1000 && !stopped; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      CHECK(stopped);
    }
    never.raise();
    earlier.join();
  }
  bool called = false;
  {
    const StopOnSignal unused([&] { called = true; });
  }
  CHECK_FALSE(called);
}

TEST_CASE("a server that is told to stop before it runs, or at once when it begins, returns") {
  MemoryBoard board;
  ServerOptions plain;
  plain.port = 0;
  Server server(board, board, plain);
  server.bind();
  server.stop();
  server.run();
  CHECK_FALSE(server.is_running());
  server.stop();

  struct sigaction before {};
  sigaction(SIGTERM, nullptr, &before);
  std::thread killer([&] {
    struct sigaction now {};
    do sigaction(SIGTERM, nullptr, &now);
    while (now.sa_handler == before.sa_handler);
    kill(getpid(), SIGTERM);
  });
  ServeOptions options;
  options.server.port = 0;
  CHECK(serve(board, board, options) == 0);
  killer.join();
}

TEST_CASE("if the server cannot listen it returns 2") {
  MemoryBoard board;
  ServeOptions options;
  options.server.host = "192.0.2.1";  // an address for documents, of no machine
  CHECK(serve(board, board, options) == 2);
  CHECK(is_loopback("127.0.0.1"));
  CHECK(is_loopback("::1"));
  CHECK(is_loopback("localhost"));
  CHECK_FALSE(is_loopback("127.example.org"));
  CHECK_FALSE(is_loopback("0.0.0.0"));
  CHECK_FALSE(is_loopback("board.example.org"));
}
