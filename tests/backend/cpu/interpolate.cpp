#include <support/array.hpp>
#include <support/interpolation.hpp>

#include <tinytorch/backend/cpu/interpolate.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("interpolation and its gradient equal the matrices of their weights") {
  for (const ResampledSizes& s : kResampledSizes) {
    for (const Sampled how : {Sampled::nearest, Sampled::linear, Sampled::corners}) {
      PlaneResampling axes;
      if (s.rows > 1 || s.new_rows > 1) axes.rows = resampling(s.rows, s.new_rows, how);
      axes.columns = resampling(s.columns, s.new_columns, how);
      for (const DType dtype : kFloating) {
        INFO(s.rows, " x ", s.columns, " to ", s.new_rows, " x ", s.new_columns, ", kind ",
             static_cast<int>(how));
        const Shape in{s.planes, s.rows, s.columns}, result{s.planes, s.new_rows, s.new_columns};
        Array x = Array::random(dtype, in, 1, -2, 2, Layout::gaps),
              g = Array::random(dtype, result, 2, -2, 2, Layout::gaps);
        Array y(dtype, result), dx(dtype, in);
        kernels::interpolate(y.view(), x.view(), axes);
        kernels::interpolate_grad(dx.view(), g.view(), axes);
        check_close(y.values(), resampled(x.values(), axes, how, false), dtype, 20);
        check_close(dx.values(), resampled(g.values(), axes, how, true), dtype, 40);
      }
    }
  }
}
