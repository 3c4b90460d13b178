// Products with packed weights, and the table of the library's block formats.
//
// Weights are read packed, once, and never exist as floats in memory. Activations are quantized to 8 bits in
// groups of 32, which makes the inner product one of integers.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.7.
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

#if TT_BODIES(PRODUCTS) || defined(TINYTORCH_TASK)
#include <tinytorch/backend/cpu/blocks/fp4_blocks.hpp>
#include <tinytorch/backend/cpu/blocks/k_blocks.hpp>
#include <tinytorch/backend/cpu/blocks/simple_blocks.hpp>
#include <tinytorch/backend/cpu/loops/copy.hpp>

#include <tasks/backend/cpu/block_linear.hpp>

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

// The product of one packed row with floats, for formats without a dot of their own here.
inline float decoded_dot(const uint8_t* row, const BlockFormat& format, const float* x, int64_t blocks) {
  Scratch<float> w(format.block);
  float sum = 0;
  for (int64_t b = 0; b < blocks; ++b, row += format.bytes, x += format.block) {
    format.unpack(row, 1, w.data());
    for (int64_t i = 0; i < format.block; ++i) sum += w.data()[i] * x[i];
  }
  return sum;
}

TT_API void block_linear(const View& out, const View& x, const View& blocks, const View& bias,
                         const BlockFormat& format, Activations activations) {
  const int64_t M = x.shape[0], K = x.shape[1], N = out.shape[1], groups = K / 32;
  if (out.numel() == 0) return;
  Scratch<float> floats(M * K), y(M * N), b(bias.data ? N : 0);
  copy_view({floats.data(), DType::f32, {M, K}, {K, 1}}, x);
  if (bias.data) copy_view({b.data(), DType::f32, {N}, {1}}, bias);
  const bool coded = activations == Activations::int8 && std::string_view(format.name) == "Q4_0";
  Scratch<int8_t> codes(coded ? K : 0);
  Scratch<float> scales(coded ? groups : 0);
  Scratch<int32_t> sums(coded ? K / 16 : 0);
  for (int64_t m = 0; m < M; ++m) {
    const float* const row_of_x = floats.data() + m * K;
    if (coded) quantize_activations(row_of_x, K, codes.data(), scales.data(), sums.data());
    for (int64_t n = 0; n < N; ++n) {
      const uint8_t* const row = blocks.as<const uint8_t>() + n * blocks.strides[0];
      const float sum = coded ? dot_q4_0(row, codes.data(), scales.data(), groups)
                              : decoded_dot(row, format, row_of_x, K / format.block);
      y.data()[m * N + n] = bias.data ? sum + b.data()[n] : sum;
    }
  }
  copy_view(out, {y.data(), DType::f32, {M, N}, {N, 1}});
}

}  // namespace backend::cpu
}  // namespace tinytorch::inline TT_BUILD
#endif
