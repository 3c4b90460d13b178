// Declarations of all CUDA kernels as plain C++ functions, for the rest of the library.
//
// Each function has the name, operands and results of a function of backend/cpu, whose declaration documents
// it; differences are documented here. Functions queue work on the current stream and return (runtime.hpp).
// cuda_impl.cuh, which exactly one .cu file includes, defines them, so all other code compiles with any C++
// compiler.
#pragma once

#include <atomic>
#include <span>
#include <tinytorch/backend/block_format.hpp>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/backend/difference_loss.hpp>
#include <tinytorch/backend/division.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/kv_view.hpp>
#include <tinytorch/backend/lstm_cell.hpp>
#include <tinytorch/backend/pair_rotation.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/backend/pointwise.hpp>
#include <tinytorch/backend/resampling.hpp>
#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// elementwise
void unary(UnaryFn fn, const View& out, const View& x, double p0 = 0, double p1 = 0);
void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0 = 0);
void where(const View& out, const View& condition, const View& a, const View& b);
void copy(const View& out, const View& x);
void fill(const View& out, double value);
void fill(const View& out, int64_t value);
void activation_grad(BinaryFn fn, const View& dx, const View& dy, const View& v, double p0 = 0);
void division(Division fn, const View& out, const View& a, const View& b);
// pointwise: fused elementwise steps (backend/cpu/pointwise.hpp); at most kDeviceOperands inputs,
// kDeviceResults results and kDeviceSteps steps
void pointwise(const PointwiseProgram& program, std::span<const View> out, std::span<const View> in);

// reduce
void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor = 1);
void arg_extreme(const View& out, const View& x, int dim, bool largest);
void cumsum(const View& out, const View& x, int dim);
// out [C] = sum of x [R, C] over its rows: the gradient of a bias. Both are floating, with equal or
// different dtypes. The order of additions depends on the shape alone. The CPU backend uses reduce() for
// this.
void column_sums(const View& out, const View& x);

// block_linear: products with packed weights (backend/cpu/block_linear.hpp). Here only few rows of x are
// rounded to 8 bits if they may be: up to 16 rows of f32, or 1 of bf16 and f16 where tensor cores take more.
void block_linear(const View& out, const View& x, const View& blocks, const View& bias,
                  const BlockFormat& format, Activations activations);
// code_linear: products with codes whose scales are beside them (backend/cpu/code_linear.hpp)
void code_linear(const View& out, const View& x, const View& codes, const View& scales,
                 const View& zero_points, const View& bias, const BlockFormat& format,
                 Activations activations);

// 2:4 sparse weights (backend/cpu/sparse24.hpp)
void compress24(const View& values, const View& places, const View& dense);
void strips24(const View& strips, const View& values, const View& places);
void strips24_int4(const View& codes, const View& scales, const View& values, const View& places);
void linear_sparse24(const View& out, const View& x, const View& strips, const View& bias);
void linear_sparse24_int4(const View& out, const View& x, const View& codes, const View& scales,
                          const View& bias);
// spmv: products with bitmaps and with gaps (backend/cpu/spmv.hpp, spmv_gaps.hpp); values of w are f32, bf16
// or f16, TT-DTYPE-02 for others
void spmv_bitmap(const View& out, const View& x, const BitmapView& w);
void spmv_gaps(const View& out, const View& x, const GapView& w);
// spmm_bsr: products with blocks (backend/cpu/spmm.hpp) on tensor cores; blocks are of bf16 or f16, and b is
// rounded to their dtype
void spmm_bsr(const View& c, const BsrView& w, const View& b);

// index
void take_rows(const View& out, const View& x, const View& index, int64_t outer, int64_t n, int64_t size,
               int64_t inner);
void add_rows(const View& out, const View& source, const View& index, int64_t outer, int64_t n, int64_t size,
              int64_t inner);
void gather(const View& out, const View& x, const View& index, int dim);
void scatter_add(const View& out, const View& index, const View& source, int dim);
void zero_triangle(const View& out, int64_t diagonal, bool keep_lower);
void sort_rows(const View& values, const View& indices, const View& x, int64_t k, bool descending);
void sample_rows(const View& tokens, const View& logits, const View& best, const View& largest,
                 const View& choices);

