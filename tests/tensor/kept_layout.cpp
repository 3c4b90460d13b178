// Memory layout of elementwise results: which input decides, that values do not depend on it, and that a
// network's images stay channels-last, forward and backward.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <support/few.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace tt = tinytorch;
using tt::Strides;
using tt::Tensor;

namespace {

// A channels-last tensor [2, 3, 5, 4].
Tensor pixels(tt::DType dtype = tt::f32) {
  return (tt::randn({2, 5, 4, 3}) * 2).to(dtype).permute({0, 3, 1, 2});
}
const Strides kPixels = {60, 1, 12, 3}, kRows = {60, 20, 4, 1};

// The elements in row-major order, with NaN replaced by a number.
std::vector<double> elements(const Tensor& t) {
  std::vector<double> v = t.to_vector<double>();
  for (double& x : v) x = std::isnan(x) ? 12345.5 : x;
  return v;
}

}  // namespace

TEST_CASE("a result has the layout of the first input of its shape without gaps") {
  const Tensor x = pixels(), rows = x.contiguous(), bias = tt::ones({3, 1, 1}), mask = x > 0;
  REQUIRE(x.strides() == kPixels);
  REQUIRE(rows.strides() == kRows);
  for (const Tensor& y : {x * 2,
                          2 - x,
                          -x,
                          tt::relu(x),
                          tt::gelu(x),
                          x + x,
                          x + bias,
                          bias + x,
                          x + rows,
                          x == x,
                          mask,
                          tt::logical_not(mask),
                          tt::where(mask, x, bias),
                          tt::where(mask, rows, x),
                          tt::masked_fill(x, mask, 1),
                          x.clone(),
                          x.to(tt::bf16),
                          x.to(tt::i64),
                          tt::zeros_like(x),
                          tt::ones_like(mask),
                          tt::dropout(x, 0.5),
                          tt::maximum(x, bias)}) {
    CHECK(y.strides() == kPixels);
  }
  for (const Tensor& y : {rows * 2, rows + x, x.contiguous(), tt::where(mask.contiguous(), x, x),
                          tt::zeros_like(rows), x.to(tt::f64).contiguous()}) {
    CHECK(y.strides() == kRows);
  }
  CHECK((x.permute({3, 2, 1, 0}) * 2).strides() == Strides{3, 12, 1, 60});  // any permutation
  CHECK(tt::exp(tt::randn({3, 4}).t()).strides() == Strides{1, 4});
}

TEST_CASE("inputs with gaps and broadcast inputs do not decide the layout") {
  const Tensor x = pixels();
  for (const Tensor& y : {x.slice(1, 1), x.slice(2, 0, 4), x.slice(3, 0, tt::kEnd, 2),
                          tt::ones({4, 1}).expand({4, 3}), tt::ones({3}).expand({2, 3}).t()}) {
    REQUIRE_FALSE(y.is_contiguous());
    for (const Tensor& result : {y * 2, y.clone(), tt::zeros_like(y), y.to(tt::f64)})
      CHECK(result.is_contiguous());
    CHECK(elements(y * 2) == elements(y.contiguous() * 2));
  }
  const Tensor part = x.slice(0, 1);  // without gaps
  CHECK((part * 2).strides() == Strides{60, 1, 12, 3});
  const Tensor gaps = tt::randn({2, 3, 5, 8}).slice(3, 0, 4);
  CHECK((gaps + x).strides() == kPixels);
  // Both are broadcast, to a shape that neither has.
  CHECK((tt::ones({4, 1}) + tt::ones({3, 1}).t()).is_contiguous());
  CHECK((tt::ones({1, 4}).t() + tt::ones({3})).is_contiguous());
}

TEST_CASE("the layout with sizes of 1 and 0, and of rank 0") {
  CHECK((tt::ones({}) * 2).shape() == tt::Shape{});
  CHECK((tt::ones({1, 5, 1}).permute({2, 0, 1}) * 2).is_contiguous());
  const Tensor empty = tt::empty({0, 3, 4}).permute({2, 0, 1});
  CHECK((empty * 2).shape() == tt::Shape{4, 0, 3});
  CHECK(empty.clone().is_contiguous());
  const Tensor one = tt::randn({1, 5, 4, 1, 3}).permute({0, 4, 1, 2, 3});  // [1, 3, 5, 4, 1]
  const Tensor twice = one * 2;
  CHECK(twice.strides()[1] == 1);
  CHECK(elements(twice) == elements(one.contiguous() * 2));
  CHECK(elements(twice.reshape({3, 20})) == elements((one.contiguous() * 2).reshape({3, 20})));
}

