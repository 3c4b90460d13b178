#include <support/check.hpp>
#include <tinytorch/layers/training_step.hpp>

using namespace course;

namespace {

// The model y = w0 a + w1 b + w2 in f64, with weights that start at zero.
struct Line : Module {
  Tensor weight = add_parameter("weight", zeros({3, 1}, f64));
  Tensor forward(const Tensor& x) override { return matmul(x, weight); }
};
// An optimizer: p -= lr g.
class Descent : public Optimizer {
 public:
  Descent(const NamedTensors& parameters, double lr) : Optimizer(parameters, lr, 0, {}, Loc::current()) {}

 protected:
  void update(Slot& slot, const Tensor& gradient) override {
    slot.master.copy_(slot.master.detach() - gradient * lr());
    ++updates;
  }

 public:
  int updates = 0;
};
Tensor squared_error(const Tensor& a, const Tensor& b) { return mean(square(a - b)); }

// Samples of y = 2 a - b + 3; inputs [n, 3] are (a, b, 1).
struct Data {
  Numbers x, y;
  explicit Data(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      x.insert(x.end(), {uniform(-1, 1), uniform(-1, 1), 1});
      y.push_back(2 * x[x.size() - 3] - x[x.size() - 2] + 3);
    }
  }
  Batch rows(size_t first, size_t last) const {
    const auto n = static_cast<int64_t>(last - first);
    return {
        from_data(Numbers(x.begin() + static_cast<long>(3 * first), x.begin() + static_cast<long>(3 * last)),
                  {n, 3}),
        from_data(Numbers(y.begin() + static_cast<long>(first), y.begin() + static_cast<long>(last)),
                  {n, 1})};
  }
};
// The reference: the same step in double, over all samples at once.
struct ByHand {
  Numbers w{0, 0, 0};
  double loss_sum = 0, norm = 0;
  void step(const Data& data, double lr, double limit = 0) {
    Numbers g(3);
    loss_sum = 0;
    for (size_t i = 0; i < data.y.size(); ++i) {
      const double* x = data.x.data() + 3 * i;
      const double error = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] - data.y[i];
      loss_sum += error * error;
      for (size_t k = 0; k < 3; ++k) g[k] += 2 * error * x[k] / static_cast<double>(data.y.size());
    }
    norm = std::sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
    for (size_t k = 0; k < 3; ++k) w[k] -= lr * g[k] * (limit > 0 && norm > limit ? limit / norm : 1);
  }
};
void expect_weights(const std::string& after, const Line& net, const Numbers& want, double roundings = 1e3) {
  expect_close("weights after " + after, net.weight.to_vector<double>(), want, {3},
               {.dtype = f64, .roundings = roundings});
}
void expect_number(const std::string& what, double got, double want) {
  expect_close(what, {got}, {want}, {}, {.dtype = f64, .roundings = 1e3});
}

}  // namespace

TEST_CASE("3.19 forward, backward, update") {
  const Data data(6);
  Line net;
  Descent optimizer(net.named_parameters(), 0.1);
  const Batch batch[] = {data.rows(0, 6)};
  ByHand want;
  for (int64_t step = 0; step < 3; ++step) {
    const StepReport report = training_step(net, optimizer, batch, squared_error, step);
    want.step(data, 0.1);
    expect_weights("step " + std::to_string(step) + " with one batch of 6, lr 0.1", net, want.w);
    expect_equal("samples of the report", report.samples, int64_t{6});
    expect_number("loss_sum of the report: the mean loss times 6", report.loss_sum, want.loss_sum);
    expect_number("lr of the report", report.lr, 0.1);
    expect("gradient_norm is not measured without clipping", std::isnan(report.gradient_norm));
  }
  expect_equal("updates in three steps", optimizer.updates, 3);
}

TEST_CASE("3.19 several batches give the step of one large batch, even if the last is smaller") {
  const Data data(10);
  Line net;
  Descent optimizer(net.named_parameters(), 0.1);
  const Batch batches[] = {data.rows(0, 4), data.rows(4, 8), data.rows(8, 10)};
  ByHand want;
  for (int64_t step = 0; step < 2; ++step) {
    const StepReport report = training_step(net, optimizer, batches, squared_error, step);
    want.step(data, 0.1);
    expect_weights("a step with batches of 4, 4 and 2", net, want.w);
    expect_number("loss_sum of the report, over all 10 samples", report.loss_sum, want.loss_sum);
  }
  expect_equal("updates in two steps", optimizer.updates, 2);
}