// random
void random(Distribution kind, const View& out, uint64_t seed, uint64_t first_block, double a, double b);
void random_integers(const View& out, uint64_t seed, uint64_t first_block, int64_t low, uint64_t span);

// matmul. Process-wide switches:
// allow_tf32: f32 products may round their operands to TF32 (10 bits of mantissa) to use tensor cores, with
// about 8 times the throughput. Off by default, so that f32 products have f32 precision.
inline std::atomic<bool> tf32_flag{false};
inline bool allows_tf32() { return tf32_flag.load(std::memory_order_relaxed); }
inline void allow_tf32(bool on) { tf32_flag = on; }
// use_blas: products may use cuBLASLt; if off, all use this library's kernels. On by default; the emulator
// has no cuBLASLt.
inline std::atomic<bool> blas_flag{true};
inline bool uses_blas() { return blas_flag.load(std::memory_order_relaxed); }
inline void use_blas(bool on) { blas_flag = on; }
void matmul(const View& out, const View& a, const View& b, bool accumulate = false);
// out [..., M, N] (+)= a [..., M, K] b [..., K, N] + bias by this library's own kernel, for every layout.
// out has the dtype of a and b; or f32 for 16-bit floats, and i32 for bool. bias [N] has the dtype of out,
// or no data.
void gemm(const View& out, const View& a, const View& b, const View& bias, bool accumulate);
void linear(const View& out, const View& x, const View& weight, const View& bias);
void linear_residual(const View& out, const View& x, const View& weight, const View& bias,
                     const View& residual);
void linear_activation(Activation fn, const View& out, const View& z, const View& x, const View& weight,
                       const View& bias);
void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x);
void linear_grad_activation(Activation fn, const View& dz, const View& dbias, const View& dy,
                            const View& weight, const View& z);

// 8-bit codes. use_int8_path, process-wide: the implementation of linear_int8 for more than four rows, to
// compare them. `automatic` chooses by shape and device; a path that a device or build lacks falls back to
// it.
enum class Int8Path : uint8_t { automatic, tiles, small_tiles, warpgroups, blas };
inline std::atomic<Int8Path> int8_path_flag{Int8Path::automatic};
inline Int8Path int8_path() { return int8_path_flag.load(std::memory_order_relaxed); }
inline void use_int8_path(Int8Path path) { int8_path_flag = path; }
void quantize_rows(const View& codes, const View& scale, const View& x);
void linear_int8(const View& out, const View& x, const View& weight, const View& x_scale,
                 const View& weight_scale, const View& bias, Activation fn);
void linear_fp8(const View& out, const View& x, const View& weight, const View& x_scale,
                const View& weight_scale, const View& bias, Activation fn);

// fused
void bias_activation(Activation fn, const View& out, const View& x, const View& bias);
void bias_activation_grad(Activation fn, const View& dx, const View& dbias, const View& dy, const View& x,
                          const View& bias);
void residual_norm(const View& out, const View& sum, const View& mean, const View& rstd, const View& x,
                   const View& residual, const View& weight, const View& bias,
                   const ResidualNorm& parameters);
void residual_norm_grad(const View& dx, const View& dresidual, const View& dweight, const View& dbias,
                        const View& dout, const View& dsum, const View& sum, const View& mean,
                        const View& rstd, const View& weight, const ResidualNorm& parameters);

// conv. use_implicit_conv, process-wide: 16-bit images may use tensor cores (conv/implicit.cuh). If off,
// convolutions use columns and matrix products. On by default.
inline std::atomic<bool> implicit_conv_flag{true};
inline bool uses_implicit_conv() { return implicit_conv_flag.load(std::memory_order_relaxed); }
inline void use_implicit_conv(bool on) { implicit_conv_flag = on; }
void conv2d(const View& out, const View& x, const View& weight, const View& bias, const Window2d& window,
            int64_t groups);
void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                       int64_t groups);
void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                        int64_t groups);

// pool
void max_pool2d(const View& out, const View& index, const View& x, const Window2d& window);
void max_pool2d_grad(const View& dx, const View& dy, const View& index, const Window2d& window);
void avg_pool2d(const View& out, const View& x, const Window2d& window);
void avg_pool2d_grad(const View& dx, const View& dy, const Window2d& window);
void adaptive_avg_pool2d(const View& out, const View& x);
void adaptive_avg_pool2d_grad(const View& dx, const View& dy);

