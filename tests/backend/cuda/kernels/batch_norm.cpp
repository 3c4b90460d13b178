#include <support/device_array.hpp>
#include <support/few.hpp>
#include <support/references.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

struct Operands {
  DeviceArray x, dy, w, b, y, dx, dw, db;
  Operands(const Shape& s, DType t, Layout l)
      : x(DeviceArray::random(t, s, 1, -1, 3, l)),
        dy(DeviceArray::random(t, s, 2, -1, 1, l)),
        w(DeviceArray::random(t, {s[1]}, 3, 0.5, 2, l)),
        b(DeviceArray::random(t, {s[1]}, 4, -1, 1, l)),
        y(t, s),
        dx(t, s),
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

}  // namespace

TEST_CASE("batch_norm of a batch and its gradient equal the definition" * needs_devices()) {
  for (const Shape& shape : kShapes) {
    for (DType dtype : kFloating) {
      for (Layout layout : {Layout::dense, Layout::gaps}) {
        if (test::left_out(3)) continue;
        const int64_t C = shape[1];
        const DType wide = dtype == f64 ? f64 : f32;
        Operands o(shape, dtype, layout);
        DeviceArray mean(wide, {C}), var(wide, {C});
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

TEST_CASE("batch_norm works with given statistics and without weight and bias" * needs_devices()) {
  DeviceArray x = DeviceArray::from(f32, {1, 2, 2}, {1, 2, 3, 5}), mean = DeviceArray::from(f32, {2}, {1, 1});
  DeviceArray var = DeviceArray::from(f32, {2}, {4, 1}), y(f32, {1, 2, 2});
  kernels::batch_norm(y.view(), x.view(), mean.view(), var.view(), {}, {}, 0);
  CHECK(y.values() == std::vector<double>{0, 0.5, 2, 4});
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
