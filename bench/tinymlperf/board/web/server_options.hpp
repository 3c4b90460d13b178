// The limits of the leaderboard's web server.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <tinymlperf/board/web/connection.hpp>

namespace tinymlperf::board {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                         // 0: a free port
  int64_t most_bytes = int64_t{32} << 20;  // largest bundle
  int asks_per_minute = 12;                // uploads and forms from one address
  int readers = 256;                       // connections served at once
  int watchers = 32;                       // connections that follow jobs, in addition to readers
  int uploads = 16;                        // bundles held in memory at once
  int upload_forms = 4;                    // of these without a token in the header
  int uploads_each = 4;                    // of these by one user
  int work_bodies = 8;                     // requests of workers held in memory at once
  std::chrono::milliseconds watch_step{500};
  std::chrono::seconds watch_most{600};     // after this time a follower must connect again
  std::chrono::milliseconds page_age{500};  // the greatest age of tables and queue on a page
  ConnectionLimits connection = {};
};

}  // namespace tinymlperf::board
