// Products with packed weights, and the table of the library's block formats.
//
// Weights are read packed, once, and never exist as floats in memory. Activations are quantized to 8 bits in
// groups of 32 if the format has a kernel for them, which makes the inner product one of integers. For one
// row, the limit is the bytes of the weights over read bandwidth.
#pragma once

#include <span>
#include <string_view>
#include <tinytorch/backend/block_format.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD {

// All formats of the library, and the one with this name; null if there is none.
TT_API std::span<const BlockFormat> block_formats();
TT_API const BlockFormat* find_block_format(std::string_view name);

namespace backend::cpu {

// out [M, N] = x [M, K] weight^T + bias [N], which may have no data. x, out and bias are f32, bf16 or f16,
// with any strides. blocks u8 [N, format.row_bytes(K)] has contiguous rows, and K is a multiple of
// format.block. A row of the result does not depend on the other rows, nor on the number of threads.
TT_API void block_linear(const View& out, const View& x, const View& blocks, const View& bias,
                         const BlockFormat& format, Activations activations);

}  // namespace backend::cpu
}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(PRODUCTS)
#include <tinytorch/backend/cpu/blocks/fp4_blocks.hpp>
#include <tinytorch/backend/cpu/blocks/k_blocks.hpp>
#include <tinytorch/backend/cpu/blocks/simple_blocks.hpp>
#include <tinytorch/backend/cpu/loops/copy.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API std::span<const BlockFormat> block_formats() {
  namespace cpu = backend::cpu;
  using cpu::block_format;
  static constexpr BlockFormat all[] = {block_format<cpu::Q8_0>(),  block_format<cpu::Q8_1>(),  //
                                        block_format<cpu::Q4_0>(),  block_format<cpu::Q4_1>(),
                                        block_format<cpu::Q4_K>(),  block_format<cpu::Q6_K>(),
                                        block_format<cpu::MXFP4>(), block_format<cpu::NVFP4>()};
  return all;
}
TT_API const BlockFormat* find_block_format(std::string_view name) {
  for (const BlockFormat& f : block_formats())
    if (f.name == name) return &f;
  return nullptr;
}

namespace backend::cpu {

TT_API void block_linear(const View& out, const View& x, const View& blocks, const View& bias,
                         const BlockFormat& format, Activations activations) {
  const int64_t M = x.shape[0], K = x.shape[1], N = out.shape[1];
  if (out.numel() == 0) return;
  Scratch<float> floats(M * K), y(M * N);
  copy_view({floats.data(), DType::f32, {M, K}, {K, 1}}, x);
  BlockOperands o{};
  o.weight = blocks.as<const uint8_t>();
  o.N = N, o.row_bytes = blocks.strides[0], o.blocks = K / format.block;
  o.M = M, o.K = K, o.x = floats.data();
  o.y = y.data(), o.y_row = N;
  o.parallel = 2 * M * N * K > kParallelFlops;
  const bool coded = activations == Activations::int8 && format.product_int8 != nullptr;
  Scratch<int8_t> codes(coded ? M * K : 0);
  Scratch<float> scales(coded ? M * K / kActivationGroup : 0);
  Scratch<int32_t> sums(coded ? M * K / 16 : 0);
  if (coded) {
    maybe_parallel(M > 1 && o.parallel, M, grain_of(K), [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m)
        quantize_activations(floats.data() + m * K, K, codes.data() + m * K,
                             scales.data() + m * (K / kActivationGroup), sums.data() + m * (K / 16));
    });
    o.code = codes.data(), o.scale = scales.data(), o.sum = sums.data();
  }
  (coded ? format.product_int8 : format.product)(o);
  if (bias.data) {
    Scratch<float> b(N);
    copy_view({b.data(), DType::f32, {N}, {1}}, bias);
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < N; ++n) y.data()[m * N + n] += b.data()[n];
  }
  copy_view(out, {y.data(), DType::f32, {M, N}, {N, 1}});
}

}  // namespace backend::cpu
}  // namespace tinytorch::inline TT_BUILD
#endif
