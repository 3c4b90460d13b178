#include <tinytorch/pruning/bsr_int8.hpp>

#include <cmath>
#include <pruning/formats.hpp>
#include <tinytorch/pruning/sparse_weight.hpp>

using namespace test;

TEST_CASE("BSR int8: each number is within half a step of its row of the block, and zeros stay zeros") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const int64_t B : {16, 32, 64}) {
      for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 1}, {64, 64}, {65, 100}, {0, 9}, {9, 0}}) {
        const tt::Tensor w = sparse_matrix(N, K, 0.1, 4, dtype);
        const tt::BsrInt8Matrix s = tt::to_bsr_int8(w, B);
        const tt::Tensor back = s.dense();
        CHECK(back.dtype() == tt::f32);
        CHECK(back.shape() == w.shape());
        CHECK(s.blocks() == tt::to_bsr(w, B).blocks());
        CHECK(s.bytes() == s.stored() + 4 * s.blocks() * B + 4 * s.blocks() + 8 * ((N + B - 1) / B + 1));
        const std::vector<double> exact = w.to_vector<double>(), got = back.to_vector<double>();
        for (int64_t n = 0; n < N; ++n) {
          for (int64_t first = 0; first < K; first += B) {
            double most = 0;
            for (int64_t k = first; k < std::min(K, first + B); ++k)
              most = std::max(most, std::abs(exact[static_cast<size_t>(n * K + k)]));
            for (int64_t k = first; k < std::min(K, first + B); ++k) {
              const auto i = static_cast<size_t>(n * K + k);
              CHECK(std::abs(got[i] - exact[i]) <= most / 254 * (1 + 1e-5));
              if (exact[i] == 0) CHECK(got[i] == 0);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("BSR int8: parts that do not fit, and matrices that are not floating, are refused") {
  const tt::BsrInt8Matrix s = tt::to_bsr_int8(sparse_matrix(40, 40, 0.5, 2), 16);
  const auto with = [](const tt::BsrMatrix& codes, const tt::Tensor& scales) {
    return errors::thrown_by([&] { tt::BsrInt8Matrix(codes, scales); }).code;
  };
  CHECK(with(s.codes(), s.scales()) == "");
  CHECK(with(s.codes(), tt::Tensor()) == "TT-PRUNE-05");
  CHECK(with(s.codes(), s.scales().to(tt::bf16)) == "TT-PRUNE-05");
  CHECK(with(s.codes(), s.scales().slice(0, 1).contiguous()) == "TT-PRUNE-05");
  CHECK(with(tt::to_bsr(tt::ones({40, 40}), 16), s.scales()) == "TT-PRUNE-05");
  tt::Tensor least = s.codes().values().clone();
  least.data<int8_t>()[3] = -128;
  CHECK(with(tt::BsrMatrix(least, s.codes().indices(), s.codes().offsets(), 40, 40), s.scales()) ==
        "TT-PRUNE-05");
  CHECK(errors::thrown_by([] {
          tt::to_bsr_int8(tt::ones({4, 4}, tt::i32, tt::cpu), 16);
        }).code == "TT-DTYPE-02");
  CHECK(errors::thrown_by([] { tt::to_bsr_int8(tt::ones({4, 4}), 8); }).code == "TT-PRUNE-01");
  CHECK(errors::thrown_by([] { tt::sparse_weight(tt::ones({4, 4}), "bsr8_int8"); }).code == "TT-PRUNE-01");
  CHECK(errors::thrown_by([] { tt::sparse_weight(tt::ones({4, 4}), "csr_int8"); }).code == "TT-PRUNE-01");
}

TEST_CASE("BSR int8: sparse_linear is near the dense layer for every dtype of x, rank and bias") {
  for (const char* const format : {"bsr16_int8", "bsr32_int8", "bsr64_int8"}) {
    const tt::Tensor w = sparse_matrix(70, 130, 0.3, 3);
    const tt::SparseWeight s = tt::sparse_weight(w, format);
    CHECK(s.format() == format);
    CHECK(s.dtype() == tt::i8);
    CHECK(s.shape() == tt::Shape{70, 130});
    for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::f64}) {
      for (const tt::Shape& shape : {tt::Shape{130}, tt::Shape{0, 130}, tt::Shape{2, 3, 130}}) {
        tt::Generator g(4);
        const tt::Tensor x = tt::randn(shape, tt::f32, tt::cpu, g).to(dtype),
                         b = tt::randn({70}, tt::f32, tt::cpu, g);
        const tt::Tensor y = tt::sparse_linear(x, s, b);
        const tt::Tensor expected = tt::linear(x.to(tt::f64), w.to(tt::f64), b.to(tt::f64));
        CHECK(y.dtype() == dtype);
        CHECK(y.shape() == expected.shape());
        // Some 40 products of normal numbers, each with two errors of uniform distribution.
        if (y.numel() > 0) CHECK(tt::max(tt::abs(y.to(tt::f64) - expected)).item<double>() < 0.3);
      }
    }
  }
}

TEST_CASE("BSR int8: a weight that is not finite makes its results NaN") {
  tt::Tensor w = sparse_matrix(20, 40, 1, 3);
  w.data<float>()[5 * 40 + 3] = std::nanf(""), w.data<float>()[7 * 40 + 30] = INFINITY;
  const tt::Tensor y = tt::sparse_linear(tt::ones({2, 40}), tt::sparse_weight(w, "bsr16_int8"));
  for (int64_t i = 0; i < y.numel(); ++i)
    CHECK(std::isnan(y.data<float>()[i]) == (i % 20 == 5 || i % 20 == 7));
}
