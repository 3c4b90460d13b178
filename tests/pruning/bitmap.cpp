#include <tinytorch/pruning/bitmap.hpp>

#include <pruning/formats.hpp>

using namespace test;

TEST_CASE("bitmap: round trip of every dtype, shape and density, with exact bytes") {
  for (const tt::DType dtype : kStoredTypes) {
    for (const auto& [N, K] :
         {std::pair<int64_t, int64_t>{3, 1}, {5, 64}, {4, 63}, {7, 65}, {1, 200}, {0, 9}, {9, 0}}) {
      for (const double density : {0.0, 0.3, 1.0}) {
        const tt::Tensor w = sparse_matrix(N, K, density, 5, dtype);
        const tt::BitmapMatrix s = tt::to_bitmap(w);
        CHECK(same_values(s.dense(), w));
        CHECK(s.nnz() == nonzero_count(w));
        CHECK(s.bytes() ==
              s.nnz() * static_cast<int64_t>(tt::size_of(dtype)) + N * ((K + 63) / 64) * 8 + (N + 1) * 8);
      }
    }
  }
}

TEST_CASE("bitmap: bit k of a row is element k, transposed matrices are read right, NaN stays and -0 goes") {
  tt::Tensor w = tt::zeros({2, 70});
  w.data<float>()[3] = 1, w.data<float>()[69] = std::numeric_limits<float>::quiet_NaN();
  w.data<float>()[70 + 64] = 2, w.data<float>()[70 + 5] = -0.0f;
  const tt::BitmapMatrix s = tt::to_bitmap(w);
  CHECK(s.bits().to_vector<int64_t>() == std::vector<int64_t>{8, 32, 0, 1});
  CHECK(s.offsets().to_vector<int64_t>() == std::vector<int64_t>{0, 2, 3});
  CHECK(same_values(s.dense(), w));
  const tt::Tensor t = sparse_matrix(9, 70, 0.4, 8).t();
  CHECK(same_values(tt::to_bitmap(t).dense(), t.contiguous()));
}

TEST_CASE("bitmap: parts that do not fit are refused") {
  const tt::BitmapMatrix s = tt::to_bitmap(sparse_matrix(4, 70, 0.5, 1));
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  const auto with = [&](const tt::Tensor& values, const tt::Tensor& bits, const tt::Tensor& offsets,
                        int64_t K) { return code([&] { tt::BitmapMatrix(values, bits, offsets, K); }); };
  CHECK(with(s.values(), s.bits(), s.offsets(), 70) == "");
  CHECK(with(s.values(), s.bits(), s.offsets(), 64) == "TT-PRUNE-05");
  CHECK(with(s.values().slice(0, 1), s.bits(), s.offsets(), 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.bits(), s.offsets().slice(0, 1), 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.bits().to(tt::i32), s.offsets(), 70) == "TT-PRUNE-05");
  tt::Tensor bits = s.bits().clone();
  bits.data<int64_t>()[3] ^= int64_t{1} << 40;  // beyond column 70
  CHECK(with(s.values(), bits, s.offsets(), 70) == "TT-PRUNE-05");
  bits = s.bits().clone();
  bits.data<int64_t>()[2] ^= 1;
  CHECK(with(s.values(), bits, s.offsets(), 70) == "TT-PRUNE-05");
  tt::Tensor offsets = s.offsets().clone();
  offsets.data<int64_t>()[1] = 100;
  CHECK(with(s.values(), s.bits(), offsets, 70) == "TT-PRUNE-05");
  CHECK(with({}, s.bits(), s.offsets(), 70) == "TT-PRUNE-05");
  CHECK(code([] { tt::to_bitmap(tt::ones({2, 3, 4})); }) == "TT-SHAPE-02");
  CHECK(code([] { tt::to_bitmap(tt::Tensor()); }) == "TT-TENSOR-01");
}
