// A format of your own for weights: 3 bits a number. A BlockFormat made from a struct with pack() and
// unpack() works in quantize(), linear() and dequantize(), whose generic kernel decodes a row at a time.
//
// The format: 32 numbers in 14 bytes, which is 3.5 bits a number. Bytes 0 and 1 are the scale in f16, and bit
// i % 8 of byte 2 + 4 p + i / 8 is bit p of code i. A code is from 0 to 7, and x = scale (code - 3.5): there
// is no zero, but the levels are symmetric.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tinytorch/backend/cpu/blocks/block_rows.hpp>
#include <tinytorch/quantization/tensor.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

struct ThreeBits {
  static constexpr const char* kName = "three_bits";
  static constexpr int32_t kGgufType = -1;  // GGUF files do not have it
  static constexpr int64_t kBlock = 32, kBytes = 14;

  static void pack(const float* x, uint8_t* block) {
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    tt::store_half(block,
                   largest / 4);  // the largest magnitude is halfway between the last level and the next
    const float scale = tt::load_half(block);
    std::fill_n(block + 2, 12, uint8_t{0});
    for (int i = 0; i < 32; ++i) {
      const float level = scale > 0 ? std::floor(x[i] / scale) + 4 : 4;
      const int code = static_cast<int>(std::clamp(level, 0.0f, 7.0f));
      for (int p = 0; p < 3; ++p)
        block[2 + 4 * p + i / 8] = static_cast<uint8_t>(block[2 + 4 * p + i / 8] | (code >> p & 1) << i % 8);
    }
  }
  static void unpack(const uint8_t* block, float* x) {
    const float scale = tt::load_half(block);
    for (int i = 0; i < 32; ++i) {
      int code = 0;
      for (int p = 0; p < 3; ++p) code |= (block[2 + 4 * p + i / 8] >> i % 8 & 1) << p;
      x[i] = scale * (static_cast<float>(code) - 3.5f);
    }
  }
};

int main() {
  constexpr tt::BlockFormat kThreeBits = tt::backend::cpu::block_format<ThreeBits>();
  tt::manual_seed(7);
  const tt::Tensor weight = tt::randn({256, 1024}, tt::f32, tt::cpu);
  const tt::Tensor x = tt::randn({4, 1024}, tt::f32, tt::cpu), y = tt::linear(x, weight);
  std::printf("%-12s %7s %9s %22s\n", "format", "bits", "SQNR, dB", "error of linear(x, w)");
  const auto row = [&](const tt::BlockFormat& format) {
    const tt::QuantizedTensor packed = tt::quantize(weight, format);
    const tt::Tensor error = tt::linear(x, packed) - y;
    const double relative = std::sqrt(tt::sum(error * error).item<double>() / tt::sum(y * y).item<double>());
    std::printf("%-12s %7.2f %9.1f %21.2f%%\n", format.name, format.bits_per_weight(),
                tt::sqnr_db(weight, packed), 100 * relative);
  };
  row(kThreeBits);
  for (const tt::BlockFormat& format : tt::block_formats()) row(format);
}
