// Accumulation: the gradient of an embedding is added to another gradient of the same table, row by row.
//
// A language model whose head is its embedding has two gradients of one table: a dense one of the head, and
// one that is zero but for the rows of the tokens. Their sum, as two operations, needs a second table. As one
// step, which may overwrite the dense gradient, it needs the rows alone. The bits are those of the two
// operations.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tinytorch/acceleration/graph.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/embedding.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// table [V, C], dy [..., C], index [...] -> table + embedding_grad(dy, index); f32 and f64, on the CPU.
struct EmbeddingGradAdd final : Primitive<EmbeddingGradAdd> {
  static constexpr const char* kName = "embedding_grad_add";
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel() + in[1].numel());
  }
  bool differentiable() const override { return false; }
  void run(const Tensors& in, Tensors& out) const override {
    namespace kernels = backend::cpu;
    const auto add = [](const Tensor& sum, const Tensor& a, const Tensor& b) {
      kernels::binary(backend::BinaryFn::add, sum.view_of(), a.view_of(), b.view_of(), 0);
    };
    Tensor zero = empty({}, in[0].dtype(), cpu);
    std::memset(zero.view_of().data, 0, zero.bytes());
    add(out[0], in[0], zero);  // every row: -0 becomes 0, as when a row of zeros is added

    Tensor place = empty(in[2].shape(), DType::i64, cpu);  // of each index in the list of rows
    kernels::copy(place.view_of(), in[2].view_of());
    auto* const index = place.view_of().as<int64_t>();
    std::vector<int64_t> rows(index, index + place.numel());
    std::ranges::sort(rows);
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (int64_t i = 0; i < place.numel(); ++i)
      index[i] = std::ranges::lower_bound(rows, index[i]) - rows.begin();
    const int64_t C = in[0].size(1), count = static_cast<int64_t>(rows.size());
    Tensor sums = empty({count, C}, in[0].dtype(), cpu);
    kernels::embedding_grad(sums.view_of(), in[1].view_of(), place.view_of());
    for (int64_t r = 0; r < count; ++r) {
      const Tensor to = alias(out[0], {C}, {1}, out[0].offset() + rows[static_cast<size_t>(r)] * C);
      add(to, to, alias(sums, {C}, {1}, r * C));
    }
  }
};

// Replaces each sum of a gradient of an embedding, which nothing else reads, and another tensor by one step.
// The step of the gradient is then dead (fusion.hpp, remove_dead_steps).
inline void accumulate_embeddings(OpGraph& graph) {
  const std::vector<bool> overwritten = graph.overwritten();
  std::vector<int> uses(graph.values.size(), 0);  // of each root
  for (const GraphStep& s : graph.steps) {
    for (const int v : s.inputs)
      if (v >= 0) ++uses[static_cast<size_t>(graph.root(v))];
  }
  for (const int v : graph.outputs) uses[static_cast<size_t>(graph.root(v))] += 2;
  const auto is_plain = [&](int v, const GraphValue& like) {
    const GraphValue& x = graph.value(v);
    return x.kind == ValueKind::computed && x.shape == like.shape && x.dtype == like.dtype &&
           is_contiguous(x.shape, x.strides) && !overwritten[static_cast<size_t>(v)];
  };
  const auto producer = [&](int v) -> const GraphStep* {
    const GraphValue& x = graph.value(v);
    return x.step < 0 || uses[static_cast<size_t>(v)] != 1 ? nullptr
                                                           : &graph.steps[static_cast<size_t>(x.step)];
  };
  for (GraphStep& s : graph.steps) {
    backend::PointwiseStep p;
    const bool adds = s.inputs.size() == 2 && s.op->pointwise(p) &&
                      p.kind == backend::PointwiseKind::binary &&
                      p.fn == static_cast<uint8_t>(backend::BinaryFn::add);
    if (!adds) continue;
    const GraphValue& out = graph.value(s.outputs[0]);
    const bool fits = out.device.is_cpu() && (out.dtype == DType::f32 || out.dtype == DType::f64) &&
                      is_plain(s.outputs[0], out) && is_plain(s.inputs[0], out) && is_plain(s.inputs[1], out);
    if (!fits) continue;
    for (const size_t k : {size_t{1}, size_t{0}}) {
      const GraphStep* const made = producer(s.inputs[k]);
      if (!made || std::string_view(made->op->name()) != "embedding_grad") continue;
      const int dy = made->inputs[0], index = made->inputs[1];
      if (overwritten[static_cast<size_t>(graph.root(dy))] ||
          overwritten[static_cast<size_t>(graph.root(index))])
        continue;
      s.cost.flops += made->cost.flops;
      s.cost.bytes = 2 * static_cast<double>(bytes_of(out)) + static_cast<double>(bytes_of(graph.value(dy)));
      s.inputs = {s.inputs[1 - k], dy, index};
      s.op = EmbeddingGradAdd().clone();
      break;
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD
