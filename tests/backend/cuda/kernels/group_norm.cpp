#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/references.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Values = std::vector<double>;

struct Groups {
  Shape shape;  // [N, C, ...]
  int64_t groups;
  DType dtype;
  Layout layout = Layout::dense;
  bool has_weight = true, has_bias = true;
};

void check_groups(Fresh& fresh, const Groups& g) {
  if (test::left_out(5)) return;
  INFO(text_of(g.dtype), " of ", g.shape.str(), " in ", g.groups, " layout ", static_cast<int>(g.layout));
  const int64_t N = g.shape[0], C = g.shape[1];
  const DType t = g.dtype, wide = wide_of(t);
  DeviceArray x = fresh.array(t, g.shape, -1, 3, g.layout), dy = fresh.array(t, g.shape, -1, 1, g.layout),
              w = fresh.array(t, {C}, 0.5, 2, g.layout), b = fresh.array(t, {C}, -1, 1, g.layout),
              y(t, g.shape, g.layout), dx(t, g.shape, g.layout), dw(t, {C}), db(t, {C}),
              mean(wide, {N, g.groups}), rstd(wide, {N, g.groups});
  const View weight = g.has_weight ? w.view() : View{}, bias = g.has_bias ? b.view() : View{};
  kernels::group_norm(y.view(), mean.view(), rstd.view(), x.view(), g.groups, weight, bias, kNormEps);
  kernels::group_norm_grad(dx.view(), dw.view(), db.view(), dy.view(), x.view(), mean.view(), rstd.view(),
                           g.groups, weight);
  const auto channels = static_cast<size_t>(C), inner = static_cast<size_t>(g.shape.numel() / (N * C)),
             together = inner * static_cast<size_t>(C / g.groups);
  const NormExpected e = norm_reference(
      x.values(), g.has_weight ? w.values() : Values(channels, 1), g.has_bias ? b.values() : Values(channels),
      dy.values(), static_cast<size_t>(N * g.groups), [=](size_t i) { return i / together; },
      [=](size_t i) { return i / inner % channels; });
  check_close(y.values(), e.y, t, 40, 4);
  if (together == 1) return;  // groups of one value: all differences cancel, up to rounding
  check_close(dx.values(), e.dx, t, 600, 4);
  check_close(dw.values(), e.dw, t, 600, 4);
  check_close(db.values(), e.db, t, 600, 4);
}

const Shape kShapes[] = {{2, 1},    {5, 3},        {17, 33},      {12, 130},     {3, 2, 7},
                         {4, 6, 1}, {2, 4, 5, 13}, {9, 8, 3, 11}, {1, 4, 40, 50}};

}  // namespace

TEST_CASE("group_norm and its gradient equal the definition" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const Shape& shape : kShapes) {
    for (const int64_t groups : {1, 2, 3, 4}) {
      if (shape[1] % groups != 0) continue;
      for (const DType t : kFloating) {
        if (few_cases() && (shape.numel() > 1000 || groups > 2) && t != f32) continue;
        check_groups(fresh, {shape, groups, t, kLayouts[fresh.next() % 3]});
      }
    }
  }
  for (const Layout layout : kLayouts) check_groups(fresh, {{3, 6, 4, 31}, 2, bf16, layout});
}

TEST_CASE("group_norm works without weight and bias, and omits gradients that are not requested" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    check_groups(fresh, {{3, 8, 33}, 4, t, Layout::dense, false, false});
    check_groups(fresh, {{3, 8, 33}, 4, t, Layout::dense, true, false});
    check_groups(fresh, {{3, 8, 33}, 4, t, Layout::dense, false, true});
  }
  const Shape shape{3, 8, 33};
  DeviceArray x = fresh.array(f32, shape), dy = fresh.array(f32, shape), w = fresh.array(f32, {8}),
              y(f32, shape), mean(f32, {3, 4}), rstd(f32, {3, 4});
  kernels::group_norm(y.view(), mean.view(), rstd.view(), x.view(), 4, w.view(), {}, kNormEps);
  const auto gradients = [&](int wanted) {
    DeviceArray dx(f32, shape), dw(f32, {8}), db(f32, {8});
    const auto view = [&](DeviceArray& a, int bit) { return wanted & bit ? a.view() : View{}; };
    kernels::group_norm_grad(view(dx, 1), view(dw, 2), view(db, 4), dy.view(), x.view(), mean.view(),
                             rstd.view(), 4, w.view());
    return std::vector<Values>{dx.values(), dw.values(), db.values()};
  };
  const std::vector<Values> all = gradients(7), none = gradients(0);
  for (int wanted = 1; wanted < 7; ++wanted) {
    const std::vector<Values> some = gradients(wanted);
    for (size_t k = 0; k < 3; ++k) CHECK(some[k] == (wanted >> k & 1 ? all : none)[k]);
  }
}

TEST_CASE("group_norm propagates NaN only within its group, and accepts an empty batch" * needs_devices()) {
  Values values(2 * 4 * 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7);
  values[12] = kNan;  // sample 0, channel 2
  DeviceArray x = DeviceArray::from(f32, {2, 4, 5}, values), y(f32, {2, 4, 5}), mean(f32, {2, 2}),
              rstd(f32, {2, 2});
  kernels::group_norm(y.view(), mean.view(), rstd.view(), x.view(), 2, {}, {}, kNormEps);
  const Values got = y.values();
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i >= 10 && i < 20));
  DeviceArray none(f32, {0, 4, 5}), nothing(f32, {0, 2});
  kernels::group_norm(none.view(), nothing.view(), nothing.view(), none.view(), 2, {}, {}, kNormEps);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
