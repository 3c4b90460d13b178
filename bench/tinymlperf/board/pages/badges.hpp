// Parts of several pages: numbers with their interval, badges, ranks, a job's progress, the frame of a table.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tinymlperf/board/pages/html.hpp>
#include <vector>

namespace tinymlperf::board {

// ---- numbers

inline constexpr const char* kUnknown = "<span class=\"soft\">–</span>";

// The unit in the brackets of a name: "s" in "p90 latency (s)".
inline std::string unit_of(std::string_view measure) {
  const size_t open = measure.rfind('('), close = measure.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return "";
  return std::string(measure.substr(open + 1, close - open - 1));
}

inline std::string show_number(double x) {
  if (!std::isfinite(x)) return "not a number";
  if (std::abs(x) < 1e4 || std::abs(x) >= 1e12) return fmt::format("{:.4g}", x);
  std::string digits = fmt::format("{:.0f}", x);
  for (size_t at = digits.size(); at > (x < 0 ? 4 : 3); digits.insert(at, "\xE2\x80\xAF"))
    at -= 3;  // narrow blanks
  return digits;
}

// The unit is in the head of the column; seconds choose their own.
inline std::string show_value(double value, std::string_view measure) {
  return std::isfinite(value) && unit_of(measure) == "s" ? document::show_seconds(value) : show_number(value);
}

inline std::string show_interval(const Interval& i, int digits = 1) {
  return fmt::format("<span class=\"number\"><b>{0:.{3}f}</b> <small>[{1:.{3}f}, {2:.{3}f}]</small></span>",
                     i.estimate, i.low, i.high, digits);
}

// Accuracy as per cent, other qualities as they are.
inline std::string show_quality(const Interval& q, std::string_view metric) {
  const bool percent = metric == "accuracy";
  const double scale = percent ? 100 : 1;
  return fmt::format("<b>{0:.{3}f}{4}</b><small class=\"under\">[{1:.{3}f}, {2:.{3}f}]</small>",
                     scale * q.estimate, scale * q.low, scale * q.high, percent ? 2 : 4, percent ? " %" : "");
}

// Seconds on an axis, in the unit that makes the largest about 1 to 1000.
struct AxisUnit {
  double factor = 1;
  std::string title;
};
inline AxisUnit axis_unit(const std::vector<double>& values, const std::string& measure) {
  double largest = 0;
  for (const double v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  if (unit_of(measure) != "s" || largest >= 1 || largest == 0) return {1, clean(measure, 60)};
  const bool milli = largest >= 1e-3;
  return {milli ? 1e3 : 1e6, clean(measure.substr(0, measure.rfind('(')), 60) + (milli ? "(ms)" : "(us)")};
}

// A share as per cent.
inline std::string show_share(double share) {
  return std::isfinite(share) ? fmt::format("{:.0f} %", 100 * share) : "not a number";
}

// "single_stream" as words.
inline std::string words(std::string_view identifier, size_t most = 40) {
  std::string out = text(identifier, most);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

inline std::string show_size(int64_t bytes) {
  return bytes > 0 ? document::show_bytes(bytes) : std::string(kUnknown);
}

inline std::string show_ratio(const std::optional<Interval>& ratio) {
  if (!ratio) return "";
  return fmt::format("<small class=\"under\">{:.2f}× <span class=\"soft\">[{:.2f}, {:.2f}]</span></small>",
                     ratio->estimate, ratio->low, ratio->high);
}

// ---- badges

inline std::string level_badge(Level level) {
  switch (level) {
    case Level::audited:
      return "<span class=\"badge gold\">audited</span>";
    case Level::rerun:
      return "<span class=\"badge blue\">re-run</span>";
    default:
      return "<span class=\"badge\">self-reported</span>";
  }
}

inline std::string tier_badge(const std::string& tier) {
  const char* meaning = tier == "T0"   ? "data only"
                        : tier == "T1" ? "device code only"
                        : tier == "T2" ? "host plugin"
                                       : "";
  if (!*meaning) return "<span class=\"badge\">" + text(tier, 12) + "</span>";
  return "<span class=\"badge\">" + tier + "<span class=\"hidden\">, " + meaning + "</span></span>";
}

inline std::string state_badge(JobState state) {
  const char* css = state == JobState::done      ? " green"
                    : state == JobState::failed  ? " red"
                    : state == JobState::running ? " blue"
                                                 : "";
  return fmt::format("<span class=\"badge{}\">{}</span>", css, state_name(state));
}

inline double share_of(const Job& job) {
  return std::isfinite(job.progress) ? std::clamp(job.progress, 0.0, 1.0) : 0.0;
}

inline std::string progress_bar(const Job& job, std::string_view more = "") {
  return fmt::format(
      "<progress max=\"1\" value=\"{0:.3f}\" aria-label=\"progress of job {2}\"{3}>{1:.0f} %</progress>",
      share_of(job), 100 * share_of(job), job.id, more);
}

// ---- ranks

inline std::string show_rank(const Row& row, const std::vector<Row>& rows) {
  if (row.rank == 0) return "<span class=\"soft\">–<span class=\"hidden\">not ranked</span></span>";
  const auto sharing =
      std::count_if(rows.begin(), rows.end(), [&](const Row& r) { return r.rank == row.rank; });
  return fmt::format("{}{}", row.rank,
                     sharing > 1 ? "<abbr title=\"shared: the intervals overlap\">=</abbr>" : "");
}

// Adjacent rows of one rank have one tint: entries that cannot be told apart.
inline std::vector<const char*> rank_bands(const std::vector<Row>& rows) {
  std::vector<const char*> bands;
  bool tinted = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i].rank != rows[i - 1].rank) tinted = !tinted;
    bands.push_back(rows[i].rank == 0 ? "unranked" : tinted ? "band" : "plain");
  }
  return bands;
}