// attention
void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
               const AttentionParameters& parameters);
void attention_grad(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                    const View& k, const View& v, const View& out, const View& lse,
                    const AttentionParameters& parameters);
void kv_append(const KvView& kv, const View& k, const View& v);
void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window);
// kv_append(kv, k, v), then attention_decode(out, q, kv, scale, window); k and v have the dtype of q.
void append_and_attend(const View& out, const View& q, const View& k, const View& v, const KvView& kv,
                       double scale, int64_t window);

// softmax
void softmax(const View& out, const View& x, int dim);
void log_softmax(const View& out, const View& x, int dim);
void softmax_grad(const View& dx, const View& dy, const View& y, int dim);
void log_softmax_grad(const View& dx, const View& dy, const View& y, int dim);
void logsumexp(const View& out, const View& x, const bool* reduced);

// norm
void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                const View& bias, double eps);
void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps);
// Unlike the CPU's function, this one has no operand `added`.
void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy, const View& x,
                     const View& mean, const View& rstd, const View& weight);
void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x, const View& rstd,
                   const View& weight);

// batch_norm
void channel_moments(const View& mean, const View& var, const View& x);
void batch_norm(const View& out, const View& x, const View& mean, const View& var, const View& weight,
                const View& bias, double eps);
void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                     const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                     const View& gvar);
void group_norm(const View& out, const View& mean, const View& rstd, const View& x, int64_t groups,
                const View& weight, const View& bias, double eps);
void group_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy, const View& x,
                     const View& mean, const View& rstd, int64_t groups, const View& weight);

// loss
void cross_entropy(const View& loss, const View& lse, const View& logits, const View& target,
                   const CrossEntropyParameters& parameters);
void cross_entropy_grad(const View& dx, const View& grad, const View& logits, const View& target,
                        const View& lse, const CrossEntropyParameters& parameters);
// cross_entropy and cross_entropy_grad with one read of the logits; `grad` is the gradient of the loss. dx
// may be the same memory as the logits.
void cross_entropy_with_grad(const View& loss, const View& lse, const View& dx, const View& logits,
                             const View& target, const CrossEntropyParameters& parameters, double grad = 1);
void pointwise_loss(PointwiseLoss fn, const View& loss, const View& x, const View& target,
                    LossReduction reduction);
void pointwise_loss_grad(PointwiseLoss fn, const View& dx, const View& dtarget, const View& grad,
                         const View& x, const View& target, LossReduction reduction);
void difference_loss(const DifferenceLoss& parameters, const View& loss, const View& x, const View& target,
                     LossReduction reduction);
void difference_loss_grad(const DifferenceLoss& parameters, const View& dx, const View& dtarget,
                          const View& grad, const View& x, const View& target, LossReduction reduction);

// lstm_cell
void lstm_cell(const LstmCellResults& out, const View& gates, const View& cell, const LstmRows& rows = {});
void lstm_cell_grad(const LstmCellGrads& out, const LstmCellUpstream& upstream, const View& activated,
                    const View& cell, const View& next, const View& inside = {});

// interpolate
void interpolate(const View& out, const View& x, const PlaneResampling& axes);
void interpolate_grad(const View& dx, const View& dout, const PlaneResampling& axes);

// rotate_pairs
void rotate_pairs(const View& out, const View& x, const PairRotation& rotation);

// embedding
void embedding(const View& out, const View& weight, const View& index);
void embedding_grad(const View& dw, const View& dy, const View& index);

// peak kernels
void triad(const View& out, const View& a, const View& b, float s);
void fma_chains(const View& x, int64_t rounds);

// dropout
void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t first_block);

// optimizer
void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step);
void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
               const AdamStep& step);
void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step, bool clip);
void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                   bool clip);
void gradient_factor(const View& scalars, std::span<const View> gradients, double limit);
void rmsprop_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const RmsPropStep& step,
                      bool clip);
void adagrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdagradStep& step,
                      bool clip);
void amsgrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                      bool clip);
void lion_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const LionStep& step,
                   bool clip);

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
