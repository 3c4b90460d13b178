// 2:4 sparse weights on the CPU: which numbers are kept, where strips have them, and products.
#include <cmath>
#include <support/array.hpp>
#include <tinytorch/backend/cpu/sparse24.hpp>
#include <tinytorch/tensor/ops.hpp>

using namespace test;
using backend::Int4Strips24, backend::Strips24;
namespace cpu_kernels = backend::cpu;

TEST_CASE("the two largest of four are kept: ties, zeros, NaN, infinity, strides") {
  const std::vector<double> w{1, -3, 2, 0, 5, 5, 5, 5, 0, 0, 0, 0, NAN, 1, INFINITY, 2};
  const std::vector<double> kept{-3, 2, 5, 5, 0, 0, NAN, INFINITY};
  for (const DType t : {f32, bf16, f16}) {
    for (const Layout layout : {Layout::dense, Layout::gaps}) {
      Array dense = Array::from(t, {1, 16}, w, layout), values(t, {1, 8}), places(u8, {1, 2});
      cpu_kernels::compress24(values.view(), places.view(), dense.view());
      const std::vector<double> got = values.values();
      for (size_t i = 0; i < 8; ++i)
        CHECK((got[i] == kept[i] || (std::isnan(got[i]) && std::isnan(kept[i]))));
      // Groups {1, 2}, {0, 1}, {0, 1}, {0, 2}.
      CHECK(places.values() == std::vector<double>{0x49, 0x84});
    }
  }
}

TEST_CASE("a strip has a pair of row 9, group 6, where lane 6 reads register 3") {
  Array values(bf16, {16, 32}), places(u8, {16, 8});
  for (auto* v : {&values, &places}) std::fill(v->bytes().begin(), v->bytes().end(), uint8_t{0});
  values.view().as<uint16_t>()[9 * 32 + 12] = 0x1234, values.view().as<uint16_t>()[9 * 32 + 13] = 0x5678;
  for (int n = 0; n < 16; ++n)
    for (int i = 0; i < 4; ++i)
      places.view().as<uint16_t>()[n * 4 + i] = static_cast<uint16_t>(0x4444 + n * 16 + i * 256);
  Array strips(u8, Strips24::shape(16, 64));
  cpu_kernels::strips24(strips.view(), values.view(), places.view());
  const auto* const word = strips.view().as<const uint32_t>();
  for (int i = 0; i < 256; ++i) CHECK(word[i] == (i == 6 * 4 + 3 ? 0x56781234u : 0u));
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned low = 0x4444 + lane / 4 * 16 + lane % 4 * 256;
    CHECK(word[256 + lane] == (low | (low + 128) << 16));
  }
}

TEST_CASE("products with strips equal sums in double, for every dtype of x and bias") {
  for (const DType t : {bf16, f16}) {
    for (const auto& [M, N, K] : {std::array<int64_t, 3>{1, 1, 4}, {3, 20, 132}, {2, 5, 64}, {2, 3, 0}}) {
      Array w = Array::random(t, {N, K}, 1), values(t, {N, K / 2}), places(u8, {N, (K + 15) / 16 * 2});
      cpu_kernels::compress24(values.view(), places.view(), w.view());
      Array strips(u8, Strips24::shape(N, K));
      cpu_kernels::strips24(strips.view(), values.view(), places.view());
      Array x = Array::random(t, {M, K}, 2, -1, 1, Layout::gaps), bias = Array::random(f32, {N}, 3),
            out(t, {M, N});
      cpu_kernels::linear_sparse24(out.view(), x.view(), strips.view(), bias.view());
      const auto a = x.values(), v = values.values(), b = bias.values(), got = out.values();
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < N; ++n) {
          double sum = b[static_cast<size_t>(n)];
          for (int64_t i = 0; i < K / 2; ++i) {
            const unsigned four = places.view().as<const uint16_t>()[n * ((K + 15) / 16) + i / 8];
            const int64_t k = i / 2 * 4 + (four >> (i % 8 * 2) & 3);
            sum += a[static_cast<size_t>(m * K + k)] * v[static_cast<size_t>(n * K / 2 + i)];
          }
          CHECK(std::abs(got[static_cast<size_t>(m * N + n)] - sum) <= std::abs(sum) / 128 + 1e-4);
        }
      }
    }
  }
}
