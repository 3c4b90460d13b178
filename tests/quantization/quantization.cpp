// The umbrella header of quantization/ is enough to quantize a linear layer.
#include <doctest/doctest.h>

#include <tinytorch/quantization/quantization.hpp>

namespace tt = tinytorch;

TEST_CASE("with quantization.hpp alone a layer keeps its output with weights of four bits") {
  tt::Generator generator(1);
  const tt::Linear layer(64, 16, true, generator);
  const tt::Tensor x = tt::randn({100, 64}, tt::f32, tt::default_device(), generator);
  tt::InputStatistics inputs(64);
  inputs.observe(x);
  const tt::Tensor w = tt::dequantize(tt::gptq(layer.weight, inputs)).to(tt::default_device());
  const tt::NoGrad no_grad;
  CHECK(tt::sqnr_db(tt::linear(x, layer.weight), tt::linear(x, w)) > 15);
}
