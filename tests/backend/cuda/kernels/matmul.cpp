#include <support/device_array.hpp>
#include <support/few.hpp>
#include <support/linear_reference.hpp>

using namespace test;
using tinytorch::backend::Activation;

#if TINYTORCH_WITH_CUDA

namespace {

constexpr DType kAll[] = {f32, f64, bf16, f16, i8, u8, i32, i64, boolean};

// Runs f with and without cuBLASLt; the emulator has no cuBLASLt.
template <class F>
void with_and_without_blas(F&& f) {
  for (bool blas : {true, false}) {
    INFO("cuBLASLt ", blas);
    kernels::use_blas(blas);
    f();
  }
  kernels::use_blas(true);
}

DeviceArray operand(DType t, const Shape& shape, uint64_t seed, Layout layout) {
  if (is_floating(t)) return DeviceArray::random(t, shape, seed, -1, 1, layout);
  Generator generator(seed);
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = std::floor(generator.uniform(0, t == boolean ? 2 : 100));
  return DeviceArray::from(t, shape, values, layout);
}

View swapped(View v) {
  const int r = v.rank();
  std::swap(v.shape[r - 2], v.shape[r - 1]);
  std::swap(v.strides[r - 2], v.strides[r - 1]);
  return v;
}

// Value of an integer sum after conversion to the dtype.
double stored(double v, DType t) {
  if (t == i8) return static_cast<double>(static_cast<int8_t>(static_cast<int64_t>(v)));
  if (t == u8) return static_cast<double>(static_cast<uint8_t>(static_cast<int64_t>(v)));
  return v;
}

struct Sizes {
  int64_t M, N, K;
};

// [B, M, N] = [B, M, K] [B, K, N]; operands are stored as they are or transposed.
void check_product(int64_t B, Sizes s, DType t, Layout layout, bool flip_a, bool flip_b) {
  if (test::left_out(8)) return;
  INFO(B, " x ", s.M, " x ", s.N, " x ", s.K, " ", name_of(t), " ", flip_a, flip_b);
  DeviceArray a = operand(t, flip_a ? Shape{B, s.K, s.M} : Shape{B, s.M, s.K}, 1, layout);
  DeviceArray b = operand(t, flip_b ? Shape{B, s.N, s.K} : Shape{B, s.K, s.N}, 2, layout);
  const DType result = t == boolean ? i32 : t;
  DeviceArray out(result, {B, s.M, s.N}, layout);
  const View left = flip_a ? swapped(a.view()) : a.view(), right = flip_b ? swapped(b.view()) : b.view();
  kernels::matmul(out.view(), left, right);
  const std::vector<double> av = a.values(), bv = b.values(), got = out.values();
  std::vector<double> want(got.size());
  size_t o = 0;
  for (int64_t n = 0; n < B; ++n)
    for (int64_t i = 0; i < s.M; ++i)
      for (int64_t j = 0; j < s.N; ++j, ++o) {
        for (int64_t k = 0; k < s.K; ++k) {
          const int64_t ai = flip_a ? (n * s.K + k) * s.M + i : (n * s.M + i) * s.K + k;
          const int64_t bi = flip_b ? (n * s.N + j) * s.K + k : (n * s.K + k) * s.N + j;
          want[o] += av[static_cast<size_t>(ai)] * bv[static_cast<size_t>(bi)];
        }
        want[o] = stored(want[o], result);
      }
  if (is_floating(t)) return check_close(got, want, t, 4 + static_cast<double>(s.K));
  CHECK(got == want);
}

const Sizes kSizes[] = {{1, 1, 1},    {3, 5, 7},     {1, 33, 65}, {31, 1, 17},
                        {64, 64, 16}, {65, 130, 33}, {8, 257, 3}};

}  // namespace

TEST_CASE("matmul equals the definition for every dtype, layout and transposition" * needs_devices()) {
  with_and_without_blas([] {
    for (DType t : kAll) {
      for (const Sizes& s : kSizes) {
        for (int flips = 0; flips < 4; ++flips) {
          check_product(flips == 0 ? 3 : 1, s, t, Layout::dense, (flips & 1) != 0, (flips & 2) != 0);
        }
        check_product(2, s, t, Layout::gaps, false, true);
      }
    }
  });
}

