#include <support/check.hpp>
#include <tinytorch/layers/clip.hpp>

using namespace course;

namespace {

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }
// A parameter of zeros with this gradient; an empty list gives no gradient.
Tensor with_gradient(const Shape& shape, const Numbers& gradient, DType dtype = f32) {
  Tensor p = zeros(shape, dtype);
  p.requires_grad_();
  if (!gradient.empty()) p.set_grad(Tensor(from_data(gradient, shape)).to(dtype));
  return p;
}

}  // namespace

TEST_CASE("3.17 the norm of all gradients as one vector") {
  const Tensors p{with_gradient({1}, {3}), with_gradient({2}, {0, -4})};
  expect_close("gradient_norm of gradients [3] and [0, -4]", {gradient_norm(p)}, {5}, {}, {.dtype = f64});
  expect_close("gradient_norm of one gradient [0, -4]", {gradient_norm({p[1]})}, {4}, {}, {.dtype = f64});
  expect_close("gradient_norm where one of two parameters has no gradient",
               {gradient_norm({p[1], with_gradient({3}, {})})}, {4}, {}, {.dtype = f64});
  expect_close("gradient_norm without any gradient", {gradient_norm({with_gradient({3}, {})})}, {0}, {},
               {.dtype = f64});
  const Tensors mixed{with_gradient({2, 2}, {1, 1, 1, 1}, bf16), with_gradient({1}, {2}, f64),
                      with_gradient({1}, {1}, f16)};
  expect_close("gradient_norm of bf16, f64 and f16 together", {gradient_norm(mixed)}, {3}, {},
               {.dtype = f64});
}

TEST_CASE("3.17 one factor for all gradients keeps the direction") {
  for (const DType dtype : {f32, f64, bf16, f16}) {
    const Tensors p{with_gradient({1}, {3}, dtype), with_gradient({2}, {1, -4}, dtype),
                    with_gradient({2}, {}, dtype)};
    const double norm = std::sqrt(26.0);
    expect_close("the result of clip_gradient_norm: the norm before clipping", {clip_gradient_norm(p, 0.5)},
                 {norm}, {}, {.dtype = f64});
    expect_close("gradient [3] clipped to a common norm of 0.5", numbers(p[0].grad()), {1.5 / norm}, {1},
                 {.dtype = dtype});
    expect_close("gradient [1, -4] clipped to a common norm of 0.5", numbers(p[1].grad()),
                 {0.5 / norm, -2 / norm}, {2}, {.dtype = dtype});
    expect("a parameter without a gradient gets none", !p[2].grad().defined());
  }
}

TEST_CASE("3.17 a norm below the limit changes nothing") {
  const Tensors p{with_gradient({2}, {0.375, -0.5})};
  expect_close("the result of clip_gradient_norm with limit 2", {clip_gradient_norm(p, 2)}, {0.625}, {},
               {.dtype = f64});
  expect_close("gradient [0.375, -0.5] with limit 2", numbers(p[0].grad()), {0.375, -0.5}, {2},
               {.roundings = 0});
}

TEST_CASE("3.17 a norm that is not finite leaves the gradients as they are") {
  for (const double bad : {HUGE_VAL, static_cast<double>(NAN)}) {
    const Tensors p{with_gradient({2}, {1, bad}), with_gradient({1}, {7})};
    const double norm = clip_gradient_norm(p, 0.5);
    expect("clip_gradient_norm of a gradient with " + shown(bad) + " returns a norm that is not finite",
           !std::isfinite(norm));
    expect_close("the other gradient, [7]", numbers(p[1].grad()), {7}, {1}, {.roundings = 0});
    expect_close("the first element of the gradient with " + shown(bad), {numbers(p[0].grad())[0]}, {1}, {},
                 {.roundings = 0});
  }
}

TEST_CASE("3.17 clipping by value clips each element separately") {
  const Tensors p{with_gradient({4}, {3, -0.25, -7, HUGE_VAL}), with_gradient({2}, {}),
                  with_gradient({1}, {-1}, bf16)};
  clip_gradient_value(p, 0.5);
  expect_close("gradient [3, -0.25, -7, inf] clipped to [-0.5, 0.5]", numbers(p[0].grad()),
               {0.5, -0.25, -0.5, 0.5}, {4}, {.roundings = 0});
  expect_close("bf16 gradient [-1] clipped to [-0.5, 0.5]", numbers(p[2].grad()), {-0.5}, {1},
               {.roundings = 0});
  expect_throws("TT-OPT-09", "clip_gradient_value with limit 0", [&] { clip_gradient_value(p, 0); });
}