TEST_CASE("3.19 the schedule sets the learning rate of this step") {
  const Data data(5);
  Line net;
  Descent optimizer(net.named_parameters(), 123);
  const Batch batch[] = {data.rows(0, 5)};
  ByHand want;
  for (int64_t step = 0; step < 3; ++step) {
    const StepReport report =
        training_step(net, optimizer, batch, squared_error, step,
                      {.schedule = [](int64_t s) { return 0.1 / static_cast<double>(s + 1); }});
    const double lr = 0.1 / static_cast<double>(step + 1);
    want.step(data, lr);
    expect_number("lr of the report of step " + std::to_string(step), report.lr, lr);
    expect_weights("step " + std::to_string(step) + " with the learning rate of the schedule", net, want.w);
  }
}

TEST_CASE("3.19 clipping comes after all batches and before the update") {
  const Data data(6);
  Line net;
  Descent optimizer(net.named_parameters(), 1);
  const Batch batches[] = {data.rows(0, 4), data.rows(4, 6)};
  ByHand want;
  want.step(data, 1, 0.5);
  const StepReport report = training_step(net, optimizer, batches, squared_error, 0, {.clip_norm = 0.5});
  expect_weights("a step with clip_norm 0.5", net, want.w);
  expect_number("gradient_norm of the report: before clipping", report.gradient_norm, want.norm);
}

TEST_CASE("3.19 a metric is summed over samples, too") {
  const Data data(10);
  Line net;
  Descent optimizer(net.named_parameters(), 0.1);
  const Batch batches[] = {data.rows(0, 7), data.rows(7, 10)};
  const StepReport report = training_step(
      net, optimizer, batches, squared_error, 0,
      {.metric = [](const Tensor& output, const Tensor&) { return static_cast<double>(output.size(0)); }});
  expect_number("metric_sum of batches of 7 and 3, if the metric of a batch is its size: 7 7 + 3 3",
                report.metric_sum, 58);
}

TEST_CASE("3.19 a loss that is not finite stops before the update") {
  Data data(4);
  data.y[2] = HUGE_VAL;
  Line net;
  Descent optimizer(net.named_parameters(), 0.1);
  const Batch batch[] = {data.rows(0, 4)};
  expect_throws("TT-TRAIN-02", "training_step where the loss is infinite",
                [&] { training_step(net, optimizer, batch, squared_error, 3); });
  expect_weights("the refused step", net, {0, 0, 0}, 0);
}

TEST_CASE("3.19 16-bit gradients are accumulated in f32") {
  Line net;
  net.to(bf16);
  Descent optimizer(net.named_parameters(), 0);
  GradientSum sums(optimizer.parameters());
  // The gradients are 256 once and 1 eight times; a sum in bf16 would lose the ones.
  std::vector<Batch> batches;
  for (int k = 0; k < 9; ++k) {
    const double value = k == 0 ? 256 : 1;
    batches.push_back({full({1, 3}, value, bf16), zeros({1, 1}, bf16)});
  }
  const Loss output = [](const Tensor& y, const Tensor&) { return mean(y) * 9; };
  for (int step = 0; step < 2; ++step) training_step(net, optimizer, batches, output, step, {}, &sums);
  expect("the parameter gets its gradient in f32",
         net.weight.grad().defined() && net.weight.grad().dtype() == f32,
         "call sums->give() before the update");
  expect_close("the gradient 256 + 8 times 1, in each of two steps", net.weight.grad().to_vector<double>(),
               {264, 264, 264}, {3});
}

TEST_CASE("3.19 training finds the weights") {
  const Data data(24);
  Line net;
  Descent optimizer(net.named_parameters(), 0);
  const Schedule schedule = cosine(0.4, 150);
  double first = 0, last = 0;
  for (int64_t step = 0; step < 150; ++step) {
    const size_t at = static_cast<size_t>(step % 2) * 12;
    const Batch batches[] = {data.rows(at, at + 7), data.rows(at + 7, at + 12)};
    const StepReport report =
        training_step(net, optimizer, batches, squared_error, step, {schedule, 5, nullptr});
    (step == 0 ? first : last) = report.loss_sum / static_cast<double>(report.samples);
  }
  expect("the loss falls below 1e-3 in 150 steps, from " + shown(first) + " to " + shown(last), last < 1e-3);
  expect_close("weights of y = 2 a - b + 3", net.weight.to_vector<double>(), {2, -1, 3}, {3},
               {.roundings = 1e6});
}
