// Matrix products: matmul with batch broadcasting, and linear (x W^T + b) in one pass over the result.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_TENSOR_BODIES
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/pack.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/matmul.hpp>

namespace tinytorch::inline TT_BUILD {

// [..., M, K] x [..., K, N], both of rank 2 or more.
struct MatMul final : Primitive<MatMul> {
  static constexpr const char* kName = "matmul";

  static Shape batch_of(const Shape& s) { return Shape(s.begin(), s.end() - 2); }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    const Shape &a = in[0].shape(), &b = in[1].shape();
    const int64_t M = a[a.size() - 2], K = a.back(), N = b.back();
    if (K != b[b.size() - 2]) {
      fail("TT-SHAPE-02",
           "matmul: inner sizes differ: " + describe_operands(in) +
               "\n  rule: [..., M, K] x [..., K, N]: " + std::to_string(K) + " is not " +
               std::to_string(b[b.size() - 2]) + "\n  hint: transpose one operand with .t()",
           loc);
    }
    const auto batch = broadcast_shapes(batch_of(a), batch_of(b));
    if (!batch)
      fail("TT-SHAPE-02", "matmul: batch dimensions do not broadcast: " + describe_operands(in), loc);
    Shape shape = *batch;
    shape.push_back(M);
    shape.push_back(N);
    const DType t = in[0].dtype();
    return {{shape, t == DType::boolean ? DType::i32 : t}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape().back());
  }
  void run_cpu(const Tensors& in, Tensors& out) const override {
    const Shape batch = batch_of(out[0].shape());
    const int64_t count = batch.numel();
    const Strides a_batch = batch_strides(in[0], batch), b_batch = batch_strides(in[1], batch);
    const backend::View a = last_two(in[0]), b = last_two(in[1]), c = last_two(out[0]);
    const bool by_batch = count >= thread_count();
    const auto products = [&](int64_t begin, int64_t end) {
      int64_t index[kMaxRank];
      for (int64_t i = begin; i < end; ++i) {
        backend::cpu::gemm(shifted(c, i * c.shape.numel()),
                           shifted(a, backend::locate(batch, a_batch, i, index)),
                           shifted(b, backend::locate(batch, b_batch, i, index)), false, !by_batch);
      }
    };
    if (by_batch) return parallel_for(count, 1, products);
    products(0, count);
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {s.needs_grad[0] ? sum_to(vjp::matmul_left(g[0], s.inputs[1]), s.input_shapes[0]) : Tensor(),
            s.needs_grad[1] ? sum_to(vjp::matmul_right(g[0], s.inputs[0]), s.input_shapes[1]) : Tensor()};
  }

 private:
  static backend::View last_two(const Tensor& t) {
    const Shape& s = t.shape();
    const Strides& d = t.strides();
    return {t.view_of().data, t.dtype(), {s[s.size() - 2], s.back()}, {d[d.size() - 2], d.back()}};
  }
  static Strides batch_strides(const Tensor& t, const Shape& batch) {
    return broadcast_strides(batch_of(t.shape()), Strides(t.strides().begin(), t.strides().end() - 2), batch);
  }
  static backend::View shifted(backend::View v, int64_t elements) {
    v.data = v.as<char>() + elements * static_cast<int64_t>(size_of(v.dtype));
    return v;
  }
};

// x [M, K], weight [N, K], bias [N] or undefined -> [M, N]
struct Linear2d final : Primitive<Linear2d> {
  static constexpr const char* kName = "linear";
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    require_floating(kName, in[0], loc);
    require_rank(kName, in[1], 2, "a weight [N, K]", loc);
    const int64_t M = in[0].shape()[0], K = in[0].shape()[1], N = in[1].shape()[0];
    if (K != in[1].shape()[1] || (in[2] && !(in[2].shape() == Shape{N}))) {
      fail("TT-SHAPE-02",
           "linear: sizes differ: " + describe_operands(in) +
               "\n  rule: x [..., K], weight [N, K], bias [N]: the last size of x is the second of weight",
           loc);
    }
    return {{{M, N}, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape().back());
  }
  void run_cpu(const Tensors& in, Tensors& out) const override {
    if (in[2]) backend::cpu::copy(out[0].view_of(), in[2].view_of());
    backend::View weight_t = in[1].view_of();
    std::swap(weight_t.shape[0], weight_t.shape[1]);
    std::swap(weight_t.strides[0], weight_t.strides[1]);
    backend::cpu::gemm(out[0].view_of(), in[0].view_of(), weight_t, static_cast<bool>(in[2]));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::linear(g[0], s.inputs[0], s.inputs[1], s.needs_grad);
  }
};

TT_API Tensor matmul(const Tensor& a, const Tensor& b, Loc loc) {
  if (a.rank() == 0 || b.rank() == 0) {
    fail("TT-SHAPE-04",
         "matmul: needs at least rank 1: " + describe_operands({a, b}) + "\n  hint: use * for scalars", loc);
  }
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0, loc), b, loc), b.rank() == 1 ? 0 : -2, loc);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1, loc), loc), -1, loc);
  if (a.rank() > 2 && b.rank() == 2 && a.is_contiguous() &&
      a.numel() > 0) {  // one tall product instead of many
    Shape shape = a.shape();
    shape.back() = b.shape()[1];
    if (a.shape().back() == b.shape()[0]) {
      return reshape(apply(MatMul(), {reshape(a, {-1, a.shape().back()}, loc), b}, loc), shape, loc);
    }
  }
  return apply(MatMul(), {a, b}, loc);
}

TT_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Loc loc) {
  if (x.rank() == 2) return apply(Linear2d(), {x, weight, bias}, loc);
  if (x.rank() == 0) fail("TT-SHAPE-04", "linear: x needs at least rank 1, got " + x.describe(), loc);
  Shape shape = x.shape();
  const int64_t K = shape.back();
  shape.pop_back();
  const Tensor y = apply(Linear2d(), {reshape(x, {shape.numel(), K}, loc), weight, bias}, loc);
  shape.push_back(weight.shape()[0]);
  return reshape(y, shape, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
