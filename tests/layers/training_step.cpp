#include <tinytorch/layers/training_step.hpp>

#include <support/values.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

tt::Tensor squared_error(const tt::Tensor& a, const tt::Tensor& b) { return tt::mean(tt::square(a - b)); }

// Ten samples of y = x [2, -1]^T + 3, and a model whose weights are zero.
struct Regression {
  tt::Tensor x, y;
  tt::Linear net{2, 1};
  Regression() {
    tt::Generator g(1);
    x = tt::randn({10, 2}, tt::f64, tt::default_device(), g);
    y = tt::matmul(x, tt::from_data({2.0, -1.0}, {2, 1})) + 3;
    net.to(tt::f64);
    net.weight.detach().fill_(0);
    net.bias.detach().fill_(0);
  }
  tt::Batch rows(int64_t first, int64_t last) const {
    return {x.slice(0, first, last), y.slice(0, first, last)};
  }
  std::vector<double> weights() const {
    std::vector<double> all = net.weight.to_vector<double>();
    all.push_back(net.bias.item<double>());
    return all;
  }
};

}  // namespace

TEST_CASE("batches of different sizes give the step of one large batch") {
  Regression whole, parts;
  tt::SGD a(whole.net.named_parameters(), {.lr = 0.1}), b(parts.net.named_parameters(), {.lr = 0.1});
  const tt::Metric metric = [](const tt::Tensor& out, const tt::Tensor&) {
    return static_cast<double>(out.size(0));
  };
  const tt::Batch one[] = {whole.rows(0, 10)};
  const tt::Batch three[] = {parts.rows(0, 4), parts.rows(4, 8), parts.rows(8, 10)};
  for (int64_t step = 0; step < 3; ++step) {
    const tt::StepReport x = tt::training_step(whole.net, a, one, squared_error, step);
    const tt::StepReport y = tt::training_step(parts.net, b, three, squared_error, step, {.metric = metric});
    CHECK(x.samples == 10);
    CHECK(y.samples == 10);
    CHECK(y.loss_sum == doctest::Approx(x.loss_sum));
    CHECK(y.metric_sum == 4 * 4 + 4 * 4 + 2 * 2);
    CHECK(x.metric_sum == 0);
    CHECK(std::isnan(x.gradient_norm));
  }
  check_values(parts.weights(), whole.weights(), 1e-13);
}

TEST_CASE("training_step sets the rate of the schedule, and clips before the update") {
  Regression data;
  tt::SGD optimizer(data.net.named_parameters(), {.lr = 123});
  const tt::Batch batch[] = {data.rows(0, 10)};
  const tt::Schedule schedule = [](int64_t step) { return 0.5 * static_cast<double>(step); };
  const tt::StepReport report =
      tt::training_step(data.net, optimizer, batch, squared_error, 2, {schedule, 0.25});
  CHECK(report.lr == 1);
  CHECK(optimizer.lr() == 1);
  CHECK(report.gradient_norm > 0.25);
  double square = 0;
  for (double w : data.weights()) square += w * w;
  CHECK(std::sqrt(square) == doctest::Approx(0.25));
}

TEST_CASE("a loss that is not finite throws before the update") {
  Regression data;
  tt::SGD optimizer(data.net.named_parameters(), {.lr = 1});
  const tt::Batch batch[] = {{data.x, tt::full({10, 1}, HUGE_VAL, tt::f64)}};
  CHECK_THROWS_WITH_AS(tt::training_step(data.net, optimizer, batch, squared_error, 7),
                       doctest::Contains("at step 7"), tt::Error);
  check_values(data.weights(), {0, 0, 0}, 0);
}

TEST_CASE("training_step sums bf16 gradients in f32") {
  Regression data;
  data.net.to(tt::bf16);
  tt::SGD optimizer(data.net.named_parameters(), {.lr = 1});
  tt::GradientSum sums(optimizer.parameters());
  const tt::Batch batches[] = {{data.x.slice(0, 0, 5).to(tt::bf16), data.y.slice(0, 0, 5).to(tt::bf16)},
                               {data.x.slice(0, 5, 10).to(tt::bf16), data.y.slice(0, 5, 10).to(tt::bf16)}};
  tt::training_step(data.net, optimizer, batches, squared_error, 0, {}, &sums);
  CHECK(data.net.weight.grad().dtype() == tt::f32);
}
