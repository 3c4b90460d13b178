// A board in a file behind a server, for tests.
#pragma once

#include <fstream>
#include <support/board.hpp>
#include <tinymlperf/board/store/queries.hpp>

#include <tinymlperf/board/http_client.hpp>

namespace tinymlperf::board::testing {

struct ServedBoard : test::Board {
  explicit ServedBoard(const ServerOptions& options = {}, const StoreOptions& rules = {})
      : Board(rules),
        reading(path, with_clock(rules)),
        queries(reading),
        desk(store),
        server(queries, store, unhurried(options), &desk) {}

  // Every visitor of a test has one address.
  static ServerOptions unhurried(ServerOptions options) {
    options.asks_per_minute = 1'000'000;
    return options;
  }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(server.port); }
  std::filesystem::path file(const std::string& content) const {
    const std::filesystem::path path = folder.path() / "mine.tmlp";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  Store reading;  // as `serve` has it
  Queries queries;
  WorkDesk desk;
  RunningServer server;
};

}  // namespace tinymlperf::board::testing
