// The umbrella header of vision/ is enough to build a ResNet.
#include <doctest/doctest.h>

#include <tinytorch/vision/vision.hpp>

TEST_CASE("with vision.hpp alone a ResNet classifies images") {
  namespace tt = tinytorch;
  const tt::NoGrad no_grad;
  tt::ResNet net = tt::resnet18({.classes = 10});
  net.eval();
  CHECK(net(tt::zeros({1, 3, 32, 32})).shape() == tt::Shape{1, 10});
}
