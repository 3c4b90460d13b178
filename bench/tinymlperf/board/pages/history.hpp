// The history of a table: its leader at each time.
#pragma once

#include <string>
#include <tinymlperf/board/pages/table.hpp>

namespace tinymlperf::board {

inline std::string history_page(const Site& site, const Table& table,
                                const std::vector<HistoryPoint>& history) {
  std::string body = table_head(site, table, "history");
  const std::string title = table_plain_title(table.key) + ": history";
  if (history.empty())
    return page(site, Here::elsewhere, title, body + "<p>Nobody has led this table yet.</p>\n");
  svg::Series line{.label = "best score"};
  for (size_t i = 0; i < history.size(); ++i) {  // a step: a lead lasts until the next one
    if (i > 0) line.x.push_back(static_cast<double>(i + 1)), line.y.push_back(history[i - 1].score);
    line.x.push_back(static_cast<double>(i + 1)), line.y.push_back(history[i].score);
  }
  line.x.push_back(static_cast<double>(history.size()) + 1), line.y.push_back(history.back().score);
  body +=
      "<figure class=\"chart\">" +
      svg::line_chart("Best score, lead after lead", {.title = "lead, in the order of time", .whole = true},
                      {.title = "score (baseline = 100)"}, {line}) +
      "<figcaption>Each step is a new leader; the table below says who and when.</figcaption></figure>\n";
  body += open_table("leads", "Leads, newest first",
                     {{"Lead", "number", true, "descending"},
                      {"From", "", true},
                      {"Submission", "", true},
                      {"Score", "number", true}});
  for (size_t i = history.size(); i-- > 0;) {
    const HistoryPoint& p = history[i];
    body += "<tr>" + cell(fmt::format("{}", i + 1), "number", static_cast<double>(i + 1)) +
            cell("<span class=\"date\">" + text(p.date, 40) + "</span>") +
            "<th scope=\"row\" class=\"entry\">" + link(site.submission(p.submission), name(p.name)) +
            "</th>" + cell(show_number(p.score), "number", p.score) + "</tr>\n";
  }
  return page(site, Here::elsewhere, title, body + close_table());
}

}  // namespace tinymlperf::board
