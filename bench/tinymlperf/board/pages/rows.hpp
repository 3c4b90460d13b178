// The rows of a table: all of them on its own page, the first ones on the front page.
#pragma once

#include <span>
#include <string>
#include <tinymlperf/board/pages/badges.hpp>

namespace tinymlperf::board {

namespace detail {

inline std::string entry_cell(const Site& site, const Row& r) {
  std::string out = "<th scope=\"row\" class=\"entry\">" + link(site.submission(r.submission), name(r.name));
  if (!r.author.empty()) out += "<span class=\"by\">by " + name(r.author, 40);
  if (!r.author.empty() && !r.team.empty()) out += ", " + name(r.team, 40);
  if (!r.author.empty()) out += "</span>";
  if (!r.note.empty()) out += "<span class=\"note\">" + text(r.note, 120) + "</span>";
  if (r.rank == 0 && !r.not_ranked.empty())
    out += "<span class=\"note\">Not ranked: " + text(r.not_ranked, 200) + "</span>";
  return out + "</th>";
}

// The head of a scenario: its measure and unit, with the name below. Seconds have their unit beside each
// value.
inline std::string measure_head(const std::string& scenario, const std::string& measure) {
  const std::string unit = unit_of(measure);
  const std::string what = unit.empty() ? measure : measure.substr(0, measure.rfind('('));
  return text(what, 60) + "<small>" + (unit.empty() || unit == "s" ? "" : text(unit, 40) + ", ") +
         words(scenario) + "</small>";
}

inline std::vector<Column> columns_of(const Table& table, bool brief) {
  std::vector<Column> columns{{"Rank", "number", true, "ascending"},
                              {"Submission", "", true},
                              {"Score <small>95 % interval</small>", "", true}};
  if (table.kernels) {
    for (const char* head : {"Ops right", "fast<sub>1</sub>", "fast<sub>1.5</sub>", "fast<sub>2</sub>"})
      columns.push_back({head, "number", true});
  } else {
    columns.push_back({text(table.quality_metric, 40), "number", true});
    for (const auto& [scenario, measure] : table.scenarios)
      columns.push_back({measure_head(scenario, measure), "number", true});
    columns.push_back({"Model", "number", true});
  }
  if (brief) return columns.push_back({"Checked"}), columns;
  columns.push_back({"Memory", "number", true});
  columns.push_back({"Checked", "", true});
  columns.push_back({"Date", "", true});
  return columns;
}

// The date of "2026-01-31T12:00:00Z".
inline std::string day_of(const std::string& date) { return text(date.substr(0, date.find('T')), 20); }

inline std::string score_of(const Interval& i) {
  return fmt::format("<b>{:.1f}</b><small class=\"under\">[{:.1f}, {:.1f}]</small>", i.estimate, i.low,
                     i.high);
}

// The cells of a table of kernels: right ops, fast_1, fast_1.5, fast_2.
inline std::string kernel_cells(const std::optional<KernelCount>& k) {
  const std::string unknown = cell(kUnknown, "number");
  if (!k) return unknown + unknown + unknown + unknown;
  std::string out = cell(fmt::format("{} of {}", k->right, k->ops), "number", static_cast<double>(k->right));
  for (size_t i = 0; i < 3; ++i)
    out += k->fast ? cell(show_share((*k->fast)[i]), "number", (*k->fast)[i]) : unknown;
  return out;
}

// The cells of a table of models: quality, each scenario, bytes of the model.
inline std::string model_cells(const Table& table, const Row& r) {
  std::string out = r.quality
                        ? cell(show_quality(*r.quality, table.quality_metric), "number", r.quality->estimate)
                        : cell(kUnknown, "number");
  for (size_t i = 0; i < table.scenarios.size(); ++i) {
    const Cell* found = nullptr;
    for (const Cell& c : r.cells)
      if (c.scenario == table.scenarios[i].first) found = &c;
    out += found ? cell(show_value(found->value, table.scenarios[i].second) + show_ratio(found->ratio),
                        "number", found->value)
                 : cell(kUnknown, "number");
  }
  return out + cell(show_size(r.model_bytes), "number", static_cast<double>(r.model_bytes));
}

inline std::string row_of(const Site& site, const Table& table, const Row& r, const char* band,
                          const ScoreScale& scale, bool brief) {
  // Entries without a rank sort behind all others.
  std::string out = fmt::format("<tr class=\"{}\">", band);
  out += cell(show_rank(r, table.rows), "rank", r.rank == 0 ? 1e18 : static_cast<double>(r.rank)) +
         entry_cell(site, r);
  out += r.score ? cell(score_of(*r.score) + scale.draw(*r.score), "score", r.score->estimate)
                 : cell(kUnknown, "score");
  out += table.kernels ? kernel_cells(r.kernels) : model_cells(table, r);
  if (!brief) out += cell(show_size(r.peak_bytes), "number", static_cast<double>(r.peak_bytes));
  out += cell(level_badge(r.level) + "<span class=\"under\">" + tier_badge(r.tier) +
                  (r.on_front ? " on the front" : "") + "</span>",
              "", static_cast<double>(r.level));
  if (!brief) out += cell("<span class=\"date\">" + day_of(r.date) + "</span>");
  return out + "</tr>\n";
}

}  // namespace detail

// The rows [first, first + count) of a table. `brief`: only the columns that fit the front page.
inline std::string table_rows(const Site& site, const Table& table, const std::string& id,
                              const std::string& caption, size_t first, size_t count, bool brief) {
  std::string out = open_table(id, caption, detail::columns_of(table, brief));
  const auto bands = rank_bands(table.rows);
  const ScoreScale scale(table.rows);
  for (size_t i = first; i < std::min(table.rows.size(), first + count); ++i)
    out += detail::row_of(site, table, table.rows[i], bands[i], scale, brief);
  return out + close_table();
}

}  // namespace tinymlperf::board
