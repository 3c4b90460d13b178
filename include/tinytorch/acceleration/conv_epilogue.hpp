// Epilogues of convolutions: a convolution and the batch norm, sums and activations after it become one step.
//
// Networks of images consist of such chains, and each operation but the first reads and writes a whole image
// for one or two FLOPs per element. As one step they are applied to each block of the result while it is in
// the cache (backend/cpu/conv_epilogue.hpp). Batch norm with given statistics is a scale and a shift of each
// channel; it is not folded into the weights, because that changes the bits. The bits are those of the single
// operations. There is no such kernel on a GPU, where the steps stay as they are.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <tinytorch/acceleration/fusion.hpp>
#include <tinytorch/acceleration/liveness.hpp>
#include <tinytorch/backend/cpu/conv_epilogue.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/layout.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// x, weight, bias, operands of the steps -> the steps, applied to the convolution; on the CPU.
struct ConvEpilogue final : Primitive<ConvEpilogue> {
  static constexpr const char* kName = "conv_epilogue";
  backend::ImageStep conv;
  std::vector<backend::EpilogueStep> steps;
  Spec result;
  std::string parts;  // "fused(conv2d, batch_norm_infer, relu)"
  double work = 0;    // FLOPs

  const char* name() const override { return parts.c_str(); }
  Specs infer(const Tensors&, Loc) const override { return {result}; }
  double flops(const Tensors&, const Tensors&) const override { return work; }
  bool differentiable() const override { return false; }
  void run(const Tensors& in, Tensors& out) const override {
    std::vector<backend::View> operands;
    for (size_t k = 3; k < in.size(); ++k) operands.push_back(view_or_none(in[k]));
    const Shape& weight = in[1].shape();
    backend::cpu::conv2d_epilogue(out[0].view_of(), in[0].view_of(), in[1].view_of(), view_or_none(in[2]),
                                  {weight[2], weight[3], conv.stride, conv.padding, conv.dilation},
                                  conv.groups, steps, operands);
  }
};

// Finds the chains of a graph, and makes one step of each.
class ConvEpilogues {
 public:
  // memory_budget: as in FusionOptions.
  ConvEpilogues(OpGraph& graph, int64_t memory_budget)
      : graph_(graph),
        budget_(memory_budget),
        overwritten_(graph.overwritten()),
        is_result_(graph.values.size(), false),
        inside_(graph.values.size(), false),
        viewed_(graph.values.size(), false),
        merged_(graph.steps.size(), false),
        uses_(graph.values.size()) {
    for (size_t s = 0; s < graph.steps.size(); ++s) {
      runs_at_.push_back(static_cast<int>(s));
      if (graph.steps[s].is_view()) continue;
      for (const int v : graph.steps[s].inputs) {
        if (v < 0) continue;
        const auto root = static_cast<size_t>(graph.root(v));
        uses_[root].push_back(static_cast<int>(s));
        if (graph.root(v) != v) viewed_[root] = true;
      }
      for (size_t k = 0; k < graph.steps[s].outputs.size(); ++k) {
        const auto root = static_cast<size_t>(graph.root(graph.steps[s].outputs[k]));
        if (graph.writes_in_place(s, k)) uses_[root].push_back(static_cast<int>(s));
      }
    }
    for (const int v : graph.outputs) is_result_[static_cast<size_t>(graph.root(v))] = true;
    peak_ = peak();
  }

  // The neighbours that stayed apart, and why.
  std::vector<NotFused> run() {
    for (size_t s = 0; s < graph_.steps.size(); ++s) {
      backend::ImageStep conv;
      const bool starts =
          graph_.steps[s].op->image_step(conv) && conv.kind == backend::ImageKind::convolution;
      if (starts && !reads_overwritten(graph_.steps[s])) merge_chain(static_cast<int>(s), conv);
    }
    std::vector<GraphStep> steps;
    for (size_t s = 0; s < graph_.steps.size(); ++s) {
      if (!merged_[s]) steps.push_back(std::move(graph_.steps[s]));
    }
    graph_.steps = std::move(steps);
    number_steps(graph_);
    return std::move(refused_);
  }

