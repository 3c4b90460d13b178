// Linear layers with 8-bit codes (contract: backend/cpu/linear_int8.hpp): out = fn(x W^T scales + bias).
//
// Up to four rows of x use dp4a (gemm/int8_gemv.cuh). More rows use tensor cores: by warpgroups if the device
// has them and there are enough large tiles (gemm/int8_warpgroups.cuh), else by single warps
// (gemm/int8_tiles.cuh). Scales, bias and activation are applied to the sums in registers, so that no matrix
// of i32 is written; cuBLASLt writes one, which another kernel reads again. Operands whose rows are not
// multiples of 16 bytes are copied first, with zeros behind them.
#pragma once

#include <optional>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_gemv.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_tiles.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_warpgroups.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/scale_sums.cuh>
#include <tinytorch/backend/cuda/kernels/linear_fp8.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// to [rows, pitch] = from [rows, K] and zeros; a thread writes 16 bytes. pieces: pitch / 16.
static __global__ void __launch_bounds__(256) pad_bytes_kernel(uint4* to, const int8_t* from, int64_t rows,
                                                               int64_t row_step, int64_t K, int64_t pieces) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= rows * pieces) return;
  const int64_t row = i / pieces, k0 = i % pieces * 16;
  int8_t bytes[16];
#pragma unroll
  for (int k = 0; k < 16; ++k) bytes[k] = k0 + k < K ? from[row * row_step + k0 + k] : int8_t{0};
  uint4 piece;
  memcpy(&piece, bytes, sizeof(piece));
  to[i] = piece;
}

// An operand [rows, K] whose rows are contiguous; after align(), each of them is a multiple of 16 bytes.
class ByteOperand {
 public:
  explicit ByteOperand(const View& v) : rows_(v.shape[0]), K_(v.shape[1]) {
    const bool in_place = v.strides[1] == 1 || K_ <= 1;
    if (!in_place) dense_.emplace(v);
    data_ = in_place ? v.as<const int8_t>() : dense_->as<const int8_t>();
    row_ = in_place && rows_ > 1 ? v.strides[0] : K_;
  }
  bool aligned_to(int64_t bytes) const {
    return reinterpret_cast<uintptr_t>(data_) % static_cast<uintptr_t>(bytes) == 0 && K_ % bytes == 0 &&
           (row_ % bytes == 0 || rows_ == 1);
  }
  void align() {
    if (aligned_to(16)) return;
    const int64_t pieces = ceil_div(K_, 16);
    padded_.emplace(rows_ * pieces);
    launch(pad_bytes_kernel, over(rows_ * pieces, 256), padded_->data(), data_, rows_, row_, K_, pieces);
    data_ = reinterpret_cast<const int8_t*>(padded_->data());
    row_ = K_ = pieces * 16;
  }
  const int8_t* data() const { return data_; }
  int64_t row() const { return row_; }
  int64_t depth() const { return K_; }

 private:
  int64_t rows_, K_, row_ = 0;
  const int8_t* data_ = nullptr;
  std::optional<Contiguous> dense_;
  std::optional<DeviceScratch<uint4>> padded_;
};

template <class Tile, class Out>
void launch_byte_tiles(const ByteProduct& p, const ScaledSums<Out>& to) {
  const TileOrder order{ceil_div(p.M, Tile::kRows), ceil_div(p.N, Tile::kColumns)};
  launch(gemm_int8_kernel<Tile, Out>,
         {dim3(static_cast<unsigned>(order.down * order.across)), dim3(Tile::kThreads), Tile::kBytes}, p, to,
         order);
}
template <class Out>
void launch_byte_groups(const ByteProduct& p, const ScaledSums<Out>& to) {
  using Tile = GroupByteTile;
  const TileOrder order{ceil_div(p.M, Tile::kRows), ceil_div(p.N, Tile::kColumns)};
  launch(gemm_int8_groups<Out>,
         {dim3(static_cast<unsigned>(order.down * order.across)), dim3(Tile::kThreads), Tile::kBytes}, p, to,
         order);
}

