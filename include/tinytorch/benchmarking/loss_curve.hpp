// The loss of a training run over its steps, drawn from its log (JSON lines with "step", "train_loss" and
// "validation_loss", as LanguageModelTrainer writes them).
#pragma once

#include <map>
#include <span>
#include <tinytorch/benchmarking/svg.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/io/text.hpp>

namespace tinytorch::inline TT_BUILD::benchmarking {

// A whole SVG document. A step that was logged twice, by a run that was resumed from before it, counts as
// logged last; a last line that a crash cut off is left out. `floor`: the least loss that is possible; 0: unknown.
inline std::string loss_curve(const std::string& title, const std::vector<std::string>& log, double floor = 0,
                              TT_LOC) {
  std::map<double, double> train, validation;
  for (size_t i = 0; i < log.size(); ++i) {
    if (log[i].empty() || (i + 1 == log.size() && log[i].back() != '}')) continue;
    const Json line = parse_json(std::as_bytes(std::span(log[i])),
                                 "line " + std::to_string(i + 1) + " of the log", {}, loc);
    const Json* const step = line.find("step");
    const auto keep = [&](const char* name, std::map<double, double>& points) {
      const Json* const loss = line.find(name);
      if (step && step->number() && loss && loss->number())
        points[step->number()->real] = loss->number()->real;
    };
    keep("train_loss", train), keep("validation_loss", validation);
  }
  const auto series = [](const char* label, const std::map<double, double>& points) {
    svg::Series s{label};
    for (const auto& [x, y] : points) s.x.push_back(x), s.y.push_back(y);
    return s;
  };
  std::vector<svg::Series> all{series("training", train), series("validation", validation)};
  if (floor > 0 && !train.empty()) {
    all.push_back({"least possible", {train.begin()->first, train.rbegin()->first}, {floor, floor}});
  }
  std::string out =
      svg::line_chart(title, {.title = "step", .whole = true}, {.title = "loss (nats per token)"}, all);
  return out.insert(out.find('>') + 1, "<style>" + svg::chart_style() + "</style>");
}

inline void write_loss_curve(const std::string& path, const std::string& title, const std::string& log_path,
                             double floor = 0, TT_LOC) {
  write_file(path, loss_curve(title, load_lines(log_path, loc), floor, loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
