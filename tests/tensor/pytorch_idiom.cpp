// What a PyTorch user types first: each statement compiles and has PyTorch's result.
#include <doctest/doctest.h>

#include <sstream>
#include <support/errors.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

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

TEST_CASE("compound assignment changes the tensor and all its handles and views") {
  Tensor x = grid(), same = x;
  const Tensor row = x[1];
  x += grid();
  x -= 1;
  x *= 3;
  x /= 2;
  CHECK(same.to_vector() == Values{-1.5, 1.5, 4.5, 7.5, 10.5, 13.5});
  CHECK(row.to_vector() == Values{7.5, 10.5, 13.5});
  x[0] += 1;
  x[{1, 2}] *= 2;
  x.t()[0] -= from_data({1.0f, 2.0f});
  CHECK(x.to_vector() == Values{-1.5, 2.5, 5.5, 5.5, 10.5, 27});
  x += from_data({1.0f, 2.0f, 3.0f});  // the right side broadcasts
  CHECK(x[0].to_vector() == Values{-0.5, 4.5, 8.5});
  Tensor n = arange(3);
  n *= n;
  n += 2;
  CHECK(n.to_vector<int64_t>() == Integers{2, 3, 6});
  Tensor shifted = arange(4).to(f32);
  shifted.slice(0, 1) += shifted.slice(0, 0, 3);  // overlapping memory: the old values are added
  CHECK(shifted.to_vector() == Values{0, 1, 3, 5});
  x.add_(1);
  x.sub_(x);
  x.div_(2);
  CHECK(x.to_vector() == Values(6, 0));
}

TEST_CASE("compound assignment refuses what PyTorch refuses") {
  Tensor x = grid();
  test::expect_error("TT-SHAPE-02", "", [&] { x += zeros(4); });
  test::expect_error("TT-SHAPE-02", "", [&] { x += zeros({4, 2, 3}); });  // the left side does not broadcast
  Tensor n = arange(3);
  test::expect_error("TT-DTYPE-07", "", [&] { n += 0.5; });
  test::expect_error("TT-DTYPE-02", "", [&] { n /= 2; });
  test::expect_error("TT-DTYPE-03", "", [&] { n += x[0]; });
  test::expect_error("TT-SHAPE-14", "", [&] { x[0].expand({2, 3}) += 1; });
  test::expect_error("TT-TENSOR-01", "", [&] { Tensor() += x; });
  Tensor w = zeros(3).requires_grad_();
  test::expect_error("TT-GRAD-04", "", [&] { w += 1; });
  test::expect_error("TT-GRAD-04", "", [&] { w[0] = 1; });
  test::expect_error("TT-GRAD-04", "", [&] { w[from_data({true, false, true})] = 1; });
  {
    const NoGrad no_grad;
    w += 1;
    w[0] = 5;
  }
  CHECK(w.to_vector() == Values{5, 1, 1});
  CHECK(w.requires_grad());
  CHECK(w.is_leaf());
}

TEST_CASE("writing by index") {
  Tensor x = grid();
  x[0] = 7;
  x[1] = from_data({1.0f, 2.0f, 3.0f});
  CHECK(x.to_vector() == Values{7, 7, 7, 1, 2, 3});
  x[{1, 2}] = 9;
  x[{kAll, Span{0, 2}}] = arange(2).to(f32);
  CHECK(x.to_vector() == Values{0, 1, 7, 0, 1, 9});
  x[0] = x[1];
  CHECK(x.to_vector() == Values{0, 1, 9, 0, 1, 9});
  x.slice(1, 0, 3, 2) = arange(2);  // values are converted to the dtype of x
  CHECK(x.to_vector() == Values{0, 1, 1, 0, 1, 1});
  Tensor y = x;
  y = grid();  // a variable is assigned, not written
  CHECK(x.to_vector() == Values{0, 1, 1, 0, 1, 1});
  test::expect_error("TT-SHAPE-02", "", [&] { x[0] = zeros(4); });
  test::expect_error("TT-RANGE-04", "", [&] { x[9] = 1; });
  CHECK(x[{0, 1}].rank() == 0);
  CHECK(x[{-1, -1}].item() == 1);
  CHECK(x[{Span{0, kEnd, 2}, 0}].shape() == Shape{1});
}

