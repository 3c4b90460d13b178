// Capture: what is recorded, and what is refused.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;
using tt::ValueKind;
}  // namespace

TEST_CASE("a graph has the operations in their order, and each tensor is one value") {
  const Tensor w = tt::randn({3, 3});
  const auto c = tt::capture(
      [&](const Tensors& x) {
        const Tensor y = tt::matmul(x[0], w);
        return Tensors{y.detach() + y, y.t()};
      },
      {tt::randn({2, 3})});
  REQUIRE(c.graph.steps.size() == 3);
  CHECK(std::string(c.graph.steps[0].op->name()) == "matmul");
  CHECK(c.graph.steps[1].inputs[0] == c.graph.steps[1].inputs[1]);  // detach() is the same value
  CHECK(c.graph.steps[2].is_view());
  CHECK(c.graph.kernels() == 2);
  const tt::GraphValue& transposed = c.graph.value(c.graph.outputs[1]);
  CHECK(transposed.kind == ValueKind::view);
  CHECK(transposed.root == c.graph.steps[0].outputs[0]);
  int externals = 0;
  for (const tt::GraphValue& v : c.graph.values) externals += v.kind == ValueKind::external ? 1 : 0;
  CHECK(externals == 1);
  CHECK(c.graph.str().find("= matmul(%0, %1)") != std::string::npos);
}

TEST_CASE("a view by raw strides of a computed tensor is a view, at its offset") {
  const auto c = tt::capture(
      [](const Tensors& x) {
        const Tensor y = x[0] * 2;
        return Tensors{tt::alias(y, {2}, {3}, y.offset() + 1) + 1};
      },
      {tt::randn({6})});
  const tt::GraphValue& view = c.graph.value(c.graph.steps.back().inputs[0]);
  CHECK(view.kind == ValueKind::view);
  CHECK(view.offset == 1);
}

TEST_CASE("memory that is freed and used again is another value") {
  const auto c = tt::capture(
      [](const Tensors& x) {
        Tensor y = x[0];
        for (int k = 0; k < 20; ++k) y = y + 1;
        return Tensors{y};
      },
      {tt::randn({64})});
  for (size_t s = 1; s < c.graph.steps.size(); ++s)
    CHECK(c.graph.steps[s].inputs[0] == c.graph.steps[s - 1].outputs[0]);
}

TEST_CASE("scopes give steps a path, and an outer observer sees the operations too") {
  struct Counter : tt::OpObserver {
    int ops = 0;
    void after(const tt::PrimitiveBase&, const Tensors&, const Tensors&, tt::Cost) override { ++ops; }
  } counter;
  tt::Linear net(3, 2);
  const tt::Observing observing(counter);
  const auto c =
      tt::capture([&](const Tensors& x) { return Tensors{net(x[0])}; }, {tt::Tensor(tt::zeros({1, 3}))});
  CHECK(c.graph.steps.back().module == "Linear");
  CHECK(counter.ops == static_cast<int>(c.graph.steps.size()));
}

TEST_CASE("reads on the host are refused, with the line") {
  const Tensor x = tt::ones({2});
  const auto reads = [&](auto&& read) {
    return errors::thrown_by([&] {
      tt::capture(
          [&](const Tensors& in) {
            const Tensor y = in[0] + 1;
            read(y);
            return Tensors{y};
          },
          {x});
    });
  };
  for (const auto& t :
       {reads([](const Tensor& y) { y.sum().item(); }), reads([](const Tensor& y) { y.to_vector(); }),
        reads([](const Tensor& y) { y.data<float>(); }), reads([](const Tensor& y) { (void)y.raw(); })}) {
    CHECK(t.code == "TT-COMPILE-03");
    CHECK(t.file.find("capture.cpp") != std::string::npos);
  }
  CHECK(!tt::host_read_watcher());
  CHECK(x.sum().item() == 2);
}

TEST_CASE("writes to arguments, other random numbers and optimizers are refused") {
  const auto code = [](auto&& f) {
    return errors::thrown_by([&] { tt::capture(f, {tt::Tensor(tt::ones({2}))}); }).code;
  };
  CHECK(code([](const Tensors& x) { return Tensors{Tensor(x[0]).add_(x[0])}; }) == "TT-COMPILE-04");
  CHECK(code([](const Tensors& x) { return Tensors{Tensor(x[0].slice(0, 1, 2)).fill_(2)}; }) ==
        "TT-COMPILE-04");
  const Tensor w = tt::ones({2}).requires_grad_();
  CHECK(code([&](const Tensors& x) {
          Tensor y = x[0] * w;
          y.slice(0, 0, 1) = x[0].slice(0, 1, 2);
          return Tensors{y};
        }) == "TT-COMPILE-04");
  const Tensor buffer = tt::ones({2});
  CHECK(code([&](const Tensors& x) {
          Tensor(buffer).add_(x[0]);
          return Tensors{x[0].sum() * x[0].sum().item()};
        }) == "TT-COMPILE-03");
  CHECK(buffer.to_vector() == std::vector<float>{1, 1});  // a run that failed has written nothing
  CHECK(code([](const Tensors& x) { return Tensors{tt::dropout(x[0], 0.5)}; }) == "");
  const tt::GeneratorState before = tt::default_generator().state();
  CHECK(code([](const Tensors& x) { return Tensors{x[0] + tt::rand({2})}; }) == "TT-COMPILE-04");
  CHECK(code([](const Tensors& x) {
          const Tensor noise = tt::rand({2});
          return Tensors{tt::dropout(x[0], 0.5) + noise};
        }) == "TT-COMPILE-04");
  CHECK(tt::default_generator().state().next_block == before.next_block);
  tt::Linear net(2, 2);
  tt::SGD sgd(net.named_parameters(), {.lr = 0.1});
  CHECK(code([&](const Tensors& x) {
          net(x[0].unsqueeze(0)).sum().backward();
          sgd.step();
          return Tensors{x[0] + 1};
        }) == "TT-COMPILE-04");
  CHECK(tt::op_observer() == nullptr);
}

TEST_CASE("an operation that fails inside a function leaves no recorder behind") {
  const auto t = errors::thrown_by([] {
    tt::capture([](const Tensors& x) { return Tensors{x[0] + tt::ones({5})}; }, {tt::Tensor(tt::ones({2}))});
  });
  CHECK(t.code == "TT-SHAPE-02");
  CHECK(tt::op_observer() == nullptr);
  CHECK(!tt::host_read_watcher());
}
