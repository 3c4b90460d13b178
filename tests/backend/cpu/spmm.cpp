#include <tinytorch/backend/cpu/spmm.hpp>

#include <cmath>
#include <pruning/formats.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/pruning/bsr.hpp>
#include <tinytorch/pruning/csr.hpp>

using namespace test;

namespace {

// Computes the product by CSR for block 0, else by BSR with this block.
tt::Tensor product(const tt::Tensor& w, const tt::Tensor& b, int64_t block, tt::DType dtype) {
  tt::Tensor c = tt::full({w.size(0), b.size(1)}, 77, dtype, tt::cpu);
  if (block == 0) {
    const tt::CsrMatrix s = tt::to_csr(w);
    tt::backend::cpu::spmm_csr(c.view_of(), s.view(), b.view_of());
  } else {
    const tt::BsrMatrix s = tt::to_bsr(w, block);
    tt::backend::cpu::spmm_bsr(c.view_of(), s.view(), b.view_of());
  }
  return c;
}

double error_of(const tt::Tensor& c, const tt::Tensor& w, const tt::Tensor& b) {
  const tt::Tensor B = b.to(tt::f64), W = w.to(tt::f64);
  const std::vector<double> expected = tt::matmul(W, B).to_vector<double>(), got = c.to_vector<double>(),
                            scale = tt::matmul(tt::abs(W), tt::abs(B)).to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - expected[i]) / std::max(scale[i], 1e-30));
  return worst;
}

// Keeps about `density` of the blocks of 16.
tt::Tensor block_sparse(int64_t N, int64_t K, double density, tt::DType dtype) {
  const tt::Tensor w = sparse_matrix(N, K, 1, 4),
                   keep = sparse_matrix((N + 15) / 16, (K + 15) / 16, density, 5);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k)
      if (keep.data<float>()[n / 16 * keep.size(1) + k / 16] == 0) w.data<float>()[n * K + k] = 0;
  return w.to(dtype);
}

}  // namespace

TEST_CASE("CSR and BSR products equal dense ones at every density, size and dtype of values") {
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::f64}) {
    for (const int64_t block : {0, 16, 32, 64}) {
      for (const double density : {0.0, 0.3, 1.0}) {
        for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 1}, {17, 70}, {65, 33}, {128, 64}}) {
          const tt::Tensor w =
              block == 0 ? sparse_matrix(N, K, density, 7, dtype) : block_sparse(N, K, density, dtype);
          for (const int64_t M : {1, 31, 70}) {
            const tt::DType compute = dtype == tt::f64 ? tt::f64 : tt::f32;
            const tt::Tensor b = sparse_matrix(K, M, 1, 8).to(compute);
            CHECK(error_of(product(w, b, block, compute), w, b) < (dtype == tt::f64 ? 1e-14 : 1e-6));
          }
        }
      }
    }
  }
}

TEST_CASE("columns beyond 65535 are found") {
  tt::Tensor w = tt::zeros({2, 70000});
  w.data<float>()[69999] = 2, w.data<float>()[70000 + 66000] = 3;
  const tt::Tensor b = tt::arange(0, 70000, 1, tt::f32).reshape({70000, 1});
  CHECK(product(w, b, 0, tt::f32).to_vector<float>() == std::vector<float>{139998, 198000});
}

TEST_CASE("transposed and 16-bit operands and results, empty sizes, any number of threads") {
  const tt::Tensor w = sparse_matrix(70, 150, 0.3, 2), x = sparse_matrix(37, 150, 1, 3);
  for (const int64_t block : {0, 32}) {
    const tt::Tensor expected = product(w, x.t().contiguous(), block, tt::f32);
    CHECK(same_values(product(w, x.t(), block, tt::f32), expected));
    CHECK(same_values(product(w, x.t().to(tt::f16), block, tt::f32),
                      product(w, x.t().to(tt::f16).to(tt::f32), block, tt::f32)));
    CHECK(same_values(product(w, x.t(), block, tt::bf16), expected.to(tt::bf16)));
    for (const tt::DType dtype : {tt::f32, tt::bf16}) {
      const tt::Tensor y = tt::zeros({37, 70}, dtype, tt::cpu), yt = y.t();  // a linear layer's result
      const tt::BsrMatrix blocks = tt::to_bsr(w, 32);
      const tt::CsrMatrix rows = tt::to_csr(w);
      if (block == 0)
        tt::backend::cpu::spmm_csr(yt.view_of(), rows.view(), x.t().view_of());
      else
        tt::backend::cpu::spmm_bsr(yt.view_of(), blocks.view(), x.t().view_of());
      CHECK(same_values(y.t().contiguous(), expected.to(dtype)));
    }
    const int threads = tt::thread_count();
    tt::set_thread_count(1);
    CHECK(same_values(product(w, x.t(), block, tt::f32), expected));
    tt::set_thread_count(threads);
    CHECK(product(tt::zeros({0, 5}), tt::ones({5, 3}), block, tt::f32).numel() == 0);
    CHECK(product(tt::ones({3, 5}), tt::ones({5, 0}), block, tt::f32).numel() == 0);
    CHECK(product(tt::zeros({2, 0}), tt::ones({0, 2}), block, tt::f32).to_vector<float>() ==
          std::vector<float>{0, 0, 0, 0});
  }
}

TEST_CASE("integers are refused") {
  const tt::CsrMatrix s = tt::to_csr(tt::ones({2, 2}, tt::i32, tt::cpu));
  const tt::Tensor c = tt::zeros({2, 2});
  CHECK(errors::thrown_by([&] { tt::backend::cpu::spmm_csr(c.view_of(), s.view(), c.view_of()); }).code ==
        "TT-DTYPE-02");
}
