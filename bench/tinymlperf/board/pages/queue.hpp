// The queue: running, waiting and recently ended jobs.
#pragma once

#include <string>
#include <tinymlperf/board/pages/table.hpp>

namespace tinymlperf::board {

inline std::string queue_page(const Site& site, const std::vector<Job>& jobs, const Slice& slice) {
  std::string body =
      "<h1>Queue</h1>\n<p class=\"lead\">One match runs at a time, so that nothing disturbs what is "
      "measured.</p>\n";
  if (jobs.empty()) return page(site, Here::queue, "Queue", body + "<p>The judge has nothing to do.</p>\n");
  const auto waiting =
      std::count_if(jobs.begin(), jobs.end(), [](const Job& j) { return j.state == JobState::queued; });
  const auto first = jobs.begin() + static_cast<std::ptrdiff_t>(slice.first);
  body += jobs_table(site, "jobs", fmt::format("{} jobs, {} of them waiting", jobs.size(), waiting),
                     {first, first + static_cast<std::ptrdiff_t>(slice.count)}) +
          slice_links(site.queue(), slice);
  return page(site, Here::queue, "Queue", body);
}

}  // namespace tinymlperf::board