TEST_CASE("values equal those of row-major operands, for every dtype and order" * test::long_on_emulator()) {
  const tt::Dims orders[] = {{0, 3, 1, 2}, {3, 2, 1, 0}, {1, 0, 3, 2}, {0, 2, 1, 3}};
  for (const tt::DType dtype :
       {tt::f32, tt::f64, tt::bf16, tt::f16, tt::i64, tt::i32, tt::i8, tt::u8, tt::boolean}) {
    for (const tt::Dims& order : orders) {
      // 38 x 36 elements: several buffers of the kernels and remainder elements.
      const auto make = [&] { return (tt::randn({2, 19, 4, 9}) * 3).to(dtype).permute(order); };
      const Tensor x = make(), y = make(), mask = make().to(tt::boolean), row = y.slice(2, 0, 1);
      const auto same = [&](const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
        const Tensor got = f(x, y);
        CHECK(elements(got) == elements(f(x.contiguous(), y.contiguous())));
        CHECK(elements(f(x, y.contiguous())) == elements(got));
        CHECK(elements(f(x.contiguous(), y)) == elements(got));
      };
      same([](const Tensor& a, const Tensor& b) { return a == b; });
      same([](const Tensor& a, const Tensor& b) { return tt::maximum(a, b); });
      same([&](const Tensor& a, const Tensor& b) { return tt::where(mask, a, b); });
      same([&](const Tensor& a, const Tensor& b) { return tt::where(a == b, row, b); });
      same([](const Tensor& a, const Tensor&) { return tt::logical_not(a); });
      same([](const Tensor& a, const Tensor& b) { return a.clone().copy_(b); });
      for (const tt::DType to : {tt::f32, tt::bf16, tt::i64, tt::u8, tt::boolean})
        same([&](const Tensor& a, const Tensor&) { return a.to(to); });
      if (dtype == tt::boolean) continue;
      same([](const Tensor& a, const Tensor& b) { return a + b; });
      same([&](const Tensor& a, const Tensor&) { return a * row; });
      same([](const Tensor& a, const Tensor& b) { return a.clone().add_(b, 2); });
      if (!tt::is_floating(dtype)) continue;
      same([](const Tensor& a, const Tensor&) { return tt::log(a); });  // gives NaN for negative elements
      same([](const Tensor& a, const Tensor& b) { return tt::pow(a, b); });
    }
  }
}

TEST_CASE("results with non-temporal stores are the same in another layout") {
  if (!tt::default_device().is_cpu()) return;                          // only the CPU has non-temporal stores
  const Tensor x = tt::randn({2, 600, 512, 8}).permute({0, 3, 1, 2});  // 20 MB
  const Tensor y = x + x, z = x.clone();
  CHECK(y.strides() == x.strides());
  CHECK((y == x.contiguous() * 2).to(tt::f32).sum().item() == static_cast<float>(x.numel()));
  CHECK((z == x).to(tt::f32).sum().item() == static_cast<float>(x.numel()));
}

TEST_CASE("gradients of permuted tensors have the values of row-major ones and the layout of their tensors") {
  const std::function<Tensor(const Tensor&, const Tensor&)> functions[] = {
      [](const Tensor& a, const Tensor& b) { return tt::relu(a) * b; },
      [](const Tensor& a, const Tensor& b) { return tt::gelu(a + b); },
      [](const Tensor& a, const Tensor& b) { return tt::where(a > b, tt::exp(a), tt::tanh(b)); },
      [](const Tensor& a, const Tensor& b) {
        return tt::clamp(a, -1, 1).to(tt::f64).to(tt::f32) / (b * b + 1);
      },
  };
  for (const auto& f : functions) {
    const Tensor x = pixels(), y = pixels(), dy = pixels();
    const auto run = [&](const auto& layout) {
      Tensor a = layout(x).detach(), b = layout(y).detach();
      a.requires_grad_();
      b.requires_grad_();
      f(a, b).backward(layout(dy));
      return tt::Tensors{a.grad(), b.grad()};
    };
    const tt::Tensors want = run([](const Tensor&t) { return t.contiguous(); }),
                      found = run([](const Tensor&t) { return t; });
    for (size_t i = 0; i < 2; ++i) {
      CHECK(elements(found[i]) == elements(want[i]));
      CHECK(want[i].strides() == kRows);
      CHECK(found[i].strides() == kPixels);
    }
  }
}

