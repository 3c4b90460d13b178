// Products with numbers and gaps on CUDA against sums in double.
#include <memory>
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/product_oracle.hpp>
#include <tinytorch/pruning/gaps.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace spmv_gaps_tests {

// A random matrix [N, K] of which `density` of the numbers are stored, on the device.
struct Gaps {
  int64_t N, K;
  std::vector<double> dense;
  tinytorch::GapMatrix host;
  std::unique_ptr<DeviceArray> values;
  DeviceBytes gaps, offsets;
  backend::GapView view;

  Gaps(Fresh& fresh, DType t, int64_t rows, int64_t columns, double density)
      : Gaps(fresh.array(t, {rows, columns}).values(), fresh.next(), t, rows, columns, density) {}
  Gaps(std::vector<double> matrix, uint64_t seed, DType t, int64_t rows, int64_t columns, double density)
      : N(rows),
        K(columns),
        dense(thinned(std::move(matrix), seed, density)),
        host(tinytorch::to_gaps(tinytorch::from_data<double>(dense, {N, K}, cpu).to(t))),
        gaps(static_cast<size_t>(host.entries() / 2 + 4)),
        offsets(static_cast<size_t>(N + 1) * 8) {
    std::vector<double> stored = host.values().to_vector<double>();
    if (stored.empty()) stored.push_back(0);
    values.reset(new DeviceArray(DeviceArray::from(t, {std::ssize(stored)}, stored)));
    backend::cuda::copy_bytes(gaps.data(), on_cuda(0), host.gaps().raw(), cpu,
                              static_cast<size_t>(host.entries() / 2));
    backend::cuda::copy_bytes(offsets.data(), on_cuda(0), host.offsets().raw(), cpu, offsets.size());
    view = {values->view().data,
            reinterpret_cast<const uint8_t*>(gaps.data()),
            reinterpret_cast<const int64_t*>(offsets.data()),
            t,
            N,
            K,
            host.entries()};
  }
  static std::vector<double> thinned(std::vector<double> matrix, uint64_t seed, double density) {
    Generator g(seed);
    for (double& v : matrix)
      if (g.uniform(0, 1) >= density) v = 0;
    return matrix;
  }
};

void check(Fresh& fresh, DType t, int64_t M, int64_t N, int64_t K, double density,
           Layout layout = Layout::dense, DType of_x = DType::boolean, Layout of_out = Layout::dense) {
  INFO(text_of(t), " ", M, " x ", N, " x ", K, " density ", density);
  const DType xt = of_x == DType::boolean ? t : of_x;
  Gaps w(fresh, t, N, K, density);
  DeviceArray x = fresh.array(xt, {M, K}, -1, 1, layout), out(xt, {M, N}, of_out);
  kernels::spmv_gaps(out.view(), x.view(), w.view);
  const double unit = xt == f32 ? 1e-6 : xt == bf16 ? 1.0 / 256 : 1.0 / 2048;
  const double worst =
      worst_of_product(out.values(), x.values(), w.dense, M, N, K, {.of_sum = unit, .of_terms = 1e-6});
  CHECK(worst <= 1.0);
  if (of_out != Layout::gaps) CHECK(out.untouched_around());
}

}  // namespace spmv_gaps_tests

TEST_CASE("products with gaps: any size, density, dtype and layout" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  using spmv_gaps_tests::check;
  const int64_t processors = backend::cuda::properties(0).multiprocessors;
  for (const DType t : {f32, bf16, f16}) {
    for (const double density : {0.0, 0.01, 0.2, 0.5, 1.0}) {
      check(fresh, t, 1, 37, 777, density);
      check(fresh, t, 2, 5, 64, density, Layout::gaps);
      check(fresh, t, 2, 33, 1025, density, Layout::offset, DType::boolean, Layout::offset);
    }
    for (const int64_t K : {1, 7, 8, 255, 256, 257, 2049}) check(fresh, t, 1, 5, K, 0.5);
    check(fresh, t, 3, 1, 9001, 0.3);                    // the warps of a block share a row
    check(fresh, t, 1, 16 * processors + 1, 2600, 0.9);  // a warp has whole rows
    check(fresh, t, 1, 200 * processors + 3, 72, 0.2);   // and several of them
    check(fresh, t, 5, 4, 100, 0.3, Layout::gaps, DType::boolean, Layout::gaps);
  }
  check(fresh, f16, 1, 3, 70001, 0.02);  // x does not fit in shared memory
  check(fresh, f16, 1, 16 * processors + 5, 70001, 0.001);
  check(fresh, bf16, 2, 9, 130, 0.5, Layout::dense, f32);
  check(fresh, f32, 2, 9, 130, 0.5, Layout::gaps, f16);
}

TEST_CASE("gaps: more rows of x than a grid has along y" * needs_devices() * test::long_on_emulator()) {
  Fresh fresh;
  spmv_gaps_tests::check(fresh, f16, 65536 + 3, 2, 8, 0.5);
}

TEST_CASE("gaps: values of a dtype that no kernel reads are refused" * needs_devices()) {
  Fresh fresh;
  spmv_gaps_tests::Gaps w(fresh, f32, 3, 8, 0.5);
  w.view.dtype = DType::f64;
  DeviceArray x = fresh.array(f64, {1, 8}), out(f64, {1, 3});
  std::string code;
  try {
    kernels::spmv_gaps(out.view(), x.view(), w.view);
  } catch (const Error& e) {
    code = e.code();
  }
  CHECK(code == "TT-DTYPE-02");
}

TEST_CASE("gaps without rows, columns or numbers" * needs_devices()) {
  Fresh fresh;
  for (const DType t : {f32, bf16}) {
    spmv_gaps_tests::check(fresh, t, 2, 3, 0, 1);
    spmv_gaps_tests::check(fresh, t, 0, 3, 8, 1);
    spmv_gaps_tests::check(fresh, t, 2, 0, 8, 1);
  }
}

TEST_CASE("gaps: infinities and NaN of x reach only the rows that have a number there" * needs_devices()) {
  Fresh fresh;
  for (const int64_t N : {int64_t{3}, int64_t{16} * backend::cuda::properties(0).multiprocessors + 2}) {
    for (const int64_t K : {400, 70000}) {
      std::vector<double> dense(static_cast<size_t>(N * K));
      for (int64_t n = 0; n < N; ++n)
        dense[static_cast<size_t>(n * K + 390)] = 2;  // far from the first column
      spmv_gaps_tests::Gaps w(dense, 1, f16, N, K, 2);
      std::vector<double> numbers(static_cast<size_t>(K), INFINITY);
      numbers[5] = NAN, numbers[390] = 3;
      DeviceArray x = DeviceArray::from(f16, {1, K}, numbers), out = fresh.array(f16, {1, N});
      kernels::spmv_gaps(out.view(), x.view(), w.view);
      for (const double y : out.values()) REQUIRE(y == 6);
    }
  }
}

#else
TEST_CASE("gaps on CUDA: the build has no CUDA" * doctest::skip()) {}
#endif
