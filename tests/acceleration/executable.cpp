// Executables: arguments, results that are views or arguments, addresses, checks of indices, and plans in
// place.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <thread>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/executable.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

tt::OpGraph graph_of(const tt::TensorFunction& f, const Tensors& x) { return tt::capture(f, x).graph; }
void check_equal(const tt::TensorFunction& f, tt::Executable& executable, const Tensors& x) {
  const Tensors want = f(x);
  Tensors got;
  for (const Tensor& t : want) got.push_back(tt::full(t.shape(), 77, t.dtype()));
  executable.run(x, got);
  for (size_t k = 0; k < want.size(); ++k) {
    CAPTURE(k);
    CHECK(got[k].to_vector() == want[k].to_vector());
  }
}
}  // namespace

TEST_CASE("results may be arguments, constants, views, and twice the same value") {
  const Tensor constant = tt::randn({3, 4});
  const tt::TensorFunction f = [&](const Tensors& x) {
    const Tensor y = tt::exp(x[0]);
    return Tensors{x[0], constant, y.t(), y, y, y.slice(0, 1, 2), tt::sin(x[0]).reshape({12})};
  };
  tt::Executable executable(graph_of(f, {tt::randn({3, 4})}));
  for (int k = 0; k < 3; ++k) check_equal(f, executable, {tt::randn({3, 4})});
}

TEST_CASE("an argument at an offset in its storage, and views of arguments") {
  const tt::TensorFunction f = [](const Tensors& x) {
    return Tensors{x[0].t() + 1, x[0].slice(1, 1, 3) * 2};
  };
  tt::Executable executable(graph_of(f, {tt::randn({4, 4})}));
  const Tensor large = tt::randn({9, 4});
  check_equal(f, executable, {large.slice(0, 3, 7)});
}

TEST_CASE("an empty tensor, and a scalar") {
  const tt::TensorFunction f = [](const Tensors& x) { return Tensors{tt::exp(x[0]) * x[1] + 1}; };
  tt::Executable empty(graph_of(f, {tt::zeros({0, 3}), tt::ones({})}));
  check_equal(f, empty, {tt::zeros({0, 3}), tt::ones({})});
  tt::Executable scalar(graph_of(f, {tt::ones({}), tt::ones({})}));
  check_equal(f, scalar, {tt::full({}, 3), tt::full({}, 0.5)});
}

TEST_CASE("a parameter that is written to is read at its new value; one that moves is noticed") {
  Tensor w = tt::ones({3});
  const tt::TensorFunction f = [&](const Tensors& x) { return Tensors{x[0] * w}; };
  tt::Executable executable(graph_of(f, {tt::ones({3})}));
  w.fill_(5);
  check_equal(f, executable, {tt::ones({3})});
  CHECK(!executable.externals_moved());
  w.impl()->storage = tt::ones({3}).storage();
  CHECK(executable.externals_moved());
}

TEST_CASE("an index outside of its range is an error in a replay, too") {
  const Tensor table = tt::randn({5, 2});
  const tt::TensorFunction f = [&](const Tensors& x) { return Tensors{tt::embedding(table, x[0])}; };
  tt::Executable executable(graph_of(f, {tt::from_data<int64_t>({0, 4})}));
  check_equal(f, executable, {tt::from_data<int64_t>({3, 1})});
  Tensors out{tt::empty({2, 2})};
  CHECK(errors::thrown_by([&] {
          executable.run({tt::from_data<int64_t>({3, 5})}, out);
        }).code == errors::thrown_by([&] {
                     f({tt::from_data<int64_t>({3, 5})});
                   }).code);
  check_equal(f, executable, {tt::from_data<int64_t>({2, 0})});  // it works after the error
}

TEST_CASE("a result is written over an operand that nothing reads later") {
  const tt::TensorFunction chain = [](const Tensors& x) {
    Tensor y = tt::exp(x[0]);
    for (int k = 0; k < 5; ++k) y = tt::tanh(y);
    return Tensors{y.sum()};
  };
  tt::Executable executable(graph_of(chain, {tt::randn({100})}));
  CHECK(executable.arena_bytes() == 400);
  check_equal(chain, executable, {tt::randn({100})});
  // A result does not take the memory of a value that is read again through a view.
  const tt::TensorFunction both = [](const Tensors& x) {
    const Tensor y = tt::exp(x[0]), z = tt::tanh(y);
    return Tensors{(y.t() + z).sum()};
  };
  tt::Executable reads_view(graph_of(both, {tt::randn({9, 9})}));
  check_equal(both, reads_view, {tt::randn({9, 9})});
}

TEST_CASE("threads that call one executable wait for each other") {
  const tt::TensorFunction f = [](const Tensors& x) { return Tensors{tt::exp(x[0]).sum() + x[0]}; };
  tt::Executable executable(graph_of(f, {tt::randn({50})}));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 50; ++k) {
        const Tensor x = tt::full({50}, static_cast<double>(t) * 0.25);
        Tensors got{tt::empty({50})};
        executable.run({x}, got);
        wrong[t] += got[0].to_vector() == f({x})[0].to_vector() ? 0 : 1;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4, 0));
}
