// RandomFunction: a function of tensors [n, n] that is a random graph of operations, always the same one for
// one seed.
#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <tinytorch/core/random.hpp>
#include <tinytorch/tensor/ops.hpp>

#include <vector>

namespace test {

class RandomFunction {
 public:
  // Every value stays in a range in which no operation overflows. Without `derivable`, the graph also has
  // comparisons and conversions.
  RandomFunction(uint64_t seed, int operations, bool derivable)
      : seed_(seed), operations_(operations), derivable_(derivable) {}

  tinytorch::Tensors operator()(const tinytorch::Tensors& x) const {
    tinytorch::Generator random(seed_);
    std::vector<tinytorch::Tensor> values(x.begin(), x.end());
    const auto any = [&]() -> const tinytorch::Tensor& {
      // Recent values are more likely, so that there are long chains as well as old values that live on.
      const auto count = static_cast<uint64_t>(values.size());
      const uint64_t a = random.below(count), b = random.below(count);
      return values[std::max(a, b)];
    };
    for (int k = 0; k < operations_; ++k) values.push_back(operation(random, any));
    tinytorch::Tensors results{values.back()};
    for (int k = 0; k < 2; ++k) results.push_back(any());
    if (derivable_) {
      for (tinytorch::Tensor& t : results) t = t * 0.5;  // no result is an argument itself
    }
    return results;
  }

 private:
  template <class Any>
  tinytorch::Tensor operation(tinytorch::Generator& random, Any& any) const {
    namespace tt = tinytorch;
    const tt::Tensor &a = any(), &b = any();
    switch (random.below(derivable_ ? 14 : 18)) {
      case 0:
        return tt::tanh(a + b);
      case 1:
        return a * b * 0.5;
      case 2:
        return tt::sigmoid(a - b);
      case 3:
        return tt::gelu(a);
      case 4:
        return tt::relu(a) - 0.25;
      case 5:
        return tt::tanh(tt::matmul(a, b));
      case 6:
        return tt::softmax(a, -1);
      case 7:
        return a.transpose(0, 1);
      case 8:
        return a - a.mean({0}, true);
      case 9:
        return a.slice(0, 0, 1) + b;
      case 10:
        return tt::exp(-tt::square(a));
      case 11:
        return tt::cat({a.slice(1, 1), b.slice(1, 0, 1)}, 1);
      case 12:
        return a.detach() * b;
      case 13:
        return -a;
      case 14:
        return tt::where(a > b, a, tt::silu(b));
      case 15:
        return a.to(tt::bf16).to(tt::f32);
      case 16:
        return (a > 0.1).to(tt::f32) + b;
      default:
        return tt::abs(a.reshape({-1}).reshape(a.shape()));
    }
  }

  uint64_t seed_;
  int operations_;
  bool derivable_;
};

// A fresh seed for each run; TINYTORCH_TEST_SEED repeats one.
inline uint64_t fresh_seed() {
  if (const char* text = std::getenv("TINYTORCH_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  return std::random_device{}();
}

}  // namespace test
