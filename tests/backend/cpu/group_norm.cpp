#include <support/channel_norms.hpp>

#include <tinytorch/backend/cpu/group_norm.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("group_norm and its gradient equal the definition") {
  for (const Shape& shape : kChannelShapes) {
    for (int64_t groups : {1, 2, 3, 4}) {
      if (shape[1] % groups != 0) continue;
      for (DType dtype : kFloating) {
        const DType wide = dtype == f64 ? f64 : f32;
        const int64_t N = shape[0], C = shape[1], inner = shape.numel() / (N * C);
        ChannelOperands o(shape, dtype, Layout::gaps);
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
        if (C == groups && inner == 1) {  // groups of one value: all terms cancel, up to rounding
          check_close(o.y.values(), e.y, dtype, 40, 4);
          continue;
        }
        o.check(e, dtype, 600);
      }
    }
  }
}
