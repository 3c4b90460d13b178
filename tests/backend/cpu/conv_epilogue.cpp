// Convolution with an epilogue against double precision, and against the bits of the single kernels.
#include <support/array.hpp>

#include <cmath>
#include <support/references.hpp>
#include <tinytorch/backend/cpu/batch_norm.hpp>
#include <tinytorch/backend/cpu/conv.hpp>
#include <tinytorch/backend/cpu/conv_epilogue.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;
using tinytorch::backend::EpilogueStep;
using tinytorch::backend::PointwiseKind;
using tinytorch::backend::View;

namespace {

EpilogueStep norm_step(int first) {
  EpilogueStep s;
  s.is_norm = true, s.first = first, s.eps = 1e-5;
  return s;
}
EpilogueStep function_step(PointwiseKind kind, auto fn, int left, int right = -1) {
  EpilogueStep s;
  s.function.set(kind, fn);
  s.function.in[0] = left, s.function.in[1] = right;
  return s;
}

}  // namespace

TEST_CASE("relu(residual - norm(conv)): the definition, and the bits of four kernels") {
  using tinytorch::backend::BinaryFn, tinytorch::backend::UnaryFn;
  const ConvCase cases[] = {{1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},   {2, 3, 7, 5, 4, 3, 3, 1, 1, 1, 1},
                            {3, 17, 9, 8, 33, 1, 1, 1, 0, 1, 1}, {2, 12, 9, 11, 70, 3, 3, 1, 1, 1, 1},
                            {2, 6, 9, 9, 6, 3, 3, 1, 2, 2, 6},   {1, 5, 4, 4, 1100, 4, 4, 1, 0, 1, 1},
                            {1, 2, 40, 67, 3, 3, 3, 2, 1, 1, 1}, {2, 16, 9, 8, 32, 3, 3, 2, 1, 1, 16}};
  for (const ConvCase& c : cases) {
    const tinytorch::backend::Window2d window{c.KH, c.KW, c.stride, c.padding, c.dilation};
    const int64_t OH = tinytorch::backend::window_outputs(c.H, c.KH, window),
                  OW = tinytorch::backend::window_outputs(c.W, c.KW, window);
    for (const DType dtype : {f32, f64, bf16, f16}) {
      for (const Layout layout : {Layout::dense, Layout::channels_last}) {
        Array x = Array::random(dtype, {c.N, c.C, c.H, c.W}, 1, -1, 1, layout);
        Array w = Array::random(dtype, {c.M, c.C / c.groups, c.KH, c.KW}, 2),
              b = Array::random(dtype, {c.M}, 3);
        Array mean = Array::random(dtype, {c.M}, 4), var = Array::random(dtype, {c.M}, 5, 0.5, 2),
              scale = Array::random(dtype, {c.M}, 6);
        const tinytorch::Shape shape{c.N, c.M, OH, OW};
        Array residual = Array::random(dtype, shape, 7, -1, 1, layout);
        Array got(dtype, shape, layout), conv(dtype, shape, layout), norm(dtype, shape, layout),
            difference(dtype, shape, layout), want(dtype, shape, layout);
        const EpilogueStep steps[] = {norm_step(0),
                                      function_step(PointwiseKind::binary, BinaryFn::sub, 4, -1),
                                      function_step(PointwiseKind::unary, UnaryFn::relu, -1)};
        const View operands[] = {mean.view(), var.view(), scale.view(), View{}, residual.view()};
        kernels::conv2d_epilogue(got.view(), x.view(), w.view(), b.view(), window, c.groups, steps, operands);
        kernels::conv2d(conv.view(), x.view(), w.view(), b.view(), window, c.groups);
        kernels::batch_norm(norm.view(), conv.view(), mean.view(), var.view(), scale.view(), View{}, 1e-5);
        kernels::binary(BinaryFn::sub, difference.view(), residual.view(), norm.view(), 0);
        kernels::unary(UnaryFn::relu, want.view(), difference.view(), 0, 0);
        CHECK(got.values() == want.values());

        std::vector<double> y(static_cast<size_t>(shape.numel()), 0.0);
        y = conv_reference(c, ConvOperand::out, x.values(), w.values(), y, OH, OW);
        const std::vector<double> bias = b.values(), center = mean.values(), spread = var.values(),
                                  factor = scale.values(), left = residual.values();
        double largest = 1;
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t m = i / static_cast<size_t>(OH * OW) % static_cast<size_t>(c.M);
          const double centered = y[i] + bias[m] - center[m];
          const double z = centered / std::sqrt(spread[m] + 1e-5) * factor[m];
          largest = std::max({largest, std::abs(centered), std::abs(z)});
          y[i] = std::max(left[i] - z, 0.0);
        }
        // The results of the convolution and of the norm are rounded to 16 bits.
        const double of_type =
            is_floating(dtype) && size_of(dtype) == 2 ? 3 * epsilon_of(dtype) / epsilon_of(f32) : 0;
        check_close(got.values(), y, dtype, 40 + of_type + static_cast<double>(c.C / c.groups * c.KH * c.KW),
                    largest);
      }
    }
  }
}

TEST_CASE("an empty batch is left alone") {
  Array x(f32, {0, 2, 5, 5}), w = Array::random(f32, {3, 2, 3, 3}, 1), out(f32, {0, 3, 3, 3});
  kernels::conv2d_epilogue(out.view(), x.view(), w.view(), View{}, {3, 3, 1, 0, 1}, 1, {}, {});
  CHECK(out.values().empty());
}
