#include <limits>
#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;
using backend::AdamStep;
using backend::OptimizerSlot;

namespace {

struct Parameter {
  Values p, g, m, v, rounded, step;
  bool has_rounded;
  double decay;
  Numbers want_p, want_m, want_v;
};
struct Options {
  DType dtype = f32;
  DType gradient = f32;
  bool rounded = false;
};

Parameter parameter(int64_t n, double decay, const Options& o = {}, int64_t steps = 0) {
  Parameter x{Values::random(o.dtype, {n}).on_device(),
              Values::random(o.gradient, {n}).on_device(),
              Values::random(o.dtype, {n}, Layout::contiguous, -0.1, 0.1).on_device(),
              Values::random(o.dtype, {n}, Layout::contiguous, 0.1, 0.5).on_device(),
              Values(bf16, {n}).on_device(),
              Values::of(i64, {1}, {static_cast<double>(steps)}).on_device(),
              o.rounded,
              decay,
              {},
              {},
              {}};
  x.want_p = x.p.numbers();
  x.want_m = x.m.numbers();
  x.want_v = x.v.numbers();
  return x;
}

// One step by the formulas of Kingma and Ba (Adam) and of Loshchilov and Hutter (AdamW), in double.
void step_by_hand(Parameter& x, const AdamStep& step, double lr, double factor, int64_t t) {
  const Numbers g = x.g.numbers();
  const auto number = static_cast<double>(t);
  for (size_t i = 0; i < g.size(); ++i) {
    double& p = x.want_p[i];
    const double slope = factor * g[i] + (step.decoupled ? 0 : x.decay * p);
    x.want_m[i] = step.beta1 * x.want_m[i] + (1 - step.beta1) * slope;
    x.want_v[i] = step.beta2 * x.want_v[i] + (1 - step.beta2) * slope * slope;
    const double m = x.want_m[i] / (1 - std::pow(step.beta1, number));
    const double v = x.want_v[i] / (1 - std::pow(step.beta2, number));
    if (step.decoupled) p -= lr * x.decay * p;
    p -= lr * m / (std::sqrt(v) + step.eps);
  }
}

void compare(const std::string& what, Parameter& x, double roundings = 64) {
  expect_close(what + ": m", x.m, x.want_m, {.roundings = roundings});
  expect_close(what + ": v", x.v, x.want_v, {.roundings = roundings});
  expect_close(what + ": the parameter", x.p, x.want_p, {.roundings = roundings, .scale = 2});
  if (x.has_rounded) {
    expect_close(what + ": the parameter in bf16", x.rounded, x.want_p, {.roundings = roundings, .scale = 2});
  }
}

struct Call {
  AdamStep step{.decoupled = true};
  double lr = 0.01, factor = 1;
  bool clip = false;
  int repeats = 1;
};
void check(const std::string& what, std::vector<Parameter>& all, const Call& call,
           std::vector<int64_t> before = {}) {
  Values scalars = Values::of(f64, {3}, {call.lr, call.factor, 0}).on_device();
  std::vector<OptimizerSlot> slots;
  for (Parameter& x : all) {
    slots.push_back({x.p.view(),
                     x.g.view(),
                     {x.m.view(), x.v.view()},
                     x.has_rounded ? x.rounded.view() : View{},
                     x.step.view(),
                     x.decay});
  }
  before.resize(all.size());
  for (int k = 1; k <= call.repeats; ++k) {
    backend::cuda::adam_step_all(slots, scalars.view(), call.step, call.clip);
    for (size_t i = 0; i < all.size(); ++i) {
      step_by_hand(all[i], call.step, call.lr, call.clip ? call.factor : 1, before[i] + k);
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string which = what + ", tensor " + std::to_string(i) + " of " + std::to_string(all.size()) +
                              " with " + std::to_string(all[i].p.shape().numel()) + " elements";
    expect_equal(which + ": number of steps", all[i].step.numbers()[0],
                 static_cast<double>(before[i] + call.repeats));
    compare(which, all[i], 64.0 * call.repeats);
  }
}

}  // namespace

TEST_CASE("3.27 one step of AdamW on one tensor") {
  for (const int64_t n : {1, 5, 256, 257, 2047, 2048, 2049}) {
    std::vector<Parameter> all{parameter(n, 0.1)};
    check("adam_step_all (AdamW)", all, {});
  }
}

TEST_CASE("3.27 bias correction counts the steps") {
  std::vector<Parameter> all{parameter(3, 0.1), parameter(4, 0.0, {}, 999)};
  check("three steps of adam_step_all (AdamW), the second tensor after 999", all, {.repeats = 3}, {0, 999});
}

TEST_CASE("3.27 many tensors, also empty ones, and more than one table holds") {
  std::vector<Parameter> all;
  for (const int64_t n : {3, 0, 4100, 1, 0, 2048, 7})
    all.push_back(parameter(n, 0.02 * static_cast<double>(n % 3)));
  check("adam_step_all (AdamW)", all, {});
  std::vector<Parameter> many;
  for (int i = 0; i < 300; ++i) many.push_back(parameter(1 + i % 2, 0.001 * i));
  check("adam_step_all (AdamW)", many, {});
}

TEST_CASE("3.27 Adam: weight decay is part of the gradient") {
  std::vector<Parameter> all{parameter(40, 0.3)};
  check("adam_step_all (Adam)", all, {.step = {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3}});
}

TEST_CASE("3.27 gradients are scaled by the factor in memory; a norm that is not finite stops the step") {
  std::vector<Parameter> all{parameter(40, 0.3)};
  check("adam_step_all (AdamW) with clipping", all, {.factor = 0.25, .clip = true});
  check("adam_step_all (AdamW) without clipping, whatever the factor", all, {.factor = 0.25}, {1});
  Values scalars = Values::of(f64, {3}, {0.01, NAN, NAN}).on_device();
  Parameter x = parameter(5, 0.1);
  const OptimizerSlot slot{x.p.view(), x.g.view(), {x.m.view(), x.v.view()}, {}, x.step.view(), x.decay};
  backend::cuda::adam_step_all(std::span<const OptimizerSlot>(&slot, 1), scalars.view(), {.decoupled = true},
                               true);
  compare("adam_step_all where the gradients' norm is not finite: nothing changes", x, 0);
  expect_equal("adam_step_all where the gradients' norm is not finite: number of steps", x.step.numbers()[0],
               0.0);
}

TEST_CASE("3.27 f64, and f32 parameters with 16-bit gradients and copies") {
  std::vector<Parameter> all{parameter(30, 0.1, {f64, f64, false}), parameter(31, 0.1, {f32, bf16, true}),
                             parameter(32, 0.1, {f32, f16, false}), parameter(33, 0.1, {f64, f64, false})};
  check("adam_step_all (AdamW)", all, {});
}

TEST_CASE("3.27 one tensor by adam_step") {
  Parameter x = parameter(70, 0.1);
  const AdamStep step{.lr = 0.02, .weight_decay = 0.1, .decoupled = true, .step = 7};
  backend::cuda::adam_step(x.p.view(), x.g.view(), x.m.view(), x.v.view(), step);
  step_by_hand(x, step, 0.02, 1, 7);
  compare("adam_step, step 7 of a tensor [70]", x);
}
