// run.json of the benchmark `krn`: a match of kernels as data. It holds every sample, so that the numbers can
// be recomputed: how many times faster each op is, all ops together, and fast_p. With comments behind --:
//
//   {"schema": "tinymlperf-kernel-run-1", "benchmark": "krn", "class": "smoke", "hardware": "cpu-mt",
//    "date": "...", "seed": 5, "machine": {...}, "sandbox": {...},
//    "contenders": [{                                      -- the first is the baseline
//      "name": "library", "bundle": "sha256 or empty", "tier": "T2", "out": "why, or empty",
//      "peak_bytes": 0, "audits": [...],
//      "replaced": ["tinytorch/backend/cpu/softmax.hpp", ...],  -- the library's headers that its own replace
//      "ops": [{"op": "softmax", "state": "right",         -- or "absent", "unasked", "wrong" with the reason
//        "reason": "",
//        "cases": [{"kind": "public", "sides": [512, 1024], "distribution": "ordinary",
//          "checked": 12, "right": 12,
//          "turns": [[0.002, ...], ...],                   -- seconds of each query, two turns in each block
//          "channel": [0.001, ...]}],                      -- of a query without work, once in a turn
//        "times_the_baseline": {...} or null, "hidden_times_the_baseline": {...} or null}],
//      "ops_right": 15, "quality": {...} or null, "score": {...} or null,
//      "fast": {"1": 0.5, "1.5": 0.2, "2": 0.1} or null}]}
//
// The last line of an op and the last two of a contender follow from the rest; they are recomputed and not
// read.
#pragma once

#include <tinymlperf/judge/results/run_document.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>

