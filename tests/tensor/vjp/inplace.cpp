// Gradients pass through in-place arithmetic and writes to views.
#include <doctest/doctest.h>

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tensor/vjp/inplace.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous

namespace {

Tensor random(const Shape& shape, uint64_t seed) {
  Generator g(seed);
  return randn(shape, f64, default_device(), g);
}

// Gradients of f against differences; f may write in place to what it computes from its arguments.
template <class F>
void check_gradients(F&& f, Tensors at) {
  for (Tensor& t : at) t = t.clone().requires_grad_();
  const auto result = gradcheck(std::forward<F>(f), at);
  CHECK_MESSAGE(result.passed, result.message);
}

}  // namespace

TEST_CASE("gradients pass through in-place arithmetic and writes by index") {
  const Tensor a = random({3, 4}, 1), b = random({3, 4}, 2), v = random({4}, 3);
  check_gradients(
      [](const Tensors& in) {
        Tensor y = in[0] * 2;
        y += in[1];
        y *= in[1];
        y -= 1;
        y /= in[1] * in[1] + 1;
        return (y * y).sum();
      },
      {a, b});
  check_gradients(
      [](const Tensors& in) {  // the written values alone require grad
        Tensor y = zeros({3, 4}, f64);
        y[1] = in[0];
        y[2] += in[0] * in[0];
        y[{0, 1}] = in[0][2];
        return (y * y).sum();
      },
      {v});
  check_gradients(
      [](const Tensors& in) {  // a view of a view, transposed
        Tensor y = in[0] * 1;
        y.t()[1] *= in[1].slice(0, 0, 3);
        y[{kWholeRange, Span{1, 3}}] += y[{kWholeRange, Span{0, 2}}];
        return (y * y * y).sum();
      },
      {a, v});
  check_gradients(
      [&](const Tensors& in) {
        Tensor y = in[0] * 2;
        y[in[0].detach() > 0] = 0;
        y[from_data<int64_t>({2, 0})] = stack(in[1], in[1] * 2);
        y[in[0].detach() < -0.5] *= 3;
        return (y * y).sum() + in[0][in[0].detach() > 0].sum() * 2;
      },
      {a, v});
}

TEST_CASE("a write to a part of a tensor whose gradient is one number, expanded") {
  for (const bool reordered : {false, true}) {
    const Tensor x = random({3, 4}, 9).requires_grad_();
    Tensor y = (reordered ? x.t() : x) * 2;  // x.t() * 2 has the layout of x.t()
    y.slice(reordered ? 1 : 0, 0, 1) *= 0;
    sum(y).backward();
    const std::vector<double> got = x.grad().to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == (i < 4 ? 0.0 : 2.0));
  }
}
