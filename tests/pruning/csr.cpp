#include <tinytorch/pruning/csr.hpp>

#include <pruning/formats.hpp>

using namespace test;

TEST_CASE("CSR: round trip of every dtype, shape and density, with exact bytes") {
  for (const tt::DType dtype : kStoredTypes) {
    for (const auto& [N, K] :
         {std::pair<int64_t, int64_t>{3, 1}, {5, 64}, {7, 65}, {1, 200}, {0, 9}, {9, 0}}) {
      for (const double density : {0.0, 0.3, 1.0}) {
        const tt::Tensor w = sparse_matrix(N, K, density, 5, dtype);
        const tt::CsrMatrix s = tt::to_csr(w);
        CHECK(same_values(s.dense(), w));
        CHECK(s.nnz() == nonzero_count(w));
        CHECK(s.bytes() == s.nnz() * (static_cast<int64_t>(tt::size_of(dtype)) + 2) + (N + 1) * 8);
      }
    }
  }
}

TEST_CASE("CSR: columns beyond 65535 take 32 bits, and none wraps around") {
  for (const int64_t K : {65536, 65537, 70000}) {
    tt::Tensor w = tt::zeros({2, K});
    w.data<float>()[K - 1] = 5, w.data<float>()[K] = 6, w.data<float>()[K + 65535] = 7;
    const tt::CsrMatrix s = tt::to_csr(w);
    CHECK(s.narrow() == (K == 65536));
    CHECK(s.indices().dtype() == (K == 65536 ? tt::u8 : tt::i32));
    CHECK(same_values(s.dense(), w));
  }
}

TEST_CASE("CSR: parts that do not fit are refused") {
  const tt::Tensor w = sparse_matrix(4, 70, 0.5, 1);
  const tt::CsrMatrix s = tt::to_csr(w);
  const auto with = [&](const tt::Tensor& values, const tt::Tensor& indices, const tt::Tensor& offsets,
                        int64_t K) {
    return errors::thrown_by([&] { tt::CsrMatrix(values, indices, offsets, K); }).code;
  };
  CHECK(with(s.values(), s.indices(), s.offsets(), 70) == "");
  CHECK(with(s.values(), s.indices(), s.offsets(), 20) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.indices(), s.offsets(), 70000) == "TT-PRUNE-05");
  CHECK(with(s.values().slice(0, 1), s.indices(), s.offsets(), 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.indices(), s.offsets() + 1, 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.indices(), {}, 70) == "TT-PRUNE-05");
  tt::Tensor swapped = s.indices().clone();  // the first two columns of the first row that has any
  std::swap(static_cast<uint16_t*>(swapped.raw())[0], static_cast<uint16_t*>(swapped.raw())[1]);
  CHECK(with(s.values(), swapped, s.offsets(), 70) == "TT-PRUNE-05");
  CHECK(errors::thrown_by([] { tt::to_csr(tt::ones({3})); }).code == "TT-SHAPE-02");
}