namespace tinymlperf::judge::kernels {

inline constexpr const char* kSchema = "tinymlperf-kernel-run-1";

// Only public shapes are ranked; the answers on all others must be right, too.
inline constexpr std::array kCaseKinds{"public", "hidden", "adversarial"};

inline constexpr std::array kOpStates{"right", "absent", "wrong", "unasked"};

struct CaseRecord {
  std::string kind, distribution;
  Shape sides;
  int64_t checked = 0, right = 0;
  std::vector<std::vector<double>> turns = {};
  std::vector<double> channel = {};
};

struct OpRecord {
  std::string op;
  std::string state = "unasked", reason = "";
  std::vector<CaseRecord> cases = {};
  bool ranked() const { return state == "right"; }
};

struct KernelContenderRecord {
  std::string name, tier = "T2", out = "";
  int64_t peak_bytes = 0;
  std::vector<AuditResult> audits = {};
  std::vector<OpRecord> ops = {};
  std::string bundle = {};                 // SHA-256 of its bundle; empty: it is not from one
  std::vector<std::string> replaced = {};  // the library's headers that its own replace
};

struct KernelRun {
  std::string run_class, hardware, date;
  uint64_t seed = 0;
  Json machine, sandbox;
  std::vector<KernelContenderRecord> contenders;
};

// ---- values that follow from the samples

// The value of a turn is the median of its queries, that of a block the geometric mean of its two turns.
inline std::vector<double> block_seconds(const CaseRecord& c) {
  std::vector<double> out;
  for (size_t i = 0; i + 1 < c.turns.size(); i += 2)
    out.push_back(
        std::sqrt(tinytorch::statistics::median(c.turns[i]) * tinytorch::statistics::median(c.turns[i + 1])));
  return out;
}

namespace detail {

using Blocks = std::vector<std::vector<double>>;  // seconds of several cases, one value per block

// The geometric mean block by block; empty if the cases have different numbers of blocks.
inline std::vector<double> together(const Blocks& all) {
  const auto as_many = [&](const auto& one) { return one.size() == all.front().size(); };
  if (all.empty() || !std::ranges::all_of(all, as_many)) return {};
  std::vector<double> out(all.front().size());
  for (size_t b = 0; b < out.size(); ++b) {
    double logs = 0;
    for (const auto& one : all) logs += std::log(one.at(b));
    out[b] = std::exp(logs / static_cast<double>(all.size()));
  }
  return out;
}

// The ratio of times with its interval; nullopt unless both have the same number of blocks, and enough of
// them.
inline std::optional<Interval> times_faster(const std::vector<double>& ours,
                                            const std::vector<double>& baseline) {
  if (ours.empty() || ours.size() != baseline.size()) return std::nullopt;
  return tinytorch::statistics::paired_ratio(baseline, ours);
}
inline std::optional<Interval> times_faster(const Blocks& ours, const Blocks& baseline) {
  return times_faster(together(ours), together(baseline));
}

inline void add_blocks(Blocks& to, const OpRecord& op, std::string_view kind) {
  for (const CaseRecord& c : op.cases)
    if (c.kind == kind) to.push_back(block_seconds(c));
}

}  // namespace detail

// The speedup of an op over the baseline's, over all shapes of a kind, with its interval. nullopt unless both
// have the op right.
inline std::optional<Interval> times_the_baseline(const OpRecord& op, const OpRecord& baseline,
                                                  std::string_view kind = "public") {
  if (!op.ranked() || !baseline.ranked()) return std::nullopt;
  detail::Blocks ours, theirs;
  detail::add_blocks(ours, op, kind), detail::add_blocks(theirs, baseline, kind);
  return detail::times_faster(ours, theirs);
}

// Seconds block by block over all ops that both have right: each op has the same weight, and in it each
// shape. Empty while either is out.
struct ScoredBlocks {
  std::vector<double> ours, baseline;
};
inline ScoredBlocks score_blocks(const KernelContenderRecord& c, const KernelContenderRecord& baseline) {
  if (!c.out.empty() || !baseline.out.empty()) return {};
  detail::Blocks ours, theirs;
  for (size_t i = 0; i < c.ops.size(); ++i) {
    if (!c.ops[i].ranked() || !baseline.ops.at(i).ranked()) continue;
    detail::Blocks our, their;
    detail::add_blocks(our, c.ops[i], "public"), detail::add_blocks(their, baseline.ops[i], "public");
    ours.push_back(detail::together(our)), theirs.push_back(detail::together(their));
  }
  return {detail::together(ours), detail::together(theirs)};
}

// Over all of these ops.
inline std::optional<Interval> score_of(const KernelContenderRecord& c,
                                        const KernelContenderRecord& baseline) {
  const ScoredBlocks blocks = score_blocks(c, baseline);
  return detail::times_faster(blocks.ours, blocks.baseline);
}

// The p of the fast_p that are shown, and their names in run.json.
inline constexpr std::array kFast{std::pair{"1", 1.0}, std::pair{"1.5", 1.5}, std::pair{"2", 2.0}};

// KernelBench's fast_p: the share of all pairs of op and public shape that are right and more than p times as
// fast. An op that is absent or wrong counts as not fast.
inline std::optional<double> fast(const KernelContenderRecord& c, const KernelContenderRecord& baseline,
                                  double p) {
  if (!c.out.empty() || !baseline.out.empty()) return std::nullopt;
  int64_t all = 0, faster = 0;
  for (size_t i = 0; i < baseline.ops.size(); ++i)
    for (size_t k = 0; k < baseline.ops[i].cases.size(); ++k) {
      if (baseline.ops[i].cases[k].kind != "public") continue;
      ++all;
      if (!c.ops.at(i).ranked() || !baseline.ops[i].ranked()) continue;
      const auto ratio =
          detail::times_faster(block_seconds(c.ops[i].cases.at(k)), block_seconds(baseline.ops[i].cases[k]));
      faster += ratio && ratio->estimate > p;
    }
  if (all == 0) return std::nullopt;
  return static_cast<double>(faster) / static_cast<double>(all);
}

// The number of ranked ops; 0 for a contender that is out.
inline int64_t ops_right(const KernelContenderRecord& c) {
  return c.out.empty() ? std::ranges::count_if(c.ops, &OpRecord::ranked) : 0;
}

// The share of checked answers that are right; empty before the first.
inline std::optional<Interval> quality_of(const KernelContenderRecord& c) {
  int64_t checked = 0, right = 0;
  for (const OpRecord& op : c.ops)
    for (const CaseRecord& one : op.cases) checked += one.checked, right += one.right;
  if (checked == 0) return std::nullopt;
  return tinytorch::statistics::bootstrap_proportion(right, checked);
}

// ---- as JSON

namespace detail {

inline Json or_null(const std::optional<Interval>& x) { return x ? interval_to_json(*x) : Json(); }

inline Json cases_to_json(const OpRecord& op) {
  Json cases = Json::array();
  for (const CaseRecord& c : op.cases)
    cases.push_back({{"kind", c.kind},
                     {"sides", c.sides},
                     {"distribution", c.distribution},
                     {"checked", c.checked},
                     {"right", c.right},
                     {"turns", c.turns},
                     {"channel", c.channel}});
  return cases;
}

inline Json to_json(const OpRecord& op, const OpRecord& baseline) {
  return {{"op", op.op},
          {"state", op.state},
          {"reason", op.reason},
          {"cases", cases_to_json(op)},
          {"times_the_baseline", or_null(times_the_baseline(op, baseline))},
          {"hidden_times_the_baseline", or_null(times_the_baseline(op, baseline, "hidden"))}};
}

inline Json to_json(const KernelContenderRecord& c, const KernelContenderRecord& baseline) {
  Json ops = Json::array(), audits = Json::array(), fasts;
  for (size_t i = 0; i < c.ops.size(); ++i) ops.push_back(to_json(c.ops[i], baseline.ops.at(i)));
  for (const AuditResult& a : c.audits)
    audits.push_back({{"id", a.id}, {"name", a.name}, {"passed", a.passed}, {"detail", a.detail}});
  for (const auto& [name, p] : kFast)
    if (const auto share = fast(c, baseline, p)) fasts[name] = *share;
  Json out{{"name", c.name},
           {"bundle", c.bundle},
           {"tier", c.tier},
           {"out", c.out},
           {"peak_bytes", c.peak_bytes},
           {"audits", audits},
           {"ops", ops},
           {"ops_right", ops_right(c)},
           {"quality", or_null(quality_of(c))},
           {"score", or_null(score_of(c, baseline))},
           {"fast", fasts}};
  if (!c.replaced.empty()) out["replaced"] = c.replaced;
  return out;
}

inline CaseRecord read_case(const Json& j) {
  CaseRecord c{j.at("kind").get<std::string>(),
               j.at("distribution").get<std::string>(),
               wholes(j.at("sides")),
               whole(j.at("checked")),
               whole(j.at("right")),
               j.at("turns").get<std::vector<std::vector<double>>>(),
               j.at("channel").get<std::vector<double>>()};
  const auto positive = [](double x) { return x > 0; };
  const bool good = std::ranges::find(kCaseKinds, c.kind) != kCaseKinds.end() && c.right >= 0 &&
                    c.right <= c.checked && std::ranges::all_of(c.channel, positive) &&
                    std::ranges::all_of(c.turns, [&](const auto& turn) {
                      return !turn.empty() && std::ranges::all_of(turn, positive);
                    });
  if (!good)
    throw std::invalid_argument(
        "run file: a case is public, hidden or adversarial, has no more right answers than "
        "checked ones, and positive times");
  return c;
}

inline OpRecord read_op(const Json& j) {
  OpRecord op{j.at("op").get<std::string>(), j.at("state").get<std::string>(),
              j.at("reason").get<std::string>()};
  if (std::ranges::find(kOpStates, op.state) == kOpStates.end())
    throw std::invalid_argument("run file: an op is right, absent, wrong or unasked, found " + op.state);
  bool wrong = false;
  for (const Json& c : j.at("cases")) {
    op.cases.push_back(read_case(c));
    wrong = wrong || op.cases.back().right < op.cases.back().checked;
  }
  if (wrong && op.ranked())
    throw std::invalid_argument("run file: " + op.op + " is called right, but not all of its answers are");
  return op;
}

inline KernelContenderRecord read_kernel_contender(const Json& j) {
  KernelContenderRecord c{j.at("name").get<std::string>(), j.at("tier").get<std::string>(),
                          j.at("out").get<std::string>(), whole(j.at("peak_bytes"))};
  for (const Json& a : j.at("audits"))
    c.audits.push_back({a.at("id").get<std::string>(), a.at("name").get<std::string>(),
                        a.at("passed").get<bool>(), a.at("detail").get<std::string>()});
  for (const Json& op : j.at("ops")) c.ops.push_back(read_op(op));
  c.bundle = j.at("bundle").get<std::string>();
  c.replaced = j.value("replaced", c.replaced);
  return c;
}

// Ratios compare the same op and the same case of two contenders, by index.
inline void require_same_cases(const KernelRun& run) {
  const auto form = [](const KernelContenderRecord& c) {
    std::string out;
    for (const OpRecord& op : c.ops) {
      out += op.op + ":";
      for (const CaseRecord& one : op.cases) out += one.kind + one.distribution + to_text(one.sides);
    }
    return out;
  };
  for (const KernelContenderRecord& c : run.contenders)
    if (form(c) != form(run.contenders.front()))
      throw std::invalid_argument("run file: " + c.name +
                                  " was not asked the same ops and shapes as the baseline");
}

}  // namespace detail

inline Json to_json(const KernelRun& run) {
  Json contenders = Json::array();
  for (const KernelContenderRecord& c : run.contenders)
    contenders.push_back(detail::to_json(c, run.contenders.front()));
  Json out{{"schema", kSchema},        {"benchmark", "krn"},     {"class", run.run_class},
           {"hardware", run.hardware}, {"date", run.date},       {"seed", run.seed},
           {"machine", run.machine},   {"sandbox", run.sandbox}, {"contenders", contenders}};
  out[kChain] = chain_of(out);
  return out;
}

// Throws std::invalid_argument if the document is not such a run.
inline KernelRun read_kernel_run(const Json& j) {
  try {
    if (j.at("schema") != kSchema)
      throw std::invalid_argument(std::string("run file: expected the schema ") + kSchema + ", found " +
                                  j.at("schema").dump());
    KernelRun run{j.at("class").get<std::string>(),
                  j.at("hardware").get<std::string>(),
                  j.at("date").get<std::string>(),
                  whole<uint64_t>(j.at("seed")),
                  j.at("machine"),
                  j.at("sandbox"),
                  {}};
    for (const Json& c : j.at("contenders")) run.contenders.push_back(detail::read_kernel_contender(c));
    if (run.contenders.empty())
      throw std::invalid_argument("run file: it has no contender, not even a baseline");
    detail::require_same_cases(run);
    return run;
  } catch (const Json::exception& e) {
    throw std::invalid_argument(std::string("run file: ") + e.what());
  }
}

}  // namespace tinymlperf::judge::kernels
