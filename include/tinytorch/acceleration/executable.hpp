// Executable: a graph whose values have addresses, ready to be run many times.
//
// All intermediate values lie in one arena, which is allocated once; results are written to tensors of the
// caller, which outlive the call. A run calls the kernels of the steps one after the other: no shape rule, no
// allocation, and no autograd. Only steps that read indices check them again in each run, because a wrong
// index would read foreign memory.
#pragma once

#include <climits>
#include <mutex>
#include <optional>
#include <tinytorch/acceleration/accumulate.hpp>
#include <tinytorch/acceleration/fusion.hpp>
#include <tinytorch/acceleration/plan.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Blocks of memory of a graph: a result that overwrites its step's operand shares the operand's block.
struct BlockPlan {
  std::vector<LiveBlock> blocks;
  std::vector<int> block_of;  // of each value; -1: not in the arena
  Placement placement;
};

// True if the result of a step may be written over an operand: the step is elementwise or adds to the
// operand, and both have the same elements in the same order.
inline bool may_overwrite(const OpGraph& graph, const GraphStep& step, int operand) {
  backend::PointwiseStep ignored;
  const bool fused = dynamic_cast<const FusedPointwise*>(step.op.get()) != nullptr;
  const bool adds = dynamic_cast<const EmbeddingGradAdd*>(step.op.get()) && step.inputs[0] == operand;
  if (!fused && !adds && !step.op->pointwise(ignored)) return false;
  int uses = 0;
  for (const int v : step.inputs) uses += v >= 0 && graph.root(v) == operand ? 1 : 0;
  const GraphValue &a = graph.value(operand), &out = graph.value(step.outputs[0]);
  const bool whole = std::ranges::find(step.inputs, operand) != step.inputs.end() && uses == 1;
  return whole && a.dtype == out.dtype && a.shape == out.shape && a.strides == out.strides &&
         is_contiguous(a.shape, a.strides);
}

// The first `outside` results of the graph are in memory of the caller, all other values in the arena.
inline BlockPlan plan_memory(const OpGraph& graph, int64_t alignment, size_t outside) {
  BlockPlan plan;
  plan.block_of.assign(graph.values.size(), -1);
  const std::vector<int> last = last_uses(graph);
  const int steps = static_cast<int>(graph.steps.size());
  std::vector<bool> is_output(graph.values.size(), false);
  for (size_t k = 0; k < std::min(outside, graph.outputs.size()); ++k)
    is_output[static_cast<size_t>(graph.root(graph.outputs[k]))] = true;
  for (int s = 0; s < steps; ++s) {
    const GraphStep& step = graph.steps[static_cast<size_t>(s)];
    if (step.is_view()) continue;
    for (const int out : step.outputs) {
      const auto o = static_cast<size_t>(out);
      const GraphValue& x = graph.value(out);
      if (is_output[o] || x.kind != ValueKind::computed || x.step != s) continue;
      const int end = std::max(last[o], s);
      int& block = plan.block_of[o];
      if (step.outputs.size() == 1) {
        for (const int v : step.inputs) {
          if (v < 0 || last[static_cast<size_t>(v)] != s || plan.block_of[static_cast<size_t>(v)] < 0)
            continue;
          if (may_overwrite(graph, step, v)) block = plan.block_of[static_cast<size_t>(v)];
        }
      }
      if (block < 0) {
        block = static_cast<int>(plan.blocks.size());
        plan.blocks.push_back({bytes_of(graph.value(out)), s, end});
      }
      plan.blocks[static_cast<size_t>(block)].last = end;
    }
  }
  plan.placement = place(plan.blocks, alignment);
  if (const auto fault = check_placement(plan.blocks, plan.placement, alignment))
    fail("TT-COMPILE-06",
         "memory plan: " + *fault + "\n  hint: this is a fault of the library; please report it");
  return plan;
}

