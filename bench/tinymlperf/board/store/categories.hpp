// The categories of the front page, each with its best entry. They are not added up, and each says how it is
// decided.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tinymlperf/board/store/views.hpp>
#include <tinytorch/benchmarking/document.hpp>
#include <vector>

namespace tinymlperf::board {

namespace detail {

// A leader of a table, and the value that is shown for it.
struct Lead {
  const Row* row;
  std::string value;
};

// The ranked rows of a table of models; empty for kernels, which have neither a quality nor a size.
inline std::vector<const Row*> ranked_rows(const Table& t) {
  std::vector<const Row*> rows;
  if (t.kernels) return rows;
  for (const Row& r : t.rows)
    if (r.rank > 0) rows.push_back(&r);
  return rows;
}

inline std::optional<Lead> smallest_memory(const Table& t) {
  const Row* best = nullptr;
  for (const Row* r : ranked_rows(t))
    if (r->peak_bytes > 0 && (!best || r->peak_bytes < best->peak_bytes)) best = r;
  if (!best) return std::nullopt;
  return Lead{best, tinytorch::document::show_bytes(best->peak_bytes)};
}

// The smallest model among those that the most accurate one does not certainly beat.
inline std::optional<Lead> best_for_size(const Table& t) {
  const auto rows = ranked_rows(t);
  double surest = 0;
  for (const Row* r : rows) surest = std::max(surest, r->quality ? r->quality->low : 0);
  const Row* best = nullptr;
  for (const Row* r : rows)
    if (r->quality && r->quality->high >= surest && r->model_bytes > 0 &&
        (!best || r->model_bytes < best->model_bytes))
      best = r;
  if (!best) return std::nullopt;
  return Lead{best, fmt::format("{} {:.4g} in {}", t.quality_metric, best->quality->estimate,
                                tinytorch::document::show_bytes(best->model_bytes))};
}

// The fastest in the scenarios of this name, by the lower end of its ratio to the baseline.
inline std::optional<Lead> fastest_in(const Table& t, const std::string& scenario) {
  const Row* best = nullptr;
  const Cell* cell = nullptr;
  for (const Row* r : ranked_rows(t))
    for (const Cell& c : r->cells)
      if (c.scenario == scenario && c.ratio && (!cell || c.ratio->low > cell->ratio->low))
        best = r, cell = &c;
  if (!best) return std::nullopt;
  return Lead{best, fmt::format("{:.3g} times the baseline", cell->ratio->estimate)};
}

// The fastest kernels, by the lower end of the score.
inline std::optional<Lead> fastest_kernels(const Table& t) {
  const Row* best = nullptr;
  for (const Row& r : t.rows)
    if (t.kernels && r.rank > 0 && (!best || r.score->low > best->score->low)) best = &r;
  if (!best) return std::nullopt;
  return Lead{best, fmt::format("{:.3g} times the baseline, {} of {} ops right", best->score->estimate / 100,
                                best->kernels->right, best->kernels->ops)};
}

// Ranks by one number, lower is better: 1 is the best; equal numbers share a rank.
inline std::vector<size_t> places(const std::vector<const Row*>& rows,
                                  const std::function<double(const Row&)>& cost) {
  std::vector<size_t> out;
  for (const Row* r : rows)
    out.push_back(1 + static_cast<size_t>(std::count_if(rows.begin(), rows.end(), [&](const Row* other) {
                    return cost(*other) < cost(*r);
                  })));
  return out;
}

// The entry whose worst rank in speed, quality and size is best; the better rank of the table decides a tie.
inline std::optional<Lead> all_round(const Table& t) {
  const auto rows = ranked_rows(t);
  if (rows.empty()) return std::nullopt;
  const auto speed = places(rows, [](const Row& r) { return -r.score->estimate; });
  const auto quality = places(rows, [](const Row& r) { return r.quality ? -r.quality->estimate : 0; });
  const auto size = places(rows, [](const Row& r) { return static_cast<double>(r.model_bytes); });
  size_t best = 0, worst_of_best = rows.size() + 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t worst = std::max({speed[i], quality[i], size[i]});
    if (worst < worst_of_best) best = i, worst_of_best = worst;
  }
  return Lead{rows[best], fmt::format("place {} in speed, {} in {}, {} in size, of {}", speed[best],
                                      quality[best], t.quality_metric, size[best], rows.size())};
}

struct CategoryRule {
  const char *title, *explanation;
  std::function<std::optional<Lead>(const Table&)> lead;
};

inline std::vector<CategoryRule> category_rules() {
  return {
      {"fastest trainer", "the shortest time in which a model reaches the target quality",
       [](const Table& t) { return fastest_in(t, "time_to_quality"); }},
      {"smallest memory", "the lowest measured peak of memory among the ranked", smallest_memory},
      {"best accuracy for size",
       "the smallest model among those whose quality interval reaches the surest quality of the table",
       best_for_size},
      {"fastest generation", "the highest rate of generated tokens against the baseline",
       [](const Table& t) { return fastest_in(t, "generation"); }},
      {"fastest kernels", "the highest score of all ops together that it and the library have right",
       fastest_kernels},
      {"all-round", "the best worst place in speed, quality and size; no score is formed of them", all_round},
  };
}

}  // namespace detail

// Each category once for every table that has a leader in it; once without a leader if no table has one.
inline std::vector<Category> categories(const std::vector<Table>& tables) {
  std::vector<Category> out;
  for (const detail::CategoryRule& rule : detail::category_rules()) {
    bool led = false;
    for (const Table& t : tables) {
      // Entries with code of their own lead tables, but no category; kernels are nothing but code.
      if (!t.kernels && t.key.tier != "T0") continue;
      const auto lead = rule.lead(t);
      if (!lead) continue;
      out.push_back({rule.title, rule.explanation, t.key, *lead->row, lead->value});
      led = true;
    }
    if (!led) out.push_back({rule.title, rule.explanation, {}, {}, ""});
  }
  return out;
}

}  // namespace tinymlperf::board