TEST_CASE("masks and positions as an index") {
  Tensor x = grid();
  CHECK(x[x > 1.5].to_vector() == Values{2, 3, 4, 5});
  CHECK(x[x > 100].shape() == Shape{0});
  CHECK(x[from_data({false, true})].to_vector() == Values{3, 4, 5});
  CHECK(x[from_data<int64_t>({1, 0, -1})].shape() == Shape{3, 3});
  CHECK(x[from_data<int64_t>({1, 0, -1})][2].to_vector() == Values{3, 4, 5});
  CHECK(x[zeros({2, 2}, i64)].shape() == Shape{2, 2, 3});
  x[x > 3] = 0;
  CHECK(x.to_vector() == Values{0, 1, 2, 3, 0, 0});
  x[x == 0] = from_data({7.0f, 8.0f, 9.0f});
  CHECK(x.to_vector() == Values{7, 1, 2, 3, 8, 9});
  x[x > 6] -= 6;
  CHECK(x.to_vector() == Values{1, 1, 2, 3, 2, 3});
  x[from_data<int64_t>({-1})] = from_data({4.0f, 5.0f, 6.0f});
  CHECK(x.to_vector() == Values{1, 1, 2, 4, 5, 6});
  x[from_data<int64_t>({0, 0})] = grid();  // the last value counts
  CHECK(x[0].to_vector() == Values{3, 4, 5});
  x[x > 100] = 1;
  x.t()[from_data({true, false, false})] = -1;  // through a view
  CHECK(x.to_vector() == Values{-1, 4, 5, -1, 5, 6});
  auto kept = x[0][from_data({true, true, false})];
  kept += 1;  // a variable is a copy
  CHECK(x[0].to_vector() == Values{-1, 4, 5});
  CHECK(index_put(x, x < 0, zeros({1})).to_vector() == Values{0, 4, 5, 0, 5, 6});
  test::expect_error("TT-RANGE-05", "", [&] { x[from_data<int64_t>({2})]; });
  test::expect_error("TT-SHAPE-13", "", [&] { x[from_data({true, false, true})]; });
  test::expect_error("TT-DTYPE-04", "", [&] { x[from_data({0.5f})]; });
  test::expect_error("TT-SHAPE-02", "", [&] { x[x > 0] = zeros(3); });
  CHECK(masked_select(x, from_data({true, false, false})).to_vector() == Values{-1, -1});
  CHECK(nonzero(x == 5).to_vector<int64_t>() == Integers{0, 2, 1, 1});
  CHECK(nonzero(full({}, 3)).shape() == Shape{1, 0});
  x.masked_fill_(x == 5, 0);
  x.clamp_(0, 4);
  CHECK(x.to_vector() == Values{0, 4, 0, 0, 0, 4});
}

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
        y[{kAll, Span{1, 3}}] += y[{kAll, Span{0, 2}}];
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

TEST_CASE("a saved value that was overwritten makes backward throw") {
  Tensor w = grid().requires_grad_();
  Tensor y = w.exp();  // saves its result
  y += 1;
  test::expect_error("TT-GRAD-02", "", [&] { y.sum().backward(); });
  Tensor z = w * 2, loss = (z * z).sum();
  z[0] = 1;
  test::expect_error("TT-GRAD-02", "", [&] { loss.backward(); });
  Tensor u = w * 2;
  u *= 3;  // the old value is not needed
  u.sum().backward();
  CHECK(w.grad().to_vector() == Values(6, 6));
}

