// The whole board as a folder of linked HTML files, for an archive or a course page. It needs no server, and
// has no forms and no script.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <tinymlperf/board/pages/assets.hpp>
#include <tinymlperf/board/pages/error.hpp>
#include <tinymlperf/board/pages/front.hpp>
#include <tinymlperf/board/pages/history.hpp>
#include <tinymlperf/board/pages/job.hpp>
#include <tinymlperf/board/pages/pareto.hpp>
#include <tinymlperf/board/pages/queue.hpp>
#include <tinymlperf/board/pages/submission.hpp>
#include <tinymlperf/board/store/source.hpp>
#include <tinytorch/io/file.hpp>

namespace tinymlperf::board {

namespace detail {

// Writes the pages that the front page and the queue link to, each once.
class Exporter {
 public:
  Exporter(Source& source, std::filesystem::path folder) : source_(source), folder_(std::move(folder)) {}

  int64_t operator()() {
    std::filesystem::create_directories(folder_);
    const FrontPage front = source_.front();
    const std::vector<Job> queue = source_.queue();
    write(site_.front(), front_page(site_, front));
    write(site_.queue(), queue_page(site_, queue, {1, 1, 0, queue.size()}));
    write("style.css", style_sheet());
    write("icon.svg", kIcon);
    for (const Category& c : front.categories) {
      if (c.key != TableKey{}) table(c.key);
      if (c.leader) submissions_.insert(c.leader->submission);
    }
    for (const Table& t : front.tables) table(t.key);
    for (const auto* jobs : {&queue, &front.queue})
      for (const Job& j : *jobs) note(j);
    // A submission links to its jobs, and a job to its submission.
    while (!submissions_.empty() || !jobs_.empty()) {
      while (!submissions_.empty()) submission(*submissions_.begin());
      while (!jobs_.empty()) job(*jobs_.begin());
    }
    return pages_;
  }

 private:
  void write(const std::string& file, const std::string& content) {
    tinytorch::write_file((folder_ / file).string(), content);
    pages_ += file.ends_with(".html");
  }
  void note(const Job& j) {
    if (done_jobs_.insert(j.id).second) jobs_.insert(j.id);
    if (!done_submissions_.count(j.submission)) submissions_.insert(j.submission);
  }
  void table(const TableKey& key) {
    if (!tables_.insert(site_.table(key)).second) return;
    const std::optional<Table> found = source_.table(key);
    if (!found) return missing(site_.table(key), "This table is not on the board any more.");
    const auto history = source_.history(key);
    write(site_.table(key), table_page(site_, *found, {1, 1, 0, found->rows.size()}));
    if (!found->kernels) write(site_.table(key, "pareto"), pareto_page(site_, *found));
    write(site_.table(key, "history"), history_page(site_, *found, history));
    for (const Row& r : found->rows) submissions_.insert(r.submission);
    for (const HistoryPoint& p : history) submissions_.insert(p.submission);
  }
  void submission(int64_t id) {
    submissions_.erase(id);
    if (!done_submissions_.insert(id).second) return;
    const std::optional<Submission> found = source_.submission(id);
    if (!found) return missing(site_.submission(id), "This submission is not on the board.");
    write(site_.submission(id), submission_page(site_, *found));
    for (const Job& j : found->jobs) note(j);
    for (const Run& r : found->runs)
      if (r.kernels) table({r.benchmark, found->division, r.hardware, found->tier});
    for (const Similarity& l : found->similarities)
      if (!done_submissions_.count(l.submission)) submissions_.insert(l.submission);
  }
  void job(int64_t id) {
    jobs_.erase(id);
    const std::optional<Job> found = source_.job(id);
    if (!found) return missing(site_.job(id), "This job is not on the board.");
    write(site_.job(id), job_page(site_, *found));
  }
  void missing(const std::string& file, const char* why) { write(file, error_page(site_, 404, why)); }

  Source& source_;
  std::filesystem::path folder_;
  Site site_{.exported = true};
  std::set<int64_t> submissions_, done_submissions_, jobs_, done_jobs_;
  std::set<std::string> tables_;
  int64_t pages_ = 0;
};

}  // namespace detail

// Returns the number of written pages. Other files in the folder stay.
inline int64_t export_site(Source& source, const std::filesystem::path& folder) {
  return detail::Exporter(source, folder)();
}

}  // namespace tinymlperf::board
