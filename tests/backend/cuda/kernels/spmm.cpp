// Products with weights of dense blocks on CUDA against sums in double.
#include <cmath>
#include <memory>
#include <support/errors.hpp>
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/product_oracle.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

// Random blocks of a matrix [N, K] on the device. Each block is stored with the probability `density`.
struct Blocks {
  int64_t N, K, B;
  std::vector<double> dense;      // [N, K]
  std::vector<char> used_column;  // [K]: some block has it
  std::unique_ptr<DeviceArray> values;
  DeviceBytes columns, offsets;
  backend::BsrView view;

  Blocks(Fresh& fresh, DType t, int64_t rows, int64_t wide, int64_t block, double density)
      : N(rows),
        K(wide),
        B(block),
        dense(static_cast<size_t>(N * K)),
        used_column(static_cast<size_t>(K)),
        columns(static_cast<size_t>(all() * 4 + 4)),
        offsets(static_cast<size_t>((N + B - 1) / B * 8 + 8)) {
    Generator g(fresh.next());
    std::vector<int32_t> at;
    std::vector<int64_t> starts{0};
    for (int64_t r = 0; r * B < N; ++r) {
      for (int64_t c = 0; c * B < K; ++c)
        if (g.uniform(0, 1) < density) at.push_back(static_cast<int32_t>(c));
      starts.push_back(std::ssize(at));
    }
    const int64_t count = std::ssize(at);
    const std::vector<double> random = fresh.array(t, {std::max<int64_t>(1, count), B, B}).values();
    values.reset(
        new DeviceArray(DeviceArray::from(t, {std::max<int64_t>(1, count), B, B}, fill(random, at, starts))));
    if (count > 0) backend::cuda::copy_bytes(columns.data(), on_cuda(0), at.data(), cpu, at.size() * 4);
    backend::cuda::copy_bytes(offsets.data(), on_cuda(0), starts.data(), cpu, starts.size() * 8);
    view = {values->view().data,
            reinterpret_cast<const int32_t*>(columns.data()),
            reinterpret_cast<const int64_t*>(offsets.data()),
            t,
            N,
            K,
            B,
            count};
  }

 private:
  int64_t all() const { return ((N + B - 1) / B) * ((K + B - 1) / B); }
  // The stored numbers: zeros beyond the last row and column. Writes the same numbers to `dense`.
  std::vector<double> fill(std::vector<double> stored, const std::vector<int32_t>& at,
                           const std::vector<int64_t>& starts) {
    for (int64_t r = 0; r + 1 < std::ssize(starts); ++r) {
      for (int64_t i = starts[static_cast<size_t>(r)]; i < starts[static_cast<size_t>(r + 1)]; ++i) {
        for (int64_t e = 0; e < B * B; ++e) {
          const int64_t n = r * B + e / B, k = at[static_cast<size_t>(i)] * B + e % B;
          double& v = stored[static_cast<size_t>(i * B * B + e)];
          if (n < N && k < K)
            dense[static_cast<size_t>(n * K + k)] = v, used_column[static_cast<size_t>(k)] = 1;
          else
            v = 0;
        }
      }
    }
    return stored;
  }
};

// y [M, N] = x [M, K] w^T, as a linear layer asks for it.
void multiply(DeviceArray& y, const Blocks& w, DeviceArray& x) {
  kernels::spmm_bsr(backend::transposed(y.view()), w.view, backend::transposed(x.view()));
}

double unit_of(DType t) { return t == f32 ? 1e-6 : t == bf16 ? 1.0 / 256 : 1.0 / 2048; }

void check(Fresh& fresh, DType t, int64_t M, int64_t N, int64_t K, int64_t B, double density,
           Layout layout = Layout::dense, DType of_x = DType::boolean, Layout of_out = Layout::dense) {
  INFO(text_of(t), " ", M, " x ", N, " x ", K, " blocks of ", B, " density ", density);
  const DType xt = of_x == DType::boolean ? t : of_x;
  const Blocks w(fresh, t, N, K, B, density);
  DeviceArray x = fresh.array(xt, {M, K}, -1, 1, layout), out(xt, {M, N}, of_out);
  multiply(out, w, x);
  const double narrow = xt == t ? 0 : unit_of(t);  // x is rounded
  const double worst = worst_of_product(out.values(), x.values(), w.dense, M, N, K,
                                        {.of_sum = unit_of(xt), .of_terms = 2e-6 + narrow});
  CHECK(worst <= 1.0);
  if (of_out != Layout::gaps) CHECK(out.untouched_around());
}

}  // namespace

