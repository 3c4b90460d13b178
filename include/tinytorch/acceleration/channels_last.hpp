// Channels-last: images of a graph are stored with their channels adjacent where that saves conversions.
//
// Most convolutions compute faster on channels-last images, and convert a large channels-first image before
// and its result afterwards (backend/cpu/conv.hpp). In a network these conversions undo each other. Here each
// step gets the layout of its result, so that the bytes of all conversions are few: those that convolutions
// make themselves, and copies between a step and a reader that needs the other layout. Arguments, results and
// all other operations keep the captured layout.
//
// The bits are the same. Batch norm, elementwise functions and pooling compute each element alike in both
// layouts. So does a convolution without a bias and with one group; another one reads the layout in which it
// computed before. Bytes are the whole cost: arithmetic that becomes faster is not counted.
#pragma once

#include <algorithm>
#include <tinytorch/acceleration/capture_gradient.hpp>
#include <tinytorch/acceleration/constant_copy.hpp>
#include <tinytorch/acceleration/conv_epilogue.hpp>
#include <tinytorch/acceleration/fusion.hpp>
#include <tinytorch/acceleration/liveness.hpp>
#include <tinytorch/backend/cpu/conv.hpp>
#include <tinytorch/backend/layout.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Counts what the pass has changed.
struct ChannelsLastReport {
  int64_t steps = 0;             // whose result is channels-last now
  int64_t copies = 0;            // steps that were added
  double before = 0, after = 0;  // bytes that conversions read and write
};

// Finds the layout of each step, and changes the graph.
class ChannelsLastPass {
 public:
  explicit ChannelsLastPass(const OpGraph& graph)
      : graph_(graph), overwritten_(graph.overwritten()), is_result_(graph.values.size(), false) {
    for (const int v : graph.outputs) is_result_[static_cast<size_t>(graph.root(v))] = true;
    readers_.resize(graph.values.size());
    viewed_.resize(graph.values.size(), false);
    for (size_t s = 0; s < graph.steps.size(); ++s) {
      if (graph.steps[s].is_view()) continue;
      for (const int v : graph.steps[s].inputs) {
        if (v < 0) continue;
        readers_[static_cast<size_t>(v)].push_back(static_cast<int>(s));
        if (graph.root(v) != v) viewed_[static_cast<size_t>(graph.root(v))] = true;
      }
    }
    for (size_t s = 0; s < graph.steps.size(); ++s) steps_.push_back(examine(static_cast<int>(s)));
    for (size_t s = 0; s < steps_.size(); ++s)
      steps_[s].may_change = steps_[s].may_change && has_calm_neighbours(s);
  }

