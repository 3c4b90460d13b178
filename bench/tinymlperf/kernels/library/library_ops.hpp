// The ops of the benchmark `krn` by the library's kernels, which have the same names on every device: a
// Backend is a struct of them (library_kernels.hpp on the CPU). Inputs and output are
// row-major; nothing is copied.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <tinymlperf/channel/tensor.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/kv_view.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/backend/window.hpp>
#include <vector>

namespace tinymlperf::library {

using tinytorch::backend::View;
using Views = std::span<const View>;

// Row-major over memory that is already there.
inline View view(const void* data, tinytorch::DType dtype, std::span<const int64_t> shape) {
  View v{const_cast<void*>(data), dtype, {}, {}};
  for (const int64_t side : shape) v.shape.push_back(side), v.strides.push_back(0);
  int64_t step = 1;
  for (int d = v.rank() - 1; d >= 0; --d) v.strides[d] = step, step *= v.shape[d];
  return v;
}
inline View view(const void* data, std::initializer_list<int64_t> shape) {
  return view(data, tinytorch::f32, {shape.begin(), shape.size()});
}
inline View view(const void* data, tinytorch::DType dtype, std::initializer_list<int64_t> shape) {
  return view(data, dtype, {shape.begin(), shape.size()});
}
inline tinytorch::DType dtype_of(channel::DType dtype) {
  constexpr tinytorch::DType kTypes[] = {tinytorch::f32, tinytorch::f64, tinytorch::f16, tinytorch::bf16,
                                         tinytorch::i8,  tinytorch::u8,  tinytorch::i32, tinytorch::i64};
  return kTypes[static_cast<size_t>(dtype)];
}
// The output has the shape of an input.
inline View like(const View& in, void* out) {
  View v = in;
  v.data = out;
  return v;
}

struct LibraryOp {
  std::string name;
  // `in`: the inputs, and then the output, for ops that need its shape. `out`: its memory, of any dtype.
  void (*run)(Views in, float* out);
};

// Backend::Memory(n) is n words of 32 bits that live as long as an op takes.
template <class Backend>
struct LibraryOps {
  using Memory = typename Backend::Memory;

  static void matmul(Views in, float* out) {
    const View& a = in[0];  // batches first, where there are any
    const int64_t n = in[1].shape.back();
    Backend::matmul(a.rank() == 2 ? view(out, {a.shape[0], n}) : view(out, {a.shape[0], a.shape[1], n}), a,
                    in[1]);
  }
  static void linear(Views in, float* out) {
    Backend::linear(view(out, {in[0].shape[0], in[1].shape[0]}), in[0], in[1], in[2]);
  }
  static void conv2d(Views in, float* out) {
    const auto &x = in[0].shape, &weight = in[1].shape;
    const tinytorch::backend::Window2d window{.kernel_h = 3, .kernel_w = 3, .stride = 1, .padding = 1};
    Backend::conv2d(view(out, {x[0], weight[0], x[2], x[3]}), in[0], in[1], in[2], window, 1);
  }
  static void add(Views in, float* out) {
    Backend::binary(tinytorch::backend::BinaryFn::add, like(in[0], out), in[0], in[1]);
  }
  static void gelu(Views in, float* out) {
    Backend::unary(tinytorch::backend::UnaryFn::gelu, like(in[0], out), in[0]);
  }
  static void softmax(Views in, float* out) { Backend::softmax(like(in[0], out), in[0], 1); }
  static void log_softmax(Views in, float* out) { Backend::log_softmax(like(in[0], out), in[0], 1); }
  static void layer_norm(Views in, float* out) {
    const int64_t rows = in[0].shape[0];
    const Memory mean(rows), rstd(rows);
    Backend::layer_norm(like(in[0], out), view(mean.data(), {rows}), view(rstd.data(), {rows}), in[0], in[1],
                        in[2], 1e-5);
  }
  static void rms_norm(Views in, float* out) {
    const int64_t rows = in[0].shape[0];
    const Memory rstd(rows);
    Backend::rms_norm(like(in[0], out), view(rstd.data(), {rows}), in[0], in[1], 1e-6);
  }
  static void sum_rows(Views in, float* out) {
    const bool reduced[] = {false, true};
    Backend::reduce(tinytorch::backend::ReduceFn::sum, view(out, {in[0].shape[0]}), in[0], reduced);
  }
  static void max_pool2d(Views in, float* out) {
    const auto& x = in[0].shape;
    const View pooled = view(out, {x[0], x[1], x[2] / 2, x[3] / 2});
    const Memory where(pooled.numel());  // position of each maximum, which is not used
    View index = like(pooled, where.data());
    index.dtype = tinytorch::i32;
    Backend::max_pool2d(pooled, index, in[0],
                        tinytorch::backend::Window2d{.kernel_h = 2, .kernel_w = 2, .stride = 2});
  }
  static void attention(Views in, float* out) {
    const auto& q = in[0].shape;  // [H, T, D]
    const Memory lse(q[0] * q[1]);
    const auto heads = [&](const void* data) { return view(data, {1, q[0], q[1], q[2]}); };
    Backend::attention(heads(out), view(lse.data(), {1, q[0], q[1]}), heads(in[0].data), heads(in[1].data),
                       heads(in[2].data),
                       tinytorch::backend::AttentionParameters{
                           .scale = 1 / std::sqrt(static_cast<double>(q[2])), .causal = true});
  }
  static void embedding(Views in, float* out) {
    Backend::embedding(view(out, {in[1].shape[0], in[0].shape[1]}), in[0], in[1]);
  }
  // The step updates in place, so it works on the output: p, m, v, one after the other.
  static void adamw(Views in, float* out) {
    const int64_t n = in[0].shape[0];
    const View p = view(out, {n}), m = view(out + n, {n}), v = view(out + 2 * n, {n});
    Backend::copy(p, in[0]), Backend::copy(m, in[2]), Backend::copy(v, in[3]);
    Backend::adam_step(
        p, in[1], m, v,
        tinytorch::backend::AdamStep{.lr = 1e-3, .weight_decay = 0.01, .decoupled = true, .step = 10});
  }