TEST_CASE("products with blocks: any size, density, block and dtype, few rows of x" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {bf16, f16}) {
    for (const int64_t B : {16, 32, 64}) {
      for (const double density : {0.0, 0.4, 1.0}) {
        if (left_out(6)) continue;
        check(fresh, t, 1, 1, 1, B, density);
        check(fresh, t, 3, 70, 37, B, density);
        check(fresh, t, 17, 130, 200, B, density, Layout::gaps);
        check(fresh, t, 64, B, 5 * B, B, density);
        check(fresh, t, 33, 2 * B + 1, 9 * B + 8, B, density, Layout::offset, DType::boolean, Layout::offset);
      }
    }
  }
}

TEST_CASE("products with blocks: many rows of x, partial tiles and layouts" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {bf16, f16}) {
    for (const int64_t B : {16, 32, 64}) {
      if (left_out(3)) continue;
      check(fresh, t, 65, 100, 3 * B + 1, B, 0.5);
      check(fresh, t, 256, B, 6 * B, B, 0.5);
      check(fresh, t, 257, 24, 2 * B + 24, B, 0.7, Layout::gaps, DType::boolean, Layout::gaps);
      check(fresh, t, 300, B + 8, 40, B, 1.0, Layout::offset, DType::boolean, Layout::offset);
    }
  }
}

TEST_CASE("products with blocks: x and results of other dtypes" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  check(fresh, bf16, 9, 40, 130, 32, 0.5, Layout::dense, f32);
  check(fresh, f16, 70, 66, 100, 64, 0.5, Layout::gaps, f32);
  check(fresh, f16, 5, 33, 64, 16, 0.5, Layout::dense, bf16);
}

TEST_CASE("products with blocks: no rows, columns or blocks" * needs_devices()) {
  Fresh fresh;
  for (const int64_t B : {16, 64}) {
    check(fresh, bf16, 2, 3, 0, B, 1);
    check(fresh, bf16, 0, 3, 8, B, 1);
    check(fresh, bf16, 2, 0, 8, B, 1);
    check(fresh, bf16, 100, 200, 300, B, 0);
  }
}

TEST_CASE("products with blocks: columns without a block are not read, and NaN passes through others" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  const int64_t M = 70, N = 32, K = 640, B = 16;
  Blocks w(fresh, bf16, N, K, B, 0.3);
  std::vector<double> clean = fresh.whole(M * K, -4, 5), dirty = clean;
  for (int64_t m = 0; m < M; ++m)
    for (int64_t k = 0; k < K; ++k)
      if (!w.used_column[static_cast<size_t>(k)])
        dirty[static_cast<size_t>(m * K + k)] = m % 2 ? kNan : kInfinity;
  DeviceArray x = DeviceArray::from(bf16, {M, K}, clean), spoiled = DeviceArray::from(bf16, {M, K}, dirty);
  DeviceArray a(bf16, {M, N}), b(bf16, {M, N}), again(bf16, {M, N});
  multiply(a, w, x), multiply(b, w, spoiled), multiply(again, w, x);
  CHECK(a.values() == b.values());
  CHECK(a.values() == again.values());  // the bits of a product do not depend on the run
  const auto used = std::find(w.used_column.begin(), w.used_column.end(), 1) - w.used_column.begin();
  REQUIRE(used < K);
  clean[static_cast<size_t>(5 * K + used)] = kNan;
  DeviceArray broken = DeviceArray::from(bf16, {M, K}, clean);
  multiply(b, w, broken);
  int64_t nans = 0;
  const std::vector<double> got = b.values(), whole = a.values();
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      const double v = got[static_cast<size_t>(m * N + n)];
      if (m == 5 && std::isnan(v)) ++nans;
      if (m != 5) CHECK(v == whole[static_cast<size_t>(m * N + n)]);
    }
  }
  CHECK(nans >= B);
}

TEST_CASE("blocks of other dtypes are refused" * needs_devices()) {
  Fresh fresh;
  const Blocks w(fresh, f32, 16, 16, 16, 1);
  DeviceArray x(f32, {2, 16}), y(f32, {2, 16});
  const auto thrown = errors::thrown_by([&] { multiply(y, w, x); });
  CHECK(thrown.code == "TT-DTYPE-02");
}

#else
TEST_CASE("blocks on CUDA: the build has no CUDA" * doctest::skip()) {}
#endif