TEST_CASE("a view taken before a recorded write is refused, and fresh views work") {
  Tensor w = grid().requires_grad_();
  Tensor y = w * 2;
  const Tensor old = y[0];
  y += w;
  test::expect_error("TT-GRAD-10", "", [&] { old * 2; });
  CHECK(old.to_vector() == Values{0, 3, 6});  // values may be read
  y[0].sum().backward();
  CHECK(w.grad().to_vector() == Values{3, 3, 3, 0, 0, 0});
  Tensor shared = (w * 2).reshape(6);  // its base is gone, so it stands for itself
  shared += 1;
  CHECK((shared * 1).requires_grad());
}

TEST_CASE("a tensor that is assigned a leaf's values is not that leaf") {
  Tensor w = zeros(3).requires_grad_(), y = w * 1;
  std::move(y) = w;
  CHECK_FALSE(y.is_leaf());
  y.sum().backward();
  CHECK(w.grad().to_vector() == Values{1, 1, 1});
}

TEST_CASE("numbers as operands") {
  const Tensor x = grid(), c = x > 2;
  CHECK(pow(x, 2).to_vector() == Values{0, 1, 4, 9, 16, 25});
  CHECK(pow(2, x).to_vector() == Values{1, 2, 4, 8, 16, 32});
  CHECK(maximum(x, 2.).to_vector() == Values{2, 2, 2, 3, 4, 5});
  CHECK(minimum(1, x).to_vector() == Values{0, 1, 1, 1, 1, 1});
  CHECK(where(c, x, 0.).to_vector() == Values{0, 0, 0, 3, 4, 5});
  CHECK(where(c, 1., x).to_vector() == Values{0, 1, 2, 1, 1, 1});
  CHECK(where(c, 1, 0).dtype() == i64);
  CHECK(where(c, 1., 0.).dtype() == f32);
  CHECK(eq(x, 1).to_vector() == Values{0, 1, 0, 0, 0, 0});
  CHECK(ne(x, 1).to_vector() == Values{1, 0, 1, 1, 1, 1});
  CHECK(lt(x, 2).to_vector() == Values{1, 1, 0, 0, 0, 0});
  CHECK(le(x, 2).to_vector() == Values{1, 1, 1, 0, 0, 0});
  CHECK(gt(x, 4).to_vector() == Values{0, 0, 0, 0, 0, 1});
  CHECK(ge(x, 4).to_vector() == Values{0, 0, 0, 0, 1, 1});
  CHECK(add(x, 1)[0].to_vector() == Values{1, 2, 3});
  CHECK(sub(1, x)[0].to_vector() == Values{1, 0, -1});
  CHECK(mul(x, 0.5)[0].to_vector() == Values{0, 0.5, 1});
  CHECK(div(x, 2)[1].to_vector() == Values{1.5, 2, 2.5});
  test::expect_error("TT-DTYPE-07", "", [&] { maximum(arange(3), 0.5); });
  test::expect_error("TT-TENSOR-01", "", [&] { pow(Tensor(), 2); });
}

