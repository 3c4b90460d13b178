#include <doctest/doctest.h>

#include <tinytorch/backend/image_step.hpp>

using namespace tinytorch::backend;

TEST_CASE("a step names its operation and the attributes of the call") {
  ImageStep step;
  CHECK(step.set_convolution(2, 3, 4, 5));
  CHECK((step.kind == ImageKind::convolution && step.stride == 2 && step.padding == 3));
  CHECK((step.dilation == 4 && step.groups == 5));
  CHECK(step.set_channel_norm(0.5));
  CHECK((step.kind == ImageKind::channel_norm && step.eps == 0.5));
}