TEST_CASE("matmul accepts batch dimensions of stride 0 and batch dimensions that do not merge" *
          needs_devices()) {
  with_and_without_blas([] {
    for (DType t : {f32, bf16, i32}) {
      DeviceArray a = operand(t, {3, 1, 4, 5}, 1, Layout::dense), b = operand(t, {2, 5, 6}, 2, Layout::dense);
      DeviceArray out(t, {3, 2, 4, 6});
      View left = a.view(), right = b.view();
      left.shape = {3, 2, 4, 5};
      left.strides = {20, 0, 5, 1};
      right.shape = {3, 2, 5, 6};
      right.strides = {0, 30, 6, 1};
      kernels::matmul(out.view(), left, right);
      const std::vector<double> av = a.values(), bv = b.values();
      std::vector<double> want(3 * 2 * 4 * 6);
      for (size_t o = 0; o < want.size(); ++o) {
        const size_t j = o % 6, i = o / 6 % 4, q = o / 24 % 2, p = o / 48;
        for (size_t k = 0; k < 5; ++k) want[o] += av[p * 20 + i * 5 + k] * bv[q * 30 + k * 6 + j];
      }
      check_close(out.values(), want, t, 9);
    }
  });
}

TEST_CASE("matmul accumulates into out, and into f32 without rounding for 16-bit operands" *
          needs_devices()) {
  with_and_without_blas([] {
    for (const DType t : {f32, f64, bf16, f16}) {
      const DType wide = t == f64 ? f64 : f32;
      // a^T, like in the gradient of a weight.
      DeviceArray a = operand(t, {24, 16}, 1, Layout::dense), b = operand(t, {24, 8}, 2, Layout::dense),
                  out = operand(wide, {16, 8}, 3, Layout::dense);
      const std::vector<double> av = a.values(), bv = b.values();
      std::vector<double> want = out.values();
      kernels::matmul(out.view(), swapped(a.view()), b.view(), true);
      for (size_t o = 0; o < want.size(); ++o) {
        for (size_t k = 0; k < 24; ++k) want[o] += av[k * 16 + o / 8] * bv[k * 8 + o % 8];
      }
      check_close(out.values(), want, wide, 30);
    }
  });
}

TEST_CASE("matmul gives zeros for K = 0 and accepts empty results" * needs_devices()) {
  with_and_without_blas([] {
    for (DType t : {f32, f64, bf16, i64}) {
      DeviceArray a(t, {2, 3, 0}), b(t, {2, 0, 4}), out(t, {2, 3, 4}), none(t, {0, 3}), x(t, {0, 5});
      kernels::matmul(out.view(), a.view(), b.view());
      CHECK(out.values() == std::vector<double>(24, 0.0));
      DeviceArray w = operand(t, {3, 5}, 1, Layout::dense);
      kernels::matmul(none.view(), x.view(), swapped(w.view()));
    }
  });
}

TEST_CASE("matmul propagates NaN and infinity like the definition" * needs_devices()) {
  with_and_without_blas([] {
    for (DType t : kFloating) {
      DeviceArray a = DeviceArray::from(t, {2, 2}, {NAN, 1, INFINITY, 2}),
                  b = DeviceArray::from(t, {2, 1}, {1, 3}), out(t, {2, 1});
      kernels::matmul(out.view(), a.view(), b.view());
      CHECK(std::isnan(out.values()[0]));
      CHECK(out.values()[1] == INFINITY);
    }
  });
}