  // The scales, then the codes.
  static void quantize_rows(Views in, float* out) {
    const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
    Backend::quantize_rows(view(out + rows, tinytorch::i8, {rows, columns}), view(out, {rows}), in[0]);
  }
  static void gemm_int8(Views in, float* out) {
    Backend::linear_int8(view(out, tinytorch::i32, {in[0].shape[0], in[1].shape[0]}), in[0], in[1], View{},
                         View{}, View{}, tinytorch::backend::Activation::none);
  }
  static void gemv_q4_0(Views in, float* out) { Backend::gemv_q4_0(out, in[0], in[1], in[2]); }
  static void gemm_w4a16(Views in, float* out) {
    Backend::block_linear_q4_0(view(out, {in[0].shape[0], in[1].shape[0]}), in[0], in[1]);
  }
  static void spmm_24(Views in, float* out) {
    Backend::linear_sparse24(view(out, {in[0].shape[0], in[1].shape[0]}), in[0], in[3], View{});
  }
  // A paged cache whose step begins at operand `at`: table, lengths, first_row.
  static tinytorch::backend::KvView paged(Views in, size_t at) {
    tinytorch::backend::KvView kv;
    kv.table = in[at].template as<const int32_t>(), kv.table_width = in[at].shape[1];
    kv.batch = in[at].shape[0];
    kv.lengths = in[at + 1].template as<const int64_t>();
    kv.first_row = in[at + 2].template as<const int64_t>();
    return kv;
  }
  static void attention_paged(Views in, float* out) {
    tinytorch::backend::KvView kv = paged(in, 3);
    kv.keys = in[1].data, kv.values = in[2].data;
    kv.groups = in[1].shape[1], kv.page = in[1].shape[2], kv.head_size = in[1].shape[3];
    kv.longest = kv.table_width * kv.page, kv.most_rows = in[0].shape[0];
    Backend::attention_decode(like(in[0], out), in[0], kv, 1 / std::sqrt(static_cast<double>(kv.head_size)),
                              int64_t{0});
  }
  static void kv_append(Views in, float* out) {
    const View& pools = in.back();  // [2, pages, G, page, D]
    tinytorch::backend::KvView kv = paged(in, 2);
    kv.keys = out, kv.values = reinterpret_cast<uint16_t*>(out) + pools.numel() / 2;
    kv.dtype = tinytorch::bf16;
    kv.groups = pools.shape[2], kv.page = pools.shape[3], kv.head_size = pools.shape[4];
    kv.longest = kv.table_width * kv.page, kv.most_rows = in[0].shape[0];
    Backend::kv_append(kv, in[0], in[1]);
  }

  static const std::vector<LibraryOp>& all() {
    static const std::vector<LibraryOp> ops{{"matmul", matmul},
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
                                            {"adamw", adamw},
                                            {"quantize_rows", quantize_rows},
                                            {"gemm_int8", gemm_int8},
                                            {"gemv_q4_0", gemv_q4_0},
                                            {"gemm_w4a16", gemm_w4a16},
                                            {"spmm_24", spmm_24},
                                            {"attention_paged", attention_paged},
                                            {"kv_append", kv_append}};
    return ops;
  }
};

}  // namespace tinymlperf::library
