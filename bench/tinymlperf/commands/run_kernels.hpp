// `tinymlperf run --benchmark krn BASELINE PLUGIN...`: a match of kernels, op by op. The library's own kernels are the
// plugin in bench/tinymlperf/kernels/library.
#pragma once

#include <fmt/format.h>

#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/run_options.hpp>
#include <tinymlperf/judge/kernels/kernel_match.hpp>
#include <tinymlperf/judge/stage.hpp>
#include <tinymlperf/machine.hpp>
#include <tinytorch/benchmarking/document.hpp>

namespace tinymlperf {

inline constexpr const char* kKernelBenchmark = "krn";

namespace detail {

inline const judge::kernels::KernelClass& kernel_class_named(const std::string& name) {
  using namespace judge::kernels;
  for (const KernelClass* c : {&kSmokeKernels, &kRankedKernels, &kOfficialKernels})
    if (name == c->name) return *c;
  throw std::invalid_argument("--class " + name + ": there are smoke, ranked and official");
}

inline void admit_plugin(judge::kernels::KernelContender& c, const std::filesystem::path& folder,
                         const sandbox::Offers& offers, std::vector<std::unique_ptr<judge::Stage>>& stages) {
  c.record.name = (folder / "").lexically_normal().parent_path().filename().string();
  try {
    auto stage = std::make_unique<judge::Stage>(folder, offers);
    c.record.tier = stage->tier();
    if (c.record.tier != "T2")
      throw std::invalid_argument("a kernel is code: expected a folder with plugin.cpp");
    c.session = stage->start();
    stages.push_back(std::move(stage));
  } catch (const sandbox::Unavailable&) {
    throw;  // this machine cannot hold anybody
  } catch (const std::exception& e) {
    c.record.out = e.what();
  }
}

inline judge::kernels::KernelRun play_kernels(const RunOptions& o,
                                              const std::vector<judge::kernels::KernelTask>& tasks) {
  const judge::kernels::KernelClass& match_class = kernel_class_named(o.run_class);
  if (!(o.scenario.empty() || o.scenario == "single_stream") || o.division != "open")
    throw std::invalid_argument(
        "--benchmark krn: kernels are asked one by one, in a division of their own; leave "
        "--scenario and --division out");
  require_folders(o);
  const sandbox::Offers offers = sandbox_of_machine();
  std::vector<std::unique_ptr<judge::Stage>> stages;
  std::vector<judge::kernels::KernelContender> contenders;
  for (const auto& entry : o.entries) {
    contenders.emplace_back();
    admit_plugin(contenders.back(), entry, offers, stages);
  }
  const uint64_t seed = seed_of(o);
  judge::kernels::KernelMatch(tasks, match_class, seed, ceilings_of_machine())(contenders);
  const Machine machine = describe_machine();
  judge::kernels::KernelRun run{match_class.name,
                                hardware_class(machine),
                                machine.date,
                                seed,
                                to_json(machine),
                                sandbox::to_json(offers),
                                {}};
  for (auto& c : contenders) run.contenders.push_back(std::move(c.record));
  return run;
}

inline std::string ratio_text(const std::optional<judge::Interval>& x) {
  return x ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", x->estimate, x->low, x->high) : "";
}

// How much of an answer's time is the way to the kernel and back, all public shapes of the baseline together.
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
    if (!op.reason.empty()) reasons += "wrong: " + op.reason + "\n";
  }
  if (!c.out.empty()) return c.name + ": out: " + c.out + "\n";
  std::string out = c.name + "\n\n" + tinytorch::document::text_table(rows) + reasons;
  const auto quality = quality_of(c);
  const auto score = ratio_text(score_of(c, baseline));
  if (quality) out += fmt::format("right answers: {:.2f} %\n", 100 * quality->estimate);
  out += fmt::format("right ops: {} of {}\n", ops_right(c), c.ops.size());
  if (!score.empty())
    out += fmt::format(
        "all ops that both have right: {} times the baseline\nfast_1 {:.2f}, fast_1.5 {:.2f}, fast_2 "
        "{:.2f}\n",
        score, *fast(c, baseline, 1), *fast(c, baseline, 1.5), *fast(c, baseline, 2));
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

// Exit status as of run_match(). Other tasks than all are for trying one out.
inline int run_kernel_match(const RunOptions& o,
                            const std::vector<judge::kernels::KernelTask>& tasks = judge::kernels::tasks()) {
  using namespace detail;
  try {
    const judge::kernels::KernelRun run = play_kernels(o, tasks);
    std::filesystem::create_directories(o.out);
    tinytorch::write_file((o.out / "run.json").string(), to_json(run).dump(1) + "\n");
    fmt::print("{}\nwrote {}\n", text_of(run), (o.out / "run.json").string());
    return kPass;
  } catch (const std::invalid_argument& e) {
    return complain(e.what());
  } catch (const sandbox::Unavailable& e) {
    return complain(e.what());
  }
}

// `tinymlperf kernels`: the ops, what they take, and their shapes.
inline int list_kernels(std::FILE* out = stdout) {
  for (const judge::kernels::KernelTask& task : judge::kernels::tasks()) {
    fmt::print(out, "{}: {}\n ", task.name, task.text);
    for (const Shape& sides : task.shapes) fmt::print(out, " {}", to_text(sides));
    fmt::print(out, "\n");
  }
  return kPass;
}

}  // namespace tinymlperf
