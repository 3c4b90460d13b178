// embedding: selects rows of a table [V, C] by an index tensor of any shape.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/embedding.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cuda/device/fault.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/embedding.hpp>

namespace tinytorch::inline TT_BUILD {

struct EmbeddingOp final : Primitive<EmbeddingOp> {
  static constexpr const char* kName = "embedding";
  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    require_rank(kName, in[0], 2, "a table [V, C]", loc);
    require_index(kName, in[1], loc);
    require_rows(in, loc);
    Shape shape = in[1].shape();
    shape.push_back(in[0].shape()[1]);
    return {{shape, in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], embedding(out[0].view_of(), in[0].view_of(), in[1].view_of()));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {s.needs_grad[0] ? vjp::embedding(g[0], s.inputs[1], s.input_shapes[0]) : Tensor(), Tensor()};
  }

 private:
  void require_rows(const Tensors& in, Loc loc) const {
    const int64_t V = in[0].shape()[0];
    const auto message = [V, table = in[0].describe(), shape = in[1].shape()](int64_t value, int64_t at) {
      int64_t position[kMaxRank];
      backend::locate(shape, contiguous_strides(shape), at, position);
      return "embedding: index " + std::to_string(value) + " at position " +
             Dims(position, position + shape.size()).str() + " is outside [0, " + std::to_string(V) +
             "), the rows of " + table +
             "\n  hint: is the vocabulary of the table as large as the tokenizer's?";
    };
    if (in[1].device().is_cuda()) {
      if constexpr (backend::cuda::is_built()) {
        backend::cuda::check_range(in[1].view_of(), V, {}, message, loc);
      }
      return;
    }
    const int64_t at = backend::cpu::first_outside(in[1].view_of(), V);
    if (at < 0) return;
    int64_t position[kMaxRank];
    const int64_t offset = backend::locate(in[1].shape(), in[1].strides(), at, position);
    fail("TT-RANGE-05", message(in[1].data<int64_t>()[offset], at), loc);
  }
};

TT_API Tensor embedding(const Tensor& weight, const Tensor& index, Loc loc) {
  if (weight.defined() && index.defined() && weight.dtype() == DType::i64 && is_floating(index.dtype())) {
    return embedding(index, weight, loc);  // in PyTorch's order
  }
  return apply(EmbeddingOp(), {weight, index}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
