#include <tinytorch/layers/dropout.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>

namespace tt = tinytorch;

TEST_CASE("training zeroes a fraction p and scales the rest; evaluation is the identity") {
  tt::Generator g(1);
  tt::Dropout layer(0.25, g);
  const tt::Tensor x = tt::full({20000}, 3.0);
  int zeros = 0;
  for (float v : layer(x).to_vector()) {
    CHECK_MESSAGE((v == 0 || std::abs(v - 4) < 1e-5), v);
    zeros += v == 0;
  }
  CHECK(std::abs(zeros - 5000) < 250);  // 4 standard deviations
  layer.eval();
  CHECK(layer(x).to_vector() == x.to_vector());
}

TEST_CASE("equal generator states drop the same elements, later calls drop others") {
  tt::Generator a(2), b(2);
  tt::Dropout first(0.5, a), second(0.5, b);
  const tt::Tensor x = tt::ones({64});
  const auto y = first(x).to_vector();
  CHECK(second(x).to_vector() == y);
  CHECK(first(x).to_vector() != y);
}

TEST_CASE("the gradient passes through the elements that were kept") {
  tt::Dropout layer(0.5);
  tt::Tensor x = tt::ones({64});
  x.requires_grad_();
  const tt::Tensor y = layer(x);
  tt::sum(y).backward();
  CHECK(x.grad().to_vector() == y.to_vector());
}

TEST_CASE("Dropout throws for p outside [0, 1), and p = 0 changes nothing") {
  for (double p : {-0.1, 1.0, std::nan("")}) {
    CHECK(message_of([&] { tt::Dropout layer(p); }).rfind("TT-NN-16", 0) == 0);
  }
  tt::Dropout layer(0);
  CHECK(layer(tt::ones({9})).to_vector() == std::vector<float>(9, 1.f));
}
