#include <support/errors.hpp>
#include <support/few.hpp>
#include <support/vision_golden.hpp>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/vision/vision_transformer.hpp>

using test::expect_error;
namespace tt = tinytorch;

namespace {
tt::VisionTransformerOptions options_of(const nlohmann::json& o) {
  return {.classes = o["classes"],
          .image = o["image"],
          .patch = o["patch"],
          .layers = o["layers"],
          .heads = o["heads"],
          .features = o["features"],
          .hidden = o["hidden"],
          .channels = o["channels"]};
}
const tt::VisionTransformerOptions kSmall{
    .classes = 3, .image = 8, .patch = 4, .layers = 2, .heads = 2, .features = 8, .hidden = 12};
}  // namespace

TEST_CASE("vision transformers have torchvision's names, logits and gradients") {
  const nlohmann::json golden = read_golden("vision");
  int cases = 0;
  for (const nlohmann::json& c : golden["cases"]) {
    if (c["kind"] != "vit") continue;
    INFO(c["options"].dump());
    tt::VisionTransformer net(options_of(c["options"]));
    vision_golden::check_model(net, c);
    ++cases;
  }
  CHECK(cases == 2);
}

TEST_CASE("the published sizes have the names, shapes and parameter counts of torchvision's models") {
  const tt::init::WithoutInitialization quick;
  const nlohmann::json golden = read_golden("vision")["published"];
  tt::VisionTransformer net = tt::vit_b_16();
  vision_golden::check_names(net, golden["vit_b_16"]);
  CHECK(tt::vit_b_32().parameter_count() == golden["vit_b_32"]["parameters"].get<int64_t>());
  CHECK(tt::vit_l_16().parameter_count() == golden["vit_l_16"]["parameters"].get<int64_t>());
}

TEST_CASE("ViT-B/16 has torchvision's logits" * test::repeats_for_minutes()) {
  const tt::init::WithoutInitialization quick;
  tt::VisionTransformer net = tt::vit_b_16();
  vision_golden::check_published_logits(net, read_golden("vision")["published"]["vit_b_16"]);
}

TEST_CASE("a new network gives zeros, and its first gradient reaches the head alone") {
  tt::manual_seed(2);
  tt::VisionTransformer net(kSmall);
  const tt::Tensor y = net(tt::randn({2, 3, 8, 8}));
  CHECK(y.to_vector<double>() == std::vector<double>(6, 0.0));
  tt::sum(y).backward();
  const auto size_of = [](const tt::Tensor& t) { return tt::sum(tt::abs(t)).item<double>(); };
  CHECK(size_of(net.head.weight.grad()) > 0);
  CHECK(size_of(net.conv_proj.weight.grad()) == 0);
}

TEST_CASE("dropout acts in training only, and a moved network works") {
  tt::manual_seed(4);
  tt::VisionTransformerOptions o = kSmall;
  o.dropout = 0.5;
  tt::VisionTransformer made(o);
  tt::VisionTransformer net = std::move(made);
  tt::init::normal(net.head.weight, 0, 1);
  const tt::Tensor x = tt::randn({2, 3, 8, 8});
  const auto logits = [&] { return net(x).detach().to_vector<double>(); };
  CHECK(logits() != logits());
  net.eval();
  CHECK(logits() == logits());
  CHECK(net.features(x).shape() == tt::Shape{2, 8});
  CHECK(net(tt::zeros({0, 3, 8, 8})).shape() == tt::Shape{0, 3});
}

TEST_CASE("sizes that do not fit are refused") {
  tt::VisionTransformer net(kSmall);
  expect_error("TT-SHAPE-02", "images [N, 3, 8, 8]", [&] { net(tt::zeros({1, 3, 12, 12})); });
  expect_error("TT-SHAPE-02", "images [N, 3, 8, 8]", [&] { net(tt::zeros({3, 8, 8})); });
  tt::VisionTransformerOptions odd = kSmall;
  odd.patch = 3;
  expect_error("TT-SHAPE-20", "a patch must divide", [&] { tt::VisionTransformer refused(odd); });
  odd = kSmall;
  odd.heads = 3;
  expect_error("TT-NN-22", "8 features cannot be split into 3 heads",
               [&] { tt::VisionTransformer refused(odd); });
}
