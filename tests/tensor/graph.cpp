// The autograd graph: content of a node, targets of edges, and destruction.
#include <doctest/doctest.h>

#include <tinytorch/tensor/graph.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;

namespace {
const std::shared_ptr<tt::Node>& node_of(const Tensor& t) { return t.impl()->grad_state->producer; }
}  // namespace

TEST_CASE("a node stores its operation, the caller, the shapes of the inputs and the output") {
  Tensor x = tt::ones({2, 3}), w = tt::ones({3});
  x.requires_grad_();
  const int here = __LINE__ + 1;
  const Tensor y = tt::mul(x, w);
  const tt::Node& node = *node_of(y);
  CHECK(std::string(node.op->name()) == "mul");
  CHECK(node.loc.line == here);
  CHECK(node.input_shapes == tt::Shapes{{2, 3}, {3}});
  REQUIRE(node.output_specs.size() == 1);
  CHECK(node.output_specs[0].shape == tt::Shape{2, 3});
  REQUIRE(node.edges.size() == 2);
  CHECK(node.edges[0].leaf == x.impl()->grad_state);
  CHECK_FALSE(node.edges[0].node);
  CHECK_FALSE(node.edges[1].leaf);  // w does not require grad
  CHECK_FALSE(node.edges[1].node);
  CHECK(node.inputs.size() == 2);
  CHECK(node.outputs.empty());
  const Tensor z = tt::exp(y);
  CHECK(node_of(z)->edges[0].node == node_of(y));
  CHECK(node_of(z)->inputs.empty());
  CHECK(node_of(z)->outputs.size() == 1);
  CHECK(node_of(z)->sequence > node.sequence);
}

TEST_CASE("a fused operation saves its extra outputs, but not its result") {
  Tensor x = tt::ones({2, 3}), w = tt::ones({4, 3});
  w.requires_grad_();
  const Tensor y = tt::linear_activation(x, w, {}, tt::Activation::silu);
  const tt::Node& node = *node_of(y);
  REQUIRE(node.outputs.size() == 2);
  CHECK_FALSE(node.outputs[0].value.defined());
  CHECK(node.outputs[1].value.shape() == tt::Shape{2, 4});
  CHECK(node.inputs.size() == 3);
}

TEST_CASE("saved tensors share memory but not the graph: no cycles") {
  std::weak_ptr<tt::Node> watch;
  {
    Tensor x = tt::ones({2});
    x.requires_grad_();
    const Tensor y = tt::exp(x);  // saves its own output
    watch = node_of(y);
    CHECK(node_of(y)->outputs[0].value.storage() == y.storage());
    CHECK_FALSE(node_of(y)->outputs[0].value.requires_grad());
  }
  CHECK(watch.expired());
}

TEST_CASE("a parent exists as long as one of its children") {
  Tensor x = tt::ones({2});
  x.requires_grad_();
  std::weak_ptr<tt::Node> parent;
  Tensor b, c;
  {
    const Tensor a = tt::exp(x);
    parent = node_of(a);
    b = a * 2;
    c = a * 3;
  }
  b = Tensor();
  CHECK_FALSE(parent.expired());
  tt::sum(c).backward();
  CHECK(x.grad().to_vector()[0] == doctest::Approx(3 * 2.718281828));
  c = Tensor();
  CHECK(parent.expired());
}

TEST_CASE("edge_to() returns a producer, a leaf or nothing") {
  Tensor x = tt::ones({2});
  CHECK_FALSE(tt::edge_to(x).leaf);
  CHECK_FALSE(tt::edge_to(Tensor()).leaf);
  x.requires_grad_();
  CHECK(tt::edge_to(x).leaf == x.impl()->grad_state);
  CHECK(tt::edge_to(x * 1.0).node);
}
