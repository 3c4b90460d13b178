#include <tinytorch/layers/muon.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("Muon matches two steps of its formula in f64, which agree with PyTorch's in bf16") {
  const nlohmann::json golden = read_golden("layers");
  for (const nlohmann::json& c : golden["muon"]) {
    for (tt::DType dtype : {tt::f64, tt::f32}) {
      INFO("case ", c["rows"].dump(), " ", c["columns"].dump(), " ", tt::name_of(dtype));
      const tt::Shape shape{c["rows"], c["columns"]};
      tt::Tensor p = tt::from_data(c["start"].get<std::vector<double>>()).reshape(shape).to(dtype);
      p.requires_grad_();
      tt::Muon optimizer({{"p", p}},
                         {.lr = 0.1,
                          .weight_decay = 0.2,
                          .momentum = 0.9,
                          .nesterov = c["nesterov"],
                          .adjust = c["adjust"] == "original" ? tt::MuonOptions::Adjust::original
                                                              : tt::MuonOptions::Adjust::match_rms_adamw});
      for (const nlohmann::json& g : c["gradients"]) {
        p.set_grad(tt::from_data(g.get<std::vector<double>>()).reshape(shape).to(dtype));
        optimizer.step();
      }
      const bool rounds = dtype == tt::f32;  // a GPU uses bf16 then
      const double narrow = p.device().is_cuda() ? 2e-2 : 1e-5;
      check_values(p.to_vector<double>(), c["values"], rounds ? narrow : 1e-10);
      CHECK(optimizer.state_dict().at("p.step").item<int64_t>() == 2);
    }
  }
}

TEST_CASE("orthogonalized drives all singular values near one, and leaves zeros") {
  tt::manual_seed(3);
  for (const tt::Shape& shape : {tt::Shape{8, 8}, tt::Shape{3, 40}, tt::Shape{17, 5}, tt::Shape{1, 9}}) {
    const tt::Tensor u = tt::orthogonalized(tt::randn(shape).to(tt::f64) * 37);
    const bool tall = shape[0] > shape[1];
    const tt::Tensor gram = tall ? tt::matmul(u.t(), u) : tt::matmul(u, u.t());
    // Singular values from 0.5 to 1.3 have squares from 0.25 to 1.7, and these are the eigenvalues of gram,
    // whose trace is their sum.
    const double trace = tt::sum(gram * tt::eye(gram.size(0)).to(tt::f64)).item<double>();
    const auto n = static_cast<double>(gram.size(0));
    CHECK(trace > 0.25 * n);
    CHECK(trace < 1.7 * n);
  }
  CHECK(tt::orthogonalized(tt::zeros({3, 4})).to_vector() == std::vector<float>(12, 0));
  CHECK(message_of([] { tt::orthogonalized(tt::zeros({3})); }).rfind("TT-SHAPE-04", 0) == 0);
}

TEST_CASE("a clipped step of Muon with a norm that is not finite changes nothing") {
  tt::Tensor p = tt::ones({2, 2}).requires_grad_();
  tt::Muon optimizer({{"p", p}});
  p.set_grad(tt::full({2, 2}, std::nanf(""), tt::f32));
  optimizer.step_clipped(1);
  CHECK(p.to_vector() == std::vector<float>(4, 1));
  CHECK(optimizer.state_dict().at("p.momentum_buffer").to_vector() == std::vector<float>(4, 0));
  CHECK(optimizer.state_dict().at("p.step").item<int64_t>() == 0);
  // The direction of a step does not depend on the size of the gradient, so clipping changes little.
  tt::Tensor q = tt::ones({2, 2}).requires_grad_();
  tt::Muon other({{"q", q}});
  const tt::Tensor g = tt::from_data({3.f, 1.f, -2.f, 5.f}, {2, 2});
  p.set_grad(g);
  q.set_grad(g);
  optimizer.step_clipped(0.5);
  other.step();
  check_values(p.to_vector<double>(), q.to_vector<double>(), 1e-5);
}

TEST_CASE("Muon refuses what is no matrix, also in add_group, and invalid options") {
  const tt::NamedTensors bias{{"bias", tt::zeros({3}).requires_grad_()}};
  const tt::NamedTensors weight{{"weight", tt::zeros({3, 3}).requires_grad_()}};
  CHECK(message_of([&] { tt::Muon o(bias); }).rfind("TT-OPT-13", 0) == 0);
  CHECK(message_of([&] { tt::Muon o(weight, {.momentum = 1}); }).rfind("TT-OPT-07", 0) == 0);
  tt::Muon optimizer(weight);
  CHECK(message_of([&] { optimizer.add_group(bias); }).rfind("TT-OPT-13", 0) == 0);
  CHECK(optimizer.parameters().size() == 1);
}
