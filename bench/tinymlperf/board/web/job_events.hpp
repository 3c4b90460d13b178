// A job as a stream of events: `progress` when something changed, `end` when it is done or failed.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/board/web/connection.hpp>
#include <tinymlperf/board/web/json.hpp>
#include <tinymlperf/board/web/limits.hpp>
#include <tinymlperf/board/web/server_options.hpp>

namespace tinymlperf::board {

// The stream holds `place` while it lasts. `source` and `stop` live as long as the server.
inline void send_job_events(httplib::Response& response, Source& source, int64_t id,
                            const std::shared_ptr<Places::Place>& place, const ServerOptions& options,
                            const StopFlag& stop) {
  response.status = 200;
  response.set_header("Cache-Control", "no-store");
  struct Seen {
    std::string last;
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now(), said = began;
  };
  response.set_chunked_content_provider(
      "text/event-stream",
      [&source, id, place, options, &stop, seen = Seen()](size_t, httplib::DataSink& sink) mutable {
        const std::optional<Job> job = source.job(id);
        const std::string now = job ? to_json(*job).dump(-1, ' ', false, Json::error_handler_t::replace) : "";
        const auto time = std::chrono::steady_clock::now();
        std::string text;
        if (job && now != seen.last) text = "event: progress\ndata: " + now + "\n\n";
        const bool over = !job || ended(*job);
        if (over) text += "event: end\ndata: {}\n\n";
        if (text.empty() && time - seen.said > std::chrono::seconds(15)) text = ": still here\n\n";
        if (!text.empty()) {
          if (!sink.write(text.data(), text.size())) return false;
          seen.last = now, seen.said = time;
        }
        if (over || time - seen.began > options.watch_most || stop.wait(options.watch_step) ||
            !sink.is_writable())
          sink.done();
        return true;
      });
}

}  // namespace tinymlperf::board
