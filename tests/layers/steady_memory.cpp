// After its first step a training run takes no memory for tensor values from the system, and a text generator
// takes none after its first text: all blocks are reused. Calls of operator new are counted too.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
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
std::atomic<size_t> heap_calls{0};
}  // namespace

// This program replaces operator new to count its calls.
void* operator new(size_t bytes) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  if (void* const block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace {

// The number of blocks that `step` takes from the system in `steps` runs after the first.
size_t taken_after_the_first(const std::function<void()>& step, int steps) {
  tt::HostAllocator::instance().release_cached();
  step();
  const size_t first = tt::allocator_stats().from_system;
  for (int i = 0; i < steps; ++i) step();
  return tt::allocator_stats().from_system - first;
}

// The number of calls of operator new in the third step.
size_t heap_calls_of(const std::function<void()>& step) {
  step(), step();
  const size_t before = heap_calls;
  step();
  return heap_calls - before;
}

// With one thread, no block for values is taken. Several threads may each take a workspace later, when they
// first work at the same time: once each, not once per step. The number of calls of operator new is equal in
// every step, and at most what the objects of that many ops need. A tensor is two objects (itself and its
// storage). A recorded call is three (node, primitive, place in the graph) and one alias for each tensor that
// it saves. The backward pass keeps three entries per node in its order and sums. A cache of these objects
// would save some ten nanoseconds each.
void check_steady(const std::function<void()>& step, size_t most_heap_calls) {
  const int threads = tt::thread_count();
  tt::set_thread_count(1);
  const size_t calls = heap_calls_of(step);
  INFO("operator new in one step");
  CHECK(calls <= most_heap_calls);
  CHECK(calls == heap_calls_of(step));
  CHECK(taken_after_the_first(step, 5) == 0);
  tt::set_thread_count(threads);
  const int steps = 20 * threads;
  CHECK(taken_after_the_first(step, steps) < static_cast<size_t>(steps));
}

constexpr bool kNotHere = !tt::HostAllocator::kReuse;  // with AddressSanitizer, freed blocks are not reused

tt::Gpt2Config small() {
  return {.vocabulary = 50, .context = 16, .features = 32, .layers = 2, .heads = 4, .embedding_dropout = 0.1};
}

}  // namespace

TEST_CASE("steady memory: a training step of a language model" * doctest::skip(kNotHere)) {
  if (!tt::default_device().is_cpu()) return;
  tt::Gpt2 model(small());
  tt::AdamW optimizer(model.named_parameters());
  check_steady(
      [&] {
        const tt::Tensor tokens = tt::randint(0, 50, {4, 17});
        optimizer.zero_grad();
        model.loss(tokens.slice(1, 0, 16), tokens.slice(1, 1, 17)).backward();
        tt::clip_gradient_norm(model.parameters(), 1.0);
        optimizer.step();
      },
      900);
}

TEST_CASE("steady memory: a training step of a convolution net" * doctest::skip(kNotHere)) {
  if (!tt::default_device().is_cpu()) return;
  tt::Sequential model(tt::Conv2d(1, 8, 3, {.padding = 1}), tt::BatchNorm2d(8), tt::ReLU(), tt::MaxPool2d(2),
                       tt::Flatten(), tt::Dropout(0.2), tt::Linear(8 * 6 * 6, 10));
  tt::AdamW optimizer(model.named_parameters());
  check_steady(
      [&] {
        optimizer.zero_grad();
        tt::cross_entropy(model(tt::randn({8, 1, 12, 12})), tt::randint(0, 10, {8})).backward();
        optimizer.step();
      },
      235);
}

TEST_CASE("steady memory: text generation by a language model" * doctest::skip(kNotHere)) {
  if (!tt::default_device().is_cpu()) return;
  tt::Gpt2 model(small());
  model.eval();
  const std::vector<int32_t> prompt{1, 2, 3};
  check_steady([&] { CHECK(tt::generate(model, prompt, {.max_tokens = 30}).tokens.size() == 30); }, 4000);
}
