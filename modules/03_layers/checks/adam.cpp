#include <support/check.hpp>
#include <tinytorch/backend/cpu/optimizer.hpp>

using namespace course;
using backend::AdamStep;
using backend::View;
namespace cpu = tinytorch::backend::cpu;

namespace {

std::string call(const AdamStep& s, int64_t n) {
  std::string text = "adam_step of " + std::to_string(n) + " elements, beta1 " + shown(s.beta1) + ", beta2 " +
                     shown(s.beta2);
  if (s.weight_decay > 0)
    text += std::string(s.decoupled ? ", decoupled" : "") + " weight decay " + shown(s.weight_decay);
  if (s.eps > 1e-8) text += ", eps " + shown(s.eps);
  return text + ", step " + std::to_string(s.step);
}
void check(DType dtype, int64_t n, AdamStep s, double size = 1) {
  const Numbers zeros(static_cast<size_t>(n), 0.0);
  Values p = Values::random(dtype, {n}), m = Values::of(dtype, {n}, zeros), v = Values::of(dtype, {n}, zeros);
  Numbers want = p.numbers(), want_m = zeros, want_v = zeros;
  for (s.step = 1; s.step <= 5; ++s.step) {
    Values g = Values::random(dtype, {n}, Layout::contiguous, -size, size);
    const Numbers gradient = g.numbers();
    const double t = static_cast<double>(s.step);
    for (size_t i = 0; i < want.size(); ++i) {
      const double d = gradient[i] + (s.decoupled ? 0 : s.weight_decay * want[i]);
      if (s.decoupled) want[i] *= 1 - s.lr * s.weight_decay;
      want_m[i] = s.beta1 * want_m[i] + (1 - s.beta1) * d;
      want_v[i] = s.beta2 * want_v[i] + (1 - s.beta2) * d * d;
      const double mean = want_m[i] / (1 - std::pow(s.beta1, t)),
                   square = want_v[i] / (1 - std::pow(s.beta2, t));
      want[i] -= s.lr * mean / (std::sqrt(square) + s.eps);
    }
    cpu::adam_step(p.view(), g.view(), m.view(), v.view(), s);
    const double roundings = 16 * t;
    expect_close("m: " + call(s, n), m, want_m, {.roundings = roundings, .scale = size});
    expect_close("v: " + call(s, n), v, want_v, {.roundings = roundings, .scale = size * size});
    expect_close("parameter: " + call(s, n), p, want, {.roundings = roundings});
    expect_close("the gradient, which must not change: " + call(s, n), g, gradient, {.roundings = 0});
  }
}

}  // namespace

TEST_CASE("3.14 the first step has length lr, whatever the gradient") {
  Values p = Values::of(f32, {3}, {1, 1, 1}), g = Values::of(f32, {3}, {0.5, -0.001, 1000});
  Values m = Values::of(f32, {3}, {0, 0, 0}), v = Values::of(f32, {3}, {0, 0, 0});
  cpu::adam_step(p.view(), g.view(), m.view(), v.view(), {.lr = 0.125, .eps = 0});
  expect_close("p = [1, 1, 1], g = [0.5, -0.001, 1000], lr 0.125, eps 0", p, {0.875, 1.125, 0.875});
  expect_close("m, 0.1 of the gradient", m, {0.05, -0.0001, 100});
  expect_close("v, 0.001 of its square", v, {0.00025, 1e-9, 1000}, {.scale = 1e-10});
}

TEST_CASE("3.14 eps is added after the square root") {
  check(f32, 17, {.lr = 0.1, .eps = 0.5});
  check(f32, 17, {.lr = 0.1, .eps = 1e-3}, 1e-3);
}

TEST_CASE("3.14 running means over several steps") {
  for (const int64_t n : {1, 3, 17, 130}) check(f32, n, {.lr = 0.1});
  check(f32, 17, {.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75});
  check(f32, 17, {.lr = 0.1, .beta1 = 0, .beta2 = 0});
}

TEST_CASE("3.14 Adam's weight decay is a part of the gradient") {
  check(f32, 17, {.lr = 0.1, .weight_decay = 0.3});
}

TEST_CASE("3.14 AdamW's weight decay shrinks the parameter and does not change the gradient") {
  check(f32, 17, {.lr = 0.1, .weight_decay = 0.3, .decoupled = true});
  check(f32, 3, {.lr = 0.5, .weight_decay = 1, .decoupled = true});
}

TEST_CASE("3.14 f64 parameters are updated in f64") {
  check(f64, 17, {.lr = 0.1, .weight_decay = 0.3});
  check(f64, 17, {.lr = 0.1, .weight_decay = 0.3, .decoupled = true});
}

TEST_CASE("3.14 many parameters, each with its own step count") {
  Values p = Values::of(f32, {2}, {1, 1}), q = Values::of(f32, {1}, {1}), g = Values::of(f32, {2}, {3, -3}),
         h = Values::of(f16, {1}, {5});
  Values pm = Values::of(f32, {2}, {0, 0}), pv = Values::of(f32, {2}, {0, 0}), qm = Values::of(f32, {1}, {0});
  Values qv = Values::of(f32, {1}, {0}), steps = Values::of(i64, {2}, {0, 1}),
         scalars = Values::of(f64, {3}, {0.25, 1, 1});
  View first = steps.view(), second = first;
  first.shape = second.shape = {1};
  second.data = first.as<int64_t>() + 1;
  const backend::OptimizerSlot slots[] = {{p.view(), g.view(), {pm.view(), pv.view()}, {}, first, 0},
                                          {q.view(), h.view(), {qm.view(), qv.view()}, {}, second, 0}};
  cpu::adam_step_all(slots, scalars.view(), {.eps = 0}, false);
  expect_close("first parameter of adam_step_all, at its step 1", p, {0.75, 1.25});
  const double mean = 0.5 / (1 - 0.81), square = 0.025 / (1 - 0.998001);
  expect_close("second parameter of adam_step_all, at its step 2", q, {1 - 0.25 * mean / std::sqrt(square)},
               {.roundings = 64});
}

TEST_CASE("3.14 only the elements of the views are written") {
  Values p = Values::of(f32, {3}, {1, 2, 3}), g = Values::of(f32, {3}, {1, 1, 1});
  Values m = Values::of(f32, {3}, {0, 0, 7}), v = Values::of(f32, {3}, {0, 0, 8});
  View two[] = {p.view(), g.view(), m.view(), v.view()};
  for (View& view : two) view.shape = {2};
  cpu::adam_step(two[0], two[1], two[2], two[3], {.lr = 0.5, .eps = 0});
  expect_close("p after a step of two of three elements", p, {0.5, 1.5, 3});
  expect_close("m after a step of two of three elements", m, {0.1, 0.1, 7});
  expect_close("v after a step of two of three elements", v, {0.001, 0.001, 8});
}
