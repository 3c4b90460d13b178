// The report of a race: a table for the terminal, and one self-contained HTML page with inline charts.
//
// The page loads nothing from elsewhere, and every text from an entry is escaped. Both reports list the
// conditions of the measurement: numbers of samples, quality floor, baseline, seeds and machine.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tinymlperf/judge/results/match_table.hpp>
#include <tinymlperf/race/race.hpp>
#include <tinytorch/benchmarking/document.hpp>
#include <vector>

namespace tinymlperf {

namespace svg = tinytorch::svg;

// ---- numbers as text

using tinytorch::document::Row;
using tinytorch::document::Rows;
using tinytorch::document::show_bytes;
using tinytorch::document::show_seconds;

inline std::string show_rank(const Result& r, const std::vector<Result>& all) {
  if (r.rank == 0) return "-";
  int sharing = 0;
  for (const Result& other : all) sharing += other.rank == r.rank;
  return fmt::format("{}{}", r.rank, sharing > 1 ? "=" : "");
}

inline std::string show_score(const Interval& i) {
  return fmt::format("{:.1f} [{:.1f}, {:.1f}]", i.estimate, i.low, i.high);
}

inline std::string show_accuracy(const Interval& i) {
  return fmt::format("{:.2f} % [{:.2f}, {:.2f}]", 100 * i.estimate, 100 * i.low, 100 * i.high);
}

inline std::string show_known_bytes(int64_t n) { return n ? show_bytes(n) : "-"; }

// ---- the table

inline Rows table_rows(const Race& race) {
  Rows rows{{"rank", "entry", "score [95 %]", "accuracy [95 %]", "p90", "per second", "parameters", "file",
             "peak", "efficiency"}};
  for (const Result& r : race.results) {
    const judge::ContenderRecord& c = race.matches.single_stream.contenders.at(r.index);
    const int64_t parameters = race.entries.at(r.index).parameters;
    rows.push_back({show_rank(r, race.results), c.name, show_score(r.score), show_accuracy(r.accuracy),
                    show_seconds(r.p90), fmt::format("{:.0f}", r.throughput),
                    parameters ? fmt::format("{}", parameters) : "-", show_known_bytes(c.model_bytes),
                    show_known_bytes(c.peak_bytes),
                    r.efficiency ? fmt::format("{:.1f}", *r.efficiency) : "-"});
  }
  return rows;
}

// The conditions of the measurement, one line each, for the terminal and for the page.
inline std::vector<std::string> conditions(const Race& race) {
  const judge::RunDocument &one = race.matches.single_stream, &all = race.matches.offline;
  const size_t blocks = one.contenders.empty() ? 0 : one.contenders[0].turns.size() / 2;
  const std::string training =
      race.training_samples == 0
          ? "no model was trained in this race"
          : fmt::format("trained on {} (seed {}), validated on {} others (seed {})", race.training_samples,
                        race.training_seed, race.validation_samples, race.validation_seed);
  std::vector<std::string> lines{
      fmt::format("Accuracy: {} + {} hidden samples, seeds {} and {} (chosen when the race started); {}.",
                  one.hidden_samples, all.hidden_samples, one.seed, all.seed, training),
      "Judge: each entry answers from its own sandboxed process. The judge grades the same answers that it "
      "times.",
      fmt::format(
          "Score: 100 x the geometric mean of two ratios, how many times better than {} (= 100) an entry is "
          "in the p90 latency of one sample and in samples per second.",
          race.baseline),
      fmt::format("Floor: the lower bound of the accuracy must reach {:.1f} %. An entry below it is shown "
                  "but not ranked.",
                  100 * race.floor),
      fmt::format("Intervals: 95 %, from {} blocks in random order, each compared with the baseline's block. "
                  "Entries share a rank (=) if a comparison block by block shows no difference.",
                  blocks),
      "Efficiency: the ratio of latencies to the power 1/2 times the ratios of peak bytes and of file bytes "
      "to "
      "the power 1/4 each (baseline = 100). Peak counts weights, input and activations of one sample.",
  };
  lines.insert(lines.end(), race.notes.begin(), race.notes.end());
  return lines;
}

// Says for an incomplete race what failed and what to do, in one line each.
inline std::vector<std::string> failures(const Race& race) {
  std::vector<std::string> lines;
  for (const Missing& m : race.missing) lines.push_back(fmt::format("{} failed: {}.", m.what, m.reason));
  lines.push_back(
      "Therefore no entry is ranked; each match that was played has its own table. Fix the cause and run the "
      "same command again. With --no-train, and --entries for the folder of the trained models, it starts "
      "with the matches.");
  return lines;
}

inline std::string text_table(const Race& race) {
  std::string out;
  if (race.missing.empty()) {
    out = tinytorch::document::text_table(table_rows(race), 1);
    for (const std::string& line : conditions(race)) out += line + '\n';
  } else {
    for (const judge::RunDocument* match : played(race.matches)) out += judge::match_text(*match) + '\n';
    for (const std::string& line : failures(race)) out += line + '\n';
  }
  for (const RefusedEntry& r : race.refused) out += fmt::format("refused  {}: {}\n", r.path, r.reason);
  return out;
}

// ---- the page

namespace detail {

inline std::string ranking_chart(const Race& race) {
  std::vector<svg::Bar> bars;
  for (const Result& r : race.results) {
    const std::string place = r.rank ? "rank " + show_rank(r, race.results) : "below the floor, not ranked";
    bars.push_back({race.entries[r.index].name, r.score.estimate, r.score.low, r.score.high,
                    fmt::format("{:.1f}, {}", r.score.estimate, place), r.rank == 0});
  }
  return svg::bar_chart(
      "Score with 95 % interval",
      {.title = fmt::format("score ({} = 100, logarithmic)", race.baseline), .scale = svg::Scale::kLog}, bars,
      100.0);
}

inline std::string pareto_chart(const Race& race) {
  std::vector<svg::Point> points;
  for (const Result& r : race.results)
    points.push_back({race.entries[r.index].name, 1e3 * r.p90, 100 * r.accuracy.estimate, r.on_front});
  return svg::scatter_chart(
      "Accuracy against latency, with the Pareto front",
      {.title = "latency p90 of one sample (ms, logarithmic)", .scale = svg::Scale::kLog},
      {.title = "accuracy on the hidden set (%)"}, points);
}

inline std::string training_charts(const Race& race) {
  std::vector<svg::Series> accuracy, loss;
  for (const TrainingCurve& c : race.training) {
    std::vector<double> percent;
    for (const double a : c.validation) percent.push_back(100 * a);
    accuracy.push_back({c.name, c.epoch, percent});
    loss.push_back({c.name, c.epoch, c.loss});
  }
  if (accuracy.empty()) return "<p>No model was trained in this race.</p>\n";
  return "<figure>" +
         svg::line_chart("Validation accuracy", {.title = "epoch", .whole = true}, {.title = "accuracy (%)"},
                         accuracy) +
         "</figure>\n<figure>" +
         svg::line_chart("Training loss", {.title = "epoch", .whole = true},
                         {.title = "cross-entropy (nats, logarithmic)", .scale = svg::Scale::kLog}, loss) +
         "</figure>\n";
}

inline Rows machine_rows(const Machine& m) {
  return {{"", "machine"},
          {"processor", fmt::format("{}, {} cores, {} threads used", m.cpu, m.cores, m.threads)},
          {"memory", show_bytes(m.memory_bytes)},
          {"system", m.system},
          {"compiler", m.compiler},
          {"flags", m.flags},
          {"library", m.library},
          {"date", m.date}};
}

inline std::string ranking_html(const Race& race) {
  using tinytorch::document::html_list;
  using tinytorch::document::html_table;
  if (race.missing.empty())
    return html_table(table_rows(race)) + html_list(conditions(race)) + "<figure>" + ranking_chart(race) +
           "</figure>\n<figure>" + pareto_chart(race) + "</figure>\n";
  std::string out = "<h2>Incomplete race</h2>\n" + html_list(failures(race));
  for (const judge::RunDocument* match : played(race.matches))
    out +=
        "<h2>" + svg::escape(judge::match_title(*match)) + "</h2>\n" + html_table(judge::match_rows(*match));
  return out;
}

}  // namespace detail

inline std::string html_page(const Race& race) {
  using namespace detail;
  using tinytorch::document::html_list;
  using tinytorch::document::html_table;
  std::string out = ranking_html(race);
  out += "<h2>Training</h2>\n" + training_charts(race);
  if (!race.refused.empty()) {
    std::vector<std::string> lines;
    for (const RefusedEntry& r : race.refused) lines.push_back(r.path + ": " + r.reason);
    out += "<h2>Refused entries</h2>\n" + html_list(lines);
  }
  out += "<h2>Entries</h2>\n<ul>\n";
  for (const EntryInfo& e : race.entries)
    out += fmt::format("<li><b>{}</b>{}{}: {}</li>\n", svg::escape(e.name), e.author.empty() ? "" : " by ",
                       svg::escape(e.author), svg::escape(e.description));
  out += "</ul>\n<h2>Machine</h2>\n" + html_table(machine_rows(race.machine));
  out +=
      "<p>TinyMLPerf is an independent teaching harness. It is not affiliated with MLCommons, whose "
      "trademark MLPerf is.</p>\n";
  return tinytorch::document::html_page("TinyMLPerf race", out, 2);
}

}  // namespace tinymlperf
