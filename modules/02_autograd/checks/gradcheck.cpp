#include "reference.hpp"

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tensor/apply.hpp>

using namespace course;

namespace {

// These are function pointers, because each std::function made from a lambda costs compile time.
using Change = Tensor (*)(const Tensor& right);  // replaces the right gradient by a wrong one
using Function = Tensor (*)(const Tensors& inputs);

// x^2, with a derivative that the test chooses.
struct Square final : Primitive<Square> {
  static constexpr const char* kName = "square_to_check";
  Change change;
  explicit Square(Change f) : change(f) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override { out[0].copy_(square(in[0].detach())); }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return {change(g[0] * s.inputs[0] * 2)}; }
};

Tensor leaf(const Shape& shape, Layout layout = Layout::contiguous, double low = 0.5, double high = 2) {
  return random_tensor(shape, f64, layout, low, high).requires_grad_();
}

GradcheckResult check(Function f, const Tensors& inputs, const GradcheckOptions& options = {}) {
  return gradcheck(f, inputs, options);
}
Change change_of_square = nullptr;
Tensor changed_square(const Tensors& in) { return tinytorch::apply(Square(change_of_square), in); }
GradcheckResult check_square(Change change, const GradcheckOptions& options = {}) {
  change_of_square = change;
  return check(changed_square, {leaf({3, 3})}, options);
}
void expect_verdict(const std::string& what, const GradcheckResult& result, bool passes) {
  expect("gradcheck of " + what + (passes ? ", which is right, passes" : ", which is wrong, fails"),
         result.passed == passes, "its message: \"" + result.message + "\"");
}

// The gradient with one element multiplied by a factor.
Tensor with_element(const Tensor& g, int64_t row, int64_t column, double factor) {
  const Tensor copy = clone(g);
  copy.select(0, row).slice(0, column, column + 1).mul_(factor);
  return copy;
}

}  // namespace

TEST_CASE("2.7 the central difference of a function") {
  Tensor x = tensor_of({3}, {1, 2, 3});
  const auto f = [&] {
    const Numbers v = numbers_of(x);
    return v[0] * v[0] + 10 * v[1] * v[2];
  };
  const double at[] = {1, 2, 3}, want[] = {2, 30, 20};
  for (int64_t i = 0; i < 3; ++i) {
    const double got = central_difference(f, x, i, 1e-5);
    expect_close("f(x) = x0^2 + 10 x1 x2 at {1, 2, 3}: central_difference by x" + std::to_string(i), {got},
                 {want[i]}, {}, {.dtype = f64, .roundings = 1e7});
    expect_equal("afterwards x is what it was, to the last bit", numbers_of(x), Numbers(at, at + 3));
  }
  // A central difference of a parabola is exact up to rounding, for any step.
  x.copy_(tensor_of({3}, {0.1, 2, 3}));
  expect_close("f(x) = x0^2 + 10 x1 x2 at {0.1, 2, 3}: central_difference by x0 with a step of 0.5",
               {central_difference(f, x, 0, 0.5)}, {0.2}, {}, {.dtype = f64, .roundings = 256});
  expect_equal("afterwards x0 is 0.1, to the last bit", numbers_of(x)[0] - 0.1, 0.0);
}

TEST_CASE("2.7 elements are found in any layout") {
  for (const Layout layout : kLayouts) {
    const Tensor x = random_tensor({2, 3}, f64, layout);
    const Numbers before = numbers_of(x);
    for (int64_t i = 0; i < 6; ++i) {
      const double got =
          central_difference([&] { return numbers_of(x)[static_cast<size_t>(i)] * 7; }, x, i, 1e-3);
      expect_close("f(x) = 7 x[" + std::to_string(i) + "] of x [2, 3], " + name_of_layout(layout), {got}, {7},
                   {}, {.dtype = f64, .roundings = 1e6});
    }
    expect_equal(std::string("afterwards x, ") + name_of_layout(layout) + ", is what it was", numbers_of(x),
                 before);
  }
}

TEST_CASE("2.7 right derivatives pass") {
  expect_verdict("x^2", check_square([](const Tensor& g) { return g; }), true);
  expect_verdict("exp(a) b / (a + b)",
                 check([](const Tensors& in) { return exp(in[0]) * in[1] / (in[0] + in[1]); },
                       {leaf({2, 3}), leaf({3})}),
                 true);
  expect_verdict("a product of matrices, one of them transposed",
                 check([](const Tensors& in) { return matmul(in[0], in[1]); },
                       {leaf({2, 3}, Layout::gaps), leaf({3, 2}, Layout::transposed)}),
                 true);
  expect("gradcheck of x^2: the message of a pass is empty",
         check_square([](const Tensor& g) { return g; }).message.empty());
}

