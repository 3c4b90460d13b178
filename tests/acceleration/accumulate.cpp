// Sums of a dense gradient and the gradient of an embedding: the bits of the two operations.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <tinytorch/acceleration/accumulate.hpp>
#include <tinytorch/acceleration/capture_gradient.hpp>
#include <tinytorch/acceleration/executable.hpp>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

bool equal_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.bytes() == y.bytes() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}
int64_t steps_named(const tt::OpGraph& graph, std::string_view name) {
  return std::ranges::count_if(graph.steps, [&](const tt::GraphStep& s) { return name == s.op->name(); });
}
Tensor gradient_of_embedding(const Tensor& dy, const Tensor& index, int64_t rows) {
  const Tensor table = tt::zeros({rows, dy.size(-1)}, dy.dtype(), tt::cpu).requires_grad_();
  tt::embedding(table, index).backward(dy);
  return table.grad();
}
}  // namespace

TEST_CASE("table + rows: repeated indices, signed zeros, NaN, strided operands, nothing to add") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const tt::DType dtype : {tt::f32, tt::f64}) {
    for (const int64_t tokens : {0, 1, 7, 200}) {
      CAPTURE(tokens);
      Tensor table = tt::randn({11, 5}, dtype, tt::cpu);
      table.select(0, 3).fill_(-0.0), table.select(0, 4).fill_(NAN), table.select(0, 5).fill_(infinity);
      Tensor dy = tt::transpose(tt::randn({5, tokens}, dtype, tt::cpu), 0, 1);
      const Tensor index = tt::randint(0, tokens == 7 ? 3 : 11, {tokens}, tt::i64, tt::cpu);
      const Tensor want = table + gradient_of_embedding(dy, index, 11);
      CHECK(equal_bits(tt::apply(tt::EmbeddingGradAdd(), {table, dy, index}), want));
      Tensors in_place{table};  // written over the table
      tt::EmbeddingGradAdd().run({table, dy, index}, in_place);
      CHECK(equal_bits(table, want));
    }
  }
}

TEST_CASE("a table that is embedding and head: one step fewer, one table less, the same gradient") {
  const Tensor table = tt::randn({400, 60}, tt::f32, tt::cpu).requires_grad_();
  const Tensor index = tt::randint(0, 400, {1, 3}, tt::i64, tt::cpu);
  const auto f = [&](const Tensors& x) {
    return Tensors{tt::sin(tt::linear(tt::tanh(tt::embedding(table, x[0])), table)).sum()};
  };
  f({index})[0].backward();
  tt::CapturedGradient c = tt::capture_gradient(f, {index});
  REQUIRE(c.gradient_of.back() >= 0);
  REQUIRE(steps_named(c.joint, "embedding_grad") == 1);
  const auto bytes_of_arena = [&](bool accumulates) {
    tt::OpGraph graph = tt::copy_of(c.joint, 0, c.joint.steps.size());
    graph.inputs = c.joint.inputs, graph.outputs = c.joint.outputs;
    if (accumulates) tt::accumulate_embeddings(graph);
    tt::remove_dead_steps(graph);
    CHECK(steps_named(graph, "embedding_grad") == (accumulates ? 0 : 1));
    CHECK(steps_named(graph, "embedding_grad_add") == (accumulates ? 1 : 0));
    tt::Executable executable(std::move(graph));
    const Tensor loss = tt::empty({}, tt::f32, tt::cpu), gradient = tt::empty({400, 60}, tt::f32, tt::cpu);
    executable.run({index, tt::ones({}, tt::f32, tt::cpu)}, {loss, gradient});
    CHECK(equal_bits(gradient, table.grad()));
    return executable.arena_bytes();
  };
  const int64_t two = bytes_of_arena(false);
  CHECK(bytes_of_arena(true) < two - static_cast<int64_t>(table.bytes()) / 2);
}
