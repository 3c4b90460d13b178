#include <tinytorch/pruning/sparse_linear.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/pruning/magnitude.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Generator g{3};
  tt::Linear hidden{64, 80, true, g}, out{80, 16, false, g};
  Net() { add("hidden", hidden), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(hidden(x))); }
};

}  // namespace

TEST_CASE("layers whose bytes fall are stored, and the model computes the same; others stay dense") {
  for (const char* const format : {"bitmap", "csr"}) {
    Net net;
    {
      const tt::NoGrad no_grad;
      net.hidden.weight.copy_(tt::masked(net.hidden.weight, tt::magnitude_mask(net.hidden.weight, 0.8)));
    }
    tt::Generator g(9);
    const tt::Tensor x = tt::randn({7, 64}, tt::f32, tt::cpu, g);
    const tt::NoGrad no_grad;
    const tt::Tensor before = net(x);
    CHECK(tt::store_sparse(net, format) == 1);
    CHECK(tt::max(tt::abs(net(x) - before)).item<double>() < 1e-5);
    CHECK(net.named_parameters().size() == 1);
    CHECK(net.state_dict().count("hidden.values") == 1);
    CHECK(net.state_dict().count("hidden.bias") == 1);
    CHECK_FALSE(net.hidden.weight.defined());
    CHECK(tt::store_sparse(net, format) == 0);
    net.to(tt::bf16);
    CHECK(net(x.to(tt::bf16)).dtype() == tt::bf16);
    CHECK(tt::max(tt::abs(net(x.to(tt::bf16)).to(tt::f32) - before)).item<double>() < 0.1);
  }
}
