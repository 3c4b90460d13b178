#include <support/few.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using tinytorch::backend::ResidualNorm;
using Values = std::vector<double>;

struct Residual {
  int64_t rows, C;
  DType dtype;
  Layout layout;
  double p;
  bool rms;
  bool adds = true;  // true if the sum has a gradient of its own
};

// All results of forward and backward, computed from the stored sum s, which the derivative reads.
void check_residual(Fresh& fresh, const Residual& c) {
  INFO(std::string(c.rms ? "rms " : "layer "), text_of(c.dtype), " [", c.rows, ", ", c.C, "] p ", c.p,
       " layout ", static_cast<int>(c.layout), " adds ", c.adds);
  const Shape shape{c.rows, c.C};
  const DType t = c.dtype, wide = wide_of(t);
  const ResidualNorm parameters{1e-3, c.p, fresh.next(), 5};
  DeviceArray x = fresh.array(t, shape, 1, 3, c.layout), r = fresh.array(t, shape, -1, 1, c.layout),
              w = fresh.array(t, {c.C}, 0.5, 2, c.layout), b = fresh.array(t, {c.C}, -1, 1, c.layout),
              dout = fresh.array(t, shape, -1, 1, c.layout), dsum = fresh.array(t, shape, -1, 1, c.layout),
              out(t, shape, c.layout), sum(t, shape, c.layout), mean(wide, {c.rows}), rstd(wide, {c.rows}),
              dx(t, shape, c.layout), dr(t, shape, c.layout), dw(t, {c.C}), db(t, {c.C});
  const View center = c.rms ? View{} : mean.view(), bias = c.rms ? View{} : b.view();
  kernels::residual_norm(out.view(), sum.view(), center, rstd.view(), x.view(), r.view(), w.view(), bias,
                         parameters);
  kernels::residual_norm_grad(dx.view(), dr.view(), dw.view(), c.rms ? View{} : db.view(), dout.view(),
                              c.adds ? dsum.view() : View{}, sum.view(), center, rstd.view(), w.view(),
                              parameters);
  const Values xs = x.values(), rs = r.values(), ws = w.values(), bs = b.values(), g = dout.values(),
               gs = dsum.values(), s = sum.values();
  const auto C = static_cast<size_t>(c.C);
  const double n = static_cast<double>(C);
  Values want_sum(s.size()), want_out(s.size()), want_dr(s.size()), want_dx(s.size()), want_dw(C), want_db(C);
  const auto keep = [&](size_t i) {
    const uint32_t word = philox(parameters.seed, parameters.first_block + i / 4).v[i % 4];
    return static_cast<double>(word) >= c.p * 0x1p32 ? 1 / (1 - c.p) : 0.0;
  };
  for (size_t first = 0; first < s.size(); first += C) {
    double m = 0, var = 0, mean_g = 0, mean_gh = 0;
    for (size_t k = 0; k < C; ++k) m += c.rms ? 0 : s[first + k] / n;
    for (size_t k = 0; k < C; ++k) var += (s[first + k] - m) * (s[first + k] - m) / n;
    const double scale = 1 / std::sqrt(var + parameters.eps);
    for (size_t k = 0; k < C; ++k) {
      const size_t i = first + k;
      const double h = (s[i] - m) * scale;
      want_sum[i] = rs[i] + (keep(i) != 0 ? xs[i] * keep(i) : 0);
      want_out[i] = h * ws[k] + (c.rms ? 0 : bs[k]);
      want_dw[k] += g[i] * h;
      want_db[k] += g[i];
      mean_g += c.rms ? 0 : g[i] * ws[k] / n;
      mean_gh += g[i] * ws[k] * h / n;
    }
    for (size_t k = 0; k < C; ++k) {
      const size_t i = first + k;
      want_dr[i] = scale * (g[i] * ws[k] - mean_g - (s[i] - m) * scale * mean_gh) + (c.adds ? gs[i] : 0);
      want_dx[i] = want_dr[i] * keep(i);
    }
  }
  const double rows = static_cast<double>(c.rows);
  // The gradient of the sum is stored before dx is computed: one more rounding of a 16-bit dtype.
  const double stored = epsilon_of(t) / epsilon_of(wide), steps = C < 4 ? 600 : 100;
  // Rounded after dropout and after the sum.
  check_close(sum.values(), want_sum, t, 4 + (c.p > 0 ? 2 * stored : 0), 2);
  check_close(out.values(), want_out, t, steps, 4);
  check_close(dr.values(), want_dr, t, steps, 4);
  check_close(dx.values(), want_dx, t, steps + stored, 4 / (1 - c.p));
  check_close(dw.values(), want_dw, t, steps + rows, 4);
  if (!c.rms) check_close(db.values(), want_db, t, steps + rows, 4);
}

}  // namespace

TEST_CASE("residual_norm and its gradients equal the definition" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const bool rms : {false, true}) {
    for (const DType t : kFloating) {
      for (const double p : {0.0, 0.3}) {
        for (const int64_t C : {3, 31, 33, 64, 257, 1000}) {
          check_residual(fresh, {3, C, t, kLayouts[fresh.next() % 3], p, rms});
        }
        check_residual(fresh, {70, 24, t, Layout::dense, p, rms});
      }
    }
    check_residual(fresh, {5, 768, bf16, Layout::dense, 0, rms, false});
    check_residual(fresh, {5, 33, f32, Layout::dense, 0.1, rms, false});
  }
}

