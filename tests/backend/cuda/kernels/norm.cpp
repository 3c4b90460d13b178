// Normalization of rows, forward and backward: norm.cuh and norm_grad.cuh.
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/references.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Values = std::vector<double>;

// Rows normalized without a mean. Without data, weights are ones.
NormExpected rms_reference(const Values& x, const Values& w, const Values& dy, size_t C) {
  NormExpected e{Values(x.size()), Values(x.size()), Values(C), {}};
  for (size_t first = 0; first < x.size(); first += C) {
    double squares = 0, mean_gh = 0;
    for (size_t c = 0; c < C; ++c) squares += x[first + c] * x[first + c] / static_cast<double>(C);
    const double rstd = 1 / std::sqrt(squares + kNormEps);
    for (size_t c = 0; c < C; ++c) {
      const double h = x[first + c] * rstd;
      e.y[first + c] = h * w[c];
      e.dw[c] += dy[first + c] * h;
      mean_gh += dy[first + c] * w[c] * h / static_cast<double>(C);
    }
    for (size_t c = 0; c < C; ++c) {
      e.dx[first + c] = rstd * (dy[first + c] * w[c] - x[first + c] * rstd * mean_gh);
    }
  }
  return e;
}
NormExpected layer_reference(const Values& x, const Values& w, const Values& b, const Values& dy, size_t C) {
  return norm_reference(
      x, w, b, dy, x.size() / C, [C](size_t i) { return i / C; }, [C](size_t i) { return i % C; });
}

struct Rows {
  int64_t rows, C;
  DType dtype;
  Layout layout = Layout::dense;
  bool has_weight = true, has_bias = true;
  Layout of_results = layout;
};

void check_norms(Fresh& fresh, const Rows& r, bool rms) {
  if (test::left_out(7)) return;
  INFO(std::string(rms ? "rms " : "layer "), text_of(r.dtype), " [", r.rows, ", ", r.C, "] layout ",
       static_cast<int>(r.layout), " to ", static_cast<int>(r.of_results), " weight ", r.has_weight, " bias ",
       r.has_bias);
  const Shape shape{r.rows, r.C};
  const DType wide = wide_of(r.dtype);
  DeviceArray x = fresh.array(r.dtype, shape, -1, 3, r.layout),
              dy = fresh.array(r.dtype, shape, -1, 1, r.layout);
  DeviceArray w = fresh.array(r.dtype, {r.C}, 0.5, 2, r.layout),
              b = fresh.array(r.dtype, {r.C}, -1, 1, r.layout);
  DeviceArray y(r.dtype, shape, r.of_results), dx(r.dtype, shape, r.of_results),
      dw(r.dtype, {r.C}, r.of_results), db(r.dtype, {r.C}), mean(wide, {r.rows}), rstd(wide, {r.rows});
  const View weight = r.has_weight ? w.view() : View{}, bias = r.has_bias ? b.view() : View{};
  const auto C = static_cast<size_t>(r.C);
  const Values ones(C, 1), zeros(C, 0), w_values = r.has_weight ? w.values() : ones;
  NormExpected e;
  if (rms) {
    kernels::rms_norm(y.view(), rstd.view(), x.view(), weight, kNormEps);
    kernels::rms_norm_grad(dx.view(), dw.view(), dy.view(), x.view(), rstd.view(), weight);
    e = rms_reference(x.values(), w_values, dy.values(), C);
  } else {
    kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), weight, bias, kNormEps);
    kernels::layer_norm_grad(dx.view(), dw.view(), db.view(), dy.view(), x.view(), mean.view(), rstd.view(),
                             weight);
    e = layer_reference(x.values(), w_values, r.has_bias ? b.values() : zeros, dy.values(), C);
  }
  // A row of one value has variance 0: rstd is 1 / sqrt(eps), which magnifies every rounding error.
  const double steps = r.C < 4 ? 600 : 100;
  check_close(y.values(), e.y, r.dtype, steps, 4);
  check_close(dx.values(), e.dx, r.dtype, steps, 4);
  check_close(dw.values(), e.dw, r.dtype, steps + static_cast<double>(r.rows), 4);
  if (!rms) check_close(db.values(), e.db, r.dtype, steps + static_cast<double>(r.rows), 4);
  if (r.of_results == Layout::offset) {
    CHECK((y.untouched_around() && dx.untouched_around() && dw.untouched_around()));
  }
}

void check_both(Fresh& fresh, const Rows& r) {
  check_norms(fresh, r, false);
  check_norms(fresh, r, true);
}

}  // namespace

TEST_CASE("layer and RMS norm and their gradients equal the definitions" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const int64_t C : {1, 3, 31, 33, 64, 257, 1000}) {
      for (const Layout layout : kLayouts) check_both(fresh, {3, C, t, layout});
    }
    for (const int64_t rows : {1, 31, 257}) check_both(fresh, {rows, 40, t});
    check_both(fresh, {130, 7, t});
  }
}

TEST_CASE(
    "layer_norm and rms_norm equal the definition for rows in registers, in shared memory and longer ones" *
    needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const int64_t C : {520, 1028, 2052, 4100, 8200, 16388}) check_both(fresh, {2, C, f32});
  for (const int64_t C : {1032, 4104, 16392}) check_both(fresh, {2, C, bf16});
  for (const int64_t C : {255, 1023, 4095, 30001}) check_both(fresh, {2, C, f32});  // not aligned to 16 bytes
  for (const int64_t C : {257, 3001}) check_both(fresh, {2, C, f16});
  for (const int64_t C : {60004, 60001}) check_both(fresh, {1, C, f32});  // longer than shared memory
}

