#include <support/channel_norms.hpp>

#include <tinytorch/backend/cpu/batch_norm.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

namespace {

const std::pair<Layout, Layout> kLayoutPairs[] = {{Layout::dense, Layout::dense},
                                                  {Layout::gaps, Layout::dense},
                                                  {Layout::channels_last, Layout::channels_last},
                                                  {Layout::channels_last, Layout::gaps}};

}  // namespace

TEST_CASE("batch_norm of a batch and its gradient equal the definition") {
  for (const Shape& shape : kChannelShapes) {
    for (DType dtype : kFloating) {
      for (const auto& [layout, of_results] : kLayoutPairs) {
        if (layout == Layout::channels_last && shape.size() != 4) continue;
        const int64_t C = shape[1];
        const DType wide = dtype == f64 ? f64 : f32;
        ChannelOperands o(shape, dtype, layout, of_results);
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

TEST_CASE("batch_norm with given statistics, without parameters") {
  Array x = Array::from(f32, {1, 2, 2}, {1, 2, 3, 5}), mean = Array::from(f32, {2}, {1, 1});
  Array var = Array::from(f32, {2}, {4, 1}), y(f32, {1, 2, 2});
  kernels::batch_norm(y.view(), x.view(), mean.view(), var.view(), {}, {}, 0);
  CHECK(y.values() == std::vector<double>{0, 0.5, 2, 4});
}
