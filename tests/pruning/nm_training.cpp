#include <tinytorch/pruning/nm_training.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/pruning/sparse_linear.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Generator g{3};
  tt::Linear first{7, 16, true, g}, hidden{16, 16, true, g}, out{16, 4, true, g};
  Net() { add("first", first), add("hidden", hidden), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(hidden(tt::relu(first(x))))); }
};

tt::Tensor random(const tt::Shape& shape, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn(shape, tt::f32, tt::cpu, g).to(tt::default_device());
}
std::vector<double> numbers(const tt::Tensor& t) { return t.detach().to_vector<double>(); }

}  // namespace

TEST_CASE("the value is masked, and the gradient is g plus decay times the removed weights") {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const double decay : {0.0, 0.5}) {
      const tt::Tensor source = random({6, 8}, 1).to(t);
      const tt::Tensor factor = random({8, 6}, 2).to(t);
      for (const bool turned : {false, true}) {
        tt::Tensor w = turned ? source.clone().t().contiguous().t() : source.clone();
        w = w.detach();
        w.requires_grad_();
        const tt::Tensor y = tt::nm_straight_through(w, 2, 4, decay);
        CHECK(y.dtype() == t);
        tt::sum(y * factor.t()).backward();
        const std::vector<double> x = numbers(w), v = numbers(y), g = numbers(w.grad()),
                                  f = numbers(factor.t().contiguous());
        for (size_t group = 0; group < x.size(); group += 4) {
          int kept = 0;
          for (size_t i = group; i < group + 4; ++i) {
            int larger = 0;
            for (size_t j = group; j < group + 4; ++j) larger += std::abs(x[j]) > std::abs(x[i]) ? 1 : 0;
            const bool keep = larger < 2;  // values of 16 bits may tie: then the count below decides
            kept += v[i] != 0 ? 1 : 0;
            CHECK((v[i] == 0 || v[i] == x[i]));
            if (t == tt::f32 || t == tt::f64) CHECK((v[i] != 0) == keep);
            const double wanted = f[i] + (v[i] != 0 ? 0 : decay * x[i]);
            CHECK(g[i] == doctest::Approx(wanted).epsilon(t == tt::bf16 ? 0.02 : 2e-3));
          }
          CHECK(kept == 2);
        }
      }
    }
  }
}

TEST_CASE("layers train to weights of N of M, masks change on the way, and the result is stored exactly") {
  Net net;
  const tt::Tensor x = random({32, 7}, 4), goal = random({32, 4}, 5);
  tt::AdamW optimizer(net.named_parameters(), {.lr = 0.02, .weight_decay = 0});
  const auto train = [&](int steps) {
    double loss = 0;
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      const tt::Tensor l = tt::mse_loss(net(x), goal);
      l.backward(), optimizer.step();
      loss = l.item<double>();
    }
    return loss;
  };
  const tt::Tensor before = tt::nm_mask(net.hidden.weight, 2, 4).to(tt::f32);
  CHECK(tt::train_nm(net, 2, 4) == 2);  // the rows of `first` have 7 numbers
  CHECK(net.named_parameters().size() == 6);
  const double first = train(1), last = train(40);
  CHECK(last < 0.8 * first);
  CHECK(nonzero_count(net.hidden.weight.detach()) > 128);  // removed weights live on
  const tt::Tensor after = tt::nm_mask(net.hidden.weight, 2, 4).to(tt::f32);
  CHECK_FALSE(same_values(before, after));
  const std::vector<double> y = numbers(net(x));
  CHECK(tt::finish_nm(net) == 2);
  CHECK_FALSE(net.hidden.replacement());
  CHECK(numbers(net(x)) == y);
  CHECK(nonzero_count(net.hidden.weight.detach()) == 128);
  CHECK(same_values(tt::sparse_weight(net.hidden.weight, "2:4").dense(), net.hidden.weight.detach()));
  CHECK(tt::finish_nm(net) == 0);
}

TEST_CASE("sizes that are no groups are refused; an empty weight and a NaN pass") {
  Net net;
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  CHECK(code([&] { tt::train_nm(net, 3, 2); }) == "TT-PRUNE-01");
  CHECK(code([&] { tt::train_nm(net, 0, 4); }) == "TT-PRUNE-01");
  CHECK(code([&] { (void)tt::nm_straight_through(tt::ones({2, 6}), 2, 4); }) == "TT-PRUNE-01");
  CHECK(code([&] { (void)tt::nm_straight_through(tt::ones({2, 4}, tt::i32), 2, 4); }) == "TT-DTYPE-02");
  CHECK(tt::nm_straight_through(tt::zeros({0, 8}), 2, 4).shape() == tt::Shape{0, 8});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const tt::Tensor w = tt::from_data(std::vector<float>{1, nan, 3, 2}, {1, 4}, tt::cpu);
  const std::vector<double> v = numbers(tt::nm_straight_through(w, 2, 4));
  CHECK(v[0] == 0);
  CHECK(std::isnan(v[1]));
  CHECK(v[2] == 3);
  CHECK(v[3] == 0);
}
