#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/interpolation.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

TEST_CASE("interpolation and its gradient equal the matrices of their weights" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const ResampledSizes& s : kResampledSizes) {
    for (const Sampled how : {Sampled::nearest, Sampled::linear, Sampled::corners}) {
      PlaneResampling axes;
      if (s.rows > 1 || s.new_rows > 1) axes.rows = resampling(s.rows, s.new_rows, how);
      axes.columns = resampling(s.columns, s.new_columns, how);
      for (const DType dtype : kFloating) {
        if (test::left_out(4)) continue;
        const Layout layout = kLayouts[fresh.next() % 3];
        INFO(text_of(dtype), " ", s.rows, " x ", s.columns, " to ", s.new_rows, " x ", s.new_columns,
             ", kind ", static_cast<int>(how), ", layout ", static_cast<int>(layout));
        const Shape in{s.planes, s.rows, s.columns}, result{s.planes, s.new_rows, s.new_columns};
        DeviceArray x = fresh.array(dtype, in, -2, 2, layout), g = fresh.array(dtype, result, -2, 2, layout),
                    y(dtype, result, layout), dx(dtype, in, layout);
        kernels::interpolate(y.view(), x.view(), axes);
        kernels::interpolate_grad(dx.view(), g.view(), axes);
        check_close(y.values(), resampled(x.values(), axes, how, false), dtype, 20, 4);
        check_close(dx.values(), resampled(g.values(), axes, how, true), dtype, 40, 16);
      }
    }
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
