#include <support/errors.hpp>
#include <support/vision_golden.hpp>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/vision/resnet.hpp>

using test::expect_error;
namespace tt = tinytorch;

TEST_CASE("ResNets have PyTorch's logits, running statistics and gradients, and torchvision's names") {
  const nlohmann::json golden = read_golden("vision");
  int cases = 0;
  for (const nlohmann::json& c : golden["cases"]) {
    if (c["kind"] != "resnet") continue;
    const nlohmann::json& o = c["options"];
    tt::ResNet net(o["blocks"].get<std::vector<int64_t>>(), o["bottleneck"].get<bool>(),
                   {.classes = o["classes"], .channels = o["channels"], .width = o["width"]});
    INFO(o.dump());
    vision_golden::check_model(net, c);
    ++cases;
  }
  CHECK(cases == 2);
}

TEST_CASE("the published sizes have the parameter counts of the papers' models") {
  const tt::init::WithoutInitialization quick;
  const nlohmann::json counts = read_golden("vision")["parameters"];
  CHECK(tt::resnet18().parameter_count() == counts["resnet18"].get<int64_t>());
  CHECK(tt::resnet18().parameter_count() == 11'689'512);
  CHECK(tt::resnet34().parameter_count() == counts["resnet34"].get<int64_t>());
  CHECK(tt::resnet50().parameter_count() == 25'557'032);
  CHECK(tt::resnet101().parameter_count() == counts["resnet101"].get<int64_t>());
  CHECK(tt::resnet152().parameter_count() == counts["resnet152"].get<int64_t>());
  const tt::StateDict state = tt::resnet50({.classes = 7}).state_dict();
  CHECK(state.at("layer4.0.downsample.0.weight").shape() == tt::Shape{2048, 1024, 1, 1});
  CHECK(state.at("layer3.5.conv2.weight").shape() == tt::Shape{256, 256, 3, 3});
  CHECK(state.at("fc.weight").shape() == tt::Shape{7, 2048});
  CHECK(state.count("layer1.1.downsample.0.weight") == 0);
}

TEST_CASE("initial convolutions have the variance 2 / fan_out, and equal seeds give equal networks") {
  tt::Generator a(5), b(5);
  const tt::ResNetOptions small{.classes = 3, .width = 32};
  tt::ResNet first({1, 1}, false, small, a), second({1, 1}, false, small, b);
  const tt::Tensor w = first.state_dict().at("layer2.0.conv2.weight");  // 64 x 64 x 3 x 3
  const double squares = tt::mean(w * w).item<double>(), expected = 2.0 / (64 * 9);
  CHECK(std::abs(squares / expected - 1) < 0.05);  // six standard deviations of the mean of 36,864 squares
  for (const auto& [name, t] : first.state_dict()) {
    INFO(name);
    CHECK(t.to_vector<double>() == second.state_dict().at(name).to_vector<double>());
  }
}

TEST_CASE("a network overfits one batch, moves with its layers, and channels-last images give equal logits") {
  tt::manual_seed(3);
  tt::ResNet made({1, 1}, true, {.classes = 2, .channels = 1, .width = 4});
  tt::ResNet net = std::move(made);
  tt::SGD optimizer(net.named_parameters(), {.lr = 0.05, .momentum = 0.9});
  const tt::Tensor x = tt::randn({4, 1, 16, 16}),
                   labels = tt::from_data<int64_t>({0, 0, 1, 1}).to(x.device());
  const auto loss = [&] { return tt::cross_entropy(net(x), labels); };
  const double before = loss().item<double>();
  for (int step = 0; step < 30; ++step) {
    net.zero_grad();
    loss().backward();
    optimizer.step();
  }
  CHECK(loss().item<double>() < 0.3 * before);
  net.eval();
  const tt::Tensor last = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  check_values(net(last).detach().to_vector<double>(), net(x).detach().to_vector<double>(), 1e-4);
  CHECK(net.features(x).shape() == tt::Shape{4, 32});
  CHECK(net(tt::zeros({0, 1, 16, 16})).shape() == tt::Shape{0, 2});
}

TEST_CASE("images of other sizes work, and those of other channels are refused with the layer's name") {
  tt::ResNet net({1}, false, {.classes = 2, .width = 2});
  net.eval();
  CHECK(net(tt::zeros({1, 3, 5, 40})).shape() == tt::Shape{1, 2});
  expect_error("TT-SHAPE-02", "reads 3 channels, x has 1", [&] { net(tt::zeros({1, 1, 16, 16})); });
}
