// This library's own GEMM kernel: cuBLASLt is disabled here; matmul.cpp tests both.
#include <support/few.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Values = std::vector<double>;
constexpr DType kAll[] = {f32, f64, bf16, f16, i8, u8, i32, i64, boolean};

struct OwnKernels {
  OwnKernels() { kernels::use_blas(false); }
  ~OwnKernels() { kernels::use_blas(true); }
};

// Value of an integer sum after conversion to the dtype.
double stored(double v, DType t) {
  if (t == i8) return static_cast<double>(static_cast<int8_t>(static_cast<int64_t>(v)));
  if (t == u8) return static_cast<double>(static_cast<uint8_t>(static_cast<int64_t>(v)));
  if (t == i32) return static_cast<double>(static_cast<int32_t>(static_cast<int64_t>(v)));
  return v;
}
DeviceArray operand(Fresh& fresh, DType t, const Shape& shape, Layout layout) {
  if (is_floating(t)) return fresh.array(t, shape, -1, 1, layout);
  if (t == boolean) return fresh.integers(t, shape, 0, 2, layout);
  // Products of i32 wrap; their sums stay below 2^53, where the reference in double is exact.
  const double size = t == i8 || t == u8 ? 100 : 100000;
  return fresh.integers(t, shape, t == u8 ? 0 : -size, size, layout);
}

struct Sizes {
  int64_t B, M, N, K;
};

void check_product(Fresh& fresh, const Sizes& s, DType t, Layout of_a, Layout of_b, Layout of_out) {
  if (test::left_out(3)) return;
  INFO(s.B, " x ", s.M, " x ", s.N, " x ", s.K, " ", text_of(t), " layouts ", static_cast<int>(of_a),
       static_cast<int>(of_b), static_cast<int>(of_out));
  const OwnKernels own;
  const DType result = t == boolean ? i32 : t;
  DeviceArray a = operand(fresh, t, {s.B, s.M, s.K}, of_a), b = operand(fresh, t, {s.B, s.K, s.N}, of_b),
              out(result, {s.B, s.M, s.N}, of_out);
  kernels::matmul(out.view(), a.view(), b.view());
  const Values av = a.values(), bv = b.values();
  Values want;
  for (int64_t n = 0; n < s.B; ++n)
    for (int64_t i = 0; i < s.M; ++i)
      for (int64_t j = 0; j < s.N; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < s.K; ++k) {
          sum += av[static_cast<size_t>((n * s.M + i) * s.K + k)] *
                 bv[static_cast<size_t>((n * s.K + k) * s.N + j)];
        }
        want.push_back(stored(sum, result));
      }
  if (is_floating(t)) return check_close(out.values(), want, t, 4 + static_cast<double>(s.K));
  CHECK(out.values() == want);
}

const Sizes kSizes[] = {{1, 1, 1, 1},    {1, 1, 1, 1000}, {2, 3, 5, 7},    {1, 1, 33, 65},  {3, 31, 1, 17},
                        {1, 64, 64, 16}, {1, 65, 33, 15}, {1, 33, 129, 3}, {1, 70, 66, 257}};

}  // namespace

TEST_CASE("gemm equals the definition for every dtype, size and layout" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kAll) {
    for (const Sizes& s : kSizes) {
      check_product(fresh, s, t, Layout::dense, Layout::dense, Layout::dense);
      check_product(fresh, s, t, kLayouts[fresh.next() % 3], kLayouts[fresh.next() % 3], Layout::dense);
    }
  }
  for (const Layout a : kLayouts)
    for (const Layout b : kLayouts)
      for (const Layout out : kLayouts) check_product(fresh, {2, 37, 70, 21}, f32, a, b, out);
}

TEST_CASE("linear equals the definition with and without a bias" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  const OwnKernels own;
  for (const DType t : kFloating) {
    for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{1, 31, 70, 33}, Sizes{1, 3, 257, 10}}) {
      INFO(text_of(t), " ", s.M, " x ", s.N, " x ", s.K);
      const Layout layout = kLayouts[fresh.next() % 3];
      DeviceArray x = fresh.array(t, {s.M, s.K}, -1, 1, layout),
                  w = fresh.array(t, {s.N, s.K}, -1, 1, layout), b = fresh.array(t, {s.N}, -1, 1, layout),
                  out(t, {s.M, s.N}), bare(t, {s.M, s.N});
      kernels::linear(out.view(), x.view(), w.view(), b.view());
      kernels::linear(bare.view(), x.view(), w.view(), {});
      const Values xs = x.values(), ws = w.values(), bs = b.values();
      Values want, with_bias;
      for (int64_t i = 0; i < s.M; ++i)
        for (int64_t j = 0; j < s.N; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < s.K; ++k) {
            sum += xs[static_cast<size_t>(i * s.K + k)] * ws[static_cast<size_t>(j * s.K + k)];
          }
          want.push_back(sum);
          with_bias.push_back(sum + bs[static_cast<size_t>(j)]);
        }
      check_close(bare.values(), want, t, 4 + static_cast<double>(s.K));
      check_close(out.values(), with_bias, t, 5 + static_cast<double>(s.K));
    }
  }
}

TEST_CASE("gemm gives 0 for K = 0, and propagates infinity and NaN" * needs_devices()) {
  const OwnKernels own;
  DeviceArray a(f32, {3, 0}), b(f32, {0, 4}), zero = DeviceArray::from(f32, {3, 4}, Values(12, 7)),
                                              none(f32, {0, 4});
  kernels::matmul(zero.view(), a.view(), b.view());
  CHECK(zero.values() == Values(12, 0));
  DeviceArray no_rows(f32, {0, 5}), five(f32, {5, 4});
  kernels::matmul(none.view(), no_rows.view(), five.view());
  DeviceArray left = DeviceArray::from(f32, {2, 3}, {1, 0, 2, 1, 1, 1}),
              right = DeviceArray::from(f32, {3, 2}, {1, kInfinity, kNan, 1, 1, 1}), out(f32, {2, 2});
  kernels::matmul(out.view(), left.view(), right.view());
  check_close(out.values(), {kNan, kInfinity, kNan, kInfinity}, f32, 0);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
