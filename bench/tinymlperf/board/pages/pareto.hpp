// Quality against time: the entries on the Pareto front of quality, time and memory, and its hypervolume.
#pragma once

#include <string>
#include <tinymlperf/board/pages/table.hpp>
#include <tinymlperf/board/store/pareto.hpp>

namespace tinymlperf::board {

namespace detail {

inline const char* memory_text(Memory m) {
  return m == Memory::peak ? "memory (measured at the peak of its runs)"
         : m == Memory::model
             ? "memory (bytes of the model: the peak was not measured of all that are ranked)"
             : "";
}
inline std::string front_text(const Front& f) {
  const std::string memory = memory_text(f.memory);
  return memory.empty() ? "quality and time together; nobody's memory counts, since it is not known of all"
                        : "quality, time and " + memory + " together";
}

inline std::string hypervolume_text(const Table& t) {
  const Front& f = t.front;
  if (!f.hypervolume)
    return "<p>There is no hypervolume: it needs a baseline that is ranked in this table.</p>\n";
  const bool memory = f.memory != Memory::unknown;
  return fmt::format(
      "<p>Hypervolume of the front: <b>{:.4g}</b>, in units of {}{}. It counts from the "
      "reference point on: {} {:.4g} (the table's floor), {:.4g} times the baseline's time{}.</p>\n",
      *f.hypervolume, text(t.quality_metric, 40),
      memory ? ", halvings of time and halvings of memory" : " and halvings of time",
      text(t.quality_metric, 40), t.quality_floor, f.reference_time,
      memory ? fmt::format(", {} ({:.4g} times the baseline's memory)", show_size(f.reference_bytes),
                           kReferenceTimes)
             : "");
}

inline std::string front_row(const Site& site, const Table& t, const Row& r, const std::string& measure) {
  const Cell* c = cell_of(r, t.front.scenario);
  std::string out =
      "<tr><th scope=\"row\" class=\"entry\">" + link(site.submission(r.submission), name(r.name)) + "</th>" +
      cell(show_quality(*r.quality, t.quality_metric), "number", r.quality->estimate) +
      cell(show_value(c->value, measure) + show_ratio(c->ratio), "number", *time_share(r, t.front.scenario));
  if (t.front.memory != Memory::unknown) {
    const int64_t bytes = bytes_of(r, t.front.memory);
    out += cell(show_size(bytes), "number", static_cast<double>(bytes));
  }
  return out + "</tr>\n";
}

inline std::string front_table(const Site& site, const Table& t, const std::string& measure) {
  std::string rows;
  for (const Row& r : t.rows)
    if (r.on_front) rows += front_row(site, t, r, measure);
  if (rows.empty()) return "<p>Nobody is on the front: nobody is ranked.</p>\n";
  std::vector<Column> columns{{"Submission", "", true},
                              {text(t.quality_metric, 40), "number", true},
                              {text(measure, 60) + "<small>times the baseline</small>", "number", true}};
  if (t.front.memory != Memory::unknown)
    columns.push_back({t.front.memory == Memory::peak ? "Memory" : "Model", "number", true});
  return open_table("front", "Submissions on the front", columns) + rows + close_table() +
         hypervolume_text(t);
}

}  // namespace detail

inline std::string pareto_page(const Site& site, const Table& table) {
  std::string body = table_head(site, table, "pareto");
  std::vector<svg::Point> points;
  for (const Row& r : table.rows)
    if (const auto time = time_share(r, table.front.scenario); time && r.quality)
      points.push_back({clean(r.name, 24), *time, r.quality->estimate, r.on_front});
  if (points.empty()) {
    body += "<p>No submission has both a quality and a time yet.</p>\n";
  } else {
    std::string scenario = clean(table.front.scenario, 40);
    std::ranges::replace(scenario, '_', ' ');
    body += "<figure class=\"chart\">" +
            svg::scatter_chart("Quality against time, the front joined",
                               {.title = "time in " + scenario + ", times the baseline's, logarithmic",
                                .scale = svg::Scale::kLog},
                               {.title = clean(table.quality_metric, 40)}, points) +
            "<figcaption>A point is a submission; less time is to the left. Those on the front are joined: "
            "no other "
            "that is ranked is better in " +
            detail::front_text(table.front) + ".</figcaption></figure>\n" +
            detail::front_table(site, table, timed_scenario(table).second);
  }
  return page(site, Here::elsewhere, table_plain_title(table.key) + ": quality against time", body);
}

}  // namespace tinymlperf::board
