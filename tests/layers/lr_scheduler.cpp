// Learning rate schedulers: PyTorch's rates at every step, resuming, and the rule of the plateau.
#include <tinytorch/layers/lr_scheduler.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using doctest::Approx;

namespace {

struct Scene {
  explicit Scene(double lr) : optimizer(tt::Tensors{tt::ones({1}).requires_grad_()}, {.lr = lr}) {}
  tt::SGD optimizer;
};

template <class Scheduler>
void check_rates(Scene& scene, Scheduler& scheduler, const nlohmann::json& expected) {
  for (size_t step = 0; step < expected.size(); ++step) {
    INFO("step ", step);
    CHECK(scene.optimizer.lr() == Approx(expected[step].get<double>()).epsilon(1e-10));
    CHECK(scheduler.last_lr() == scene.optimizer.lr());
    scheduler.step();
  }
}

}  // namespace

TEST_CASE("schedulers have the rates of PyTorch") {
  const nlohmann::json golden = read_golden("layers")["schedules"];
  Scene a(0.2), b(0.2);
  tt::StepLR step(a.optimizer, 4, 0.3);
  check_rates(a, step, golden["step"]);
  const nlohmann::json& cosine = golden["cosine"];
  tt::CosineAnnealingLR annealing(b.optimizer, 12, 0.01);
  check_rates(b, annealing, cosine);
}

TEST_CASE("schedulers follow their formulas") {
  Scene a(1), b(1), c(1), d(1), e(1);
  tt::MultiStepLR milestones(a.optimizer, {3, 1}, 0.1);
  check_rates(a, milestones, {1, 0.1, 0.1, 0.01, 0.01});
  tt::ExponentialLR exponential(b.optimizer, 0.5);
  check_rates(b, exponential, {1, 0.5, 0.25});
  tt::LinearLR linear(c.optimizer, 0.5, 1, 4);
  check_rates(c, linear, {0.5, 0.625, 0.75, 0.875, 1, 1});
  tt::LambdaLR lambda(d.optimizer, [](int64_t s) { return 1.0 / static_cast<double>(1 + s); });
  check_rates(d, lambda, {1, 1 / 2.0, 1 / 3.0});
  tt::CosineAnnealingLR wave(e.optimizer, 2);
  check_rates(e, wave, {1, 0.5, 0, 0.5, 1});
}

TEST_CASE("a scheduler multiplies the rates of groups, and resumes at a step") {
  Scene scene(1);
  scene.optimizer.add_group(tt::Tensors{tt::ones({1}).requires_grad_()}, {.lr = 10});
  tt::StepLR scheduler(scene.optimizer, 2);
  scheduler.set_steps(4);
  CHECK(scheduler.steps() == 4);
  CHECK(scene.optimizer.lr() == Approx(0.01));
  for (const tt::Tensor& p : scene.optimizer.parameters()) tt::Tensor(p).set_grad(tt::ones({1}));
  scene.optimizer.step();
  CHECK(scene.optimizer.parameters()[0].item() == Approx(0.99));
  CHECK(scene.optimizer.parameters()[1].item() == Approx(0.9));
}

TEST_CASE("a plateau lowers the rate after its patience, waits and stops at the lowest rate") {
  Scene scene(1);
  tt::ReduceLROnPlateau scheduler(
      scene.optimizer, {.factor = 0.5, .patience = 1, .threshold = 0.1, .cooldown = 1, .min_lr = 0.2});
  const double metrics[] = {10, 9.5, 9.5, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, NAN};
  const double rates[] = {1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2};
  // 9.5 is not better than 10 by a tenth. After a reduction, one step is not counted.
  double last = 1;
  for (size_t i = 0; i < std::size(metrics); ++i) {
    INFO("step ", i);
    scheduler.step(metrics[i]);
    CHECK(scheduler.last_lr() <= last);
    last = scheduler.last_lr();
    CHECK(last == Approx(rates[i]));
  }
  Scene upwards(1);
  tt::ReduceLROnPlateau accuracy(upwards.optimizer, {.maximize = true, .patience = 0});
  accuracy.step(0.5);
  accuracy.step(0.6);
  CHECK(upwards.optimizer.lr() == 1);
  accuracy.step(0.6);
  CHECK(upwards.optimizer.lr() == Approx(0.1));
}

TEST_CASE("schedulers refuse what has no steps") {
  Scene scene(1);
  CHECK(message_of([&] { tt::StepLR(scene.optimizer, 0); }).rfind("TT-OPT-08", 0) == 0);
  CHECK(message_of([&] { tt::CosineAnnealingLR(scene.optimizer, 0); }).rfind("TT-OPT-08", 0) == 0);
}
