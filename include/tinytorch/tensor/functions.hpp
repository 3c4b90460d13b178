// All operations on tensors. They are defined in tensor/ops/, one family per file; the derivatives are in
// tensor/vjp/ and the CPU kernels in backend/cpu/, in files of the same name.
//
// Common rules: operands must have the same dtype and device (C++ numbers excepted); shapes broadcast as in
// NumPy; negative dimensions count from the end; `dims = {}` means all dimensions. Results are new tensors
// unless "view" is stated; results of elementwise operations take the memory layout of their inputs
// (tensor/kept_layout.hpp). Errors name the operation, the operands and the caller's line.
#pragma once

#include <optional>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/tensor/tensor.hpp>

namespace tinytorch::inline TT_BUILD {

// --- creation ---
// A tensor of this shape whose elements are all `value`.
TT_API Tensor full(const Shape& shape, Scalar value, DType dtype = DType::f32,
                   Device device = default_device(), TT_LOC);
// All elements are 0.
TT_API Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = default_device(), TT_LOC);
// All elements are 1.
TT_API Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = default_device(), TT_LOC);
// Zeros with the shape, dtype and device of x.
TT_API Tensor zeros_like(const Tensor& x, TT_LOC);
// Ones with the shape, dtype and device of x.
TT_API Tensor ones_like(const Tensor& x, TT_LOC);
// start, start + step, ... while below stop (above stop if step is negative). The default dtype is i64 if all
// three numbers are integers, else f32.
TT_API Tensor arange(Scalar start, Scalar stop, Scalar step = 1, std::optional<DType> dtype = {},
                     Device device = default_device(), TT_LOC);
// `count` evenly spaced values, including both ends.
TT_API Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::f32,
                       Device device = default_device(), TT_LOC);
// The identity matrix [n, n].
TT_API Tensor eye(int64_t n, DType dtype = DType::f32, Device device = default_device(), TT_LOC);
// Uniform on [0, 1).
TT_API Tensor rand(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
                   Generator& generator = default_generator(), TT_LOC);
// Uniform on [low, high); a value that rounds to `high` is replaced by the next smaller number.
TT_API Tensor uniform(double low, double high, const Shape& shape, DType dtype = DType::f32,
                      Device device = default_device(), Generator& generator = default_generator(), TT_LOC);
// Standard normal (Box-Muller).
TT_API Tensor randn(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
                    Generator& generator = default_generator(), TT_LOC);
// Uniform integers in [low, high); the dtype must be able to hold all of them.
TT_API Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype = DType::i64,
                      Device device = default_device(), Generator& generator = default_generator(), TT_LOC);
// 1 with probability p, else 0.
TT_API Tensor bernoulli(double p, const Shape& shape, DType dtype = DType::f32,
                        Device device = default_device(), Generator& generator = default_generator(), TT_LOC);

// --- unary, elementwise ---
TT_API Tensor neg(const Tensor& x, TT_LOC);                             // -x
TT_API Tensor abs(const Tensor& x, TT_LOC);                             // |x|
TT_API Tensor sign(const Tensor& x, TT_LOC);                            // -1, 0 or 1
TT_API Tensor square(const Tensor& x, TT_LOC);                          // x^2
TT_API Tensor clamp(const Tensor& x, Scalar low, Scalar high, TT_LOC);  // min(max(x, low), high)
TT_API Tensor floor(const Tensor& x, TT_LOC);                           // the next integer below
TT_API Tensor ceil(const Tensor& x, TT_LOC);                            // the next integer above
TT_API Tensor round(const Tensor& x, TT_LOC);                           // halfway values round to even
TT_API Tensor logical_not(const Tensor& x, TT_LOC);                     // true where x is 0
// The following functions take floating dtypes only, except relu, which takes integers too.
TT_API Tensor exp(const Tensor& x, TT_LOC);
TT_API Tensor log(const Tensor& x, TT_LOC);
TT_API Tensor log1p(const Tensor& x, TT_LOC);                            // log(1 + x), accurate near 0
TT_API Tensor expm1(const Tensor& x, TT_LOC);                            // e^x - 1, accurate near 0
TT_API Tensor sqrt(const Tensor& x, TT_LOC);                             // the root of x
TT_API Tensor rsqrt(const Tensor& x, TT_LOC);                            // 1 / sqrt(x)
TT_API Tensor reciprocal(const Tensor& x, TT_LOC);                       // 1 / x
TT_API Tensor sin(const Tensor& x, TT_LOC);                              // x in radians
TT_API Tensor cos(const Tensor& x, TT_LOC);                              // x in radians
TT_API Tensor tanh(const Tensor& x, TT_LOC);                             // (e^2x - 1) / (e^2x + 1)
TT_API Tensor sigmoid(const Tensor& x, TT_LOC);                          // 1 / (1 + e^-x)
TT_API Tensor erf(const Tensor& x, TT_LOC);                              // the error function
TT_API Tensor relu(const Tensor& x, TT_LOC);                             // max(x, 0)
TT_API Tensor leaky_relu(const Tensor& x, double slope = 0.01, TT_LOC);  // x for x > 0, slope x otherwise
TT_API Tensor silu(const Tensor& x, TT_LOC);                             // x sigmoid(x)
TT_API Tensor gelu(const Tensor& x, TT_LOC);       // x Phi(x) with the exact normal distribution
TT_API Tensor gelu_tanh(const Tensor& x, TT_LOC);  // the tanh approximation, used by GPT-2
TT_API Tensor softplus(const Tensor& x, double beta = 1, TT_LOC);  // log(1 + e^(beta x)) / beta, beta > 0
TT_API Tensor elu(const Tensor& x, double alpha = 1, TT_LOC);      // x for x > 0, alpha (e^x - 1) otherwise
TT_API Tensor hardswish(const Tensor& x, TT_LOC);                  // x min(max(x + 3, 0), 6) / 6
TT_API Tensor mish(const Tensor& x, TT_LOC);                       // x tanh(softplus(x))

