// Recomputation: values that are computed twice, so that they need no memory in between.
//
// A training step keeps the values of its forward pass for the backward pass. Where the live bytes are most,
// a value that is not used for a while can be dropped, and its step can be run again before the next use, if
// the operands are there. Each round takes, of all values that lower the peak and raise no other step to it,
// the one that frees the most bytes for its work, until the peak is within the budget. The bits are the same:
// the same kernels read the same operands, and dropout draws the same numbers.
// Source: Chen et al., "Training deep nets with sublinear memory cost", 2016, with exact bytes instead of
// segments.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tinytorch/acceleration/fusion.hpp>
#include <tinytorch/acceleration/liveness.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct Recomputed {
  int64_t steps = 0;            // that run a second time
  double flops = 0, bytes = 0;  // of them
  int64_t peak_before = 0, peak_after = 0;
};

// Finds the next value to recompute in a graph.
class RecomputeSearch {
 public:
  struct Choice {
    int step = -1;   // to be run again
    int before = 0;  // the step that it is run before, which reads its result
  };

  explicit RecomputeSearch(const OpGraph& graph)
      : graph_(graph),
        last_(last_uses(graph)),
        overwritten_(graph.overwritten()),
        reads_(graph.values.size()) {
    for (size_t s = 0; s < graph.steps.size(); ++s) {
      if (graph.steps[s].is_view()) continue;
      for (const int v : graph.steps[s].inputs)
        if (v >= 0) reads_[static_cast<size_t>(graph.root(v))].push_back(static_cast<int>(s));
    }
    live_ = liveness(graph).timeline();
    peak_step_ = static_cast<int>(std::ranges::max_element(live_) - live_.begin());
  }

  int64_t peak() const { return live_.empty() ? 0 : live_[static_cast<size_t>(peak_step_)]; }
  std::optional<Choice> best() const {
    std::optional<Choice> found;
    double best_rate = 0;
    for (int s = 0; s < peak_step_; ++s) {
      const std::optional<Choice> choice = candidate(s);
      if (!choice) continue;
      const double freed = static_cast<double>(freed_bytes(*choice));
      const GraphStep& step = graph_.steps[static_cast<size_t>(s)];
      const double rate = freed / (step.cost.flops / flops_per_byte(step) + step.cost.bytes + 1);
      if (freed > 0 && rate > best_rate) best_rate = rate, found = choice;
    }
    return found;
  }

 private:
  // Operations that take as long as moving a byte, about: a GPU has far more of them.
  double flops_per_byte(const GraphStep& s) const {
    return graph_.value(s.outputs[0]).device.is_cpu() ? 8 : 128;
  }

  // Finds the first read, after the peak, of any result of step s; nullopt if the step cannot be run again.
  std::optional<Choice> candidate(int s) const {
    const GraphStep& step = graph_.steps[static_cast<size_t>(s)];
    const int steps = static_cast<int>(graph_.steps.size());
    if (step.is_view()) return std::nullopt;
    int next = steps;
    for (const int v : step.outputs) {
      const GraphValue& x = graph_.value(v);
      const auto k = static_cast<size_t>(v);
      if (x.kind != ValueKind::computed || x.step != s || overwritten_[k] || last_[k] == steps)
        return std::nullopt;
      for (const int reader : reads_[k]) {
        if (reader == peak_step_) return std::nullopt;  // needed where the bytes are most
        if (reader > peak_step_) next = std::min(next, reader);
      }
    }
    for (const int v : step.inputs) {
      if (v >= 0 && overwritten_[static_cast<size_t>(graph_.root(v))]) return std::nullopt;
    }
    if (next == steps) return std::nullopt;
    return Choice{s, next};
  }

