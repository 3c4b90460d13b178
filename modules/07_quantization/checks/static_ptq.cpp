#include <support/check.hpp>
#include <tinytorch/layers/norm.hpp>
#include <tinytorch/quantization/static_ptq.hpp>

using namespace course;

namespace {

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }
Tensor random(const Shape& shape, double size = 1) {
  return Tensor(from_data(Values::random(f64, shape, Layout::contiguous, -size, size).numbers(), shape))
      .to(f32);
}
void fill(const Tensor& t, double size) {
  const NoGrad no_grad;
  t.detach().copy_(random(t.shape(), size));
}

// 6 -> in 16 -> norm -> middle 12 -> head 4. In training, the norm's output is 100 times as large: a stand-in
// for all that is different then.
struct Net : Module {
  Linear in{6, 16}, middle{16, 12, false}, head{12, 4};
  LayerNorm norm{16};
  Net() {
    add("in", in), add("norm", norm), add("middle", middle), add("head", head);
    fill(in.weight, 0.6), fill(in.bias, 0.5), fill(middle.weight, 0.4), fill(head.weight, 0.5);
    fill(norm.weight, 2), fill(norm.bias, 1);
  }
  Tensor hidden(const Tensor& x) { return norm(relu(in(x))); }
  Tensor forward(const Tensor& x) override {
    const Tensor h = hidden(x);
    return head(relu(middle(training() ? h * 100 : h)));
  }
};

struct Operations : OpObserver {
  std::map<std::string, int> count;
  void after(const PrimitiveBase& op, const Tensors&, const Tensors&, Cost) override { ++count[op.name()]; }
};
Operations operations_of(Module& model, const Tensor& x) {
  Operations seen;
  const Observing observing(seen);
  (void)model(x);
  return seen;
}
// An observer that counts what it is shown, beyond the life of calibrate().
struct Counting : MinMaxObserver {
  std::shared_ptr<int64_t> seen;
  explicit Counting(std::shared_ptr<int64_t> to) : seen(std::move(to)) {}

 protected:
  void add(std::span<const float> values, Range range) override {
    *seen += std::ssize(values);
    MinMaxObserver::add(values, range);
  }
};

double largest(const Numbers& x) {
  double most = 0;
  for (const double v : x) most = std::max(most, std::abs(v));
  return most;
}
// The layer by its definition, in double: codes of the weight by rows, codes of x with one scale for all.
Numbers by_definition(const Numbers& x, const Numbers& w, const Numbers& bias, size_t K, double clip) {
  const size_t N = w.size() / K;
  Numbers y(x.size() / K * N), s_w(N), code_w(w.size());
  const double s_x = clip / 127;
  for (size_t n = 0; n < N; ++n) {
    s_w[n] =
        largest(Numbers(w.begin() + static_cast<long>(n * K), w.begin() + static_cast<long>(n * K + K))) /
        127;
    for (size_t k = 0; k < K; ++k) code_w[n * K + k] = std::nearbyint(w[n * K + k] / s_w[n]);
  }
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t m = i / N, n = i % N;
    for (size_t k = 0; k < K; ++k)
      y[i] += std::clamp(std::nearbyint(x[m * K + k] / s_x), -127.0, 127.0) * code_w[n * K + k];
    y[i] = y[i] * s_x * s_w[n] + (bias.empty() ? 0 : bias[n]);
  }
  return y;
}
// A code may be the neighbour of the exact one where a number lies between two: allow one step in one place.
void expect_layer(const std::string& what, const Tensor& got, const Numbers& want, double step) {
  const Numbers y = numbers(got);
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i) worst = std::max(worst, std::abs(y[i] - want[i]));
  expect(what + ": at most one step of a code, " + shown(step) +
             ", from s_x s_w[n] (sum of codes) + bias[n]; off by " + shown(worst),
         y.size() == want.size() && worst <= step);
}

}  // namespace

