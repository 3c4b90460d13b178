// The front page: the leaders, the first rows of every table, and the current jobs.
#pragma once

#include <string>
#include <tinymlperf/board/pages/rows.hpp>

namespace tinymlperf::board {

namespace detail {

inline std::string category_card(const Site& site, const Category& c) {
  std::string out = "<li class=\"card\"><h3>" + text(c.title, 60) + "</h3>\n";
  if (c.leader) {
    out += "<p class=\"value\">" + text(c.value, 80) + "</p>\n<p class=\"leader\">" +
           link(site.submission(c.leader->submission), name(c.leader->name, 40));
    if (!c.leader->author.empty())
      out += " <span class=\"soft\">by " + name(c.leader->author, 40) + "</span>";
    out += " " + level_badge(c.leader->level) + "</p>\n";
  } else {
    out += "<p class=\"value soft\">nobody yet</p>\n";
  }
  out += "<p class=\"why\">" + text(c.explanation, 200);
  // Without data no table is known.
  if (c.key != TableKey{}) out += "<br/>" + link(site.table(c.key), table_title(c.key));
  return out + "</p></li>\n";
}

}  // namespace detail

inline constexpr size_t kFirstRows = 5;

inline std::string front_page(const Site& site, const FrontPage& front) {
  std::string body =
      "<h1>TinyMLPerf leaderboard</h1>\n<p class=\"lead\">Small models, measured against a baseline that "
      "takes turns with them on the "
      "same machine. A score of 100 is as good as the baseline. Entries whose 95 % intervals overlap share a "
      "rank.</p>\n";
  body += "<section aria-labelledby=\"leaders\"><h2 id=\"leaders\">Who leads</h2>\n";
  if (front.categories.empty()) {
    body += "<p>There are no categories yet.</p>\n";
  } else {
    body += "<ul class=\"cards\">\n";
    for (const Category& c : front.categories) body += detail::category_card(site, c);
    body += "</ul>\n";
  }
  body += "</section>\n<section aria-labelledby=\"tables\"><h2 id=\"tables\">Tables</h2>\n";
  if (front.tables.empty()) body += "<p>Nothing has been measured yet.</p>\n";
  for (size_t i = 0; i < front.tables.size(); ++i) {
    const Table& t = front.tables[i];
    body += "<article>\n<h3>" + link(site.table(t.key), table_title(t.key)) + "</h3>\n<p class=\"soft\">" +
            text(t.task, 300) + "</p>\n";
    body += t.rows.empty() ? "<p>No submission yet.</p>\n"
                           : table_rows(site, t, fmt::format("table-{}", i),
                                        "First entries of " + table_title(t.key), 0, kFirstRows, true);
    body += "</article>\n";
  }
  body += "</section>\n<section aria-labelledby=\"now\"><h2 id=\"now\">Running and waiting</h2>\n";
  body += front.queue.empty() ? "<p>The judge has nothing to do.</p>\n"
                              : jobs_table(site, "queue", "Jobs of the judge", front.queue);
  return page(site, Here::front, "Leaderboard", body + "</section>\n");
}

}  // namespace tinymlperf::board