TEST_CASE("linear and linear_activation equal the definition" * needs_devices()) {
  const Sizes sizes[] = {{1, 1, 1}, {5, 3, 7}, {33, 65, 31}, {16, 64, 32}};
  with_and_without_blas([&] {
    for (DType t : kFloating) {
      for (const Sizes& s : sizes) {
        for (Layout layout : {Layout::dense, Layout::gaps}) {
          for (int variant = 0; variant < 20; ++variant) {
            const auto fn = static_cast<Activation>(variant % 5);
            const bool with_bias = variant / 5 % 2 == 0, with_z = variant / 10 == 0;
            INFO(s.M, " x ", s.N, " x ", s.K, " activation ", variant % 5, " bias ", with_bias, " z ",
                 with_z);
            DeviceArray x = operand(t, {s.M, s.K}, 1, layout), w = operand(t, {s.N, s.K}, 2, layout);
            DeviceArray b = operand(t, {s.N}, 3, layout), out(t, {s.M, s.N}), z(t, {s.M, s.N});
            kernels::linear_activation(fn, out.view(), with_z ? z.view() : View{}, x.view(), w.view(),
                                       with_bias ? b.view() : View{});
            const std::vector<double> xv = x.values(), wv = w.values(), bv = b.values();
            std::vector<double> sum(static_cast<size_t>(s.M * s.N)), want(sum.size());
            for (size_t o = 0; o < sum.size(); ++o) {
              const size_t K = static_cast<size_t>(s.K), i = o / static_cast<size_t>(s.N),
                           j = o % static_cast<size_t>(s.N);
              sum[o] = with_bias ? bv[j] : 0;
              for (size_t k = 0; k < K; ++k) sum[o] += xv[i * K + k] * wv[j * K + k];
              want[o] = activation_value(fn, sum[o]);
            }
            if (with_z) check_close(z.values(), sum, t, 8 + static_cast<double>(s.K));
            // The activation may be applied to the sum before or after it is rounded.
            const double steps = 40 + static_cast<double>(s.K);
            check_close(out.values(), want, t,
                        steps + 1.2 * epsilon_of(t) / epsilon_of(t == f64 ? f64 : f32));
          }
        }
      }
    }
  });
}

TEST_CASE("linear_residual adds the residual before the product is rounded" * needs_devices()) {
  with_and_without_blas([] { check_linear_residual<DeviceArray>(kernels::linear_residual); });
}

TEST_CASE("matrix products are deterministic" * needs_devices()) {
  for (DType t : {f32, bf16}) {
    DeviceArray a = operand(t, {37, 700}, 1, Layout::dense), b = operand(t, {700, 53}, 2, Layout::dense);
    DeviceArray first(t, {37, 53}), second(t, {37, 53});
    kernels::matmul(first.view(), a.view(), b.view());
    kernels::matmul(second.view(), a.view(), b.view());
    CHECK(first.values() == second.values());
  }
}

TEST_CASE("linear_grad_weight equals the definition for the gradients of weight and bias" * needs_devices()) {
  check_linear_grad_weight<DeviceArray>(kernels::linear_grad_weight);
}

TEST_CASE("linear_grad_activation equals the definition for dz and the gradient of the bias" *
          needs_devices()) {
  with_and_without_blas([] { check_linear_grad_activation<DeviceArray>(kernels::linear_grad_activation); });
}

TEST_CASE("linear_grad_activation with GELU is accurate and deterministic for many rows" * needs_devices()) {
  const int64_t M = few_cases() ? 80 : 8192;
  with_and_without_blas([M] {
    for (const DType t : {bf16, f16}) {
      check_linear_grad_activation<DeviceArray>(kernels::linear_grad_activation,
                                                {M, 32, 64, Activation::gelu_tanh, Layout::dense, true}, t);
      DeviceArray dy = operand(t, {M, 32}, 1, Layout::dense), w = operand(t, {32, 64}, 2, Layout::dense),
                  z = operand(t, {M, 64}, 3, Layout::dense);
      std::vector<double> first;
      for (int run = 0; run < 3; ++run) {
        DeviceArray dz(t, {M, 64}), db(t, {64});
        kernels::linear_grad_activation(Activation::gelu_tanh, dz.view(), db.view(), dy.view(), w.view(),
                                        z.view());
        std::vector<double> got = dz.values();
        for (const double sum : db.values()) got.push_back(sum);
        if (run == 0) first = got;
        CHECK(got == first);
      }
    }
  });
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
