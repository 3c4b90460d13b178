// Visitors who read pages, each at a pace of its own, and visitors who upload, all at once for a while;
// server and visitors share this machine, so the latencies are those of both. A page counts from when it was
// due: a board that falls behind cannot hide it. An error is an answer that is not the one expected, or none.
#pragma once

#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <support/full_board.hpp>
#include <thread>
#include <tinytorch/benchmarking/statistics.hpp>
#include <vector>

#include <tinymlperf/board/served_board.hpp>

namespace tinymlperf::board::testing {

struct Load {
  int readers = 200, uploaders = 20;
  double seconds = 60;
  double read_pace = 0.1;     // seconds from one page of a visitor to the next; 0: as fast as they come
  double upload_pause = 0.5;  // seconds between the uploads of one visitor
  int64_t entries = 60;       // on the board before anybody comes
};

// The answers that the visitors of one kind got.
struct Seen {
  std::vector<double> latencies;  // of good answers, in seconds
  int64_t errors = 0;
  int64_t told_to_wait = 0;  // 429, which says when to ask again

  void add(const Seen& other) {
    latencies.insert(latencies.end(), other.latencies.begin(), other.latencies.end());
    errors += other.errors, told_to_wait += other.told_to_wait;
  }
};

struct LoadResult {
  Seen reading, uploading;
  int64_t submissions = 0;  // that the board holds more than before
};

namespace detail {

using LoadClock = std::chrono::steady_clock;

// One connection, page after page; `If-None-Match` every other time, as a browser would.
inline void read_pages(int port, const std::vector<std::string>& pages, size_t which, const Load& load,
                       LoadClock::time_point until, Seen& seen) {
  Client client(port);
  std::map<std::string, std::string> etags;
  const auto seconds = [](double x) {
    return std::chrono::duration_cast<LoadClock::duration>(std::chrono::duration<double>(x));
  };
  const auto first =  // visitors do not all come at once
      LoadClock::now() + seconds(load.read_pace * static_cast<double>(which) / load.readers);
  for (size_t i = which; LoadClock::now() < until; ++i) {
    const std::string &page = pages[i % pages.size()], known = i % 2 ? etags[page] : "";
    auto start = LoadClock::now();
    if (load.read_pace > 0) {
      start = first + seconds(load.read_pace * static_cast<double>(i - which));
      std::this_thread::sleep_until(start);
    }
    const bool sent = client.write("GET " + page + " HTTP/1.1\r\nHost: board\r\n" +
                                   (known.empty() ? "" : "If-None-Match: " + known + "\r\n") + "\r\n");
    const Response answer = sent ? client.read_answer() : Response{};
    const bool good = answer.status == 200 ? !answer.body.empty() : answer.status == 304 && !known.empty();
    if (good)
      seen.latencies.push_back(std::chrono::duration<double>(LoadClock::now() - start).count());
    else
      ++seen.errors;
    if (answer.status == 0) return;  // the connection is lost: the visitor is gone
    etags[page] = answer.header("etag");
  }
}

// A connection each, as uploads are rare; the pause keeps them at a pace that a class might have.
inline void upload(const ServedBoard& site, size_t which, double pause, LoadClock::time_point until,
                   Seen& seen) {
  const auto files = test::entry_files("upload", which);
  for (int i = 0; LoadClock::now() < until; ++i) {
    auto m = test::manifest("upload");
    m.notes = "number " + std::to_string(i) + " of visitor " + std::to_string(which);
    const std::string bundle = bundle::pack(m, files);
    const auto start = LoadClock::now();
    const Response answer = site.server.submit(site.token, bundle);
    if (answer.status == 303)
      seen.latencies.push_back(std::chrono::duration<double>(LoadClock::now() - start).count());
    else
      ++(answer.status == 429 ? seen.told_to_wait : seen.errors);
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
}

// The addresses of all pages of this board: tables with their two charts, submissions, the queue.
inline std::vector<std::string> pages_of(Queries& queries) {
  std::vector<std::string> pages{"/", "/queue", "/style.css"};
  for (const TableKey& key : queries.table_keys()) {
    const std::string address = Site{}.table(key);
    const Table table = queries.table(key).value();
    for (const char* more : {"", ".json?page=1", "/pareto", "/history"}) pages.push_back(address + more);
    for (const Row& row : table.rows) pages.push_back("/submissions/" + std::to_string(row.submission));
  }
  return pages;
}

}  // namespace detail

// On a board in a file (SQLite, WAL) in a temporary folder. The server has room for every visitor.
inline LoadResult play(const Load& load) {
  ServerOptions options;
  options.readers = std::max(options.readers, load.readers + load.uploaders + 8);
  options.uploads = std::max(options.uploads, load.uploaders);
  ServedBoard site(options, {.quota = 10'000'000});
  test::fill(site, load.entries);
  const std::vector<std::string> pages = detail::pages_of(site.queries);
  const auto count = [&] { return site.store.database().integer("SELECT count(*) FROM bundles").value(); };
  const int64_t before = count();
  std::vector<Seen> readers(static_cast<size_t>(load.readers)),
      uploaders(static_cast<size_t>(load.uploaders));
  std::vector<std::thread> threads;
  const auto until = detail::LoadClock::now() + std::chrono::duration_cast<detail::LoadClock::duration>(
                                                    std::chrono::duration<double>(load.seconds));
  const auto visit = [&](Seen& seen, auto f) {
    threads.emplace_back([&seen, f] {
      try {
        f(seen);
      } catch (const std::exception& e) {
        ++seen.errors;
        std::fprintf(stderr, "load: %s\n", e.what());
      }
    });
  };
  for (size_t i = 0; i < readers.size(); ++i)
    visit(readers[i], [&, i](Seen& s) { detail::read_pages(site.server.port, pages, i, load, until, s); });
  for (size_t i = 0; i < uploaders.size(); ++i)
    visit(uploaders[i], [&, i](Seen& s) { detail::upload(site, i, load.upload_pause, until, s); });
  for (std::thread& t : threads) t.join();
  LoadResult out;
  for (const Seen& s : readers) out.reading.add(s);
  for (const Seen& s : uploaders) out.uploading.add(s);
  out.submissions = count() - before;
  return out;
}

// Nobody met an error, everybody got something, each upload is there once, and 99 of 100 readers waited less
// than this.
inline bool passes(const Load& load, const LoadResult& r, double p99_seconds) {
  if (r.reading.errors + r.uploading.errors > 0) return false;
  if (static_cast<int64_t>(r.uploading.latencies.size()) != r.submissions) return false;
  if (load.uploaders > 0 && r.submissions == 0) return false;
  if (load.readers == 0) return true;
  return !r.reading.latencies.empty() &&
         tinytorch::statistics::percentile(r.reading.latencies, 99) < p99_seconds;
}

inline nlohmann::json to_json(const Seen& s) {
  nlohmann::json out{{"requests", static_cast<int64_t>(s.latencies.size()) + s.errors + s.told_to_wait},
                     {"errors", s.errors},
                     {"told_to_wait", s.told_to_wait}};
  const auto& all = s.latencies;
  for (const double p : {50.0, 90.0, 99.0})
    out["p" + std::to_string(static_cast<int>(p)) + "_seconds"] =
        all.empty() ? nlohmann::json() : nlohmann::json(tinytorch::statistics::percentile(all, p));
  out["max_seconds"] = all.empty() ? nlohmann::json() : nlohmann::json(*std::ranges::max_element(all));
  return out;
}

}  // namespace tinymlperf::board::testing
