#include <tinytorch/layers/rmsprop.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("RMSprop matches PyTorch for ten steps, plain, with momentum, centered, and with both") {
  const nlohmann::json golden = read_golden("layers");
  int cases = 0;
  for (const nlohmann::json& c : golden["rules"]) {
    if (c["kind"] != "rmsprop") continue;
    ++cases;
    for (tt::DType dtype : {tt::f64, tt::f32}) {
      INFO("case ", cases, " ", tt::name_of(dtype));
      tt::Tensor p = tt::from_data(golden["start"].get<std::vector<double>>()).to(dtype);
      p.requires_grad_();
      tt::RMSprop optimizer({{"p", p}}, {.lr = c["lr"],
                                         .alpha = c["alpha"],
                                         .eps = c["eps"],
                                         .weight_decay = c["weight_decay"],
                                         .momentum = c["momentum"],
                                         .centered = c["centered"]});
      for (size_t step = 0; step < 10; ++step) {
        p.set_grad(tt::from_data(golden["gradients"][step].get<std::vector<double>>()).to(dtype));
        optimizer.step();
        check_values(p.to_vector<double>(), c["values"][step], dtype == tt::f64 ? 1e-12 : 2e-5);
      }
    }
  }
  CHECK(cases == 4);
}

TEST_CASE("RMSprop throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::RMSprop o(p, {.alpha = 1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::RMSprop o(p, {.eps = -1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::RMSprop o(p, {.momentum = -0.5}); }).rfind("TT-OPT-07", 0) == 0);
}