TEST_CASE("7.8 a static layer: the sum of products of codes, times both scales, and the bias") {
  for (const bool has_bias : {true, false}) {
    Linear trained(20, 7, has_bias);
    fill(trained.weight, 0.5);
    {
      const NoGrad no_grad;  // rows of very different sizes
      trained.weight.detach().copy_(
          trained.weight * Tensor(from_data({1.0, 20.0, 0.1, 1.0, 5.0, 1.0, 300.0}, {7, 1})).to(f32));
    }
    StaticLinear layer(trained, {-2.0f, 1.0f});
    expect_equal("dtype of the codes of the weight", std::string(name_of(layer.weight.dtype())),
                 std::string("i8"));
    expect_equal("shape of the weight's scales: one for each row", layer.weight_scale.shape(), Shape{7});
    expect_close("scale of inputs in [-2, 1]: the larger magnitude / 127", numbers(layer.input_scale),
                 {2.0 / 127}, {1});
    expect_equal("tensors of a layer that are saved with the model: weight, weight_scale, input_scale" +
                     std::string(has_bias ? ", bias" : ""),
                 layer.named_buffers().size(), size_t{has_bias ? 4u : 3u});
    const Tensor x = random({5, 20}, 2);
    const Numbers bias = has_bias ? numbers(trained.bias) : Numbers{}, W = numbers(trained.weight);
    expect_layer(
        "forward of x [5, 20]", layer(x).slice(1, 0, 6),
        [&] {
          Numbers kept;
          const Numbers all = by_definition(numbers(x), W, bias, 20, 2);
          for (size_t i = 0; i < all.size(); ++i)
            if (i % 7 != 6) kept.push_back(all[i]);
          return kept;
        }(),
        2.0 / 127 * 10);
    expect_equal("shape of forward of x [2, 3, 20]", layer(random({2, 3, 20})).shape(), Shape{2, 3, 7});
    expect_equal("shape of forward of x [20]", layer(random({20})).shape(), Shape{7});
    expect_equal("dtype of forward of bf16", std::string(name_of(layer(x.to(bf16)).dtype())),
                 std::string("bf16"));
    // A scale of its own for each row: the row that is 0.1 as large as the others has errors as small.
    const Tensor back = linear(x, trained.weight, trained.bias);
    const Numbers y = numbers(layer(x)), exact = numbers(back);
    double error = 0;
    for (size_t m = 0; m < 5; ++m) error = std::max(error, std::abs(y[m * 7 + 2] - exact[m * 7 + 2]));
    expect("row 2 of the weight has numbers below 0.05, so that its output is off by at most 0.02; got " +
               shown(error),
           error <= 0.02);
  }
}

TEST_CASE("7.8 inputs beyond the calibrated range saturate") {
  Linear trained(1, 1, false);
  trained.weight.detach().copy_(full({1, 1}, 1));
  StaticLinear layer(trained, {-1, 1});
  expect_close("a weight of 1, calibrated on [-1, 1], for the inputs 1, 7, -90, infinity, 0.5",
               numbers(layer(Tensor(from_data(Numbers{1, 7, -90, INFINITY, 0.5}, {5, 1})).to(f32))),
               {1, 1, -1, 1, 64.0 / 127}, {5, 1});
}

TEST_CASE("7.8 calibration: the range of each layer's inputs, over all batches") {
  Net net;
  net.eval();
  const std::vector<Tensor> batches = {random({8, 6}), random({5, 6}, 3), random({8, 6}, 0.5)};
  const InputRanges ranges = calibrate(net, batches);
  std::string paths;
  for (const auto& [path, range] : ranges) paths += path + " ";
  expect_equal("layers with a range", paths, std::string("in middle "));
  const NoGrad no_grad;
  const Tensor all = cat(batches, 0), second = net.hidden(all);
  for (const auto& [path, inputs] :
       {std::pair{std::string("in"), numbers(all)}, {std::string("middle"), numbers(second)}}) {
    const auto [least, most] = std::minmax_element(inputs.begin(), inputs.end());
    const Range got = ranges.at(path);
    expect_close("range of the inputs of '" + path +
                     "' over three batches, of which the second has the largest numbers",
                 {static_cast<double>(got.min), static_cast<double>(got.max)}, {*least, *most}, {2},
                 {.roundings = 50});
  }
}