TEST_CASE("dimensions and sizes without braces") {
  const Tensor x = grid();
  CHECK(sum(x, 1).to_vector() == Values{3, 12});
  CHECK(x.sum(0).to_vector() == Values{3, 5, 7});
  CHECK(mean(x, 0, true).shape() == Shape{1, 3});
  CHECK(x.mean(-1).to_vector() == Values{1, 4});
  CHECK(zeros(3).shape() == Shape{3});
  CHECK(zeros(2, 3).shape() == Shape{2, 3});
  CHECK(ones(2).to_vector() == Values{1, 1});
  CHECK(randn(4, 2, 1).shape() == Shape{4, 2, 1});
  CHECK(rand(4).shape() == Shape{4});
  CHECK(x.reshape(6).shape() == Shape{6});
  CHECK(reshape(x, -1).shape() == Shape{6});
  CHECK(x.reshape(3, -1).shape() == Shape{3, 2});
  CHECK(x.view(3, 2).shape() == Shape{3, 2});
  CHECK(x.view({1, -1}).shape() == Shape{1, 6});
  CHECK(x.view(-1).storage() == x.storage());
  test::expect_error("TT-SHAPE-05", "", [&] { x.t().view(6); });
  CHECK(x.permute(1, 0).shape() == Shape{3, 2});
  CHECK(x[0].expand(4, 3).shape() == Shape{4, 3});
  CHECK(x.T()[0].to_vector() == Values{0, 3});
  CHECK(x.view(1, 2, 1, 3).squeeze().shape() == Shape{2, 3});
  CHECK(squeeze(zeros(1, 1)).rank() == 0);
  CHECK(x.dim() == 2);
  CHECK(full(3, 1.).to_vector() == Values{1, 1, 1});
  CHECK(flip(x, 1)[0].to_vector() == Values{2, 1, 0});
  CHECK(cat(x, x).shape() == Shape{4, 3});
  CHECK(cat(x, x, x).shape() == Shape{6, 3});
  CHECK(stack(x, x).shape() == Shape{2, 2, 3});
  CHECK(cat({x, x}, 1).shape() == Shape{2, 6});
  CHECK(arange(4).to_vector<int64_t>() == Integers{0, 1, 2, 3});
  CHECK(arange(2.5).dtype() == f32);
  const Tensor r = randint(10, {50}), q = randint(3, 5, 50);
  CHECK(r.shape() == Shape{50});
  CHECK((r >= 0).all().item<bool>());
  CHECK((r < 10).all().item<bool>());
  CHECK((q >= 3 && q < 5).all().item<bool>());
  const Tensor image = arange(16).to(f32).reshape(1, 1, 4, 4);
  CHECK(max_pool2d(image, 2).to_vector() == Values{5, 7, 13, 15});
  CHECK(max_pool2d(image, 3, 1, 1).shape() == Shape{1, 1, 4, 4});
  CHECK(avg_pool2d(image, 2, 2).to_vector() == Values{2.5, 4.5, 10.5, 12.5});
}

TEST_CASE("members that forward to functions") {
  const Tensor x = grid() + 1;
  CHECK(x.max().item() == 6);
  CHECK(x.min().item() == 1);
  const auto [values, at] = max(x * from_data({1.0f, 5.0f, 1.0f}), 1);
  CHECK(values.to_vector() == Values{10, 25});
  CHECK(at.to_vector<int64_t>() == Integers{1, 1});
  CHECK(x.min(0).values.to_vector() == Values{1, 2, 3});
  CHECK(x.max(0, true).indices.shape() == Shape{1, 3});
  CHECK(x.max({1}).to_vector() == Values{3, 6});
  CHECK(x.argmax().item<int64_t>() == 5);
  CHECK(argmin(x).item<int64_t>() == 0);
  CHECK(x.argmax(1).to_vector<int64_t>() == Integers{2, 2});
  CHECK(x.exp().to_vector() == exp(x).to_vector());
  CHECK(x.sqrt().log().abs().to_vector() == abs(log(sqrt(x))).to_vector());
  CHECK(x.relu().sigmoid().tanh().to_vector() == tanh(sigmoid(x)).to_vector());
  CHECK(x.pow(2).to_vector() == x.square().to_vector());
  CHECK(x.clamp(2, 3).to_vector() == Values{2, 2, 3, 3, 3, 3});
  CHECK(x.std().item() == stddev(x).item());
  CHECK(x.var(1).to_vector() == Values{1, 1});
  CHECK(x.matmul(x.t()).shape() == Shape{2, 2});
  CHECK(x.softmax(-1).to_vector() == softmax(x, 1).to_vector());
  CHECK((x > 5).any().item<bool>());
  CHECK_FALSE((x > 5).all().item<bool>());
  // A number along a dimension takes part in the graph.
  Tensor w = grid().requires_grad_();
  w.max(1).values.sum().backward();
  CHECK(w.grad().to_vector() == Values{0, 0, 1, 0, 0, 1});
}

TEST_CASE("std::cout << x") {
  std::ostringstream out;
  out << grid() << " " << grid().shape();
  CHECK(out.str() == "tensor([[0., 1., 2.],\n        [3., 4., 5.]]) [2, 3]");
  CHECK(to_string(from_data({1.0f, -2.5f})) == "tensor([ 1.0000, -2.5000])");
}
