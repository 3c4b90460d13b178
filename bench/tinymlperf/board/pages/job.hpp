// The page of one job. It is updated by events with script, and by reloading without.
#pragma once

#include <string>
#include <tinymlperf/board/pages/badges.hpp>

namespace tinymlperf::board {

inline std::string job_page(const Site& site, const Job& job) {
  const bool live = !site.exported && !ended(job);
  std::string body = fmt::format("<h1>Job {}</h1>\n", job.id);
  body += fmt::format("<section aria-label=\"Progress\"{}>\n",
                      live ? fmt::format(" id=\"live\" data-events=\"/jobs/{}/events\"", job.id) : "");
  body += "<p id=\"state\">" + state_badge(job.state) + "</p>\n<p>" + progress_bar(job, " id=\"progress\"") +
          "</p>\n";
  body +=
      "<p id=\"message\" role=\"status\" class=\"words\">" + text(job.message, 2000) + "</p>\n</section>\n";
  body += facts({{"Submission", link(site.submission(job.submission), name(job.name, 200))},
                 {"What", text(job.kind, 60)},
                 {"Benchmark", job.benchmark.empty() ? kUnknown : text(job.benchmark, 60)},
                 {"Scenario", job.scenario.empty() ? kUnknown : text(job.scenario, 60)},
                 {"Asked for", job.created.empty() ? kUnknown : text(job.created, 60)},
                 {"Began", job.started.empty() ? kUnknown : text(job.started, 60)},
                 {"Ended", job.ended.empty() ? kUnknown : text(job.ended, 60)}});
  const char* refresh = live ? "<noscript><meta http-equiv=\"refresh\" content=\"5\"/></noscript>\n" : "";
  return page(site, Here::elsewhere, fmt::format("Job {}", job.id), body, refresh);
}

}  // namespace tinymlperf::board