// --- binary, with broadcasting ---
TT_API Tensor add(const Tensor& a, const Tensor& b, TT_LOC);          // a + b
TT_API Tensor sub(const Tensor& a, const Tensor& b, TT_LOC);          // a - b
TT_API Tensor mul(const Tensor& a, const Tensor& b, TT_LOC);          // a b
TT_API Tensor div(const Tensor& a, const Tensor& b, TT_LOC);          // floating dtypes only
TT_API Tensor pow(const Tensor& a, const Tensor& b, TT_LOC);          // a^b
TT_API Tensor maximum(const Tensor& a, const Tensor& b, TT_LOC);      // the larger one; NaN if one is NaN
TT_API Tensor minimum(const Tensor& a, const Tensor& b, TT_LOC);      // the smaller one; NaN if one is NaN
TT_API Tensor eq(const Tensor& a, const Tensor& b, TT_LOC);           // comparisons return bool tensors
TT_API Tensor ne(const Tensor& a, const Tensor& b, TT_LOC);           // a != b
TT_API Tensor lt(const Tensor& a, const Tensor& b, TT_LOC);           // a < b
TT_API Tensor le(const Tensor& a, const Tensor& b, TT_LOC);           // a <= b
TT_API Tensor gt(const Tensor& a, const Tensor& b, TT_LOC);           // a > b
TT_API Tensor ge(const Tensor& a, const Tensor& b, TT_LOC);           // a >= b
TT_API Tensor logical_and(const Tensor& a, const Tensor& b, TT_LOC);  // both are not 0
TT_API Tensor logical_or(const Tensor& a, const Tensor& b, TT_LOC);   // one is not 0
// Elementwise condition ? a : b. condition is bool; all three operands broadcast.
TT_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, TT_LOC);
// The number as a 0-dimensional tensor with the dtype and device of `like`.
TT_API Tensor scalar_like(Scalar value, const Tensor& like, TT_LOC);

// --- reductions ---
// Sums over dims, or over all dimensions if dims is empty; keepdim keeps them with size 1. So do all
// reductions.
TT_API Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);
TT_API Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);  // sum / count
TT_API Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);  // the product
TT_API Tensor max(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
                  TT_LOC);  // the largest element; NaN if one is NaN
TT_API Tensor min(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
                  TT_LOC);  // the smallest element; NaN if one is NaN
TT_API Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
                  TT_LOC);  // true if one element is not 0
TT_API Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
                  TT_LOC);  // true if no element is 0
// Sum of squared deviations divided by n - correction (correction 1 gives the unbiased estimate).
TT_API Tensor var(const Tensor& x, const Dims& dims = {}, int64_t correction = 1, bool keepdim = false,
                  TT_LOC);
TT_API Tensor stddev(const Tensor& x, const Dims& dims = {}, int64_t correction = 1, bool keepdim = false,
                     TT_LOC);
