// Linear layers of few rows of x on CUDA: against sums in double, for all sizes near the limits of the
// kernel, and the promise that the bits of a row do not depend on the rows beside it.
#include <cmath>
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/linear_reference.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using backend::Activation;

struct Call {
  int64_t M, N, K;
  Activation fn = Activation::none;
  bool biased = true, residual = false;
  Layout of_x = Layout::dense, of_out = Layout::dense;
};

void check_call(Fresh& fresh, DType t, const Call& c) {
  INFO(text_of(t), " ", c.M, " x ", c.N, " x ", c.K, " activation ", static_cast<int>(c.fn), " bias ",
       c.biased, " residual ", c.residual, " layouts ", static_cast<int>(c.of_x), " ",
       static_cast<int>(c.of_out));
  DeviceArray x = fresh.array(t, {c.M, c.K}, -1, 1, c.of_x), w = fresh.array(t, {c.N, c.K}),
              bias = fresh.array(t, {c.N}), residual = fresh.array(t, {c.M, c.N}, -4, 4, c.of_out),
              out(t, {c.M, c.N}, c.of_out);
  const View b = c.biased ? bias.view() : View{};
  if (c.residual) {
    kernels::linear_residual(out.view(), x.view(), w.view(), b, residual.view());
  } else {
    kernels::linear_activation(c.fn, out.view(), View{}, x.view(), w.view(), b);
  }
  const std::vector<double> xs = x.values(), ws = w.values(), bs = bias.values(), rs = residual.values(),
                            got = out.values();
  const double unit = t == bf16 ? 1.0 / 256 : 1.0 / 2048;  // of a rounding of the result
  double worst = 0;
  for (int64_t m = 0; m < c.M; ++m) {
    for (int64_t n = 0; n < c.N; ++n) {
      const auto at = static_cast<size_t>(m * c.N + n);
      double sum = c.biased ? bs[static_cast<size_t>(n)] : 0;
      if (c.residual) sum += rs[at];
      double terms = std::abs(sum);
      for (int64_t k = 0; k < c.K; ++k) {
        const double p = xs[static_cast<size_t>(m * c.K + k)] * ws[static_cast<size_t>(n * c.K + k)];
        sum += p, terms += std::abs(p);
      }
      const double want = activation_value(c.fn, sum);
      // The activation may be applied before or after the sum is rounded; no slope is above 1.13.
      const double off = std::abs(got[at] - want) /
                         (unit * std::abs(want) +
                          (c.fn == Activation::none ? 0 : 1.2 * unit * std::abs(sum)) + 4e-6 * terms + 1e-7);
      if (!(off <= worst)) worst = off;
    }
  }
  CHECK(worst <= 1.0);
  if (c.of_out != Layout::gaps) CHECK(out.untouched_around());
}

}  // namespace

TEST_CASE("linear layers of few rows equal sums in double for sizes around all limits" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  const std::vector<Call> calls{
      {1, 1, 8},      {1, 7, 8},     {1, 9, 24},    {2, 8, 32},
      {3, 33, 40},    {7, 16, 256},  {8, 17, 264},  {9, 40, 768},
      {15, 31, 1032}, {16, 64, 200}, {17, 24, 72},  {31, 65, 520},
      {32, 8, 264},   {33, 50, 136}, {63, 23, 64},  {64, 40, 800},
      {65, 24, 64},   {1, 4104, 24}, {8, 4097, 16}, {20, 4099, 8},
      {40, 4104, 8},  {2, 24, 36},   {5, 24, 31},   {1, 16, 3072, Activation::none, false},
      {4, 40, 2056}};
  for (const DType t : {bf16, f16})
    for (const Call& c : calls) check_call(fresh, t, c);
}

