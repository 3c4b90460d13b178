#include <tinytorch/layers/sgd.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("SGD matches PyTorch for ten steps with every option") {
  const nlohmann::json golden = read_golden("layers");
  for (const nlohmann::json& c : golden["sgd"]) {
    for (tt::DType dtype : {tt::f64, tt::f32}) {
      INFO("case ", " ", c["momentum"].dump(), " ", c["nesterov"].dump(), " ", c["weight_decay"].dump(), " ",
           tt::name_of(dtype));
      tt::Tensor p = tt::from_data(golden["start"].get<std::vector<double>>()).to(dtype);
      p.requires_grad_();
      tt::SGD optimizer({{"p", p}}, {.lr = c["lr"],
                                     .momentum = c["momentum"],
                                     .weight_decay = c["weight_decay"],
                                     .nesterov = c["nesterov"]});
      for (size_t step = 0; step < 10; ++step) {
        p.set_grad(tt::from_data(golden["gradients"][step].get<std::vector<double>>()).to(dtype));
        optimizer.step();
        check_values(p.to_vector<double>(), c["values"][step], dtype == tt::f64 ? 1e-13 : 2e-6);
      }
    }
  }
}

TEST_CASE("SGD accepts a strided gradient") {
  tt::Tensor p = tt::zeros({2, 3});
  p.requires_grad_();
  tt::SGD optimizer({{"p", p}}, {.lr = 1});
  p.set_grad(tt::from_data({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2}).t());
  optimizer.step();
  CHECK(p.to_vector() == std::vector<float>{-1, -3, -5, -2, -4, -6});
}

TEST_CASE("SGD throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::SGD o(p, {.momentum = 1}); }).rfind("TT-OPT-06", 0) == 0);
  CHECK(message_of([&] { tt::SGD o(p, {.nesterov = true}); }).rfind("TT-OPT-06", 0) == 0);
}