 private:
  const GraphStep& step(int s) const { return graph_.steps[static_cast<size_t>(s)]; }
  bool reads_overwritten(const GraphStep& s) const {
    return std::ranges::any_of(
        s.inputs, [&](int v) { return v >= 0 && overwritten_[static_cast<size_t>(graph_.root(v))]; });
  }

  // Extends the chain that begins with the convolution s as far as possible, and puts it at its last step.
  void merge_chain(int s, const backend::ImageStep& conv) {
    std::vector<int> chain{s};
    ConvEpilogue op;
    op.conv = conv;
    GraphStep whole;
    whole.inputs = step(s).inputs, whole.inputs.resize(3, -1);
    for (int v = step(s).outputs[0];;) {
      const std::vector<int>& readers = uses_[static_cast<size_t>(v)];
      if (readers.empty()) break;
      const int next = readers[0];
      if (merged_[static_cast<size_t>(next)]) break;  // it is inside of another chain
      const auto more = step_after(step(next), v, static_cast<int>(whole.inputs.size()) - 3);
      if (!more) break;
      if (const std::string reason = obstacle(chain, v, next); !reason.empty()) {
        refused_.push_back({step(chain.back()).op->name(), step(next).op->name(), reason});
        break;
      }
      op.steps.push_back(*more);
      for (const int operand : step(next).inputs)
        if (operand != v) whole.inputs.push_back(operand);
      chain.push_back(next);
      v = step(next).outputs[0];
    }
    if (chain.size() > 1) put(std::move(op), std::move(whole), chain);
  }

  // The step `next` as an operation of the epilogue that is applied to v; nullopt if an epilogue cannot
  // compute it. `first` is the number of its first operand.
  std::optional<backend::EpilogueStep> step_after(const GraphStep& next, int v, int first) const {
    if (next.outputs.size() != 1 || std::ranges::count(next.inputs, v) != 1) return std::nullopt;
    const GraphValue &x = graph_.value(v), &y = graph_.value(next.outputs[0]);
    const auto like_x = [&](const GraphValue& other) {
      if (!(other.shape == x.shape) || other.dtype != x.dtype) return false;
      for (int d = 0; d < x.shape.size(); ++d)
        if (x.shape[d] > 1 && other.strides[d] != x.strides[d]) return false;
      return true;
    };
    const bool without_gaps =
        is_contiguous(x.shape, x.strides) || x.strides == backend::channels_last_strides(x.shape);
    if (!without_gaps || !like_x(y) || y.kind != ValueKind::computed) return std::nullopt;
    backend::EpilogueStep out;
    backend::ImageStep image;
    out.first = first;
    if (next.op->image_step(image)) {
      if (image.kind != backend::ImageKind::channel_norm || next.inputs[0] != v) return std::nullopt;
      out.is_norm = true, out.eps = image.eps;
      return out;
    }
    if (!next.op->pointwise(out.function)) return std::nullopt;
    using enum backend::PointwiseKind;
    if (out.function.kind == unary) return out;
    const auto gradient = [&] {
      return backend::is_activation_grad(static_cast<backend::BinaryFn>(out.function.fn));
    };
    if (out.function.kind != binary || gradient()) return std::nullopt;
    const size_t other = next.inputs[0] == v ? 1 : 0;
    if (next.inputs[other] < 0 || !like_x(graph_.value(next.inputs[other]))) return std::nullopt;
    out.function.in[other] = first;
    return out;
  }

