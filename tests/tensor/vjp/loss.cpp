#include <doctest/doctest.h>

#include <support/few.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("gradients of cross_entropy" * test::long_on_emulator()) {
  tt::Generator generator(3);
  tt::Tensor x = tt::randn({5, 7}, tt::f64, tt::default_device(), generator).requires_grad_();
  const tt::Tensor target = tt::from_data<int64_t>({6, 0, -100, 3, 3});
  for (const tt::Reduction r : {tt::Reduction::mean, tt::Reduction::sum, tt::Reduction::none}) {
    for (const double smoothing : {0.0, 0.2}) {
      const auto result = tt::gradcheck(
          [&](const tt::Tensors& in) {
            return tt::cross_entropy(in[0], target, {.label_smoothing = smoothing, .reduction = r});
          },
          {x});
      CHECK_MESSAGE(result.passed, result.message);
    }
  }
}

TEST_CASE("gradients of linear_cross_entropy for features and weight" * test::long_on_emulator()) {
  tt::Generator generator(5);
  const auto leaf = [&](const tt::Shape& shape) {
    return tt::randn(shape, tt::f64, tt::default_device(), generator).requires_grad_();
  };
  tt::Tensor x = leaf({5, 3}), weight = leaf({7, 3});
  const tt::Tensor target = tt::from_data<int64_t>({6, 0, -100, 3, 3});
  for (const tt::Reduction r : {tt::Reduction::mean, tt::Reduction::sum}) {
    for (const double smoothing : {0.0, 0.2}) {
      const auto result = tt::gradcheck(
          [&](const tt::Tensors& in) {  // times three, so that the upstream gradient is not 1
            const tt::CrossEntropyOptions options{.label_smoothing = smoothing, .reduction = r};
            return 3 * tt::linear_cross_entropy(in[0], in[1], target, options, 2);
          },
          {x, weight});
      CHECK_MESSAGE(result.passed, result.message);
    }
  }
}

TEST_CASE("gradients of mse_loss and bce_with_logits for both operands") {
  tt::Generator generator(4);
  tt::Tensor x = tt::randn({3, 5}, tt::f64, tt::default_device(), generator).requires_grad_();
  tt::Tensor t = tt::rand({3, 5}, tt::f64, tt::default_device(), generator).requires_grad_();
  for (const tt::Reduction r : {tt::Reduction::mean, tt::Reduction::sum, tt::Reduction::none}) {
    for (const auto& loss : {tt::mse_loss, tt::bce_with_logits}) {
      const auto result = tt::gradcheck(
          [&](const tt::Tensors& in) { return loss(in[0], in[1], r, tt::Loc::current()); }, {x, t});
      CHECK_MESSAGE(result.passed, result.message);
    }
  }
}
