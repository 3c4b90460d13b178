// After its first step a training run, and after its first text a sampler, takes no block from the system: all memory is
// what earlier steps gave back.
#include <doctest/doctest.h>

#include <functional>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace tt = tinytorch;

namespace {

// Blocks that `step` takes from the system in `steps` runs after the first.
size_t taken_after_the_first(const std::function<void()>& step, int steps) {
  tt::HostAllocator::instance().release_cached();
  step();
  const size_t first = tt::allocator_stats().from_system;
  for (int i = 0; i < steps; ++i) step();
  return tt::allocator_stats().from_system - first;
}

// On one thread none. Several may take their workspaces later, when they first work at the same time: once each, not a
// block a step.
void check_steady(const std::function<void()>& step) {
  const int threads = tt::thread_count();
  tt::set_thread_count(1);
  CHECK(taken_after_the_first(step, 5) == 0);
  tt::set_thread_count(threads);
  const int steps = 20 * threads;
  CHECK(taken_after_the_first(step, steps) < static_cast<size_t>(steps));
}

constexpr bool kNotHere = !tt::HostAllocator::kReuse;  // AddressSanitizer's builds keep nothing

tt::Gpt2Config small() {
  return {.vocabulary = 50, .context = 16, .features = 32, .layers = 2, .heads = 4, .embedding_dropout = 0.1};
}

}  // namespace

TEST_CASE("a step of a language model" * doctest::skip(kNotHere)) {
  if (!tt::default_device().is_cpu()) return;
  tt::Gpt2 model(small());
  tt::AdamW optimizer(model.named_parameters());
  check_steady([&] {
    const tt::Tensor tokens = tt::randint(0, 50, {4, 17});
    optimizer.zero_grad();
    model.loss(tokens.slice(1, 0, 16), tokens.slice(1, 1, 17)).backward();
    tt::clip_gradient_norm(model.parameters(), 1.0);
    optimizer.step();
  });
}

TEST_CASE("a step of a convolution net" * doctest::skip(kNotHere)) {
  if (!tt::default_device().is_cpu()) return;
  tt::Sequential model(tt::Conv2d(1, 8, 3, {.padding = 1}), tt::BatchNorm2d(8), tt::ReLU(), tt::MaxPool2d(2),
                       tt::Flatten(), tt::Dropout(0.2), tt::Linear(8 * 6 * 6, 10));
  tt::AdamW optimizer(model.named_parameters());
  check_steady([&] {
    optimizer.zero_grad();
    tt::cross_entropy(model(tt::randn({8, 1, 12, 12})), tt::randint(0, 10, {8})).backward();
    optimizer.step();
  });
}

TEST_CASE("a text of a language model" * doctest::skip(kNotHere)) {
  if (!tt::default_device().is_cpu()) return;
  tt::Gpt2 model(small());
  model.eval();
  const std::vector<int32_t> prompt{1, 2, 3};
  check_steady([&] { CHECK(tt::generate(model, prompt, {.max_tokens = 30}).tokens.size() == 30); });
}
