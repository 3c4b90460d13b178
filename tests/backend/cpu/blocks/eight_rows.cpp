// Every number of rows and of blocks, against sums in double precision over the decoded weights.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/blocks/fp4_blocks.hpp>
#include <tinytorch/backend/cpu/blocks/k_blocks.hpp>
#include <vector>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

namespace {

// The result of block_product_eight_rows<F>: [M, N], and the largest error relative to the sum of magnitudes.
template <class F>
std::vector<float> product(int64_t M, int64_t N, int64_t blocks, bool parallel, std::mt19937_64& g,
                           double& worst) {
  const int64_t K = blocks * F::kBlock, row_bytes = blocks * F::kBytes;
  std::student_t_distribution<double> heavy(5);
  std::vector<float> w(static_cast<size_t>(N * K)), x(static_cast<size_t>(M * K)),
      y(static_cast<size_t>(M * N));
  for (float& v : w) v = static_cast<float>(heavy(g));
  for (float& v : x) v = static_cast<float>(heavy(g));
  std::vector<uint8_t> bytes(static_cast<size_t>(N * row_bytes));
  for (int64_t b = 0; b < N * blocks; ++b) F::pack(w.data() + b * F::kBlock, bytes.data() + b * F::kBytes);
  for (int64_t b = 0; b < N * blocks; ++b) F::unpack(bytes.data() + b * F::kBytes, w.data() + b * F::kBlock);
  std::vector<int8_t> code(x.size());
  std::vector<float> scale(x.size() / 32);
  std::vector<int32_t> sum(x.size() / 16);
  quantize_activations(x.data(), M * K, code.data(), scale.data(), sum.data());
  BlockOperands o{};
  o.weight = bytes.data(), o.N = N, o.row_bytes = row_bytes, o.blocks = blocks, o.M = M, o.K = K;
  o.code = code.data(), o.scale = scale.data(), o.sum = sum.data(), o.y = y.data(), o.y_row = N;
  o.parallel = parallel;
  block_product_eight_rows<F>(o);
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      double exact = 0, magnitude = 1e-30;
      for (int64_t k = 0; k < K; ++k) {
        const double p = double(code[size_t(m * K + k)]) * double(scale[size_t((m * K + k) / 32)]) *
                         double(w[size_t(n * K + k)]);
        exact += p, magnitude += std::fabs(p);
      }
      worst = std::max(worst, std::fabs(exact - double(y[size_t(m * N + n)])) / magnitude);
    }
  }
  return y;
}

template <class F>
void check_format(std::mt19937_64& g) {
  CAPTURE(F::kName);
  for (const auto& [M, N, blocks] : {std::array<int64_t, 3>{1, 1, 1},
                                     {2, 7, 3},
                                     {1, 8, 1},
                                     {5, 9, 2},
                                     {4, 17, 5},
                                     {7, 31, 1},
                                     {1, 3, 0}}) {
    CAPTURE(M);
    CAPTURE(N);
    CAPTURE(blocks);
    double worst = 0;
    const uint64_t seed = g();
    std::mt19937_64 one(seed), two(seed);
    const std::vector<float> a = product<F>(M, N, blocks, false, one, worst);
    const std::vector<float> b = product<F>(M, N, blocks, true, two, worst);
    CHECK(worst < 1e-6);
    CHECK(a == b);
  }
}

}  // namespace

TEST_CASE("products of eight rows at a time, for every format of unsigned codes") {
  static test::Fresh fresh;
  std::mt19937_64 g(fresh.next());
  check_format<Q4_0>(g), check_format<Q4_1>(g), check_format<Q4_K>(g);
  check_format<Q6_K>(g), check_format<MXFP4>(g), check_format<NVFP4>(g);
}
