// The library's own kernels, as anyone would submit theirs: the baseline of every match, and what the judge calls
// honest f32. They compute where the tensors lie; nothing is copied.
#pragma once

#include <tinymlperf/entries/kernels.hpp>
#include <tinytorch/backend/cpu/attention.hpp>
#include <tinytorch/backend/cpu/conv.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/embedding.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/backend/cpu/norm.hpp>
#include <tinytorch/backend/cpu/optimizer.hpp>
#include <tinytorch/backend/cpu/pool.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/backend/cpu/softmax.hpp>
#include <tinytorch/backend/functors.hpp>
#include <vector>

namespace tinymlperf::library {

namespace cpu = tinytorch::backend::cpu;
using tinytorch::backend::View;

inline View view(const void* data, tinytorch::DType dtype, std::span<const int64_t> shape) {
  View v{const_cast<void*>(data), dtype, {}, {}};
  for (const int64_t side : shape) v.shape.push_back(side), v.strides.push_back(0);
  int64_t step = 1;
  for (int d = v.rank() - 1; d >= 0; --d) v.strides[d] = step, step *= v.shape[d];
  return v;
}
inline View view(std::span<const float> values, std::initializer_list<int64_t> shape) {
  return view(values.data(), tinytorch::f32, {shape.begin(), shape.size()});
}
inline View view(const Tensor& t) {
  return view(t.bytes.data(), t.dtype == DType::i64 ? tinytorch::i64 : tinytorch::f32, t.shape);
}
// The output has the shape of an input.
inline View like(const Tensor& t, std::span<float> out) { return view(out.data(), tinytorch::f32, t.shape); }

inline void matmul(Inputs in, std::span<float> out) {
  std::vector<int64_t> shape = in[0].shape;  // batches first, where there are any
  shape.back() = in[1].shape.back();
  cpu::matmul(view(out.data(), tinytorch::f32, shape), view(in[0]), view(in[1]));
}
inline void linear(Inputs in, std::span<float> out) {
  cpu::linear(view(out, {in[0].shape[0], in[1].shape[0]}), view(in[0]), view(in[1]), view(in[2]));
}
inline void conv2d(Inputs in, std::span<float> out) {
  const auto &x = in[0].shape, &weight = in[1].shape;
  cpu::conv2d(view(out, {x[0], weight[0], x[2], x[3]}), view(in[0]), view(in[1]), view(in[2]),
              {.kernel_h = 3, .kernel_w = 3, .stride = 1, .padding = 1}, 1);
}
inline void add(Inputs in, std::span<float> out) {
  cpu::binary(tinytorch::backend::BinaryFn::add, like(in[0], out), view(in[0]), view(in[1]));
}
inline void gelu(Inputs in, std::span<float> out) {
  cpu::unary(tinytorch::backend::UnaryFn::gelu, like(in[0], out), view(in[0]));
}
inline void softmax(Inputs in, std::span<float> out) { cpu::softmax(like(in[0], out), view(in[0]), 1); }
inline void log_softmax(Inputs in, std::span<float> out) {
  cpu::log_softmax(like(in[0], out), view(in[0]), 1);
}
inline void layer_norm(Inputs in, std::span<float> out) {
  const int64_t rows = in[0].shape[0];
  std::vector<float> mean(static_cast<size_t>(rows)), rstd(mean);
  cpu::layer_norm(like(in[0], out), view(mean, {rows}), view(rstd, {rows}), view(in[0]), view(in[1]),
                  view(in[2]), 1e-5);
}
inline void rms_norm(Inputs in, std::span<float> out) {
  const int64_t rows = in[0].shape[0];
  std::vector<float> rstd(static_cast<size_t>(rows));
  cpu::rms_norm(like(in[0], out), view(rstd, {rows}), view(in[0]), view(in[1]), 1e-6);
}
inline void sum_rows(Inputs in, std::span<float> out) {
  const bool reduced[] = {false, true};
  cpu::reduce(tinytorch::backend::ReduceFn::sum, view(out, {in[0].shape[0]}), view(in[0]), reduced);
}
inline void max_pool2d(Inputs in, std::span<float> out) {
  const auto& x = in[0].shape;
  const std::vector<int64_t> shape{x[0], x[1], x[2] / 2, x[3] / 2};
  const std::vector<int32_t> where(out.size());  // each maximum, which is not asked for
  cpu::max_pool2d(view(out.data(), tinytorch::f32, shape), view(where.data(), tinytorch::i32, shape),
                  view(in[0]), {.kernel_h = 2, .kernel_w = 2, .stride = 2});
}
inline void attention(Inputs in, std::span<float> out) {
  const auto& q = in[0].shape;  // [H, T, D]
  const std::vector<float> lse(static_cast<size_t>(q[0] * q[1]));
  const auto heads = [&](const void* data) {
    return view(data, tinytorch::f32, std::vector<int64_t>{1, q[0], q[1], q[2]});
  };
  cpu::attention(heads(out.data()), view(lse, {1, q[0], q[1]}), heads(in[0].bytes.data()),
                 heads(in[1].bytes.data()), heads(in[2].bytes.data()),
                 {.scale = 1 / std::sqrt(static_cast<double>(q[2])), .causal = true});
}
inline void embedding(Inputs in, std::span<float> out) {
  cpu::embedding(view(out, {in[1].shape[0], in[0].shape[1]}), view(in[0]), view(in[1]));
}
// The step updates in place, so it works on the output: p, m, v, one after the other.
inline void adamw(Inputs in, std::span<float> out) {
  const auto n = static_cast<int64_t>(in[0].shape[0]);
  const size_t each = static_cast<size_t>(n), of[] = {0, 2, 3};
  for (size_t i = 0; i < 3; ++i)
    std::ranges::copy(in[of[i]].values<float>(), out.begin() + static_cast<std::ptrdiff_t>(i * each));
  cpu::adam_step(view(out.first(each), {n}), view(in[1]), view(out.subspan(each, each), {n}),
                 view(out.last(each), {n}),
                 {.lr = 1e-3, .weight_decay = 0.01, .decoupled = true, .step = 10});
}

inline const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all{{"matmul", matmul},
                                       {"batched_matmul", matmul},
                                       {"linear", linear},
                                       {"conv2d", conv2d},
                                       {"add", add},
                                       {"gelu", gelu},
                                       {"softmax", softmax},
                                       {"log_softmax", log_softmax},
                                       {"layer_norm", layer_norm},
                                       {"rms_norm", rms_norm},
                                       {"sum_rows", sum_rows},
                                       {"max_pool2d", max_pool2d},
                                       {"attention", attention},
                                       {"embedding", embedding},
                                       {"adamw", adamw}};
  return all;
}

}  // namespace tinymlperf::library
