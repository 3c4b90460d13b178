// `tinymlperf run-kernels BASELINE ENTRY...`: a match between kernels, op by op, and `tinymlperf kernels`,
// which lists the ops.
#pragma once

#include <fmt/format.h>

#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/keep_run.hpp>
#include <tinymlperf/commands/measured.hpp>
#include <tinymlperf/judge/match/play.hpp>
#include <tinymlperf/judge/match/play_kernels.hpp>
#include <tinymlperf/support/foreign_text.hpp>
#include <tinymlperf/support/output_folder.hpp>
#include <tinytorch/benchmarking/document.hpp>

namespace tinymlperf {

namespace detail {

inline std::string ratio_text(const std::optional<judge::Interval>& x) {
  return x ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", x->estimate, x->low, x->high) : "";
}

// The share of an answer's time that the channel takes, over all public shapes of the baseline.
inline std::string channel_share(const judge::kernels::OpRecord& op) {
  double all = 0, empty = 0;
  for (const judge::kernels::CaseRecord& c : op.cases) {
    if (c.channel.empty() || c.turns.empty()) continue;
    std::vector<double> seconds;
    for (const auto& turn : c.turns) seconds.insert(seconds.end(), turn.begin(), turn.end());
    all += tinytorch::statistics::median(seconds), empty += tinytorch::statistics::median(c.channel);
  }
  return all > 0 ? fmt::format("{:.0f} %", 100 * empty / all) : "";
}

inline std::string text_of(const judge::kernels::KernelRun& run,
                           const judge::kernels::KernelContenderRecord& c) {
  using namespace judge::kernels;
  const KernelContenderRecord& baseline = run.contenders.front();
  tinytorch::document::Rows rows{{"op", "", "times the baseline [95 %]", "on hidden shapes", "channel"}};
  std::string reasons;
  for (size_t i = 0; i < c.ops.size(); ++i) {
    const OpRecord& op = c.ops[i];
    rows.push_back({op.op, op.state, ratio_text(times_the_baseline(op, baseline.ops[i])),
                    ratio_text(times_the_baseline(op, baseline.ops[i], "hidden")),
                    channel_share(baseline.ops[i])});
    if (!op.reason.empty()) reasons += "wrong: " + one_line(op.reason) + "\n";
  }
  if (!c.out.empty()) return c.name + ": out: " + one_line(c.out) + "\n";
  std::string out = c.name + "\n\n" + tinytorch::document::text_table(rows) + reasons;
  for (const judge::AuditResult& a : c.audits) {
    if (!judge::was_made(a)) out += "not ranked: ";
    if (!judge::was_made(a) || a.id == "C1") out += "audit " + a.id + ", " + a.name + ": " + a.detail + "\n";
  }
  const auto quality = quality_of(c);
  const auto score = ratio_text(score_of(c, baseline));
  if (quality) out += fmt::format("right answers: {:.2f} %\n", 100 * quality->estimate);
  out += fmt::format("right ops: {} of {}\n", ops_right(c), c.ops.size());
  if (!score.empty())
    out += fmt::format(
        "all ops that both have right: {} times the baseline\nfast_1 {:.2f}, fast_1.5 {:.2f}, fast_2 "
        "{:.2f}\n",
        score, *fast(c, baseline, 1), *fast(c, baseline, 1.5), *fast(c, baseline, 2));
  if (!c.replaced.empty()) out += replaced_text(c.name, c.replaced) + "\n";
  return out;
}

inline std::string text_of(const judge::kernels::KernelRun& run) {
  std::string out = fmt::format(
      "krn, class {}; channel: the baseline's share of time that an op without any work takes as well\n",
      run.run_class);
  for (const auto& c : run.contenders) out += "\n" + text_of(run, c);
  return out;
}

}  // namespace detail

// Exit status as in run_match(). Tests pass fewer tasks.
inline int run_kernel_match(const RunOptions& o,
                            const std::vector<judge::kernels::KernelTask>& tasks = judge::kernels::tasks()) {
  using namespace detail;
  try {
    const OutputFolder folder(o.out, {"run.json"});
    fmt::print("{}\n", budget_text(o)), std::fflush(stdout);
    const judge::kernels::KernelRun run = measured("a match", [&] { return play_kernels(o, tasks); });
    return keep_run(o.out / "run.json", to_json(run), [&] { return text_of(run); });
  } catch (const std::invalid_argument& e) {
    return complain(e.what());
  } catch (const sandbox::Unavailable& e) {
    return complain(e.what());
  }
}

// `tinymlperf kernels` lists the ops, their operands and their shapes.
inline int list_kernels(std::FILE* out = stdout) {
  for (const judge::kernels::KernelTask& task : judge::kernels::tasks()) {
    fmt::print(out, "{}: {}\n ", task.name, task.text);
    for (const Shape& sides : task.shapes) fmt::print(out, " {}", to_text(sides));
    fmt::print(out, "\n");
  }
  return kPass;
}

}  // namespace tinymlperf