  // The result of each step: channels-last if true. The best that single changes reach from all steps as they
  // were, or from all steps changed.
  std::vector<bool> choose() const {
    std::vector<bool> none(steps_.size(), false), all = none;
    if (std::ranges::none_of(steps_, [](const Step& s) { return s.kind == Kind::convolution; })) return none;
    for (size_t s = 0; s < steps_.size(); ++s) all[s] = steps_[s].may_change;
    descend(none), descend(all);
    return cost(all) < cost(none) ? all : none;
  }
  // Bytes that conversions read and write if these results are channels-last.
  double cost(const std::vector<bool>& last) const {
    double bytes = 0;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (needs_copy(static_cast<int>(v), last)) bytes += 2 * bytes_of_value(static_cast<int>(v));
    }
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].kind != Kind::convolution) continue;
      const int x = graph_.steps[s].inputs[0];
      const bool reads = reads_last(s, 0, last),
                 computes = reads ? steps_[s].computes_last[1] : steps_[s].computes_last[0];
      if (reads != computes) bytes += 2 * bytes_of_value(x);
      if (last[s] != computes) bytes += 2 * bytes_of_value(graph_.steps[s].outputs[0]);
    }
    return bytes;
  }

  // The graph with these layouts.
  OpGraph changed(const std::vector<bool>& last, ChannelsLastReport& report) const {
    OpGraph out = copy_of(graph_, 0, graph_.steps.size());
    out.inputs = graph_.inputs, out.outputs = graph_.outputs, out.written = graph_.written;
    std::vector<int> other(graph_.values.size(), -1);  // the channels-last value beside each value
    const auto beside = [&](int v) {
      int& found = other[static_cast<size_t>(v)];
      if (found >= 0) return found;
      found = static_cast<int>(out.values.size());
      GraphValue x = graph_.value(v);
      x.kind = ValueKind::computed, x.strides = backend::channels_last_strides(x.shape);
      x.root = found, x.offset = 0, x.external = Tensor();
      out.values.push_back(std::move(x));
      return found;
    };
    std::vector<GraphStep> steps;
    std::vector<bool> copied(graph_.values.size(), false);
    const auto copy = [&](int from, int to, const GraphStep& near) {
      GraphStep step;
      step.op = ConstantCopy().clone();
      step.inputs = {from}, step.outputs = {to};
      step.cost.bytes = 2 * static_cast<double>(bytes_of(out.value(to)));
      step.module = near.module, step.backward = near.backward, step.loc = near.loc;
      steps.push_back(std::move(step));
      ++report.copies;
    };
    for (size_t s = 0; s < graph_.steps.size(); ++s) {
      GraphStep& step = out.steps[s];
      for (size_t k = 0; k < step.inputs.size(); ++k) {
        const int v = step.inputs[k];
        if (v < 0 || !reads_last(s, k, last)) continue;
        if (!made_last(v, last) && !copied[static_cast<size_t>(v)]) {
          copy(v, beside(v), step);
          copied[static_cast<size_t>(v)] = true;
        }
        step.inputs[k] = beside(v);
      }
      const bool changes = last[s];
      const int v = changes ? step.outputs[0] : -1;
      if (changes) {
        ++report.steps;
        step.outputs[0] = beside(v);
        if (const auto* const op = dynamic_cast<const ConvEpilogue*>(step.op.get())) {
          ConvEpilogue with_layout = *op;
          with_layout.result.channels_last = true;
          step.op = with_layout.clone();
        }
      }
      steps.push_back(std::move(step));
      if (changes && needs_copy(v, last)) copy(beside(v), v, graph_.steps[s]);
    }
    out.steps = std::move(steps);
    number_steps(out);
    return out;
  }

 private:
  // A convolution reads any layout. An image step needs its image, or all of its images, in the layout of its
  // result. All other steps need the captured layout.
  enum class Kind : uint8_t { other, convolution, image };
  struct Step {
    Kind kind = Kind::other;
    bool may_change = false;  // its result may be channels-last
    bool pointwise = false;
    // A convolution computes on channels-last images if x is channels-first, and if x is channels-last.
    // keeps_first: it must read a channels-first x, because another layout would change bits.
    bool computes_last[2] = {false, false};
    bool keeps_first = false;
    bool copies = false;  // for a channels-last result, it costs less to copy x than to convert the result
  };

  // True if v is an image in the captured, row-major layout, for which the other layout is another one.
  bool is_image(int v) const {
    if (v < 0) return false;
    const GraphValue& x = graph_.value(v);
    return x.shape.size() == 4 && x.shape[1] > 1 && x.shape[2] * x.shape[3] > 1 && x.shape.numel() > 0 &&
           x.device.is_cpu() && (x.dtype == DType::f32 || x.dtype == DType::f64) &&
           is_contiguous(x.shape, x.strides) && !overwritten_[static_cast<size_t>(graph_.root(v))];
  }
  double bytes_of_value(int v) const { return static_cast<double>(bytes_of(graph_.value(v))); }

  Step examine(int number) const {
    const GraphStep& s = graph_.steps[static_cast<size_t>(number)];
    Step out;
    if (s.is_view() || s.outputs.empty() || !is_image(s.outputs[0])) return out;
    const int y = s.outputs[0];
    backend::ImageStep image;
    backend::PointwiseStep function;
    const auto* const epilogue = dynamic_cast<const ConvEpilogue*>(s.op.get());
    if (epilogue) image = epilogue->conv;
    const bool known = epilogue != nullptr || s.op->image_step(image);
    if (known && image.kind == backend::ImageKind::convolution) {
      if (graph_.value(s.inputs[0]).dtype == graph_.value(y).dtype) examine_convolution(s, image, out);
    } else if (known && is_image(s.inputs[0])) {
      out.kind = Kind::image;
    } else if (!known && s.op->pointwise(function)) {
      out.pointwise = true;
      const auto fits = [&](int v) {
        if (v < 0) return false;
        const GraphValue& x = graph_.value(v);
        return x.shape.numel() == 1 || (is_image(v) && x.shape == graph_.value(y).shape);
      };
      if (std::ranges::all_of(s.inputs, fits)) out.kind = Kind::image;
    }
    const auto unused = [&](int v) {
      return readers_[static_cast<size_t>(v)].empty() && !is_result_[static_cast<size_t>(v)] &&
             !viewed_[static_cast<size_t>(v)];
    };
    out.may_change = out.kind != Kind::other && graph_.value(y).kind == ValueKind::computed &&
                     std::all_of(s.outputs.begin() + 1, s.outputs.end(), unused);
    return out;
  }
  void examine_convolution(const GraphStep& s, const backend::ImageStep& conv, Step& out) const {
    const Shape& weight = graph_.value(s.inputs[1]).shape;
    const backend::Window2d window{weight[2], weight[3], conv.stride, conv.padding, conv.dilation};
    const GraphValue &x = graph_.value(s.inputs[0]), &y = graph_.value(s.outputs[0]);
    backend::View in{nullptr, x.dtype, x.shape, x.strides};
    const backend::View result{nullptr, y.dtype, y.shape, y.strides};
    out.kind = Kind::convolution;
    out.computes_last[0] = backend::cpu::computes_channels_last(result, in, window, conv.groups);
    in.strides = backend::channels_last_strides(x.shape);
    out.computes_last[1] = backend::cpu::computes_channels_last(result, in, window, conv.groups);
    const bool alike = s.inputs[2] < 0 && conv.groups == 1;
    out.keeps_first = !is_image(s.inputs[0]) || (out.computes_last[0] != out.computes_last[1] && !alike);
    out.copies =
        !out.keeps_first && !out.computes_last[0] && out.computes_last[1] && bytes_of(x) < bytes_of(y);
  }
  // Two elementwise neighbours would not be fused any more, which costs more than a conversion.
  bool has_calm_neighbours(size_t s) const {
    if (!steps_[s].pointwise) return true;
    const auto pointwise = [&](int step) { return step >= 0 && steps_[static_cast<size_t>(step)].pointwise; };
    const GraphStep& step = graph_.steps[s];
    return std::ranges::none_of(step.inputs, [&](int v) { return pointwise(graph_.value(v).step); }) &&
           std::ranges::none_of(readers_[static_cast<size_t>(step.outputs[0])], pointwise);
  }

  // True if the value is made channels-last.
  bool made_last(int v, const std::vector<bool>& last) const {
    const GraphValue& x = graph_.value(v);
    if (x.kind != ValueKind::computed || x.step < 0) return false;
    return last[static_cast<size_t>(x.step)] && graph_.steps[static_cast<size_t>(x.step)].outputs[0] == v;
  }
  // True if a step needs a value that is made channels-first in the other layout.
  bool wanted_last(int v, const std::vector<bool>& last) const {
    return std::ranges::any_of(readers_[static_cast<size_t>(v)], [&](int r) {
      const auto reader = static_cast<size_t>(r);
      const std::vector<int>& inputs = graph_.steps[reader].inputs;
      const bool convolves = steps_[reader].kind == Kind::convolution;
      if (convolves && inputs[0] == v && steps_[reader].copies && last[reader]) return true;
      for (size_t k = convolves ? 3 : 0; k < inputs.size(); ++k)
        if (inputs[k] == v && reads_last(reader, k, last)) return true;
      return false;
    });
  }
  // True if step s reads operand k channels-last. A convolution takes its image as it is made, or a copy if
  // others need it as well, or if the convolution would else convert a larger result.
  bool reads_last(size_t s, size_t k, const std::vector<bool>& last) const {
    const GraphStep& step = graph_.steps[s];
    if (steps_[s].kind == Kind::other) return false;
    if (steps_[s].kind == Kind::convolution) {
      const Step& conv = steps_[s];
      const bool saves = conv.computes_last[1] && (conv.computes_last[0] || last[s]);
      if (k == 0)
        return !conv.keeps_first &&
               (made_last(step.inputs[0], last) || (saves && wanted_last(step.inputs[0], last)));
      if (k < 3) return false;  // the weight and the bias
    }
    const GraphValue& x = graph_.value(step.inputs[k]);
    const bool image = x.shape.size() == 4 && x.shape.numel() > 1 && is_image(step.inputs[k]);
    return last[s] && image;
  }
  // True if a step, a view or the caller needs the value in the layout in which it is not made.
  bool needs_copy(int v, const std::vector<bool>& last) const {
    const auto at = static_cast<size_t>(v);
    const bool made = made_last(v, last);
    if (made && (is_result_[at] || viewed_[at])) return true;
    return std::ranges::any_of(readers_[at], [&](int r) {
      const GraphStep& step = graph_.steps[static_cast<size_t>(r)];
      for (size_t k = 0; k < step.inputs.size(); ++k)
        if (step.inputs[k] == v && reads_last(static_cast<size_t>(r), k, last) != made) return true;
      return false;
    });
  }

  void descend(std::vector<bool>& last) const {
    double best = cost(last);
    for (bool better = true; better;) {
      better = false;
      for (size_t s = 0; s < steps_.size(); ++s) {
        if (!steps_[s].may_change) continue;
        last[s] = !last[s];
        const double now = cost(last);
        if (now < best) {
          best = now, better = true;
        } else {
          last[s] = !last[s];
        }
      }
    }
  }

  const OpGraph& graph_;
  std::vector<bool> overwritten_, is_result_, viewed_;  // of each root
  std::vector<std::vector<int>> readers_;               // of each value
  std::vector<Step> steps_;
};

// Stores images channels-last where that saves conversions, if the peak of live bytes stays within the budget
// (0: that of the graph).
inline ChannelsLastReport use_channels_last(OpGraph& graph, int64_t memory_budget = 0) {
  ChannelsLastReport report;
  const ChannelsLastPass pass(graph);
  const std::vector<bool> none(graph.steps.size(), false), last = pass.choose();
  report.before = report.after = pass.cost(none);
  if (last == none) return report;
  ChannelsLastReport done = report;
  OpGraph changed = pass.changed(last, done);
  if (liveness(changed).peak() > std::max(memory_budget, liveness(graph).peak())) return report;
  done.after = pass.cost(last);
  graph = std::move(changed);
  return done;
}

}  // namespace tinytorch::inline TT_BUILD