TEST_CASE("7.8 calibration runs in eval mode, without gradients, and leaves the model as it was") {
  Net net;
  net.train(), net.norm.eval();  // the norm has a mode of its own
  const Numbers before = numbers(net.in.weight);
  const auto seen = std::make_shared<int64_t>(0);
  const InputRanges ranges =
      calibrate(net, {random({9, 6})}, {.observer = [&] { return std::make_unique<Counting>(seen); }});
  const Range got = ranges.at("middle");
  expect("inputs of 'middle' are below 15 in eval mode, and reach hundreds in training; got [" +
             shown(got.min) + ", " + shown(got.max) + "]",
         std::max(-got.min, got.max) < 15);
  expect("the model is in training again", net.training() && net.middle.training());
  expect("the norm, which was not in training, still is not", !net.norm.training());
  expect("the weights are as they were", numbers(net.in.weight) == before);
  expect_equal("numbers that the two observers saw: 9 x 6 and 9 x 16", *seen, int64_t{9 * 22});
  (void)net(random({9, 6}));
  expect_equal("and after a call behind the calibration", *seen, int64_t{9 * 22});
  expect("the model records gradients again", net(random({3, 6})).requires_grad());
}

TEST_CASE("7.8 scales are frozen: later inputs change nothing") {
  Net net;
  net.eval();
  const NoGrad no_grad;
  convert(net, calibrate(net, {random({20, 6})}));
  const auto scales = [&] {
    const StateDict state = net.state_dict();
    return Numbers{state.at("in.input_scale").item<double>(), state.at("middle.input_scale").item<double>()};
  };
  const Numbers before = scales();
  const Tensor x = random({4, 6});
  const Numbers y = numbers(net(x));
  (void)net(random({30, 6}, 500));
  (void)net(random({30, 6}, 1e-3));
  expect_equal("scales of the inputs after an input 500 times as large as any in calibration, and a tiny one",
               scales(), before);
  expect_equal("the result for the first x, again", numbers(net(x)), y);
  // The result of a row does not depend on the rows beside it.
  const Tensor large = cat({x, random({4, 6}, 500)}, 0);
  expect_close("the rows of x beside large ones", numbers(net(large).slice(0, 0, 4)), y, {4, 4});
}

TEST_CASE("7.8 the linear layers multiply integers; norms and head stay as they are") {
  Net net;
  net.eval();
  const NoGrad no_grad;
  const InputRanges ranges = calibrate(net, {random({40, 6})});
  std::map<std::string, Numbers> kept;
  for (const char* const name : {"norm.weight", "norm.bias", "head.weight", "head.bias", "in.bias"})
    kept[name] = numbers(net.state_dict().at(name));
  const Tensor x = random({10, 6});
  const Numbers exact = numbers(net(x));
  expect_equal("layers that convert() has replaced", convert(net, ranges), int64_t{2});
  Operations trace = operations_of(net, x);
  expect_equal("operations linear_int8 in a trace of the model", trace.count["linear_int8"], 2);
  expect_equal("operations linear, the head's", trace.count["linear"], 1);
  expect_equal("operations matmul", trace.count["matmul"], 0);
  const StateDict state = net.state_dict();
  for (const auto& [name, values] : kept)
    expect("'" + name + "' has the same numbers as before", numbers(state.at(name)) == values);
  expect_equal("dtype of 'in.weight'", std::string(name_of(state.at("in.weight").dtype())),
               std::string("i8"));
  expect("the float weight is not kept", !net.in.weight.defined() && state.count("in.weight_scale") == 1);
  const Numbers got = numbers(net(x));
  double error = 0, signal = 0;
  for (size_t i = 0; i < got.size(); ++i)
    error += (got[i] - exact[i]) * (got[i] - exact[i]), signal += exact[i] * exact[i];
  expect("RMS error of the outputs, relative to their size: at most 0.15; got " +
             shown(std::sqrt(error / signal)),
         error <= 0.0225 * signal);
  // Other layers are chosen by path.
  Net other;
  other.eval();
  const StaticOptions head_only{.keep = [](const std::string& path) { return path != "head"; }};
  expect_equal("layers replaced if all but the head are kept",
               convert(other, calibrate(other, {random({9, 6})}, head_only), head_only), int64_t{1});
  expect_equal("operations linear then", operations_of(other, x).count["linear"], 2);
}