TEST_CASE("residual_norm equals the definition for rows in registers, in shared memory and longer ones" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  int turn = 0;
  const auto check = [&](int64_t rows, int64_t C, DType t) {
    if (test::left_out(4)) return;
    for (const double p : {0.0, 0.1}) {
      const int k = turn++;
      check_residual(fresh, {rows, C, t, Layout::dense, p, k / 2 % 2 == 0, k % 4 != 3});
    }
  };
  for (const int64_t C : {520, 1028, 2052, 4100, 8200, 16388, 40000}) check(2, C, f32);
  for (const int64_t C : {768, 1032, 2056, 4104, 8200, 16392, 40000}) check(2, C, bf16);
  for (const int64_t C : {255, 1023, 4095, 30001}) check(2, C, f32);  // not aligned to 16 bytes
  for (const int64_t C : {257, 3001}) check(2, C, f16);
  for (const int64_t C : {1026, 4102}) check(2, C, f64);
  for (const int64_t C : {60004, 60001}) check(1, C, f32);                  // longer than shared memory
  for (const DType t : {f32, bf16}) check(few_cases() ? 5 : 3000, 776, t);  // several rows per block
}

TEST_CASE("residual_norm equals the definition for rows that are not aligned to 16 bytes" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  constexpr int64_t kRows = 3, C = 64;
  const Shape shape{kRows, C};
  // These are the same values, one element later in memory.
  const auto moved = [](const Values& values) {
    Values more{0};
    more.insert(more.end(), values.begin(), values.end());
    return DeviceArray::from(bf16, {static_cast<int64_t>(more.size())}, more);
  };
  const auto view_of = [](DeviceArray& a, const Shape& as) {
    View v = a.view();
    v.data = static_cast<char*>(v.data) + 2;
    v.shape = as;
    v.strides = as.size() == 1 ? Strides{1} : Strides{as[1], 1};
    return v;
  };
  for (const double p : {0.0, 0.4}) {
    const ResidualNorm parameters{1e-3, p, 11, 2};
    DeviceArray x = fresh.array(bf16, shape), r = fresh.array(bf16, shape), dsum = fresh.array(bf16, shape);
    std::vector<Values> results[2];
    for (const bool moves : {false, true}) {
      DeviceArray x2 = moved(x.values()), r2 = moved(r.values()), dsum2 = moved(dsum.values());
      DeviceArray out(bf16, shape), sum(bf16, shape), dr(bf16, shape), mean(f32, {kRows}), rstd(f32, {kRows});
      kernels::residual_norm(out.view(), sum.view(), mean.view(), rstd.view(),
                             moves ? view_of(x2, shape) : x.view(), moves ? view_of(r2, shape) : r.view(), {},
                             {}, parameters);
      kernels::residual_norm_grad({}, dr.view(), {}, {}, x.view(),
                                  moves ? view_of(dsum2, shape) : dsum.view(), sum.view(), mean.view(),
                                  rstd.view(), {}, parameters);
      results[moves] = {sum.values(), out.values(), dr.values()};
    }
    // A compiler may or may not fuse the scaling of dropout with the sum, so sums may differ by one
    // rounding.
    const double stored = p > 0 ? epsilon_of(bf16) / epsilon_of(f32) : 0;
    if (p == 0) CHECK(results[1][0] == results[0][0]);
    check_close(results[1][0], results[0][0], bf16, 4 + 2 * stored, 2);
    for (size_t k : {1u, 2u}) check_close(results[1][k], results[0][k], bf16, 100 + 4 * stored, 4);
  }
}

TEST_CASE("residual_norm_grad without rows gives zero gradients of the parameters" * needs_devices()) {
  DeviceArray none(bf16, {0, 8}), statistics(f32, {0}), w = DeviceArray::from(bf16, {8}, Values(8, 1)),
                                                        dw = DeviceArray::from(bf16, {8}, Values(8, 7));
  const ResidualNorm parameters{1e-3, 0.5, 1, 0};
  kernels::residual_norm(none.view(), none.view(), statistics.view(), statistics.view(), none.view(),
                         none.view(), w.view(), w.view(), parameters);
  kernels::residual_norm_grad(none.view(), none.view(), dw.view(), {}, none.view(), none.view(), none.view(),
                              statistics.view(), statistics.view(), w.view(), parameters);
  CHECK(dw.values() == Values(8, 0));
}

TEST_CASE("residual_norm does not propagate a NaN that dropout drops" * needs_devices()) {
  const ResidualNorm parameters{1e-3, 0.5, 3, 0};
  for (const DType t : {f32, bf16}) {
    for (const int64_t C : {64, 33}) {
      Values values(static_cast<size_t>(C), 1);
      size_t dropped = 0;
      while (philox(3, dropped / 4).v[dropped % 4] >= 0x80000000u) ++dropped;
      values[dropped] = kNan;
      DeviceArray x = DeviceArray::from(t, {1, C}, values),
                  r = DeviceArray::from(t, {1, C}, Values(values.size(), 2));
      DeviceArray out(t, {1, C}), sum(t, {1, C}), mean(f32, {1}), rstd(f32, {1});
      kernels::residual_norm(out.view(), sum.view(), mean.view(), rstd.view(), x.view(), r.view(), {}, {},
                             parameters);
      CHECK(sum.values()[dropped] == 2);
      for (const double v : out.values()) CHECK(std::isfinite(v));
    }
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
