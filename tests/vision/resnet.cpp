#include <support/errors.hpp>
#include <support/few.hpp>
#include <support/vision_golden.hpp>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/vision/resnet.hpp>

using test::expect_error;
namespace tt = tinytorch;

namespace {
// Compares the cases of width 64, torchvision's own, or the narrower ones, and returns their number.
int check_cases(bool own_width) {
  const nlohmann::json golden = read_golden("vision");
  int cases = 0;
  for (const nlohmann::json& c : golden["cases"]) {
    const nlohmann::json& o = c["options"];
    if (c["kind"] != "resnet" || (o["width"] == 64) != own_width) continue;
    tt::ResNet net(o["blocks"].get<std::vector<int64_t>>(), o["bottleneck"].get<bool>(),
                   {.classes = o["classes"], .channels = o["channels"], .width = o["width"]});
    INFO(o.dump());
    vision_golden::check_model(net, c);
    ++cases;
  }
  return cases;
}
}  // namespace

TEST_CASE("ResNets have torchvision's names, logits, running statistics and gradients") {
  CHECK(check_cases(false) == 2);
}

TEST_CASE("a ResNet of torchvision's own width equals torchvision's" * test::long_on_emulator()) {
  CHECK(check_cases(true) == 1);
}

TEST_CASE("the published sizes have the names, shapes and parameter counts of torchvision's models") {
  const tt::init::WithoutInitialization quick;
  const nlohmann::json golden = read_golden("vision")["published"];
  tt::ResNet basic = tt::resnet18(), deeper = tt::resnet34(), bottlenecks = tt::resnet50();
  vision_golden::check_names(basic, golden["resnet18"]);
  vision_golden::check_names(deeper, golden["resnet34"]);
  vision_golden::check_names(bottlenecks, golden["resnet50"]);
  CHECK(tt::resnet101().parameter_count() == golden["resnet101"]["parameters"].get<int64_t>());
  CHECK(tt::resnet152().parameter_count() == golden["resnet152"]["parameters"].get<int64_t>());
  CHECK(tt::resnet50({.classes = 7}).state_dict().at("fc.weight").shape() == tt::Shape{7, 2048});
}

TEST_CASE("ResNet-18, -34 and -50 have torchvision's logits" * test::repeats_for_minutes()) {
  const tt::init::WithoutInitialization quick;
  const nlohmann::json golden = read_golden("vision")["published"];
  tt::ResNet basic = tt::resnet18(), deeper = tt::resnet34(), bottlenecks = tt::resnet50();
  vision_golden::check_published_logits(basic, golden["resnet18"]);
  vision_golden::check_published_logits(deeper, golden["resnet34"]);
  vision_golden::check_published_logits(bottlenecks, golden["resnet50"]);
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
