#include <support/array.hpp>

#include <support/references.hpp>
#include <tinytorch/backend/cpu/batch_norm.hpp>

using namespace test;
using backend::View;
namespace kernels = tinytorch::backend::cpu;

namespace {

struct Operands {
  Array x, dy, w, b, y, dx, dw, db;
  Operands(const Shape& s, DType t, Layout l, Layout of_results = Layout::dense)
      : x(Array::random(t, s, 1, -1, 3, l)),
        dy(Array::random(t, s, 2, -1, 1, l)),
        w(Array::random(t, {s[1]}, 3, 0.5, 2, l)),
        b(Array::random(t, {s[1]}, 4, -1, 1, l)),
        y(t, s, of_results),
        dx(t, s, of_results),
        dw(t, {s[1]}),
        db(t, {s[1]}) {}
  void check(const NormExpected& e, DType t, double steps) {
    check_close(y.values(), e.y, t, 40, 4);
    check_close(dx.values(), e.dx, t, steps, 4);
    check_close(dw.values(), e.dw, t, steps, 4);
    check_close(db.values(), e.db, t, steps, 4);
  }
};

const Shape kShapes[] = {{2, 1},    {5, 3},        {17, 33},      {64, 130},     {3, 2, 7},
                         {4, 6, 1}, {2, 4, 5, 13}, {9, 8, 3, 11}, {1, 4, 40, 50}};
const std::pair<Layout, Layout> kLayoutPairs[] = {{Layout::dense, Layout::dense},
                                                  {Layout::gaps, Layout::dense},
                                                  {Layout::channels_last, Layout::channels_last},
                                                  {Layout::channels_last, Layout::gaps}};

}  // namespace

TEST_CASE("batch_norm of a batch and its gradient equal the definition") {
  for (const Shape& shape : kShapes) {
    for (DType dtype : kFloating) {
      for (const auto& [layout, of_results] : kLayoutPairs) {
        if (layout == Layout::channels_last && shape.size() != 4) continue;
        const int64_t C = shape[1];
        const DType wide = dtype == f64 ? f64 : f32;
        Operands o(shape, dtype, layout, of_results);
        Array mean(wide, {C}), var(wide, {C});
        kernels::channel_moments(mean.view(), var.view(), o.x.view());
        kernels::batch_norm(o.y.view(), o.x.view(), mean.view(), var.view(), o.w.view(), o.b.view(),
                            kNormEps);
        kernels::batch_norm_grad({o.dx.view(), o.dw.view(), o.db.view(), {}, {}}, o.dy.view(), o.x.view(),
                                 mean.view(), var.view(), o.w.view(), kNormEps, true, {}, {});
        int64_t inner = 1;
        for (int d = 2; d < shape.size(); ++d) inner *= shape[d];
        const auto channel = [&](size_t i) {
          return i / static_cast<size_t>(inner) % static_cast<size_t>(C);
        };
        o.check(norm_reference(o.x.values(), o.w.values(), o.b.values(), o.dy.values(),
                               static_cast<size_t>(C), channel, channel),
                dtype, 300);
      }
    }
  }
}

TEST_CASE("group_norm and its gradient equal the definition") {
  for (const Shape& shape : kShapes) {
    for (int64_t groups : {1, 2, 3, 4}) {
      if (shape[1] % groups != 0) continue;
      for (DType dtype : kFloating) {
        const DType wide = dtype == f64 ? f64 : f32;
        const int64_t N = shape[0], C = shape[1], inner = shape.numel() / (N * C);
        Operands o(shape, dtype, Layout::gaps);
        Array mean(wide, {N, groups}), rstd(wide, {N, groups});
        kernels::group_norm(o.y.view(), mean.view(), rstd.view(), o.x.view(), groups, o.w.view(), o.b.view(),
                            kNormEps);
        kernels::group_norm_grad(o.dx.view(), o.dw.view(), o.db.view(), o.dy.view(), o.x.view(), mean.view(),
                                 rstd.view(), groups, o.w.view());
        const auto channel = [&](size_t i) {
          return i / static_cast<size_t>(inner) % static_cast<size_t>(C);
        };
        const auto group = [&](size_t i) { return i / static_cast<size_t>(inner * (C / groups)); };
        NormExpected e = norm_reference(o.x.values(), o.w.values(), o.b.values(), o.dy.values(),
                                        static_cast<size_t>(N * groups), group, channel);
        if (C == groups && inner == 1) {  // sets of one value: everything cancels, up to rounding
          check_close(o.y.values(), e.y, dtype, 40, 4);
          continue;
        }
        o.check(e, dtype, 600);
      }
    }
  }
}

TEST_CASE("batch_norm with given statistics, without parameters") {
  Array x = Array::from(f32, {1, 2, 2}, {1, 2, 3, 5}), mean = Array::from(f32, {2}, {1, 1});
  Array var = Array::from(f32, {2}, {4, 1}), y(f32, {1, 2, 2});
  kernels::batch_norm(y.view(), x.view(), mean.view(), var.view(), {}, {}, 0);
  CHECK(y.values() == std::vector<double>{0, 0.5, 2, 4});
}