TEST_CASE("7.8 a layer without inputs, or without a range, is refused, and nothing has changed") {
  Net net;
  expect_throws("TT-CALIB-02", "calibrate without batches", [&] { (void)calibrate(net, {}); });
  expect_throws("TT-CALIB-01", "calibrate with a NaN", [&] { (void)calibrate(net, {full({2, 6}, NAN)}); });
  expect("the model is still in training", net.training() && net.head.training());
  expect_throws("TT-CALIB-02", "convert with a range of 'in' alone", [&] {
    (void)convert(net, {{"in", {-1, 1}}});
  });
  expect("'in' is still a layer of floats", net.in.weight.defined() && !net.in.replacement());
}

TEST_CASE("7.8 a classifier keeps 99 % of its accuracy on data that it has not seen") {
  // Eight classes around centers in six dimensions.
  const Numbers centers = random({8, 6}, 2.2).to_vector<double>();
  const auto draw = [&](int64_t count) {
    Numbers x, y;
    for (int64_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < 6; ++k)
        x.push_back(centers[static_cast<size_t>(i % 8) * 6 + k] + uniform(-0.8, 0.8) + uniform(-0.8, 0.8));
      y.push_back(static_cast<double>(i % 8));
    }
    return std::pair{Tensor(from_data(x, {count, 6})).to(f32), Tensor(from_data(y)).to(i64)};
  };
  // Two layers with weights drawn by chance; the head compares with the mean of each class.
  struct Classifier : Module {
    Linear in{6, 48}, middle{48, 32}, head{32, 8};
    LayerNorm norm{48};
    Classifier() {
      add("in", in), add("norm", norm), add("middle", middle), add("head", head);
      fill(in.weight, 1), fill(in.bias, 1), fill(middle.weight, 0.3), fill(middle.bias, 0.3);
    }
    Tensor hidden(const Tensor& x) { return relu(middle(norm(relu(in(x))))); }
    Tensor forward(const Tensor& x) override { return head(hidden(x)); }
  } model;
  model.eval();
  const auto [x, y] = draw(400);
  const NoGrad no_grad;
  const Numbers features = numbers(model.hidden(x));
  Numbers means(8 * 32), bias(8);
  for (size_t i = 0; i < features.size(); ++i) means[i / 32 % 8 * 32 + i % 32] += features[i] / 50;
  for (size_t i = 0; i < means.size(); ++i) bias[i / 32] -= means[i] * means[i] / 2;
  model.head.weight.copy_(Tensor(from_data(means, {8, 32})).to(f32));
  model.head.bias.copy_(Tensor(from_data(bias)).to(f32));
  const auto [hidden_x, hidden_y] = draw(1000);
  const auto accuracy = [&, &of = hidden_x, &right = hidden_y] {
    const Numbers logits = numbers(model(of)), labels = numbers(right);
    double hits = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto row = logits.begin() + static_cast<long>(8 * i);
      hits += std::max_element(row, row + 8) - row == static_cast<long>(labels[i]) ? 1 : 0;
    }
    return hits / static_cast<double>(labels.size());
  };
  const double exact = accuracy();
  convert(model, calibrate(model, {x}));
  const double integers = accuracy();
  expect("accuracy on 1,000 hidden points: at least 0.99 of the float model's " + shown(exact) + "; got " +
             shown(integers),
         integers >= 0.99 * exact && exact > 0.7);
}