TEST_CASE("2.7 wrong derivatives fail") {
  expect_verdict("a derivative of the wrong sign", check_square([](const Tensor& g) { return -g; }), false);
  expect_verdict("a derivative that is half as large", check_square([](const Tensor& g) { return g * 0.5; }),
                 false);
  expect_verdict("a derivative that is 0.1 % too large",
                 check_square([](const Tensor& g) { return g * 1.001; }), false);
  expect_verdict("a derivative that is always 0", check_square([](const Tensor& g) { return zeros_like(g); }),
                 false);
  expect_verdict("a derivative that is NaN", check_square([](const Tensor& g) { return g * NAN; }), false);
}

TEST_CASE("2.7 every element of every output and input counts") {
  expect_verdict("a derivative whose rows and columns changed places",
                 check_square([](const Tensor& g) { return g.t(); }), false);
  for (const int64_t place : {0, 4, 8}) {
    static int64_t dropped;
    dropped = place;
    const GradcheckResult result =
        check_square([](const Tensor& g) { return with_element(g, dropped / 3, dropped % 3, 0); });
    const std::string what = "a derivative that is 0 in element " + std::to_string(place) + " alone";
    expect_verdict(what, result, false);
    expect("gradcheck of " + what + " names it: \"input 0, element " + std::to_string(place) + ": ...\"",
           result.message.find("input 0, element " + std::to_string(place)) != std::string::npos,
           "its message: \"" + result.message + "\"");
  }
  // The message names the largest error, not the first or the last one.
  const GradcheckResult two = check_square([](const Tensor& g) {
    return with_element(with_element(with_element(g, 0, 0, 1.01), 1, 1, 5), 2, 2, 1.01);
  });
  expect(
      "gradcheck of a derivative with three wrong elements, by 1 %, 400 % and 1 %: the worst is named, "
      "element 4",
      two.message.find("input 0, element 4") != std::string::npos, "its message: \"" + two.message + "\"");
  const auto second = check(
      [](const Tensors& in) {
        return in[0] + tinytorch::apply(Square([](const Tensor& g) { return -g; }), {in[1]});
      },
      {leaf({2}), leaf({2})});
  expect("gradcheck of a wrong second input names it: \"input 1, ...\"",
         !second.passed && second.message.find("input 1") != std::string::npos,
         "its message: \"" + second.message + "\"");
}

TEST_CASE("2.7 errors that cancel in an unweighted sum are found") {
  // Errors of +1 and -1 in two outputs of the same input cancel unless the outputs have weights.
  change_of_square = [](const Tensor& g) {
    const Tensor a = g.slice(0, 0, 1), b = g.slice(0, 1, 2), c = g.slice(0, 2, 3);
    return cat({b, a, c}, 0);
  };
  expect_verdict("a derivative that exchanges two rows, where x is the same everywhere",
                 check(changed_square, {tensor_of({3, 1}, {1, 1, 1}).requires_grad_()}), false);
}

TEST_CASE("2.7 inputs without requires_grad stay fixed, old gradients have no effect, f32 is refused") {
  Tensor x = leaf({3}), w = random_tensor({3});
  const Numbers before = numbers_of(x), fixed = numbers_of(w);
  x.set_grad(tensor_of({3}, {100, 100, 100}));
  expect_verdict("x w with an old gradient in x",
                 check([](const Tensors& in) { return in[0] * in[1]; }, {x, w}), true);
  expect_equal("afterwards x is what it was", numbers_of(x), before);
  expect_equal("afterwards w is what it was", numbers_of(w), fixed);
  expect("w, which requires no grad, has none", !w.grad().defined());
  const Tensor unused = leaf({2});
  expect_verdict("a result that does not depend on its second input",
                 check([](const Tensors& in) { return in[0] * 2; }, {x, unused}), true);
  expect_throws("TT-DTYPE-01", "gradcheck of an f32 input: differences need f64", [] {
    (void)check([](const Tensors& in) { return in[0] * 2; }, {random_tensor({2}, f32).requires_grad_()});
  });
}

TEST_CASE("2.7 the options: step and tolerances") {
  const auto slightly = [](const Tensor& g) { return g * 1.001; };
  expect_verdict("a derivative 0.1 % too large, with relative = 0.01",
                 check_square(slightly, {.relative = 0.01}), true);
  expect_verdict("a derivative 0.1 % too large, with absolute = 0.1",
                 check_square(slightly, {.absolute = 0.1}), true);
  const auto cube = [](const Tensors& in) { return in[0] * in[0] * in[0]; };
  expect_verdict("x^3 with a step of 0.1, where differences are wrong by 0.01",
                 check(cube, {leaf({2})}, {.step = 0.1}), false);
}