#if !TINYTORCH_CUDA_SIM
// Computes the product by cuBLASLt, with sums in memory. Returns false if cuBLASLt has no algorithm for it.
template <class Out>
bool blas_bytes(const ByteProduct& p, const ScaledSums<Out>& to) {
  if (!uses_blas() || p.K == 0) return false;
  std::optional<DeviceScratch<int>> sums;
  if constexpr (!std::is_same_v<Out, int>) sums.emplace(p.M * p.N);
  int* data = nullptr;
  if constexpr (std::is_same_v<Out, int>) data = to.out;
  if (sums) data = sums->data();
  BlasProduct b;
  b.M = p.N, b.N = p.M, b.K = p.K;
  b.a = {p.w, DType::i8, true, p.K, p.N, p.w_row, 0};
  b.b = {p.x, DType::i8, false, p.K, p.M, p.x_row, 0};
  b.d = {data, DType::i32, false, p.N, p.M, p.N, 0};
  BlasPlan plan(b);
  if (!plan.find()) return false;
  plan.run();
  if constexpr (!std::is_same_v<Out, int>) scale_sums(to, static_cast<const int*>(data));
  return true;
}
#else
template <class Out>
bool blas_bytes(const ByteProduct&, const ScaledSums<Out>&) {
  return false;
}
#endif

// The path of a product of more than four rows. Large tiles pay if they keep at least half of the
// multiprocessors busy.
inline Int8Path path_of(const ByteProduct& p) {
  const bool groups = has_warpgroups();
  const Int8Path asked = int8_path();
  if (asked == Int8Path::tiles || asked == Int8Path::small_tiles || (asked == Int8Path::warpgroups && groups))
    return asked;
  const auto tiles = [&](int64_t rows, int64_t columns) {
    return 2 * ceil_div(p.M, rows) * ceil_div(p.N, columns);
  };
  const int64_t enough = properties(current_device()).multiprocessors;
  if (groups && p.M > 64 && tiles(GroupByteTile::kRows, GroupByteTile::kColumns) >= enough)
    return Int8Path::warpgroups;
  const bool large = p.M > 64 && tiles(LargeByteTile::kRows, LargeByteTile::kColumns) >= enough;
  return large ? Int8Path::tiles : Int8Path::small_tiles;
}

// Row by row with dp4a, for devices without these tensor cores, too.
template <class Out>
void multiply_by_rows(const ByteOperand& x, const ByteOperand& w, ByteProduct p, ScaledSums<Out> to) {
  const int64_t M = p.M;
  for (int64_t m = 0; m < M; m += kGemvMost) {
    p.M = to.M = std::min<int64_t>(kGemvMost, M - m);
    if (x.aligned_to(16) && w.aligned_to(16))
      launch_gemv<16>(p, to);
    else if (x.aligned_to(4) && w.aligned_to(4))
      launch_gemv<4>(p, to);
    else
      launch_gemv<1>(p, to);
    p.x += p.M * p.x_row, to.out += p.M * to.N;
    if (to.row_scale) to.row_scale += p.M * to.row_step;
  }
}

template <class Out>
void multiply_bytes_to(const ScaledSums<Out>& to, const View& x, const View& weight) {
  ByteOperand a(x), b(weight);
  const auto product = [&] {
    return ByteProduct{a.data(), b.data(), to.M, to.N, a.row(), b.row(), static_cast<int>(a.depth())};
  };
  if (to.M <= kGemvMost || !has_tensor_cores()) return multiply_by_rows(a, b, product(), to);
  a.align(), b.align();
  const ByteProduct p = product();
  if (int8_path() == Int8Path::blas && blas_bytes(p, to)) return;
  const Int8Path path = path_of(p);
  if (path == Int8Path::warpgroups) return launch_byte_groups(p, to);
  if (path == Int8Path::tiles) return launch_byte_tiles<LargeByteTile>(p, to);
  launch_byte_tiles<SmallByteTile>(p, to);
}

void linear_int8(const View& out, const View& x, const View& weight, const View& x_scale,
                 const View& weight_scale, const View& bias, Activation fn) {
  check_codes_product("linear_int8", DType::i8, out, x, weight, x_scale, weight_scale, bias, fn);
  if (out.numel() == 0) return;
  with_scaled_sums(out, x_scale, weight_scale, bias, fn,
                   [&](const auto& to) { multiply_bytes_to(to, x, weight); });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
