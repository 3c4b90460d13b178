#include <tinytorch/tensor/vjp/lstm.hpp>

#include <doctest/doctest.h>

#include <support/gradients.hpp>
#include <support/values.hpp>
#include <tinytorch/autograd/grad.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::leaf;
using tt::Tensor, tt::Tensors;

namespace {

// The sum of all results with weights that differ, so that every result has a gradient of its own.
Tensor weighted(const Tensors& results) {
  Tensor sum = tt::zeros({}, tt::f64);
  double factor = 1;
  for (const Tensor& r : results) {
    const Tensor weights = tt::reshape(tt::cos(tt::arange(0, r.numel(), 1, tt::f64)), r.shape());
    sum = sum + tt::sum(r * weights) * factor, factor += 0.5;
  }
  return sum;
}
// x, W, b, U, b of U, hidden, cell
Tensors leaves(int64_t T, int64_t B, int64_t I, int64_t H) {
  return {leaf({T, B, I}, 1), leaf({4 * H, I}, 2), leaf({4 * H}, 3), leaf({4 * H, H}, 4),
          leaf({4 * H}, 5),   leaf({B, H}, 6),     leaf({B, H}, 7)};
}
Tensors pass(const Tensors& in, bool reverse, const Tensor& inside) {
  const tt::LstmSequence s =
      tt::lstm_pass(in[0], {in[1], in[3], in[2], in[4]}, {in[5], in[6]}, reverse, inside);
  return {s.output, s.hidden, s.cell};
}

}  // namespace

TEST_CASE("gradients of the cell equal differences, once and twice") {
  const Tensors in{leaf({3, 28}, 1), leaf({3, 7}, 2)};
  for (const size_t part : {0, 1, 2}) {
    const auto f = [part](const Tensors& t) {
      const tt::LstmStep next = tt::lstm_cell(t[0], t[1]);
      return part == 0   ? weighted({next.hidden})
             : part == 1 ? weighted({next.cell})
                         : weighted({next.hidden, next.cell});
    };
    test::check_gradients(f, in);
    const auto twice = tt::gradgradcheck(f, in);
    CHECK_MESSAGE(twice.passed, twice.message);
  }
}

TEST_CASE("gradients of a pass equal differences, for every result alone and for all") {
  const Tensor inside = tt::from_data({1., 1., 0., 1., 0., 0., 1., 0., 1.}, {3, 3}) > 0;
  for (const bool reverse : {false, true}) {
    for (const bool rests : {false, true}) {
      const Tensors in = leaves(3, 3, 2, 2);
      const Tensor mask = rests ? inside.to(tt::default_device()) : Tensor();
      test::check_gradients([&](const Tensors& t) { return weighted(pass(t, reverse, mask)); }, in);
      for (const size_t k : {0, 1, 2})
        test::check_gradients([&](const Tensors& t) { return weighted({pass(t, reverse, mask)[k]}); }, in);
    }
    test::check_gradients([&](const Tensors& t) { return weighted(pass(t, reverse, {})); },
                          leaves(1, 1, 1, 1));
    test::check_gradients([&](const Tensors& t) { return weighted(pass(t, reverse, {})); },
                          leaves(2, 1, 3, 7));
  }
}

TEST_CASE("a pass has second derivatives, by the steps") {
  const Tensor inside = (tt::from_data({1., 1., 1., 0.}, {2, 2}) > 0).to(tt::default_device());
  for (const bool reverse : {false, true}) {
    const auto twice = tt::gradgradcheck(
        [&](const Tensors& t) { return weighted(pass(t, reverse, reverse ? inside : Tensor())); },
        leaves(2, 2, 2, 2));
    CHECK_MESSAGE(twice.passed, twice.message);
  }
}

TEST_CASE("gradients of one operand alone, of an empty batch, and of a pass that is used twice") {
  for (const size_t k : {0, 1, 2, 3, 4, 5, 6}) {
    Tensors in = leaves(3, 2, 2, 3);
    weighted(pass(in, false, {})).backward();
    Tensors one;
    for (size_t i = 0; i < in.size(); ++i)
      one.push_back(i == k ? in[i].detach().requires_grad_() : in[i].detach());
    const Tensor loss = weighted(pass(one, false, {}));
    loss.backward({}, true);
    check_values(one[k].grad().to_vector<double>(), in[k].grad().to_vector<double>(), 1e-12);
    loss.backward();
    check_values((one[k].grad() * 0.5).to_vector<double>(), in[k].grad().to_vector<double>(), 1e-12);
  }
  const Tensors none = leaves(2, 0, 3, 2);
  weighted(pass(none, true, {})).backward();
  CHECK(none[0].grad().shape() == tt::Shape{2, 0, 3});
  CHECK(tt::max(tt::abs(none[3].grad())).item<double>() == 0);
}