  // Bytes that are freed at the peak; 0 if another step would reach the peak.
  int64_t freed_bytes(const Choice& choice) const {
    const GraphStep& step = graph_.steps[static_cast<size_t>(choice.step)];
    std::vector<int64_t> change(live_.size() + 1, 0);
    const auto add = [&](int first, int last, int64_t bytes) {  // for steps first to last
      if (first > last) return;
      change[static_cast<size_t>(first)] += bytes;
      change[static_cast<size_t>(last) + 1] -= bytes;
    };
    for (const int v : step.outputs) {
      const auto k = static_cast<size_t>(v);
      int early = choice.step;
      for (const int reader : reads_[k])
        if (reader < peak_step_) early = std::max(early, reader);
      const int64_t bytes = bytes_of(graph_.value(v));
      if (last_[k] > early) add(early + 1, std::min(choice.before - 1, last_[k]), -bytes);
      if (last_[k] < choice.before) add(choice.before, choice.before, bytes);
    }
    std::vector<int> seen;
    for (const int v : step.inputs) {
      if (v < 0) continue;
      const int root = graph_.root(v);
      const auto k = static_cast<size_t>(root);
      if (graph_.value(root).kind != ValueKind::computed || std::ranges::find(seen, root) != seen.end())
        continue;
      seen.push_back(root);
      add(last_[k] + 1, choice.before, bytes_of(graph_.value(root)));
    }
    int64_t sum = 0;
    for (size_t s = 0; s < live_.size(); ++s) {
      sum += change[s];
      if (sum > 0 && live_[s] + sum >= peak()) return 0;
      if (static_cast<int>(s) == peak_step_ && sum >= 0) return 0;
    }
    int64_t at_peak = 0;
    for (int s = 0; s <= peak_step_; ++s) at_peak += change[static_cast<size_t>(s)];
    return -at_peak;
  }

  const OpGraph& graph_;
  std::vector<int> last_;
  std::vector<bool> overwritten_;
  std::vector<std::vector<int>> reads_;  // of each root, the steps that read it
  std::vector<int64_t> live_;
  int peak_step_ = 0;
};

// Runs step `choice.step` again before step `choice.before`; later steps read its new results.
inline void run_again(OpGraph& graph, const RecomputeSearch::Choice& choice) {
  const GraphStep& from = graph.steps[static_cast<size_t>(choice.step)];
  GraphStep again;
  again.op = from.op->clone();
  again.inputs = from.inputs, again.cost = from.cost, again.module = from.module, again.loc = from.loc;
  again.backward = true;
  std::map<int, int> renamed;
  const auto copy_value = [&](int v, int root) {
    GraphValue x = graph.value(v);
    const int number = static_cast<int>(graph.values.size());
    x.root = root < 0 ? number : root;
    graph.values.push_back(std::move(x));
    return renamed[v] = number;
  };
  for (const int v : from.outputs) again.outputs.push_back(copy_value(v, -1));
  const size_t values = graph.values.size();
  for (size_t v = 0; v < values; ++v) {
    const GraphValue& x = graph.values[v];
    if (x.kind != ValueKind::view) continue;
    if (const auto root = renamed.find(x.root); root != renamed.end())
      copy_value(static_cast<int>(v), root->second);
  }
  for (size_t s = static_cast<size_t>(choice.before); s < graph.steps.size(); ++s) {
    for (auto* const list : {&graph.steps[s].inputs, &graph.steps[s].outputs}) {
      for (int& v : *list)
        if (const auto other = renamed.find(v); other != renamed.end()) v = other->second;
    }
  }
  graph.steps.insert(graph.steps.begin() + choice.before, std::move(again));
  number_steps(graph);
}

// Recomputes values of `graph` until the peak of live bytes is at most `budget`, or nothing helps any more.
inline Recomputed recompute(OpGraph& graph, int64_t budget) {
  Recomputed out;
  for (bool first = true;; first = false) {
    const RecomputeSearch search(graph);
    if (first) out.peak_before = search.peak();
    out.peak_after = search.peak();
    if (search.peak() <= budget) return out;
    const auto choice = search.best();
    if (!choice) return out;
    const Cost cost = graph.steps[static_cast<size_t>(choice->step)].cost;
    out.steps += 1, out.flops += cost.flops, out.bytes += cost.bytes;
    run_again(graph, *choice);
  }
}

}  // namespace tinytorch::inline TT_BUILD