TEST_CASE(
    "layer_norm and rms_norm equal the definition for unaligned rows and operands of different alignments" *
    needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const auto& [rows, C] : {std::pair<int64_t, int64_t>{130, 1},
                                  {150, 2},
                                  {133, 3},
                                  {141, 4},
                                  {37, 3},
                                  {9, 7},
                                  {3, 65},
                                  {2, 130},
                                  {7, 255},
                                  {7, 257},
                                  {1, 1025},
                                  {19, 301},
                                  {3, 3001}}) {
      check_both(fresh, {rows, C, t});
      check_both(fresh, {rows, C, t, Layout::offset});
      check_both(fresh, {rows, C, t, Layout::offset, true, true, Layout::dense});
    }
  }
  if (kEmulated) return;
  for (const DType t : {f32, bf16, f16}) {
    check_both(fresh, {12345, 7, t});
    check_both(fresh, {2345, 256, t});
    check_both(fresh, {12345, 301, t});
    check_both(fresh, {1234, 3001, t, Layout::offset});
    check_both(fresh, {7, 100003, t});
    check_both(fresh, {7, 100003, t, Layout::offset});
    check_both(fresh, {3, 100003, t, Layout::dense, true, true, Layout::offset});
    check_both(fresh, {2, 1000003, t});
    check_both(fresh, {13, 500001, t});
    check_both(fresh, {1, 1000000, t});
  }
}

TEST_CASE("layer_norm and rms_norm equal the definition for many long rows" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  const auto many = [](int64_t rows) { return few_cases() ? 3 : rows; };
  check_both(fresh, {many(300), 2052, f32});
  check_both(fresh, {many(150), 4102, f64});
  if (kEmulated) return;
  for (const int64_t C : {8196, 16388, 32772, 50304, 65536}) check_both(fresh, {many(3'000'000 / C), C, f32});
  for (const int64_t C : {16392, 50304, 131072}) check_both(fresh, {many(6'000'000 / C), C, bf16});
  check_both(fresh, {70, 20006, f64});
}

TEST_CASE("layer_norm and rms_norm work without weight and bias" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const int64_t C : {33, 64}) {
      check_both(fresh, {5, C, t, Layout::dense, false, false});
      check_both(fresh, {5, C, t, Layout::dense, true, false});
      check_norms(fresh, {5, C, t, Layout::dense, false, true}, false);
    }
  }
}

TEST_CASE("norm gradients that are not requested are not written and do not change the others" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const int64_t C : {33, 64, 3000}) {
    DeviceArray x = fresh.array(f32, {6, C}), dy = fresh.array(f32, {6, C}), w = fresh.array(f32, {C});
    DeviceArray mean(f32, {6}), rstd(f32, {6}), y(f32, {6, C});
    kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), w.view(), {}, kNormEps);
    const auto gradients = [&](int wanted) {
      DeviceArray dx(f32, {6, C}), dw(f32, {C}), db(f32, {C});
      const auto view = [&](DeviceArray& a, int bit) { return wanted & bit ? a.view() : View{}; };
      kernels::layer_norm_grad(view(dx, 1), view(dw, 2), view(db, 4), dy.view(), x.view(), mean.view(),
                               rstd.view(), w.view());
      return std::vector<Values>{dx.values(), dw.values(), db.values()};
    };
    const std::vector<Values> all = gradients(7), none = gradients(0);
    for (int wanted = 1; wanted < 7; ++wanted) {
      INFO("C ", C, " wanted ", wanted);
      const std::vector<Values> some = gradients(wanted);
      for (size_t k = 0; k < 3; ++k) {
        if (wanted >> k & 1) check_close(some[k], all[k], f32, 32);
        if (!(wanted >> k & 1)) CHECK(some[k] == none[k]);
      }
    }
  }
}

TEST_CASE("layer_norm is accurate for a large mean, propagates NaN only within its row, and accepts no rows" *
          needs_devices()) {
  for (const int64_t C : {16, 256, 257, 100004}) {
    if (C > 1000 && few_cases()) continue;
    Values values(static_cast<size_t>(2 * C));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 10000 + (i % 2 ? 1 : -1);
    values.back() = kNan;
    DeviceArray x = DeviceArray::from(f32, {2, C}, values), y(f32, {2, C}), mean(f32, {2}), rstd(f32, {2});
    kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, 0);
    const Values got = y.values();
    for (size_t i = 0; i < got.size(); ++i) {
      if (i >= static_cast<size_t>(C)) CHECK(std::isnan(got[i]));
      if (i < static_cast<size_t>(C)) CHECK(got[i] == doctest::Approx(i % 2 ? 1 : -1).epsilon(0.01));
    }
  }
  DeviceArray x(f32, {0, 8}), statistics(f32, {0}), w = DeviceArray::from(f32, {8}, Values(8, 1)),
                                                    dw(f32, {8});
  kernels::layer_norm(x.view(), statistics.view(), statistics.view(), x.view(), w.view(), {}, kNormEps);
  kernels::layer_norm_grad(x.view(), dw.view(), {}, x.view(), x.view(), statistics.view(), statistics.view(),
                           w.view());
  CHECK(dw.values() == Values(8, 0));
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
