#include <doctest/doctest.h>

#include <map>
#include <support/gradients.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tt = tinytorch;
using namespace test;
using tt::Activation;
using tt::Tensor;
using tt::Tensors;

namespace {

// Counts how often each operation runs while it exists.
class OpCounts final : public tt::OpObserver {
 public:
  void after(const tt::PrimitiveBase& op, const Tensors&, const Tensors&, tt::Cost) override {
    ++counts_[op.name()];
  }
  unsigned operator[](const std::string& name) const { return counts_.contains(name) ? counts_.at(name) : 0; }

 private:
  std::map<std::string, unsigned> counts_;
  tt::Observing observing_{*this};
};

}  // namespace

TEST_CASE("gradients of linear_activation") {
  const Tensor x = leaf({3, 2, 5}, 1), w = leaf({4, 5}, 3), c = leaf({4}, 4);
  for (const Activation fn :
       {Activation::none, Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    check_gradients([fn](const Tensors& in) { return tt::linear_activation(in[0], in[1], in[2], fn); },
                    {x, w, c});
    check_gradients([fn](const Tensors& in) { return tt::linear_activation(in[0], in[1], {}, fn); }, {x, w});
  }
}

TEST_CASE("gradients of linear_residual; its result may be overwritten before backward") {
  const Tensor x = leaf({3, 2, 5}, 1), w = leaf({4, 5}, 2), c = leaf({4}, 3), r = leaf({3, 2, 4}, 4);
  check_gradients([](const Tensors& in) { return tt::linear_residual(in[0], in[1], in[2], in[3]); },
                  {x, w, c, r});
  check_gradients([](const Tensors& in) { return tt::linear_residual(in[0], in[1], {}, in[2]); }, {x, w, r});
  check_gradients([&](const Tensors& in) { return tt::linear_residual(x.detach(), w.detach(), {}, in[0]); },
                  {r});
  check_gradients([](const Tensors& in) { return tt::linear_residual(in[0], in[1], {}, in[0]); },
                  {x, leaf({5, 5}, 5)});
  const Tensor bias = leaf({4}, 6), residual = leaf({3, 2, 4}, 7),
               y = tt::linear_residual(x, w, bias, residual);
  y.detach().fill_(0);
  tt::sum(y).backward();
  CHECK(bias.grad().to_vector<double>() == std::vector<double>(4, 6.0));
  CHECK(residual.grad().to_vector<double>() == std::vector<double>(24, 1.0));
}

TEST_CASE("gradients of mlp, with and without biases") {
  const Tensor x = leaf({2, 3, 5}, 1), up = leaf({6, 5}, 2), b = leaf({6}, 3), down = leaf({4, 6}, 4),
               c = leaf({4}, 5);
  for (const Activation fn :
       {Activation::none, Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    check_gradients([fn](const Tensors& in) { return tt::mlp(in[0], in[1], in[2], in[3], in[4], fn); },
                    {x, up, b, down, c});
    check_gradients([fn](const Tensors& in) { return tt::mlp(in[0], in[1], {}, in[2], {}, fn); },
                    {x, up, down});
  }
}

TEST_CASE("mlp computes only the gradients that are needed") {
  const Tensors all{leaf({3, 5}, 1), leaf({6, 5}, 2), leaf({6}, 3), leaf({4, 6}, 4), leaf({4}, 5)};
  const auto run = [](const Tensors& in) {
    tt::sum(tt::mlp(in[0], in[1], in[2], in[3], in[4], Activation::gelu_tanh)).backward();
  };
  run(all);
  for (unsigned wanted = 1; wanted < 32; ++wanted) {
    INFO("wanted ", wanted);
    Tensors in;
    for (size_t k = 0; k < all.size(); ++k) {
      in.push_back((wanted >> k & 1) ? all[k].detach().clone().requires_grad_() : all[k].detach());
    }
    OpCounts counts;
    run(in);
    for (size_t k = 0; k < all.size(); ++k) {
      REQUIRE(in[k].grad().defined() == ((wanted >> k & 1) != 0));
      if (in[k].grad().defined())
        CHECK(tt::max(tt::abs(in[k].grad() - all[k].grad())).item<double>() < 1e-12);
    }
    const bool through_hidden = (wanted & 7) != 0;
    CHECK(counts["linear_grad_activation"] == through_hidden);
    CHECK(counts["linear_grad_weight"] == ((wanted & 24) == 24));
    CHECK(counts["matmul"] == (wanted & 1) + (wanted >> 1 & 1) + ((wanted & 24) == 8));
    CHECK(counts["sum"] == 1 + ((wanted & 24) == 16));
  }
}

TEST_CASE("results of mlp and linear_activation may be overwritten before backward") {
  const Tensor x = leaf({3, 5}, 1).detach();
  for (const bool both : {false, true}) {
    Tensor w = leaf({4, 5}, 2);
    const Tensor down = leaf({2, 4}, 3);
    const auto forward = [&] {
      return both ? tt::mlp(x, w, {}, down, {}, Activation::gelu)
                  : tt::linear_activation(x, w, {}, Activation::gelu);
    };
    tt::sum(forward()).backward();
    const Tensor expected = w.grad().clone();
    w.zero_grad();
    const Tensor y = forward();
    const Tensor total = tt::sum(y);
    y.detach().fill_(0);
    total.backward();
    CHECK(w.grad().to_vector<double>() == expected.to_vector<double>());
  }
}