TEST_CASE("dropout's mask does not depend on the layout, forward and backward") {
  Tensor x = pixels().detach();
  x.requires_grad_();
  tt::Generator a(3), b(3);
  const Tensor y = tt::dropout(x, 0.5, a);
  CHECK(elements(y) == elements(tt::dropout(x.detach().contiguous(), 0.5, b)));
  y.backward(tt::ones({2, 3, 5, 4}));  // has another layout than y
  CHECK(elements(x.grad() * x.detach()) == elements(y));
}

TEST_CASE("images stay channels-last through conv, batch_norm, relu and conv, forward and backward") {
  const Tensor first = tt::randn({6, 3, 3, 3}), second = tt::randn({4, 6, 3, 3}),
               weight = tt::rand({6}) + 0.5, bias = tt::randn({6});
  const Tensor image = pixels(), dy = tt::randn({2, 5, 4, 4}).permute({0, 3, 1, 2});
  struct Pass {
    tt::Tensors values;
    std::vector<Strides> layouts, grad_layouts;
  };
  for (const bool training : {true, false}) {
    const auto run = [&](const Tensor& x0, const Tensor& g) {
      Tensor x = x0.detach();
      tt::Tensors parameters = {first.clone(), second.clone(), weight.clone(), bias.clone()};
      x.requires_grad_();
      for (Tensor& p : parameters) p.requires_grad_();
      Tensor a = tt::conv2d(x, parameters[0], {}, {.padding = 1});
      Tensor b = training
                     ? tt::batch_norm_train(a, parameters[2], parameters[3])[0]
                     : tt::batch_norm_infer(a, tt::zeros({6}), tt::ones({6}), parameters[2], parameters[3]);
      Tensor c = tt::relu(b), d = tt::conv2d(c, parameters[1], {}, {.padding = 1});
      Pass pass;
      for (Tensor* t : {&a, &b, &c, &d}) {
        t->retain_grad();
        pass.layouts.push_back(t->strides());
      }
      d.backward(g);
      pass.values = {d.detach(), x.grad()};
      for (const Tensor& t : {a, b, c, x}) pass.grad_layouts.push_back(t.grad().strides());
      for (const Tensor& p : parameters) pass.values.push_back(p.grad());
      return pass;
    };
    const Pass found = run(image, dy), want = run(image.contiguous(), dy.contiguous());
    if (image.device().is_cpu()) {
      for (const Strides& s : found.layouts) CHECK(s[1] == 1);
      for (const Strides& s : found.grad_layouts) CHECK(s[1] == 1);
    }
    for (const Strides& s : want.layouts) CHECK(s[3] == 1);
    for (const Strides& s : want.grad_layouts) CHECK(s[3] == 1);
    for (size_t i = 0; i < want.values.size(); ++i) {
      const std::vector<double> u = elements(found.values[i]), v = elements(want.values[i]);
      REQUIRE(u.size() == v.size());
      for (size_t k = 0; k < u.size(); ++k) CHECK(u[k] == doctest::Approx(v[k]).epsilon(1e-3).scale(10));
    }
  }
}

TEST_CASE("images stay channels-last through pooling, forward and backward") {
  const auto pools = {+[](const Tensor& x) {
                        return tt::max_pool2d(x, {3, 2, 1});
                      },
                      +[](const Tensor& x) {
                        return tt::avg_pool2d(x, {3, 2, 1});
                      },
                      +[](const Tensor& x) { return tt::adaptive_avg_pool2d(x, 2, 3); }};
  const auto by_pixel = [](const Tensor& t) {
    return t.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  };
  const Tensor rows = tt::randn({2, 5, 6, 7});
  for (const auto& pool : pools) {
    std::vector<Tensor> results, grads;
    for (const Tensor& images : {rows, by_pixel(rows)}) {
      Tensor x = images.detach();
      x.requires_grad_();
      const Tensor y = pool(x);
      if (images.device().is_cpu()) CHECK((y.strides()[1] == 1) == !images.is_contiguous());
      const Tensor dy = tt::arange(0, y.numel()).to(tt::f32).reshape(y.shape());
      y.backward(images.is_contiguous() ? dy : by_pixel(dy));
      if (images.device().is_cpu()) CHECK((x.grad().strides()[1] == 1) == !images.is_contiguous());
      results.push_back(y.detach()), grads.push_back(x.grad());
    }
    for (const auto* pair : {&results, &grads}) {
      const std::vector<double> u = elements((*pair)[0]), v = elements((*pair)[1]);
      REQUIRE(u.size() == v.size());
      for (size_t k = 0; k < u.size(); ++k) CHECK(u[k] == doctest::Approx(v[k]).epsilon(1e-5).scale(10));
    }
  }
}