// log of the sum of e^x, without overflow.
TT_API Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);
TT_API Tensor norm(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);  // Euclidean
// Position (i64) of the first maximum or minimum along dim; NaN counts as both.
TT_API Tensor argmax(const Tensor& x, int dim, bool keepdim = false, TT_LOC);
TT_API Tensor argmin(const Tensor& x, int dim, bool keepdim = false, TT_LOC);
// Each element is the sum of the elements up to it along dim.
TT_API Tensor cumsum(const Tensor& x, int dim, TT_LOC);
// Sums x over broadcast dimensions so that the result has `shape`: the derivative of broadcasting.
TT_API Tensor sum_to(const Tensor& x, const Shape& shape, TT_LOC);

// --- shape: views where the strides allow it ---
TT_API Tensor reshape(const Tensor& x, const Shape& shape, TT_LOC);  // view if possible, else a copy
// Dimensions start to end become one: a view if possible, else a copy.
TT_API Tensor flatten(const Tensor& x, int start = 0, int end = -1, TT_LOC);
TT_API Tensor transpose(const Tensor& x, int a, int b, TT_LOC);     // view
TT_API Tensor permute(const Tensor& x, const Dims& order, TT_LOC);  // view
TT_API Tensor squeeze(const Tensor& x, int dim, TT_LOC);            // view
TT_API Tensor unsqueeze(const Tensor& x, int dim, TT_LOC);          // view
TT_API Tensor expand(const Tensor& x, const Shape& shape, TT_LOC);  // view; -1 keeps a size
TT_API Tensor slice(const Tensor& x, int dim, int64_t start, int64_t stop = kEnd, int64_t step = 1,
                    TT_LOC);                                                // view
TT_API Tensor select(const Tensor& x, int dim, int64_t index, TT_LOC);      // view
TT_API Tensors split(const Tensor& x, int64_t size, int dim = 0, TT_LOC);   // views, the last may be shorter
TT_API Tensors chunk(const Tensor& x, int64_t count, int dim = 0, TT_LOC);  // views
// x itself if its elements are in row-major order without gaps, else a copy that is.
TT_API Tensor contiguous(const Tensor& x, TT_LOC);
// A contiguous copy.
TT_API Tensor clone(const Tensor& x, TT_LOC);
// The elements converted to dtype.
TT_API Tensor cast(const Tensor& x, DType dtype, TT_LOC);

// --- rearranging and indexing ---
// Joins tensors along an existing dimension; their other sizes are equal.
TT_API Tensor cat(const Tensors& xs, int dim = 0, TT_LOC);
// Joins tensors of one shape along a new dimension.
TT_API Tensor stack(const Tensors& xs, int dim = 0, TT_LOC);
// widths: (before, after) for each dimension, first dimension first.
TT_API Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& widths, Scalar value = 0,
                  TT_LOC);
// A copy with the order of the elements along dims reversed.
TT_API Tensor flip(const Tensor& x, const Dims& dims, TT_LOC);
// A copy with zeros above the diagonal of each matrix; diagonal k > 0 lies k columns to the right.
TT_API Tensor tril(const Tensor& x, int64_t diagonal = 0, TT_LOC);
// A copy with zeros below the diagonal of each matrix.
TT_API Tensor triu(const Tensor& x, int64_t diagonal = 0, TT_LOC);
// The rows of x (along dim) whose numbers are in index, a vector of i64.
TT_API Tensor index_select(const Tensor& x, int dim, const Tensor& index, TT_LOC);
// out[i][j] = x[index[i][j]][j] for dim 0, and correspondingly for other dimensions.
TT_API Tensor gather(const Tensor& x, int dim, const Tensor& index, TT_LOC);
// A copy of x with source added at the positions that gather(x, dim, index) reads.
TT_API Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, TT_LOC);
// A copy of x with `value` where mask, a bool tensor that broadcasts with x, is true.
TT_API Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, TT_LOC);
struct ValuesAndIndices {
  Tensor values, indices;  // indices: i64
};
TT_API ValuesAndIndices sort(const Tensor& x, int dim = -1, bool descending = false, TT_LOC);  // stable
// The k largest elements along dim (or the smallest), sorted, and their positions.
TT_API ValuesAndIndices topk(const Tensor& x, int64_t k, int dim = -1, bool largest = true, TT_LOC);

