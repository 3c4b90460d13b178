#include <tinytorch/layers/adagrad.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("Adagrad matches PyTorch for ten steps, with and without decays and a start of the sum") {
  const nlohmann::json golden = read_golden("layers");
  int cases = 0;
  for (const nlohmann::json& c : golden["rules"]) {
    if (c["kind"] != "adagrad") continue;
    ++cases;
    for (tt::DType dtype : {tt::f64, tt::f32}) {
      INFO("case ", cases, " ", tt::name_of(dtype));
      tt::Tensor p = tt::from_data(golden["start"].get<std::vector<double>>()).to(dtype);
      p.requires_grad_();
      tt::Adagrad optimizer({{"p", p}}, {.lr = c["lr"],
                                         .lr_decay = c["lr_decay"],
                                         .weight_decay = c["weight_decay"],
                                         .initial_accumulator_value = c["initial_accumulator_value"],
                                         .eps = c["eps"]});
      for (size_t step = 0; step < 10; ++step) {
        p.set_grad(tt::from_data(golden["gradients"][step].get<std::vector<double>>()).to(dtype));
        optimizer.step();
        check_values(p.to_vector<double>(), c["values"][step], dtype == tt::f64 ? 1e-12 : 4e-6);
      }
    }
  }
  CHECK(cases == 2);
}

TEST_CASE("Adagrad throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::Adagrad o(p, {.lr_decay = -1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::Adagrad o(p, {.initial_accumulator_value = -1}); }).rfind("TT-OPT-07", 0) == 0);
}
