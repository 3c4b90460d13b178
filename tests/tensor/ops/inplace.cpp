// In-place arithmetic: values, refusals, and its place in the graph.
#include <doctest/doctest.h>

#include <functional>
#include <support/errors.hpp>
#include <tinytorch/tensor/ops/inplace.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

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

TEST_CASE(
    "a result that its derivative does not need may be overwritten, as in out = bn(conv(x)); out += x") {
  manual_seed(3);
  const auto weights = [](const Shape& s) { return randn(s, f64).requires_grad_(); };
  const Tensor image = weights({2, 4, 6, 6}), rows = weights({3, 4}), w4 = weights({4}), b4 = weights({4});
  const Tensor filter = weights({4, 4, 3, 3}), matrix = weights({4, 4});
  const Tensor labels = from_data({0, 3, 1}, {3}).to(i64);
  const std::pair<const char*, std::function<Tensor()>> calls[] = {
      {"batch_norm_train", [&] { return batch_norm_train(image, w4, b4)[0]; }},
      {"group_norm", [&] { return group_norm(image, 2, w4, b4); }},
      {"layer_norm", [&] { return layer_norm(rows, w4, b4); }},
      {"rms_norm", [&] { return rms_norm(rows, w4); }},
      {"conv2d", [&] { return conv2d(image, filter, b4, {.padding = 1}); }},
      {"max_pool2d", [&] { return max_pool2d(image, {.kernel = 2}); }},
      {"linear", [&] { return linear(rows, matrix, b4); }},
      {"matmul", [&] { return matmul(rows, matrix); }},
      {"sort", [&] { return sort(rows).values; }},
      {"topk", [&] { return topk(rows, 2).values; }},
      {"gather", [&] { return gather(rows, 1, labels.unsqueeze(1)); }},
      {"add", [&] { return rows + b4; }},
      {"mul", [&] { return rows * w4; }},
      {"sum", [&] { return sum(rows, 1); }},
      {"gelu", [&] { return gelu(rows); }},
      {"cross_entropy", [&] { return cross_entropy(rows, labels); }},
  };
  for (const auto& [name, call] : calls) {
    INFO(std::string(name));
    std::vector<std::vector<double>> found[2];
    for (const bool in_place : {false, true}) {
      for (const Tensor& t : {image, rows, w4, b4, filter, matrix}) Tensor(t).zero_grad();
      Tensor y = call();
      const Tensor added = full(y.shape(), 0.5, f64);
      if (in_place)
        y += added;
      else
        y = y + added;
      sum(y * y).backward();
      for (const Tensor& t : {image, rows, w4, b4, filter, matrix})
        if (t.grad().defined()) found[in_place].push_back(t.grad().to_vector<double>());
    }
    CHECK(!found[0].empty());
    CHECK(found[0] == found[1]);
  }
}