// --- composed of other operations ---
// True (bool) where an element is NaN, infinite, or neither. Integers are finite. Dtypes: all.
TT_API Tensor isnan(const Tensor& x, TT_LOC);
TT_API Tensor isinf(const Tensor& x, TT_LOC);
TT_API Tensor isfinite(const Tensor& x, TT_LOC);
// a [M], b [N] -> [M, N]
TT_API Tensor outer(const Tensor& a, const Tensor& b, TT_LOC);
// index i64 [...], 0 <= index < classes -> i64 [..., classes]. Without `classes`, one more than the largest
// index.
TT_API Tensor one_hot(const Tensor& index, int64_t classes = -1, TT_LOC);
// x repeated counts[d] times along dimension d, as a copy. New dimensions are added in front.
TT_API Tensor repeat(const Tensor& x, const Dims& counts, TT_LOC);
// x with each dims[i] rotated by shifts[i] towards higher positions; without dims, all elements in row-major
// order.
TT_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {}, TT_LOC);
// Einstein's sum: einsum("ij,kj->ik", {a, b}) multiplies elements with equal letters and sums over the
// letters that the result does not have. Without "->", the result has the letters that occur once, in
// alphabetical order. Each pair of operands is one matmul, from left to right. A letter twice in one operand
// takes its diagonal; "..." stands for leading dimensions that broadcast. Throws TT-SHAPE-13 if the equation
// is malformed or does not fit the operands.
TT_API Tensor einsum(const std::string& equation, const Tensors& operands, TT_LOC);

// --- matrix product ---
// [..., M, K] x [..., K, N] -> [..., M, N]; leading dimensions broadcast. A vector is a row on the left and a
// column on the right.
TT_API Tensor matmul(const Tensor& a, const Tensor& b, TT_LOC);
// x [..., K], weight [N, K], bias [N] or undefined -> x weight^T + bias [..., N]
TT_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, TT_LOC);

// --- convolution and pooling, images [N, C, H, W] ---
// Two numbers for the sides of an image; a single number serves both: `.stride = 2`, `.padding = {0, 1}`.
struct Size2d {
  int64_t height, width;
  constexpr Size2d(int64_t side) : height(side), width(side) {}
  constexpr Size2d(int64_t h, int64_t w) : height(h), width(w) {}
  constexpr bool is_square() const { return height == width; }
};
// Kernels of conv2d take any filter but the same stride, padding and dilation for both sides. Others are
// composed: x is padded, the result of the common stride is sliced, and zeros dilate the weight.
struct Conv2dOptions {
  Size2d stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;  // of a layer: whether it has one. A function has one if its argument is defined.
};
// weight [C_out, C_in / groups, KH, KW], bias [C_out] or undefined
TT_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     Conv2dOptions options = {}, TT_LOC);
struct Pool2dOptions {
  Size2d kernel = 2, stride = 0, padding = 0;  // stride 0 means stride = kernel
  bool ceil_mode = false;  // the last window of a side may reach beyond the image, by less than a stride
  bool count_include_pad = true;  // avg_pool2d: padding counts as zeros; if false, it does not count
};
// x [N, C, H, W]: the maximum of each window.
TT_API Tensor max_pool2d(const Tensor& x, Pool2dOptions options = {}, TT_LOC);
// x [N, C, H, W]: the mean of each window.
TT_API Tensor avg_pool2d(const Tensor& x, Pool2dOptions options = {}, TT_LOC);
// x [N, C, H, W] -> [N, C, out_h, out_w]: means of windows that divide the image as evenly as possible.
TT_API Tensor adaptive_avg_pool2d(const Tensor& x, int64_t out_h, int64_t out_w, TT_LOC);

// --- softmax and normalization ---
// e^x divided by the sum of e^x along dim, without overflow. The result has the shape and dtype of x.
TT_API Tensor softmax(const Tensor& x, int dim = -1, TT_LOC);
// The logarithm of softmax(x, dim), computed without rounding a probability first.
TT_API Tensor log_softmax(const Tensor& x, int dim = -1, TT_LOC);
// Over the last dimension [..., C]; weight and bias [C] or undefined.
TT_API Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                         double eps = 1e-5, TT_LOC);
// x [..., C] divided by the root of the mean of its squares over C, times weight [C] if it is defined.
TT_API Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6, TT_LOC);
// x [N, C, ...], weight and bias [C] or undefined. The statistics are over all dimensions but C. Returns {y,
// mean [C], biased variance [C]}.
TT_API Tensors batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5,
                                TT_LOC);
// Batch normalization with the given mean [C] and var [C].
TT_API Tensor batch_norm_infer(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight,
                               const Tensor& bias, double eps = 1e-5, TT_LOC);
// x [N, C, ...], weight and bias [C] or undefined. The statistics are over each group of C / groups channels.
TT_API Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                         double eps = 1e-5, TT_LOC);

