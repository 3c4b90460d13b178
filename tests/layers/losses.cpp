// Losses as objects: each has the value and the gradient of its function, for every reduction.
#include <tinytorch/layers/losses.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <functional>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Reduction;
using tt::Tensor;

namespace {

void check_same(const std::function<Tensor(const Tensor&)>& object,
                const std::function<Tensor(const Tensor&)>& function) {
  const Tensor values = tt::sigmoid(tt::arange(6).to(tt::f32).reshape(2, 3) - 2);
  Tensor a = values.clone().requires_grad_(), b = values.clone().requires_grad_();
  const Tensor loss = object(a), expected = function(b);
  CHECK(loss.equal(expected));
  loss.sum().backward();
  expected.sum().backward();
  CHECK(a.grad().equal(b.grad()));
}

}  // namespace

TEST_CASE("an object computes its function with its options") {
  const Tensor y = tt::full({2, 3}, 0.25), t = tt::tensor({2, 0}), z = tt::full({2, 3}, 0.5);
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const auto to = [&](auto loss, auto function) {
      check_same([&](const Tensor& x) { return loss(x, y); }, function);
    };
    to(tt::MSELoss(r), [&](const Tensor& x) { return tt::mse_loss(x, y, r); });
    to(tt::L1Loss(r), [&](const Tensor& x) { return tt::l1_loss(x, y, r); });
    to(tt::BCELoss(r), [&](const Tensor& x) { return tt::binary_cross_entropy(x, y, r); });
    to(tt::BCEWithLogitsLoss(r), [&](const Tensor& x) { return tt::bce_with_logits(x, y, r); });
    to(tt::HuberLoss(0.1, r), [&](const Tensor& x) { return tt::huber_loss(x, y, 0.1, r); });
    to(tt::SmoothL1Loss(0.1, r), [&](const Tensor& x) { return tt::smooth_l1_loss(x, y, 0.1, r); });
    to(tt::KLDivLoss({.reduction = r}), [&](const Tensor& x) { return tt::kl_div(x, y, {.reduction = r}); });
    const tt::CrossEntropyLoss cross({.label_smoothing = 0.1, .reduction = r});
    check_same([&](const Tensor& x) { return cross(x, t); },
               [&](const Tensor& x) { return tt::cross_entropy(x, t, cross.options); });
    const tt::NLLLoss nll({.weight = tt::ones({3}) * 2, .reduction = r});
    check_same([&](const Tensor& x) { return nll(x, t); },
               [&](const Tensor& x) { return tt::nll_loss(x, t, nll.options); });
    const tt::TripletMarginLoss triplet({.margin = 3, .reduction = r});
    check_same([&](const Tensor& x) { return triplet(x, y, z); },
               [&](const Tensor& x) { return tt::triplet_margin_loss(x, y, z, triplet.options); });
    const tt::CosineEmbeddingLoss cosine(0.1, r);
    const Tensor sign = tt::tensor({1., -1.});
    check_same([&](const Tensor& x) { return cosine(x, y, sign); },
               [&](const Tensor& x) { return tt::cosine_embedding_loss(x, y, sign, 0.1, r); });
  }
}

TEST_CASE("an error names the line of the call") {
  const tt::MSELoss loss;
  test::expect_error("TT-SHAPE-02", "", [&] { loss(tt::zeros({2}), tt::zeros({3})); });
}