// The scores of a table on one logarithmic scale: the interval, the estimate, and the baseline's 100.
class ScoreScale {
 public:
  explicit ScoreScale(const std::vector<Row>& rows) {
    for (const Row& r : rows) {
      if (!r.score) continue;
      for (const double v : {r.score->low, r.score->high})
        if (drawable(v)) low_ = std::min(low_, v), high_ = std::max(high_, v);
    }
    low_ /= 1.02, high_ *= 1.02;
  }
  std::string draw(const Interval& i) const {
    if (!drawable(i.low) || !drawable(i.high) || !drawable(i.estimate)) return "";
    return fmt::format(
        "<svg class=\"interval\" viewBox=\"0 0 120 16\" width=\"120\" height=\"16\" aria-hidden=\"true\">"
        "<line class=\"even\" x1=\"{0:.1f}\" y1=\"0\" x2=\"{0:.1f}\" y2=\"16\"/>"
        "<line class=\"span\" x1=\"{1:.1f}\" y1=\"8\" x2=\"{2:.1f}\" y2=\"8\"/>"
        "<circle class=\"dot\" cx=\"{3:.1f}\" cy=\"8\" r=\"4\"/></svg>",
        at(100), at(i.low), std::max(at(i.high), at(i.low) + 1), at(i.estimate));
  }

 private:
  static bool drawable(double v) { return std::isfinite(v) && v > 0; }
  double at(double v) const { return 6 + 108 * std::log(v / low_) / std::log(high_ / low_); }
  double low_ = 100, high_ = 100;
};

// ---- frames of tables and lists

struct Column {
  std::string html;         // content of the head
  const char* css = "";     // "number" or ""
  bool sortable = false;    // with script
  const char* sorted = "";  // "ascending" or "descending": how the rows stand
};

// A wide table scrolls by itself, so that a narrow page does not.
inline std::string open_table(const std::string& id, const std::string& caption,
                              const std::vector<Column>& columns) {
  std::string out = fmt::format(
      "<div class=\"scroll\" role=\"region\" aria-labelledby=\"{0}\" tabindex=\"0\">\n<table>\n<caption "
      "id=\"{0}\">{1}"
      "</caption>\n<thead><tr>",
      id, caption);
  for (const Column& c : columns) {
    out += "<th scope=\"col\"";
    if (*c.css) out += fmt::format(" class=\"{}\"", c.css);
    if (c.sortable) out += " data-sort=\"yes\"";
    if (*c.sorted) out += fmt::format(" aria-sort=\"{}\"", c.sorted);
    out += ">" + c.html + "</th>";
  }
  return out + "</tr></thead>\n<tbody>\n";
}
inline std::string close_table() { return "</tbody>\n</table>\n</div>\n"; }

inline std::string cell(const std::string& html, const char* css = "", std::optional<double> sort_by = {}) {
  std::string out = "<td";
  if (*css) out += fmt::format(" class=\"{}\"", css);
  if (sort_by && std::isfinite(*sort_by)) out += fmt::format(" data-value=\"{:.9g}\"", *sort_by);
  return out + ">" + html + "</td>";
}

// Terms with their values; the values are HTML.
inline std::string facts(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [term, html] : items) out += "<div><dt>" + term + "</dt><dd>" + html + "</dd></div>\n";
  return out + "</dl>\n";
}

inline bool ended(const Job& job) { return has_ended(job.state); }

// `live`: the script follows the jobs that have not ended.
inline std::string jobs_table(const Site& site, const std::string& id, const std::string& caption,
                              const std::vector<Job>& jobs, bool live = false) {
  std::string out = open_table(
      id, caption, {{"Job"}, {"Submission"}, {"What"}, {"State"}, {"Progress"}, {"Message"}, {"Asked for"}});
  for (const Job& j : jobs) {
    out += live && !ended(j) ? fmt::format("<tr data-events=\"/jobs/{}/events\">", j.id) : "<tr>";
    out += "<th scope=\"row\">" + link(site.job(j.id), fmt::format("{}", j.id)) + "</th>";
    out += cell(link(site.submission(j.submission), name(j.name)));
    out += cell(text(j.kind, 40) + " <span class=\"soft\">" + text(j.benchmark, 40) + ", " +
                words(j.scenario) + "</span>");
    out += cell(state_badge(j.state)) + cell(progress_bar(j)) + cell(text(j.message, 100), "words") +
           cell(text(j.created, 40));
    out += "</tr>\n";
  }
  return out + close_table();
}

}  // namespace tinymlperf::board