  // Why step `next`, which reads v, cannot join the chain that ends with v; or an empty text.
  std::string obstacle(const std::vector<int>& chain, int v, int next) {
    if (!graph_.value(v).device.is_cpu()) return "there is no kernel of a convolution's epilogue on a GPU";
    const auto value = static_cast<size_t>(v);
    if (is_result_[value] || overwritten_[value] || viewed_[value])
      return "the value between them is a result, is overwritten, or is read through a view";
    if (uses_[value].size() > 1) return "the value between them is read more than once";
    if (reads_overwritten(step(next)) || overwritten_[static_cast<size_t>(step(next).outputs[0])])
      return "an operand or the result is overwritten";
    if (const auto bytes = move_to(chain, v, next))
      return "live bytes would rise to " + std::to_string(*bytes) + ", because operands are kept for longer";
    return "";
  }

  // Makes the chain run at step `next`, which reads v, if the largest sum of live bytes stays within the
  // budget or below what it is. Else nothing is changed, and the sum is returned.
  std::optional<int64_t> move_to(const std::vector<int>& chain, int v, int next) {
    const int before = runs_at_[static_cast<size_t>(chain[0])];
    const auto run_at = [&](int place, bool inside) {
      for (const int s : chain) runs_at_[static_cast<size_t>(s)] = place;
      inside_[static_cast<size_t>(v)] = inside;
    };
    run_at(next, true);
    const int64_t bytes = peak();
    if (bytes > std::max(budget_, peak_)) {
      run_at(before, false);
      return bytes;
    }
    peak_ = bytes;
    return std::nullopt;
  }
  // The largest sum of live bytes: steps run where runs_at_ says, and values inside of chains need no memory.
  int64_t peak() const {
    const int steps = static_cast<int>(graph_.steps.size());
    std::vector<LiveBlock> blocks;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const GraphValue& x = graph_.values[v];
      if (x.kind != ValueKind::computed || x.step < 0 || inside_[v]) continue;
      LiveBlock block{bytes_of(x), runs_at_[static_cast<size_t>(x.step)], 0};
      block.last = is_result_[v] ? steps - 1 : block.first;
      for (const int r : uses_[v]) block.last = std::max(block.last, runs_at_[static_cast<size_t>(r)]);
      blocks.push_back(block);
    }
    return tinytorch::peak(timeline(blocks, steps));
  }

  void put(ConvEpilogue op, GraphStep whole, const std::vector<int>& chain) {
    const GraphStep& last = step(chain.back());
    const GraphValue& out = graph_.value(last.outputs[0]);
    op.result = {out.shape, out.dtype, -1, !is_contiguous(out.shape, out.strides)};
    for (const int s : chain) {
      op.parts += (op.parts.empty() ? "fused(" : ", ") + std::string(step(s).op->name());
      op.work += step(s).cost.flops;
      merged_[static_cast<size_t>(s)] = s != chain.back();
    }
    op.parts += ")";
    whole.outputs = last.outputs;
    whole.module = last.module, whole.backward = last.backward, whole.loc = last.loc;
    whole.cost = {op.work, static_cast<double>(bytes_of(out))};
    for (const int v : whole.inputs)
      whole.cost.bytes += v < 0 ? 0.0 : static_cast<double>(bytes_of(graph_.value(v)));
    whole.op = op.clone();
    graph_.steps[static_cast<size_t>(chain.back())] = std::move(whole);
  }

  OpGraph& graph_;
  int64_t budget_, peak_ = 0;  // of live bytes: the largest that is allowed, and that of now
  // Facts about each value that owns memory: a step writes it in place; it is a result of the graph; it is
  // inside of a chain; it is read through a view.
  std::vector<bool> overwritten_, is_result_, inside_, viewed_;
  std::vector<bool> merged_;            // of each step: it is a part of a later one
  std::vector<int> runs_at_;            // of each step: the place of the chain that it is in
  std::vector<std::vector<int>> uses_;  // of each root: the steps, once for each time that they use it
  std::vector<NotFused> refused_;
};

// Makes one step of each convolution and what follows it. The peak of live bytes stays within the budget (0:
// that of the graph).
inline std::vector<NotFused> fuse_conv_epilogues(OpGraph& graph, int64_t memory_budget = 0) {
  return ConvEpilogues(graph, memory_budget).run();
}

}  // namespace tinytorch::inline TT_BUILD
