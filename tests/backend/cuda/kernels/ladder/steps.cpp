// The steps to a fast product: every launcher against sums in double, and its refusals.
#include <support/device_array.hpp>
#include <support/errors.hpp>
#include <tinytorch/backend/cuda/kernels/ladder/steps.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Product = void (*)(const backend::View&, const backend::View&, const backend::View&);
template <int kStages>
void pipelined(const backend::View& out, const backend::View& a, const backend::View& b) {
  backend::cuda::gemm_pipelined(out, a, b, kStages);
}
constexpr Product kFloats[] = {backend::cuda::gemm_coalesced, backend::cuda::gemm_shared,
                               backend::cuda::gemm_registers};
constexpr Product kNarrow[] = {backend::cuda::gemm_mma, pipelined<2>, pipelined<3>, pipelined<4>};

// Operands are eighths, so that all sums are exact in f32.
void check(Product product, DType dtype, int64_t M, int64_t N, int64_t K, Layout layout) {
  INFO(M, " x ", N, " x ", K, ", layout ", static_cast<int>(layout));
  const auto numbers = [](int64_t n, int64_t step) {
    std::vector<double> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<double>(i * step % 31 - 15) / 8);
    return x;
  };
  const std::vector<double> x = numbers(M * K, 7), y = numbers(K * N, 11);
  DeviceArray a = DeviceArray::from(dtype, {M, K}, x, layout),
              b = DeviceArray::from(dtype, {K, N}, y, layout), out(f32, {M, N}, layout);
  product(out.view(), a.view(), b.view());
  std::vector<double> want(static_cast<size_t>(M * N));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t n = 0; n < N; ++n)
        want[static_cast<size_t>(m * N + n)] +=
            x[static_cast<size_t>(m * K + k)] * y[static_cast<size_t>(k * N + n)];
  CHECK(out.values() == want);
}

void check_all(Product product, DType dtype) {
  check(product, dtype, 65, 72, 40, Layout::dense);
  check(product, dtype, 7, 16, 104, Layout::dense);
  check(product, dtype, 1, 1, 1, Layout::dense);
  check(product, dtype, 5, 9, 35, Layout::transposed);
  check(product, dtype, 3, 4, 0, Layout::dense);
  check(product, dtype, 0, 4, 3, Layout::dense);
}

std::string code_of(const std::function<void()>& f) { return errors::thrown_by(f).code; }

}  // namespace

TEST_CASE("products of f32, with any sizes and layouts") {
  for (const Product product : kFloats) check_all(product, f32);
}

TEST_CASE("products of bf16 by tensor cores, with any sizes and layouts") {
  for (const Product product : kNarrow) check_all(product, bf16);
}

TEST_CASE("operands that do not fit") {
  DeviceArray a(bf16, {3, 4}), b(bf16, {5, 6}), out(f32, {3, 6});
  CHECK(code_of([&] { backend::cuda::gemm_mma(out.view(), a.view(), b.view()); }) == "TT-SHAPE-02");
  CHECK(code_of([&] { backend::cuda::gemm_shared(out.view(), a.view(), a.view()); }) == "TT-SHAPE-02");
  DeviceArray square(bf16, {8, 8}), result(f32, {8, 8});
  CHECK(code_of([&] { backend::cuda::gemm_registers(result.view(), square.view(), square.view()); }) ==
        "TT-DTYPE-02");
  CHECK(code_of([&] { backend::cuda::gemm_pipelined(result.view(), square.view(), square.view(), 5); }) ==
        "TT-RANGE-08");
}

#endif
