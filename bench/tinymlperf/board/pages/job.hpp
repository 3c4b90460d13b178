// The page of one job. It is updated by events with script, and by reloading without.
#pragma once

#include <string>
#include <tinymlperf/board/pages/badges.hpp>

namespace tinymlperf::board {

namespace detail {

// A form that asks for one thing to be done to a job.
inline std::string job_form(const Job& job, const char* address, const char* summary, const char* text,
                            const char* button) {
  return fmt::format(
      R"(<details><summary>{2}</summary>
<form method="post" action="/{1}" class="card">
<p>{3}</p>
<input type="hidden" name="job" value="{0}"/>
<p><label for="token">Your token</label> <input id="token" name="token" type="password" maxlength="200" required="required" autocomplete="off"/></p>
<p><button type="submit">{4}</button></p>
</form>
</details>
)",
      job.id, address, summary, text, button);
}

}  // namespace detail

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
                 {"Waits", job.state == JobState::queued ? text(wait_text(job), 100) : kUnknown},
                 {"Began", job.started.empty() ? kUnknown : text(job.started, 60)},
                 {"Ended", job.ended.empty() ? kUnknown : text(job.ended, 60)}});
  if (!site.exported && job.state == JobState::queued)
    body += detail::job_form(job, "cancel", "Cancel",
                             "Whose job this is may cancel it while it waits; so may an instructor.",
                             "Cancel the job");
  if (!site.exported && (job.state == JobState::failed || job.state == JobState::cancelled))
    body += detail::job_form(job, "retry", "Let it wait again",
                             "An instructor may let a job that failed or was cancelled wait again.",
                             "Put it into the queue");
  const char* refresh = live ? "<noscript><meta http-equiv=\"refresh\" content=\"5\"/></noscript>\n" : "";
  return page(site, Here::elsewhere, fmt::format("Job {}", job.id), body, refresh);
}

}  // namespace tinymlperf::board
