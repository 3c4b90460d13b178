#include <support/check.hpp>
#include <tinytorch/backend/cpu/optimizer.hpp>

using namespace course;
using backend::SgdStep;
using backend::View;
namespace cpu = tinytorch::backend::cpu;

namespace {

std::string call(const SgdStep& s, int64_t n, int step) {
  std::string text = "sgd_step of " + std::to_string(n) + " elements, lr " + shown(s.lr);
  if (s.momentum > 0) text += ", momentum " + shown(s.momentum);
  if (s.nesterov) text += ", Nesterov";
  if (s.weight_decay > 0) text += ", weight decay " + shown(s.weight_decay);
  return text + ", after step " + std::to_string(step);
}
// Several steps, each with a new gradient.
void check(DType dtype, int64_t n, const SgdStep& s) {
  Values p = Values::random(dtype, {n}),
         velocity = Values::of(dtype, {n}, Numbers(static_cast<size_t>(n), 0.0));
  Numbers want = p.numbers(), v(want.size());
  for (int step = 1; step <= 4; ++step) {
    Values g = Values::random(dtype, {n});
    const Numbers gradient = g.numbers();
    for (size_t i = 0; i < want.size(); ++i) {
      const double d = gradient[i] + s.weight_decay * want[i];
      v[i] = s.momentum * v[i] + d;
      want[i] -= s.lr * (s.nesterov ? d + s.momentum * v[i] : v[i]);
    }
    cpu::sgd_step(p.view(), g.view(), s.momentum > 0 ? velocity.view() : View{}, s);
    expect_close("parameter: " + call(s, n, step), p, want, {.roundings = 8.0 * step});
    if (s.momentum > 0)
      expect_close("velocity: " + call(s, n, step), velocity, v, {.roundings = 8.0 * step, .scale = 4});
    expect_close("the gradient, which must not change: " + call(s, n, step), g, gradient, {.roundings = 0});
  }
}

}  // namespace

TEST_CASE("3.13 one step in the direction opposite to the gradient") {
  Values p = Values::of(f32, {2}, {1, -2}), g = Values::of(f32, {2}, {0.5, 4});
  cpu::sgd_step(p.view(), g.view(), {}, {.lr = 0.25});
  expect_close("p = [1, -2], g = [0.5, 4], lr 0.25", p, {0.875, -3});
  for (const int64_t n : {1, 3, 17, 130}) check(f32, n, {.lr = 0.1});
}

TEST_CASE("3.13 momentum adds a part of the earlier steps") {
  Values p = Values::of(f32, {1}, {0}), g = Values::of(f32, {1}, {1}), v = Values::of(f32, {1}, {0});
  const SgdStep s{.lr = 1, .momentum = 0.5};
  for (int step = 0; step < 3; ++step) cpu::sgd_step(p.view(), g.view(), v.view(), s);
  expect_close("p after three steps from 0 with g 1, lr 1, momentum 0.5: -(1 + 1.5 + 1.75)", p, {-4.25});
  expect_close("the velocity after these steps", v, {1.75});
  check(f32, 17, {.lr = 0.1, .momentum = 0.9});
}

TEST_CASE("3.13 weight decay is a part of the gradient") {
  check(f32, 17, {.lr = 0.1, .weight_decay = 0.3});
  check(f32, 17, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.3});
}

TEST_CASE("3.13 Nesterov momentum") {
  check(f32, 17, {.lr = 0.1, .momentum = 0.9, .nesterov = true});
  check(f32, 17, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.3, .nesterov = true});
}

TEST_CASE("3.13 f64 parameters are updated in f64") {
  check(f64, 17, {.lr = 0.1});
  check(f64, 17, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.3, .nesterov = true});
}

TEST_CASE("3.13 many parameters, 16-bit gradients, one scale factor for all") {
  Values p = Values::random(f32, {5}), q = Values::random(f32, {2, 3}), g = Values::random(f32, {5}),
         h = Values::random(bf16, {2, 3});
  Values v = Values::of(f32, {5}, Numbers(5, 0.0)), w = Values::of(f32, {2, 3}, Numbers(6, 0.0));
  Values steps = Values::of(i64, {2}, {0, 3}), scalars = Values::of(f64, {3}, {0.5, 0.25, 8});
  Numbers want_p = p.numbers(), want_q = q.numbers();
  for (size_t i = 0; i < 5; ++i) want_p[i] -= 0.5 * (0.25 * g.numbers()[i] + 0.1 * want_p[i]);
  for (size_t i = 0; i < 6; ++i) want_q[i] -= 0.5 * 0.25 * h.numbers()[i];
  View first = steps.view(), second = first;
  first.shape = second.shape = {1};
  second.data = first.as<int64_t>() + 1;
  const backend::OptimizerSlot slots[] = {{p.view(), g.view(), {v.view(), {}}, {}, first, 0.1},
                                          {q.view(), h.view(), {w.view(), {}}, {}, second, 0}};
  cpu::sgd_step_all(slots, scalars.view(), {.momentum = 0.9}, true);
  expect_close("first parameter of sgd_step_all, with weight decay, gradients times 0.25", p, want_p,
               {.roundings = 8});
  expect_close("second parameter of sgd_step_all, bf16 gradient, no decay", q, want_q, {.roundings = 8});
  expect_close("step counts", steps, {1, 4});
}

TEST_CASE("3.13 only the elements of the views are written") {
  for (const double momentum : {0.0, 0.9}) {
    Values p = Values::of(f32, {3}, {1, 2, 3}), g = Values::of(f32, {3}, {1, 1, 1}),
           v = Values::of(f32, {3}, {0, 0, 7});
    View two[] = {p.view(), g.view(), v.view()};
    for (View& view : two) view.shape = {2};
    cpu::sgd_step(two[0], two[1], momentum > 0 ? two[2] : View{}, {.lr = 0.5, .momentum = momentum});
    const std::string what = "after a step of two of three elements, momentum " + shown(momentum);
    expect_close("p " + what, p, {0.5, 1.5, 3});
    if (momentum > 0) expect_close("v " + what, v, {1, 1, 7});
  }
}