TEST_CASE("epilogues and layouts of few rows" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {bf16, f16}) {
    for (const int64_t M : {1, 6, 11, 40}) {
      for (int fn = 0; fn < 5; ++fn) {
        check_call(fresh, t, {M, 27, 48, static_cast<Activation>(fn), fn % 2 == 0});
        check_call(fresh, t,
                   {M, 30, 80, static_cast<Activation>(fn), true, false, Layout::gaps, Layout::gaps});
      }
      for (const Layout layout : kLayouts) {
        check_call(fresh, t, {M, 35, 72, Activation::none, true, true, layout, layout});
        check_call(fresh, t, {M, 16, 40, Activation::none, false, true, Layout::dense, layout});
      }
    }
  }
}

TEST_CASE("the bits of a row do not depend on the number of rows" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {bf16, f16}) {
    for (const auto& [N, K] : {std::pair<int64_t, int64_t>{40, 776}, {1100, 40}}) {
      DeviceArray x = fresh.array(t, {16, K}), w = fresh.array(t, {N, K}), bias = fresh.array(t, {N});
      DeviceArray all(t, {16, N});
      kernels::linear(all.view(), x.view(), w.view(), bias.view());
      const std::vector<double> of_all = all.values(), xs = x.values();
      for (const int64_t M : {1, 5, 8, 9, 15}) {
        INFO(text_of(t), " ", M, " of 16 rows, ", N, " x ", K);
        // The last M rows, so that each has another place.
        const auto from = static_cast<size_t>((16 - M) * K), first = static_cast<size_t>((16 - M) * N);
        DeviceArray some = DeviceArray::from(t, {M, K},
                                             {xs.begin() + static_cast<std::ptrdiff_t>(from), xs.end()}),
                    out(t, {M, N});
        kernels::linear(out.view(), some.view(), w.view(), bias.view());
        const std::vector<double> got = out.values();
        CHECK(std::equal(got.begin(), got.end(), of_all.begin() + static_cast<std::ptrdiff_t>(first)));
      }
    }
  }
}

// Each product moves the numbers of a row by one place, so a kernel that reads before the one before it has
// written leaves wrong numbers, and one that writes too early does, too: two buffers take turns.
TEST_CASE("a kernel that is launched early sees the results of the one before it" * needs_devices()) {
  const int64_t N = 264, M = 3;
  std::vector<double> ones(static_cast<size_t>(N * N)), start(static_cast<size_t>(M * N));
  for (int64_t n = 0; n < N; ++n) ones[static_cast<size_t>(n * N + (n + 1) % N)] = 1;
  for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<double>(i % 251);
  DeviceArray w = DeviceArray::from(bf16, {N, N}, ones), a = DeviceArray::from(bf16, {M, N}, start),
              b(bf16, {M, N});
  const int64_t turns = few_on_emulator() ? 4 : 100;
  for (int64_t turn = 0; turn < turns; ++turn)
    kernels::linear(turn % 2 == 0 ? b.view() : a.view(), turn % 2 == 0 ? a.view() : b.view(), w.view(),
                    View{});
  const std::vector<double> got = (turns % 2 == 0 ? a : b).values();
  int64_t wrong = 0;
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n)
      wrong += got[static_cast<size_t>(m * N + n)] != start[static_cast<size_t>(m * N + (n + turns) % N)];
  CHECK(wrong == 0);
}

TEST_CASE("NaN and infinity stay in their row" * needs_devices()) {
  Fresh fresh;
  for (const int64_t M : {2, 9, 40}) {
    const int64_t N = 19, K = 40;
    std::vector<double> xs = fresh.array(bf16, {M, K}).values();
    xs[static_cast<size_t>((M - 1) * K + 37)] = NAN;
    xs[3] = INFINITY;
    DeviceArray x = DeviceArray::from(bf16, {M, K}, xs), w = fresh.array(bf16, {N, K}, 0.5, 1),
                out(bf16, {M, N});
    kernels::linear(out.view(), x.view(), w.view(), View{});
    const std::vector<double> got = out.values();
    for (int64_t n = 0; n < N; ++n) {
      CHECK(got[static_cast<size_t>(n)] == INFINITY);
      CHECK(std::isnan(got[static_cast<size_t>((M - 1) * N + n)]));
      if (M > 2) CHECK(std::isfinite(got[static_cast<size_t>(N + n)]));
    }
  }
}

#endif
