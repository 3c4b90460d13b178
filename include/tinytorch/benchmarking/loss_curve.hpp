// A chart of the loss of a training run over its steps, from its log (JSON lines with "step", "train_loss"
// and "validation_loss", as written by LanguageModelTrainer).
#pragma once

#include <map>
#include <tinytorch/benchmarking/svg.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/layers/json_lines.hpp>

namespace tinytorch::inline TT_BUILD::benchmarking {

// A complete SVG document. If a step was logged twice, the last line counts. Unreadable lines are skipped,
// and the title says so. `floor` is the smallest possible loss; 0: unknown.
inline std::string loss_curve(const std::string& title, const LogLines& log, double floor = 0) {
  std::map<double, double> train, validation;
  for (const Json& line : log.objects) {
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
      svg::line_chart(log.unreadable.empty() ? title : title + " (" + log.note() + ")",
                      {.title = "step", .whole = true}, {.title = "loss (nats per token)"}, all);
  return out.insert(out.find('>') + 1, "<style>" + svg::chart_style() + "</style>");
}

inline void write_loss_curve(const std::string& path, const std::string& title, const std::string& log_path,
                             double floor = 0, TT_LOC) {
  write_file(path, loss_curve(title, load_log(log_path, loc), floor), loc);
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
