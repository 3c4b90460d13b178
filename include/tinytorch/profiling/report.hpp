// Reports of a profile: text tables for the terminal, and a self-contained HTML page with charts.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tinytorch/backend/cuda/runtime/launches.hpp>
#include <tinytorch/benchmarking/document.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/profiling/ablation.hpp>
#include <tinytorch/profiling/change.hpp>
#include <tinytorch/profiling/memory.hpp>
#include <tinytorch/profiling/occupancy.hpp>
#include <tinytorch/profiling/roofline_chart.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

// The contents of a report. Empty parts are omitted.
struct Report {
  std::string title;                    // "a training step of gpt2, batch 4 x 64"
  std::vector<std::string> conditions;  // machine, build, commit: one line each
  Profile profile;                      // profile of `steps` steps
  int64_t steps = 1;
  MachinePeaks peaks;
  MemoryProfile memory;
  std::vector<backend::cuda::LaunchRecord> launches;
  int device_major = 0, device_minor = 0;  // compute capability of the GPU, for occupancy
  std::optional<Change> change;            // relative to an earlier profile
  std::optional<Ablation> ablation;
};

namespace detail {

using document::Row;
using document::Rows;
using document::show_bytes;
using document::show_seconds;

struct TitledTable {
  std::string title;
  Rows rows;
};

inline TitledTable time_table(const std::string& title, const ProfileTable& table, const Report& r,
                              size_t most) {
  TitledTable out{
      title, {{"", "pass", "calls", "time", "share", "GFLOP/s", "GB/s", "FLOP/byte", "limit", "of limit"}}};
  const double steps = static_cast<double>(r.steps);
  for (size_t i = 0; i < std::min(table.size(), most); ++i) {
    const ProfileRow& row = table[i];
    const bool has_work = row.cost.flops > 0 || row.cost.bytes > 0;
    out.rows.push_back(
        {row.name.empty() ? "(outside)" : row.name, row.backward ? "backward" : "forward",
         fmt::format("{:.4g}", static_cast<double>(row.calls) / steps), show_seconds(row.seconds / steps),
         fmt::format("{:.1f} %", 100 * row.seconds / r.profile.seconds),
         fmt::format("{:.1f}", row.flops_per_second() * 1e-9),
         fmt::format("{:.1f}", row.bytes_per_second() * 1e-9), fmt::format("{:.2f}", row.intensity()),
         has_work ? name_of(limit_of(row, r.peaks)) : "",
         has_work ? fmt::format("{:.0f} %", 100 * share_of_limit(row, r.peaks)) : ""});
  }
  return out;
}

// The speedup of the whole if an op, forward and backward, becomes twice as fast or takes no time.
inline TitledTable amdahl_table(const Report& r, size_t most) {
  TitledTable out{"possible speedup by a faster op (Amdahl's law)",
                  {{"", "share", "whole, if twice as fast", "whole, if free"}}};
  std::map<std::string, double> seconds;
  for (const ProfileRow& row : by_op(r.profile)) seconds[row.name] += row.seconds;
  std::vector<std::pair<std::string, double>> ops(seconds.begin(), seconds.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (size_t i = 0; i < std::min({ops.size(), most, size_t{5}}); ++i) {
    const double share = ops[i].second / r.profile.seconds;
    out.rows.push_back({ops[i].first, fmt::format("{:.1f} %", 100 * share),
                        fmt::format("{:.2f} times", amdahl_speedup(share, 2)),
                        fmt::format("{:.2f} times", amdahl_bound(share))});
  }
  return out;
}

inline TitledTable change_table(const Change& c, size_t most) {
  TitledTable out{"change since the previous profile", {{"", "before", "after", "difference"}}};
  out.rows.push_back({"a step", show_seconds(c.before), show_seconds(c.after),
                      fmt::format("{:+.1f} us", 1e6 * (c.after - c.before))});
  for (size_t i = 0; i < std::min(c.ops.size(), most); ++i)
    out.rows.push_back({c.ops[i].op, show_seconds(c.ops[i].before), show_seconds(c.ops[i].after),
                        fmt::format("{:+.1f} us", 1e6 * c.ops[i].difference())});
  return out;
}

inline std::string change_line(const Change& c) {
  if (!c.part) return c.part_name.empty() ? "No op took time before." : c.part_name + " took no time before.";
  return fmt::format(
      "Change of {}: {:.2f} times as fast, {:.1f} % of the time before; predicted {:.2f} times for the whole "
      "(at most {:.2f}), measured {:.2f}; the rest changed by {:+.1f} us.",
      c.part_name, c.part->factor, 100 * c.part->share, c.part->predicted, c.part->bound, c.part->measured,
      1e6 * c.part->rest_seconds);
}

inline TitledTable ablation_table(const Ablation& a) {
  TitledTable out{"ablation: each optimization alone, all but each, all together",
                  {{"", "a step", "speedup over none", "95 % from", "to"}}};
  for (const AblationRow& row : a.rows)
    out.rows.push_back({row.name, show_seconds(row.seconds.estimate),
                        fmt::format("{:.2f}", row.speedup.estimate), fmt::format("{:.2f}", row.speedup.low),
                        fmt::format("{:.2f}", row.speedup.high)});
  if (a.rows.size() > 2)
    out.rows.push_back({"the product of each alone", "", fmt::format("{:.2f}", a.expected), "", ""});
  return out;
}

inline TitledTable memory_table(const Report& r, size_t most) {
  TitledTable out{"memory at the peak, by owner", {{"", "bytes", "share"}}};
  for (size_t i = 0; i < std::min(r.memory.at_peak.size(), most); ++i) {
    const MemoryUse& use = r.memory.at_peak[i];
    out.rows.push_back(
        {use.owner, show_bytes(use.bytes),
         fmt::format("{:.1f} %", 100.0 * static_cast<double>(use.bytes) /
                                     static_cast<double>(std::max<int64_t>(r.memory.peak, 1)))});
  }
  return out;
}

inline TitledTable launch_table(const Report& r, size_t most) {
  TitledTable out{
      "kernel launches",
      {{"", "launches", "threads", "registers", "shared", "blocks per SM", "occupancy", "limited by"}}};
  std::vector<backend::cuda::LaunchRecord> launches = r.launches;
  std::stable_sort(launches.begin(), launches.end(),
                   [](auto& a, auto& b) { return a.launches > b.launches; });
  for (size_t i = 0; i < std::min(launches.size(), most); ++i) {
    const auto& l = launches[i];
    std::vector<std::string> row{
        l.kernel, fmt::format("{:.4g}", static_cast<double>(l.launches) / static_cast<double>(r.steps)),
        fmt::format("{}", l.threads), fmt::format("{}", l.registers), show_bytes(l.shared_bytes)};
    if (l.registers > 0 && r.device_major > 0) {
      const Occupancy o = occupancy_of({l.threads, l.registers, static_cast<int>(l.shared_bytes)},
                                       limits_of(r.device_major, r.device_minor));
      row.insert(row.end(), {fmt::format("{}", o.blocks), fmt::format("{:.0f} %", 100 * o.share), o.limit});
    } else {
      row.insert(row.end(), 3, "");
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

inline std::vector<std::string> summary(const Report& r) {
  const double steps = static_cast<double>(r.steps), in_ops = r.profile.op_seconds();
  const Cost cost = r.profile.cost();
  std::vector<std::string> lines{
      fmt::format("A step: {}, of which ops {} ({:.1f} %).", show_seconds(r.profile.seconds / steps),
                  show_seconds(in_ops / steps), 100 * in_ops / r.profile.seconds),
      fmt::format("Work: {:.4g} GFLOP and {} moved a step; {:.1f} GFLOP/s, {:.1f} % of the peak.",
                  cost.flops / steps * 1e-9, show_bytes(cost.bytes / steps),
                  cost.flops / r.profile.seconds * 1e-9,
                  100 * cost.flops / r.profile.seconds / r.peaks.flops_per_second),
      fmt::format(
          "Peaks of {}, measured now: {:.4g} GFLOP/s, {:.4g} GB/s, {} an op; ridge at {:.1f} FLOP/byte.",
          r.peaks.device, r.peaks.flops_per_second * 1e-9, r.peaks.bytes_per_second * 1e-9,
          show_seconds(r.peaks.seconds_per_op), r.peaks.ridge())};
  if (!r.memory.timeline.empty()) {
    lines.push_back(fmt::format("Memory: {} before, {} at the peak, {} at the end.",
                                show_bytes(r.memory.before), show_bytes(r.memory.peak),
                                show_bytes(r.memory.current)));
  }
  int64_t launches = 0;
  for (const auto& l : r.launches) launches += l.launches;
  if (launches > 0)
    lines.push_back(fmt::format("Kernel launches: {:.4g} a step.", static_cast<double>(launches) / steps));
  if (r.change) lines.push_back(change_line(*r.change));
  lines.insert(lines.end(), r.conditions.begin(), r.conditions.end());
  return lines;
}

inline std::vector<TitledTable> tables(const Report& r, size_t most) {
  std::vector<TitledTable> all{time_table("by op", by_op(r.profile), r, most),
                               time_table("by module", by_module(r.profile), r, most), amdahl_table(r, most)};
  if (r.change) all.push_back(change_table(*r.change, most));
  if (r.ablation) all.push_back(ablation_table(*r.ablation));
  if (!r.memory.at_peak.empty()) all.push_back(memory_table(r, most));
  if (!r.launches.empty()) all.push_back(launch_table(r, most));
  return all;
}

inline std::string memory_chart(const MemoryProfile& memory) {
  svg::Series line{"in use"};
  for (const MemoryPoint& p : memory.timeline) {  // draws steps: each value holds until the next point
    if (!line.y.empty()) line.x.push_back(p.seconds * 1e3), line.y.push_back(line.y.back());
    line.x.push_back(p.seconds * 1e3);
    line.y.push_back(static_cast<double>(p.bytes) / (1 << 20));
  }
  return svg::line_chart("Memory over time", {.title = "milliseconds"}, {.title = "MiB", .low = 0}, {line});
}

}  // namespace detail

inline std::string text_report(const Report& r, size_t most_rows = 15) {
  std::string out = r.title + "\n";
  for (const std::string& line : detail::summary(r)) out += "  " + line + "\n";
  for (const auto& table : detail::tables(r, most_rows))
    out += "\n" + table.title + "\n" + document::text_table(table.rows);
  return out;
}

inline std::string html_report(const Report& r, size_t most_rows = 40) {
  std::string out = document::html_list(detail::summary(r));
  out += "<figure>" + roofline_chart("Roofline: ops", by_op(r.profile), r.peaks) + "</figure>\n";
  if (!r.memory.timeline.empty()) out += "<figure>" + detail::memory_chart(r.memory) + "</figure>\n";
  for (const auto& table : detail::tables(r, most_rows))
    out += "<h2>" + svg::escape(table.title) + "</h2>\n" + document::html_table(table.rows);
  return document::html_page(r.title, out);
}

inline void save_html_report(const Report& r, const std::string& path, TT_LOC) {
  write_file(path, html_report(r), loc);
}

}  // namespace tinytorch::inline TT_BUILD::profiling
