#include <tinytorch/transformer/mlp.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("Mlp is down(f(up(x))) for each activation") {
  tt::manual_seed(1);
  const tt::Tensor x = tt::randn({2, 3, 5});
  struct Pair {
    tt::Activation fn;
    tt::Tensor (*op)(const tt::Tensor&, tt::Loc);
  };
  for (const Pair& pair :
       {Pair{tt::Activation::gelu, tt::gelu}, Pair{tt::Activation::gelu_tanh, tt::gelu_tanh},
        Pair{tt::Activation::relu, tt::relu}, Pair{tt::Activation::silu, tt::silu}}) {
    tt::Mlp mlp(5, 11, pair.fn);
    const tt::Tensor expected = mlp.down(pair.op(mlp.up(x), tt::Loc::current()));
    CHECK(mlp(x).shape() == tt::Shape{2, 3, 5});
    check_values(mlp(x).to_vector<double>(), expected.to_vector<double>(), 1e-6);
  }
  CHECK(tt::Mlp(5, 11).named_parameters().size() == 4);
  tt::Mlp plain(5, 11);
  plain.up.bias = {}, plain.down.bias = {};
  const tt::Tensor expected = plain.down(tt::gelu_tanh(plain.up(x)));
  check_values(plain(x).to_vector<double>(), expected.to_vector<double>(), 1e-6);
}

TEST_CASE("the exact GELU and the tanh GELU differ slightly") {
  tt::manual_seed(2);
  tt::Mlp exact(4, 8, tt::Activation::gelu), approximate(4, 8, tt::Activation::gelu_tanh);
  approximate.load_state_dict(exact.state_dict());
  const tt::Tensor x = 2 * tt::randn({64, 4});
  const double difference = tt::max(tt::abs(exact(x) - approximate(x))).item<double>();
  CHECK(difference > 1e-6);
  CHECK(difference < 2e-3);
}

TEST_CASE("SwiGlu: the gate's rows are first in the packed matrix") {
  tt::manual_seed(3);
  for (const bool bias : {false, true}) {
    tt::SwiGlu glu(5, 7, bias);
    const tt::Tensor x = tt::randn({2, 3, 5});
    const tt::Tensor w = glu.gate_up.weight, b = bias ? glu.gate_up.bias : tt::zeros({14});
    const tt::Tensor gate = tt::linear(x, w.slice(0, 0, 7), b.slice(0, 0, 7));
    const tt::Tensor up = tt::linear(x, w.slice(0, 7), b.slice(0, 7));
    const tt::Tensor expected = glu.down(gate * tt::sigmoid(gate) * up);
    check_values(glu(x).to_vector<double>(), expected.to_vector<double>(), 1e-6);
    CHECK(glu.named_parameters().size() == (bias ? 4 : 2));
  }
}
