#include <tinytorch/layers/clip.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

namespace {
tt::Tensor with_grad(const std::vector<double>& values, const tt::Shape& shape) {
  tt::Tensor t = tt::zeros(shape, tt::f64);
  t.requires_grad_();
  t.set_grad(tt::from_data(values, shape));
  return t;
}
}  // namespace

TEST_CASE("clipping by norm uses one norm and one factor for all gradients") {
  const nlohmann::json golden = read_golden("layers")["clipping"];
  const tt::Tensor a = with_grad({3, -4}, {2}), b = with_grad({12}, {1, 1});
  tt::Tensor without = tt::zeros({3});
  without.requires_grad_();
  CHECK(tt::gradient_norm({a, without, b}) == doctest::Approx(13));
  CHECK(tt::clip_gradient_norm({a, without, b}, 2) == doctest::Approx(golden["norm"].get<double>()));
  check_values(a.grad().to_vector<double>(), golden["a"], 1e-6);  // PyTorch adds 1e-6 to the norm
  check_values(b.grad().to_vector<double>(), golden["b"], 1e-6);
  CHECK(tt::gradient_norm({a, b}) == doctest::Approx(2));
}

TEST_CASE("a norm below the limit, or one that is not finite, leaves the gradients bit-identical") {
  const tt::Tensor a = with_grad({0.1, -0.7}, {2});
  CHECK(tt::clip_gradient_norm({a}, 5) == doctest::Approx(std::sqrt(0.5)));
  CHECK(a.grad().to_vector<double>() == std::vector<double>{0.1, -0.7});
  const tt::Tensor b = with_grad({HUGE_VAL, 1}, {2});
  CHECK(std::isinf(tt::clip_gradient_norm({b}, 5)));
  CHECK(b.grad().to_vector<double>()[1] == 1);
}

TEST_CASE("clip_gradient_norm_on_device gives the same gradients as clip_gradient_norm") {
  for (const tt::DType dtype : {tt::f64, tt::f32, tt::bf16}) {
    for (const double limit : {0.5, 2.0, 12.99, 13.0, 100.0}) {
      CAPTURE(limit);
      const auto parameters = [&] {
        tt::Tensors out;
        for (const auto& values : {std::vector<double>{3, -4}, std::vector<double>{12}}) {
          tt::Tensor t = tt::zeros({static_cast<int64_t>(values.size())}, dtype);
          t.requires_grad_();
          t.set_grad(tt::from_data(values, t.shape()).to(dtype));
          out.push_back(t);
        }
        return out;
      };
      const tt::Tensors seen = parameters(), unseen = parameters();
      const double before = tt::clip_gradient_norm(seen, limit);
      const tt::Tensor same = tt::clip_gradient_norm_on_device(tt::gradients_of(unseen), limit);
      CHECK(same.item<double>() == doctest::Approx(before).epsilon(1e-12));
      for (size_t k = 0; k < seen.size(); ++k) {
        const auto a = seen[k].grad().to_vector<double>(), b = unseen[k].grad().to_vector<double>();
        for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12));
      }
    }
  }
  for (const double bad : {HUGE_VAL, std::nan("")}) {
    const tt::Tensor b = with_grad({bad, 1}, {2});
    tt::clip_gradient_norm_on_device({b.grad()}, 0.5);
    CHECK(b.grad().to_vector<double>()[1] == 1);
  }
}

TEST_CASE("clipping by value clamps each element") {
  const tt::Tensor a = with_grad({-3, -0.5, 0.25, 9}, {2, 2});
  tt::clip_gradient_value({a}, 0.5);
  CHECK(a.grad().to_vector<double>() == std::vector<double>{-0.5, -0.5, 0.25, 0.5});
  CHECK(message_of([&] { tt::clip_gradient_value({a}, 0); }).rfind("TT-OPT-09", 0) == 0);
  CHECK(message_of([&] { tt::clip_gradient_norm({a}, -1); }).rfind("TT-OPT-09", 0) == 0);
}
