#include <tinytorch/layers/batch_norm.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("outputs, running statistics and evaluation match PyTorch") {
  const nlohmann::json golden = read_golden("layers")["batch_norm"];
  tt::BatchNorm2d layer(3, {.momentum = 0.3});
  layer.load_state_dict({{"weight", tt::from_data({1.5, 0.5, -2.0})},
                         {"bias", tt::from_data({0.1, 0.0, 1.0})},
                         {"running_mean", tt::zeros({3})},
                         {"running_var", tt::ones({3})},
                         {"num_batches_tracked", tt::zeros(tt::Shape{}, tt::i64)}});
  layer.to(tt::f64);
  layer.load_state_dict({{"weight", tt::from_data({1.5, 0.5, -2.0})},
                         {"bias", tt::from_data({0.1, 0.0, 1.0})},
                         {"running_mean", tt::zeros({3})},
                         {"running_var", tt::ones({3})},
                         {"num_batches_tracked", tt::zeros(tt::Shape{}, tt::i64)}});
  tt::Tensor first;
  for (size_t k = 0; k < 3; ++k) {
    const tt::Tensor x = tt::from_data(golden["batches"][k].get<std::vector<double>>(), {2, 3, 2, 3});
    if (!first.defined()) first = x;
    check_values(layer(x).to_vector<double>(), golden["outputs"][k], 1e-10);
  }
  check_values(layer.running_mean.to_vector<double>(), golden["running_mean"], 1e-12);
  check_values(layer.running_var.to_vector<double>(), golden["running_var"], 1e-12);
  CHECK(layer.batches.item<int64_t>() == 3);
  layer.eval();
  check_values(layer(first).to_vector<double>(), golden["evaluated"], 1e-10);
  CHECK(layer.batches.item<int64_t>() == 3);
}

TEST_CASE("in training the output has mean 0 and variance 1 per channel, for [N, C] and [N, C, L]") {
  tt::Generator g(1);
  for (const tt::Shape& shape : {tt::Shape{64, 3}, tt::Shape{16, 3, 5}}) {
    tt::BatchNorm1d layer(3);
    const tt::Tensor y = layer(tt::randn(shape, tt::f32, tt::default_device(), g) * 4.0 + 10.0);
    const tt::Dims over = shape.size() == 2 ? tt::Dims{0} : tt::Dims{0, 2};
    check_values(tt::mean(y, over).to_vector<double>(), {0, 0, 0}, 1e-5);
    check_values(tt::var(y, over, 0).to_vector<double>(), {1, 1, 1}, 1e-4);
  }
}

TEST_CASE("weight and bias get gradients, the running statistics do not") {
  tt::BatchNorm1d layer(2);
  const tt::Tensor y = layer(tt::from_data({1.f, 2.f, 3.f, 5.f, -1.f, 0.f}, {3, 2}));
  tt::sum(tt::square(y) * y).backward();
  CHECK(tt::sum(tt::abs(layer.weight.grad())).item() > 0);
  CHECK(layer.bias.grad().defined());
  CHECK_FALSE(layer.running_mean.requires_grad());
  CHECK_FALSE(layer.running_var.requires_grad());
}

TEST_CASE("without affine there are no parameters") {
  tt::BatchNorm2d layer(2, {.affine = false});
  CHECK(layer.named_parameters().empty());
  CHECK(layer.named_buffers().size() == 3);
  CHECK(layer(tt::ones({2, 2, 3, 3})).shape() == tt::Shape{2, 2, 3, 3});
}

TEST_CASE("batch norm throws for a wrong channel count, a wrong rank, and a single value per channel") {
  tt::BatchNorm2d images(3);
  tt::BatchNorm1d rows(3);
  CHECK(message_of([&] { images(tt::ones({2, 4, 3, 3})); }).rfind("TT-NN-13", 0) == 0);
  CHECK(message_of([&] { images(tt::ones({2, 3})); }).rfind("TT-NN-13", 0) == 0);
  CHECK(message_of([&] { rows(tt::ones({2, 3, 3, 3})); }).rfind("TT-NN-13", 0) == 0);
  CHECK(message_of([&] { rows(tt::ones({1, 3})); }).rfind("TT-NN-14", 0) == 0);
  CHECK(rows.running_mean.to_vector() == std::vector<float>{0, 0, 0});
}
