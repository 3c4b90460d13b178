// Products with bitmaps on CUDA against sums in double.
#include <memory>
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/product_oracle.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

// A bitmap of a random matrix [N, K] on the device; `density` of its numbers are stored.
struct Bitmap {
  int64_t N, K;
  std::vector<double> dense;
  std::unique_ptr<DeviceArray> values;
  DeviceBytes bits, offsets;
  backend::BitmapView view;

  Bitmap(Fresh& fresh, DType t, int64_t rows, int64_t columns, double density)
      : Bitmap(fresh.array(t, {rows, columns}).values(), fresh.next(), t, rows, columns, density) {}
  Bitmap(std::vector<double> matrix, uint64_t seed, DType t, int64_t rows, int64_t columns, double density)
      : N(rows),
        K(columns),
        dense(std::move(matrix)),
        bits(static_cast<size_t>(N * ((K + 63) / 64) * 8 + 8)),
        offsets(static_cast<size_t>(N + 1) * 8) {
    Generator g(seed);
    const int64_t words = (K + 63) / 64;
    std::vector<uint64_t> word(static_cast<size_t>(N * words + 1));
    std::vector<int64_t> start{0};
    std::vector<double> stored;
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t k = 0; k < K; ++k) {
        double& v = dense[static_cast<size_t>(n * K + k)];
        if (g.uniform(0, 1) >= density) {
          v = 0;
          continue;
        }
        stored.push_back(v);
        word[static_cast<size_t>(n * words + k / 64)] |= uint64_t{1} << (k % 64);
      }
      start.push_back(std::ssize(stored));
    }
    const int64_t count = std::ssize(stored);
    if (count == 0) stored.push_back(0);
    values.reset(new DeviceArray(DeviceArray::from(t, {std::ssize(stored)}, stored)));
    backend::cuda::copy_bytes(bits.data(), on_cuda(0), word.data(), cpu, bits.size());
    backend::cuda::copy_bytes(offsets.data(), on_cuda(0), start.data(), cpu, offsets.size());
    view = {values->view().data,
            reinterpret_cast<const uint64_t*>(bits.data()),
            reinterpret_cast<const int64_t*>(offsets.data()),
            t,
            N,
            K,
            count};
  }
};

void check(Fresh& fresh, DType t, int64_t M, int64_t N, int64_t K, double density,
           Layout layout = Layout::dense, DType of_x = DType::boolean, Layout of_out = Layout::dense) {
  INFO(text_of(t), " ", M, " x ", N, " x ", K, " density ", density);
  const DType xt = of_x == DType::boolean ? t : of_x;
  Bitmap w(fresh, t, N, K, density);
  DeviceArray x = fresh.array(xt, {M, K}, -1, 1, layout), out(xt, {M, N}, of_out);
  kernels::spmv_bitmap(out.view(), x.view(), w.view);
  const double unit = xt == f32 ? 1e-6 : xt == bf16 ? 1.0 / 256 : 1.0 / 2048;
  const double narrow = t == f32 || xt == t ? 0 : t == bf16 ? 1.0 / 256 : 1.0 / 2048;  // of x
  const double worst = worst_of_product(out.values(), x.values(), w.dense, M, N, K,
                                        {.of_sum = unit, .of_terms = 1e-6 + narrow});
  CHECK(worst <= 1.0);
  if (of_out != Layout::gaps) CHECK(out.untouched_around());
}

}  // namespace

TEST_CASE("products with bitmaps: any size, density, dtype and layout" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {f32, bf16, f16}) {
    for (const double density : {0.0, 0.1, 0.5, 1.0}) {
      check(fresh, t, 1, 1, 1, density);
      check(fresh, t, 1, 7, 300, density);
      check(fresh, t, 3, 10, 64, density, Layout::gaps);
      check(fresh, t, 2, 33, 1025, density, Layout::offset, DType::boolean, Layout::offset);
    }
    check(fresh, t, 1, 20, 2048, 0.5);
    check(fresh, t, 1, 3, 9001, 0.5);  // the rings turn several times, and four warps share a row
    check(fresh, t, 2, 3, 5000, 1.0);
    check(fresh, t, 1, 16 * backend::cuda::properties(0).multiprocessors + 1, 2600, 0.9);
    check(fresh, t, 1, 64 * backend::cuda::properties(0).multiprocessors + 3, 72, 0.2);
    check(fresh, t, 5, 4, 100, 0.3, Layout::gaps, DType::boolean, Layout::gaps);
  }
  check(fresh, bf16, 2, 9, 130, 0.5, Layout::dense, f32);
  check(fresh, f32, 2, 9, 130, 0.5, Layout::gaps, f16);
}

TEST_CASE("bitmaps without rows, columns or numbers" * needs_devices()) {
  Fresh fresh;
  for (const DType t : {f32, bf16}) {
    check(fresh, t, 2, 3, 0, 1);
    check(fresh, t, 0, 3, 8, 1);
    check(fresh, t, 2, 0, 8, 1);
  }
}

#else
TEST_CASE("bitmaps on CUDA: the build has no CUDA" * doctest::skip()) {}
#endif
