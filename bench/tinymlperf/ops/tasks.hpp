// All ops of the benchmark `krn`: those of floats here, those of packed weights in quantized_tasks.hpp, those
// of sparse weights in sparse_tasks.hpp, those of a KV cache in cache_tasks.hpp. A new op needs an oracle, an
// entry, a kernel in the library's plugin and one in kernels/plain.
#pragma once

#include <tinymlperf/ops/cache_tasks.hpp>
#include <tinymlperf/ops/oracles.hpp>
#include <tinymlperf/ops/quantized_tasks.hpp>
#include <tinymlperf/ops/sparse_tasks.hpp>
#include <tinymlperf/ops/task.hpp>

namespace tinymlperf::judge::kernels {

namespace detail {

// The distributions for ops that are exact for zero_one and defined for all numbers.
inline std::vector<D> every_distribution() {
  return {D::zero_one, D::offset, D::huge, D::zeros, D::subnormal, D::one_hot, D::duplicates, D::not_finite};
}

inline void add_products(std::vector<KernelTask>& out) {
  out.push_back({"matmul",
                 "a [m, k] times b [k, n]",
                 {{384, 384, 384}, {128, 1024, 512}, {1024, 128, 512}, {512, 512, 512}},
                 {{2048, 2048, 2048}, {4096, 1024, 1024}, {1024, 4096, 2048}, {512, 8192, 512}},
                 {1, 1, 1},
                 {130, 130, 130},
                 Exact::for_zero_one,
                 0,
                 every_distribution(),
                 [](const Shape& s) -> Operands {
                   return {{{s[0], s[1]}}, {{s[1], s[2]}}};
                 },
                 [](const Shape& s) -> Shape {
                   return {s[0], s[2]};
                 },
                 oracle::matmul,
                 [](const Shape& s) { return product(s); }});
  out.push_back({"batched_matmul",
                 "a[i] times b[i] for each i of a [b, m, k] and b [b, k, n]",
                 {{4, 256, 256, 256}, {8, 192, 192, 192}, {12, 256, 64, 256}, {16, 128, 128, 128}},
                 {{32, 512, 512, 512}, {64, 256, 256, 256}, {96, 512, 64, 512}, {16, 1024, 256, 1024}},
                 {1, 1, 1, 1},
                 {5, 70, 70, 70},
                 Exact::for_zero_one,
                 0,
                 every_distribution(),
                 [](const Shape& s) -> Operands {
                   return {{{s[0], s[1], s[2]}}, {{s[0], s[2], s[3]}}};
                 },
                 [](const Shape& s) -> Shape {
                   return {s[0], s[1], s[3]};
                 },
                 oracle::matmul,
                 [](const Shape& s) { return product(s); }});
  out.push_back({"linear",
                 "x [m, k] times the transpose of w [n, k], plus b [n]",
                 {{128, 768, 768}, {64, 768, 1024}, {256, 512, 512}, {384, 384, 384}},
                 {{4096, 768, 768}, {2048, 768, 3072}, {8192, 512, 512}, {1024, 2048, 2048}},
                 {1, 1, 1},
                 {130, 130, 130},
                 Exact::for_zero_one,
                 0,
                 every_distribution(),
                 [](const Shape& s) -> Operands {
                   return {{{s[0], s[1]}}, {{s[2], s[1]}}, {{s[2]}}};
                 },
                 [](const Shape& s) -> Shape {
                   return {s[0], s[2]};
                 },
                 oracle::linear,
                 [](const Shape& s) { return product(s); }});
}

inline void add_conv2d(std::vector<KernelTask>& out) {
  out.push_back({"conv2d",
                 "x [n, c, h, w] with filters w [m, c, 3, 3] and b [m], stride 1, padding 1: [n, m, h, w]",
                 {{1, 32, 64, 32, 32}, {4, 16, 32, 32, 32}, {1, 64, 64, 28, 28}, {2, 32, 64, 24, 24}},
                 {{16, 64, 64, 56, 56}, {32, 32, 64, 32, 32}, {8, 128, 128, 28, 28}, {64, 16, 32, 32, 32}},
                 {1, 1, 1, 1, 1},
                 {3, 7, 7, 23, 23},
                 Exact::for_zero_one,
                 0,
                 every_distribution(),
                 [](const Shape& s) -> Operands {
                   return {{{s[0], s[1], s[3], s[4]}}, {{s[2], s[1], 3, 3}}, {{s[2]}}};
                 },
                 [](const Shape& s) -> Shape {
                   return {s[0], s[2], s[3], s[4]};
                 },
                 oracle::conv2d,
                 // Padding costs no work: in a row of w pixels, the three taps read 3 w - 2 pixels.
                 [](const Shape& s) {
                   return static_cast<double>(s[0] * s[1] * s[2] * (3 * s[3] - 2) * (3 * s[4] - 2));
                 }});
}

// A task on the rows of x [m, n], with parameters [n].
inline KernelTask row_task(const char* name, const char* text, std::vector<D> adversarial,
                           Operands (*operands)(const Shape&), decltype(KernelTask::oracle) oracle) {
  return {name,
          text,
          {{512, 1024}, {128, 4096}, {2048, 256}, {384, 768}},
          {{4096, 1024}, {1024, 4096}, {16384, 256}, {2048, 2304}},
          {1, 1},
          {61, 130},
          Exact::never,
          0,
          std::move(adversarial),
          operands,
          [](const Shape& s) -> Shape { return s; },
          oracle,
          [](const Shape& s) { return product(s); }};
}

inline void add_row_ops(std::vector<KernelTask>& out) {
  const auto x = [](const Shape& s) -> Operands { return {{s}}; };
  const auto with_row = [](const Shape& s) -> Operands { return {{s}, {{s[1]}}}; };
  const auto with_rows = [](const Shape& s) -> Operands { return {{s}, {{s[1]}}, {{s[1]}}}; };
  const std::vector<D> all{D::offset,  D::huge,       D::zeros,     D::subnormal,
                           D::one_hot, D::duplicates, D::not_finite},
      finite(all.begin(), all.end() - 1);
  out.push_back(row_task("add", "x [m, n] plus b [n]", all, with_row, oracle::add));
  out.back().exact = Exact::for_zero_one, out.back().adversarial.push_back(D::zero_one);
  out.push_back(row_task("gelu", "x (1 + erf(x / sqrt 2)) / 2 of x [m, n]", finite, x, oracle::gelu));
  out.push_back(row_task("softmax", "exp(x) / sum(exp(x)) of each row of x [m, n]", all, x, oracle::softmax));
  out.push_back(row_task("log_softmax", "log(exp(x) / sum(exp(x))) of each row of x [m, n]", all, x,
                         oracle::log_softmax));
  out.push_back(row_task(
      "layer_norm", "(x - mean) / sqrt(variance + 1e-5) of each row of x [m, n], times w [n], plus b [n]",
      finite, with_rows, oracle::layer_norm));
  out.push_back(row_task("rms_norm", "x / sqrt(mean(x^2) + 1e-6) of each row of x [m, n], times w [n]",
                         finite, with_row, oracle::rms_norm));
  out.push_back(row_task("sum_rows", "the sum of each row of x [m, n]: [m]", all, x, oracle::sum_rows));
  out.back().exact = Exact::for_zero_one, out.back().adversarial.push_back(D::zero_one);
  out.back().output = [](const Shape& s) -> Shape { return {s[0]}; };
}

inline void add_max_pool2d(std::vector<KernelTask>& out) {
  out.push_back(
      {"max_pool2d",
       "the maximum of each 2 x 2 window of x [n, c, h, w], stride 2, without an odd last row or column",
       {{8, 32, 64, 64}, {4, 16, 128, 128}, {32, 16, 32, 32}, {2, 64, 56, 56}},
       {{64, 32, 64, 64}, {16, 16, 128, 128}, {128, 16, 32, 32}, {8, 64, 112, 112}},
       {1, 1, 2, 2},
       {3, 5, 41, 41},
       Exact::always,
       0,
       {D::offset, D::huge, D::zeros, D::subnormal, D::one_hot, D::duplicates, D::not_finite},
       [](const Shape& s) -> Operands { return {{s}}; },
       [](const Shape& s) -> Shape {
         return {s[0], s[1], s[2] / 2, s[3] / 2};
       },
       oracle::max_pool2d,
       [](const Shape&) { return 0.0; }});
}

inline void add_transformer_ops(std::vector<KernelTask>& out) {
  out.push_back({"attention",
                 "causal attention, softmax(q k^T / sqrt d) v, of q, k and v [h, t, d]",
                 {{4, 256, 64}, {8, 256, 32}, {12, 192, 64}, {2, 512, 64}},
                 {{12, 1024, 64}, {16, 512, 64}, {8, 2048, 64}, {32, 512, 32}},
                 {1, 1, 1},
                 {5, 67, 43},
                 Exact::never,
                 0,
                 {D::huge, D::zeros, D::subnormal, D::one_hot, D::duplicates},
                 [](const Shape& s) -> Operands {
                   return {{s}, {s}, {s}};
                 },
                 [](const Shape& s) -> Shape { return s; },
                 oracle::attention,
                 [](const Shape& s) { return static_cast<double>(s[0] * s[1] * (s[1] + 1) * s[2]); }});
  out.push_back({"embedding",
                 "the rows of table [v, d] that index [t] (i64) selects: [t, d]",
                 {{1024, 256, 2048}, {512, 768, 1024}, {2048, 128, 4096}, {256, 1024, 512}},
                 {{16384, 256, 16384}, {8192, 768, 8192}, {32768, 128, 32768}, {4096, 1024, 4096}},
                 {1, 1, 1},
                 {97, 61, 127},
                 Exact::always,
                 0,
                 {D::offset, D::subnormal, D::not_finite},
                 [](const Shape& s) -> Operands {
                   return {{{s[0], s[1]}, Role::table}, {{s[2]}, Role::index, s[0]}};
                 },
                 [](const Shape& s) -> Shape {
                   return {s[2], s[1]};
                 },
                 oracle::embedding,
                 [](const Shape&) { return 0.0; }});
  out.push_back(
      {"adamw",
       "step 10 of p, g, m, v [n] (rate 1e-3, betas 0.9 and 0.999, eps 1e-8, decay 0.01): p, m, v as [3, n]",
       {{262144}, {131072}, {200000}, {393216}},
       {{4194304}, {2097152}, {3000000}, {1048576}},
       {1},
       {127},
       Exact::never,
       1,
       {D::offset, D::huge, D::zeros, D::one_hot, D::duplicates},
       [](const Shape& s) -> Operands {
         return {{s}, {s}, {s}, {s, Role::square}};
       },
       [](const Shape& s) -> Shape {
         return {3, s[0]};
       },
       oracle::adamw,
       [](const Shape& s) { return 4.0 * static_cast<double>(s[0]); }});
}

}  // namespace detail

inline const std::vector<KernelTask>& tasks() {
  static const std::vector<KernelTask> all = [] {
    std::vector<KernelTask> out;
    detail::add_products(out), detail::add_conv2d(out), detail::add_row_ops(out);
    detail::add_max_pool2d(out), detail::add_transformer_ops(out);
    detail::add_quantized_ops(out), detail::add_sparse_ops(out), detail::add_cache_ops(out);
    return out;
  }();
  return all;
}

// Replaces the published shapes by those for a GPU.
inline std::vector<KernelTask> on_device(std::vector<KernelTask> all) {
  for (KernelTask& task : all) task.shapes = task.device_shapes;
  return all;
}

inline const KernelTask& task_named(std::string_view name) {
  for (const KernelTask& task : tasks())
    if (task.name == name) return task;
  throw std::invalid_argument("there is no op \"" + std::string(name) + "\"");
}

}  // namespace tinymlperf::judge::kernels
