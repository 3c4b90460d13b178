#include <tinytorch/quantization/calibration.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;
namespace q = tinytorch::quantization;

namespace {

struct Net : tt::Module {
  tt::Linear first{8, 12}, second{12, 3};
  tt::Dropout dropout{0.5};
  Net() { add("first", first), add("second", second), add("dropout", dropout); }
  tt::Tensor forward(const tt::Tensor& x) override { return second(dropout(tt::relu(first(x)))); }
};
tt::Tensor rows(int64_t count, uint64_t seed = 1) {
  tt::Generator g(seed);
  return tt::randn({count, 8}, tt::f32, tt::cpu, g);
}
int64_t batches_of(const tt::Calibration& c) {
  int64_t i = 0;
  while (c.batch(i).defined()) ++i;
  return i;
}

}  // namespace

TEST_CASE("calibration data may be a list, a Tensors, or a function") {
  const tt::Tensor x = rows(2);
  CHECK(tt::Calibration().empty());
  CHECK(tt::Calibration(std::vector<tt::Tensor>{}).empty());
  CHECK(batches_of({x, x, x}) == 3);
  CHECK(batches_of(std::vector<tt::Tensor>{x, x}) == 2);
  CHECK(batches_of(tt::Tensors{x}) == 1);
  CHECK(batches_of([&](int64_t i) { return i < 4 ? x : tt::Tensor(); }) == 4);
  CHECK_FALSE(tt::Calibration().batch(0).defined());
}

TEST_CASE("batches run in eval mode and without gradients, and each module gets its mode back") {
  Net net;
  net.first.eval();
  const tt::Tensor x = rows(5);
  std::vector<tt::Tensor> outputs;
  q::run_batches(
      net, {x, x},
      [&](const tt::Tensor& y) {
        CHECK_FALSE(net.dropout.training());
        CHECK_FALSE(y.requires_grad());
        outputs.push_back(y);
      },
      tt::Loc::current());
  CHECK(outputs.size() == 2);
  CHECK(same_numbers(outputs[0], outputs[1]));  // no dropout
  CHECK(net.training());
  CHECK(net.dropout.training());
  CHECK_FALSE(net.first.training());
}

TEST_CASE("statistics of each layer's inputs, whatever the batches, and the order of first calls") {
  const tt::NoGrad no_grad;
  Net net;
  const tt::Tensor x = rows(30);
  const std::vector<q::LayerPlace> layers{{"second", &net.second}, {"first", &net.first}};
  const auto as_is = [](size_t, const tt::Tensor& v) { return v; };
  const q::LayerInputs all = q::observe_inputs(net, layers, {x}, as_is, tt::Loc::current());
  CHECK(all.order == std::vector<size_t>{1, 0});
  const q::LayerInputs parts = q::observe_inputs(
      net, layers, {x.slice(0, 0, 7), x.slice(0, 0, 0), x.slice(0, 7, 30)}, as_is, tt::Loc::current());
  for (size_t i = 0; i < 2; ++i) {
    CHECK(parts.statistics[i].rows() == 30);
    CHECK(same_numbers(parts.statistics[i].gram(), all.statistics[i].gram()));
  }
  tt::InputStatistics direct(8);
  direct.observe(x);
  CHECK(same_numbers(all.statistics[1].gram(), direct.gram()));
  const q::LayerInputs doubled = q::observe_inputs(
      net, layers, {x}, [](size_t i, const tt::Tensor& v) { return i == 1 ? v * 2.0 : v; },
      tt::Loc::current());
  CHECK(same_numbers(doubled.statistics[1].gram(), direct.gram() * 4.0));
  CHECK(same_numbers(doubled.statistics[0].gram(), all.statistics[0].gram()));
}

TEST_CASE("statistics need finite rows, and an error leaves the model as it was") {
  Net net;
  const auto as_is = [](size_t, const tt::Tensor& v) { return v; };
  const auto code = [&](const tt::Calibration& c) {
    return errors::thrown_by([&] {
             q::observe_inputs(net, {{"first", &net.first}}, c, as_is, tt::Loc::current());
           })
        .code;
  };
  CHECK(code({}) == "TT-CALIB-02");
  CHECK(code({rows(0)}) == "TT-CALIB-02");
  CHECK(code({tt::full({1, 8}, NAN)}) == "TT-CALIB-01");
  CHECK(code({rows(2), tt::full({1, 8}, -INFINITY)}) == "TT-CALIB-01");
  CHECK(code({tt::full({1, 8}, 1e38f) * 100.0}) == "TT-CALIB-01");
  CHECK(net.training());
  CHECK(code({rows(2)}).empty());
}