// --- fused: same results as the composition, with fewer passes over memory (on a GPU) ---
using backend::Activation;  // none, relu, silu, gelu, gelu_tanh
// x [..., C], bias [C] -> f(x + bias)
TT_API Tensor bias_activation(const Tensor& x, const Tensor& bias, Activation fn, TT_LOC);
// f(linear(x, weight, bias))
TT_API Tensor linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation fn,
                                TT_LOC);
// residual + linear(x, weight, bias): x [..., K], weight [N, K], bias [N] or undefined, residual [..., N]
TT_API Tensor linear_residual(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const Tensor& residual, TT_LOC);
// linear(f(linear(x, w_up, b_up)), w_down, b_down): x [..., K], w_up [F, K], b_up [F] or undefined,
// w_down [N, F], b_down [N] or undefined -> [..., N]
TT_API Tensor mlp(const Tensor& x, const Tensor& w_up, const Tensor& b_up, const Tensor& w_down,
                  const Tensor& b_down, Activation fn, TT_LOC);
// sum = residual + dropout(x), normalized = layer_norm(sum): the step between two transformer blocks.
struct NormalizedSum {
  Tensor normalized, sum;
};
TT_API NormalizedSum residual_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight = {},
                                         const Tensor& bias = {}, double eps = 1e-5, double dropout = 0,
                                         Generator& generator = default_generator(), TT_LOC);
TT_API NormalizedSum residual_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight = {},
                                       double eps = 1e-6, double dropout = 0,
                                       Generator& generator = default_generator(), TT_LOC);

// --- attention ---
struct AttentionOptions {
  bool causal = false;  // query t uses keys up to t + S - T; the last query uses all keys
  int64_t window = 0;   // > 0: only keys less than `window` positions away
  double scale = 0;     // factor of q k^T; 0 means 1 / sqrt(D)
  double dropout = 0;   // probability that an attention weight is set to 0
  Tensor lengths{};     // i64 [B]: sample b has only the keys below lengths[b]; undefined: all S keys
};
// softmax(scale q k^T + mask) v, computed without a [T, S] matrix in memory. q [B, H, T, D], k and v
// [B, G, S, D], where G divides H: H / G query heads share one head of keys and values (grouped-query
// attention). Result: [B, H, T, D], stored as [B, T, H, D].
TT_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options = {},
                                           Generator& generator = default_generator(), TT_LOC);
// Attention on packed QKV, as one linear layer computes it: qkv [B, T, (H + 2 G) D] holds H heads of queries,
// then G heads of keys and G of values, each of size D -> [B, T, H D]. Its gradient is one packed tensor too.
TT_API Tensor joined_attention(const Tensor& qkv, int64_t heads, int64_t groups,
                               const AttentionOptions& options = {},
                               Generator& generator = default_generator(), TT_LOC);

// --- embedding and dropout ---
// weight [V, C], index i64 of any shape -> [..., C]. The order of PyTorch, embedding(index, weight), will do,
// too, because their dtypes differ.
TT_API Tensor embedding(const Tensor& weight, const Tensor& index, TT_LOC);
// Sets elements to 0 with probability p, and scales the others by 1 / (1 - p). The mask is not stored:
// backward recomputes it from the random counter.
TT_API Tensor dropout(const Tensor& x, double p, Generator& generator = default_generator(), TT_LOC);

// --- losses ---
enum class Reduction { mean, sum, none };
struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  // mean over the samples that are not ignored, divided by their weights
  Reduction reduction = Reduction::mean;
  Tensor weight{};  // [V]: a factor of each class; undefined: 1
};
// logits [N, V], target i64 [N]: one pass. Also logits [N, V, ...] with target i64 [N, ...], [V] with [], and
// targets of the shape and dtype of the logits, which are the probabilities of the classes; these forms, and
// weights, are composed of other ops (ops/composed_losses.hpp).
TT_API Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options = {},
                            TT_LOC);
// cross_entropy(linear(features, weight), target), reduced to mean or sum, for a large V. Only `rows` rows of
// logits are in memory at a time (0: as many as fit in 1 GiB on a device or 128 MiB on the CPU); if a
// gradient is needed, it is computed from them in the same pass. features [..., C], weight [V, C], target i64
// [...] -> f32, or f64 for f64 features.
TT_API Tensor linear_cross_entropy(const Tensor& features, const Tensor& weight, const Tensor& target,
                                   CrossEntropyOptions options = {}, int64_t rows = 0, TT_LOC);
// (x - target)^2, averaged over all elements or reduced as asked.
TT_API Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, TT_LOC);
// The binary cross-entropy of sigmoid(x) and target, without overflow.
TT_API Tensor bce_with_logits(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                              TT_LOC);

}  // namespace tinytorch::inline TT_BUILD