class Executable {
 public:
  // The first `results` results have the layout of result_spec(). The others have that of memory_spec(); or,
  // if they are resident, they stay in the arena until the next run, and run() does not get them.
  explicit Executable(OpGraph graph, int results = INT_MAX, bool resident = false)
      : graph_(std::move(graph)) {
    const size_t outside = resident ? static_cast<size_t>(results) : graph_.outputs.size();
    const Device device = device_of(graph_);
    const int64_t alignment = device.is_cpu() ? 64 : 256;
    plan_ = plan_memory(graph_, alignment, outside);
    at_.resize(graph_.values.size());
    arena_ = empty({align_up(std::max<int64_t>(plan_.placement.bytes, 1), alignment)}, DType::u8, device);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const GraphValue& x = graph_.values[v];
      if (x.kind == ValueKind::external) at_[v] = x.external.detach(), externals_.push_back(v);
      if (plan_.block_of[v] >= 0)
        at_[v] = in_arena(arena_, x, plan_.placement.offset[static_cast<size_t>(plan_.block_of[v])]);
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const GraphValue& x = graph_.values[v];
      if (x.kind != ValueKind::view) continue;
      if (at_[static_cast<size_t>(x.root)].defined()) {
        at_[v] = view_at(x, at_[static_cast<size_t>(x.root)]);
      } else {
        moving_views_.push_back(static_cast<int>(v));
      }
    }
    std::vector<bool> taken(graph_.values.size(), false);
    for (size_t k = 0; k < std::min(outside, graph_.outputs.size()); ++k) {
      const int v = graph_.outputs[k];
      const GraphValue& x = graph_.value(v);
      const bool known_layout = static_cast<int>(direct_.size()) >= results ||
                                is_contiguous(x.shape, x.strides) || is_channels_last(x);
      const bool direct = x.kind == ValueKind::computed && !taken[static_cast<size_t>(v)] && known_layout;
      direct_.push_back(direct);
      if (direct) taken[static_cast<size_t>(v)] = true;
    }
    for (size_t k = 0; k < direct_.size(); ++k) {  // a result that only a view of it, or a copy of it, shows
      const int root = graph_.root(graph_.outputs[k]);
      if (at_[static_cast<size_t>(root)].defined() || graph_.value(root).kind != ValueKind::computed ||
          taken[static_cast<size_t>(root)])
        continue;
      taken[static_cast<size_t>(root)] = true;
      hidden_.push_back(root);
    }
    for (const int v : graph_.outputs) {
      const GraphValue& x = graph_.value(v);
      result_specs_.push_back({x.shape, x.dtype, -1, is_channels_last(x)});
    }
    for (const GraphStep& s : graph_.steps) {
      if (!s.is_view()) computed_.push_back(static_cast<size_t>(&s - graph_.steps.data()));
      reads_indices_.push_back(!s.is_view() && has_integers(s));
      fixed_.push_back(fixed_call(s));
      draws_.emplace_back();
      if (const auto drawn = s.op->draws_from()) draws_.back() = drawn->next_block - graph_.random.next_block;
    }
  }

  const OpGraph& graph() const { return graph_; }
  int64_t arena_bytes() const { return plan_.placement.bytes; }
  // The shape, dtype and layout of result k: row-major, or channels-last if the captured one was.
  const Spec& result_spec(size_t k) const { return result_specs_[k]; }
  // The spec of result k as plain memory, in the layout of the captured value, for results that only another
  // executable reads. The value must be a computed one.
  Spec memory_spec(size_t k) const {
    const GraphValue& x = graph_.value(graph_.outputs[k]);
    return {{x.shape.numel()}, x.dtype};
  }

  uint64_t random_blocks() const { return graph_.random_blocks; }
  // Runs the steps with numbers of the default generator, as the captured function does.
  void run(const Tensors& inputs, const Tensors& results) {
    const GeneratorState random = default_generator().state();
    default_generator().reserve(random_blocks());
    run(inputs, results, random);
  }

  // Result k, which is resident: the tensor of it in the arena, or the external tensor that it is.
  Tensor resident(size_t k) const { return at_[static_cast<size_t>(graph_.outputs[k])]; }

  // True if an external tensor got other memory, as by Module::to(): the addresses are then wrong.
  bool externals_moved() const {
    return std::ranges::any_of(
        externals_, [&](size_t v) { return graph_.values[v].external.storage() != at_[v].storage(); });
  }

  // Runs the steps. Each of `inputs` has the layout of the captured one, or is its memory (memory_spec). It
  // may be undefined if no step reads it. `results` are allocated as result_spec() or memory_spec() says.
  // Random numbers come from the place `random` on; the caller reserves random_blocks() of them. One thread
  // at a time; others wait.
  void run(const Tensors& inputs, const Tensors& results, GeneratorState random) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k].defined()) bind(graph_.inputs[k], apart(inputs[k]));
    for (size_t k = 0; k < results.size(); ++k) {
      if (direct_[k]) bind(graph_.outputs[k], results[k]);
    }
    for (const int v : hidden_) {
      const GraphValue& x = graph_.value(v);
      Tensor block = empty({memory_elements(x)}, x.dtype, x.device);
      at_[static_cast<size_t>(v)] = alias(block, x.shape, x.strides, 0);
    }
    for (const int v : moving_views_) {
      if (!at_[static_cast<size_t>(graph_.root(v))].defined()) continue;  // of an argument that is not read
      const GraphValue& x = graph_.value(v);
      at_[static_cast<size_t>(v)] = view_at(x, at_[static_cast<size_t>(x.root)]);
    }
    for (const size_t s : computed_) run_step(s, random);
    for (const WrittenTensor& w : graph_.written) w.place.storage()->bump_version();
    for (size_t k = 0; k < results.size(); ++k) {
      if (direct_[k]) continue;
      const Tensor value = at_[static_cast<size_t>(graph_.outputs[k])];
      const GraphValue& x = graph_.value(graph_.outputs[k]);
      const bool is_memory = !(results[k].shape() == x.shape);  // memory_spec: it has the layout of the value
      const Tensor place =
          is_memory ? alias(results[k], x.shape, x.strides, results[k].offset()) : results[k];
      TT_KERNEL(place, copy(place.view_of(), value.view_of()));
    }
    forget(inputs.size(), results.size());
  }

 private:
  static bool is_channels_last(const GraphValue& x) {
    return x.shape.size() == 4 && !is_contiguous(x.shape, x.strides) &&
           x.strides == backend::channels_last_strides(x.shape);
  }
  // The tensor, or a copy of it if it is in the arena, as a resident result of an earlier run is: the steps
  // of this run overwrite it.
  Tensor apart(const Tensor& t) const { return t.storage() == arena_.storage() ? t.detach().clone() : t; }
  void bind(int value, const Tensor& t) {
    const GraphValue& x = graph_.value(value);
    if (t.dtype() != x.dtype || t.device() != x.device || t.numel() != x.shape.numel()) {
      fail("TT-SHAPE-02", "executable: " + t.describe() + " is in the place of " + name_of(x.dtype) + " " +
                              x.shape.str() + " on " + x.device.str());
    }
    const bool as_it_is = t.shape() == x.shape && t.strides() == x.strides;
    at_[static_cast<size_t>(value)] = as_it_is ? t : alias(t, x.shape, x.strides, t.offset());
  }
  static int64_t memory_elements(const GraphValue& x) { return std::max<int64_t>(x.shape.numel(), 1); }
  static Tensor in_arena(const Tensor& arena, const GraphValue& x, int64_t offset) {
    Tensor t = alias(arena, x.shape, x.strides, offset / static_cast<int64_t>(size_of(x.dtype)));
    t.impl()->dtype = x.dtype;
    return t;
  }
  static Tensor view_at(const GraphValue& x, const Tensor& root) {
    return alias(root, x.shape, x.strides, root.offset() + x.offset);
  }
  bool has_integers(const GraphStep& s) const {
    return std::ranges::any_of(s.inputs, [&](int v) {
      return v >= 0 && !is_floating(graph_.value(v).dtype) && graph_.value(v).dtype != DType::boolean;
    });
  }
  // The call of a fused step on the CPU, which needs neither tensors nor views once its kernel is compiled;
  // nothing for other steps.
  std::optional<acceleration::CompiledPointwise::FixedCall> fixed_call(const GraphStep& step) const {
    const auto* const fused = dynamic_cast<const FusedPointwise*>(step.op.get());
    if (!fused || !fused->compiled) return std::nullopt;
    SmallVector<backend::View, 8> in, out;
    const auto view = [&](int v) {
      const GraphValue& x = graph_.value(v);
      return backend::View{nullptr, x.dtype, x.shape, x.strides};
    };
    for (const int v : step.inputs) in.push_back(view(v));
    for (const int v : step.outputs) out.push_back(view(v));
    return fused->compiled->fix({out.begin(), out.end()}, {in.begin(), in.end()});
  }
  // False if the kernel is not compiled yet, or an operand is missing.
  bool run_fixed(size_t s) {
    void* at[2 * backend::kKernelOperands];
    size_t count = 0;
    for (const auto* list : {&graph_.steps[s].inputs, &graph_.steps[s].outputs}) {
      for (const int v : *list) {
        const TensorImpl* const t = at_[static_cast<size_t>(v)].impl();
        if (!t) return false;
        at[count++] =
            static_cast<char*>(t->storage->data()) + t->offset * static_cast<int64_t>(size_of(t->dtype));
      }
    }
    const size_t inputs = graph_.steps[s].inputs.size();
    return acceleration::CompiledPointwise::run(*fixed_[s], {at + inputs, count - inputs}, {at, inputs});
  }
  void run_step(size_t s, GeneratorState random) {
    if (fixed_[s] && run_fixed(s)) return;
    const GraphStep& step = graph_.steps[s];
    Tensors inputs, outputs;
    for (const int v : step.inputs) inputs.push_back(v < 0 ? Tensor() : at_[static_cast<size_t>(v)]);
    for (const int v : step.outputs) outputs.push_back(at_[static_cast<size_t>(v)]);
    if (reads_indices_[s]) step.op->infer(inputs, step.loc);
    if (const auto first = draws_[s]) {
      const auto op = step.op->drawing_from({random.seed, random.next_block + *first});
      return run_kernel(*op, inputs, outputs, outputs[0].device(), step.loc);
    }
    run_kernel(*step.op, inputs, outputs, outputs[0].device(), step.loc);
  }
  // Drops the tensors of this call, so that they are freed when the caller drops them.
  void forget(size_t inputs, size_t results) {
    for (size_t k = 0; k < inputs; ++k) at_[static_cast<size_t>(graph_.inputs[k])] = Tensor();
    for (size_t k = 0; k < results; ++k) {
      if (direct_[k]) at_[static_cast<size_t>(graph_.outputs[k])] = Tensor();
    }
    for (const int v : hidden_) at_[static_cast<size_t>(v)] = Tensor();
    for (const int v : moving_views_) at_[static_cast<size_t>(v)] = Tensor();
  }

  OpGraph graph_;
  BlockPlan plan_;
  Tensor arena_;
  Tensors at_;                     // the tensor of each value; undefined between runs if it is the caller's
  std::vector<size_t> externals_;  // values that are tensors of the program
  std::vector<int> moving_views_;  // views of inputs and results
  std::vector<int> hidden_;        // values of which only copies are results
  std::vector<bool> direct_;       // per result: a step writes it; else it is copied at the end
  Specs result_specs_;
  std::vector<size_t> computed_;  // the steps that are not views
  std::vector<bool> reads_indices_;
  std::vector<std::optional<acceleration::CompiledPointwise::FixedCall>> fixed_;  // per step
  std::vector<std::optional<uint64_t>> draws_;  // per step: the first of its blocks of random numbers
  std::mutex mutex_;
};

}  // namespace tinytorch::inline TT_BUILD
