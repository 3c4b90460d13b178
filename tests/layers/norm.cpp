#include <tinytorch/layers/norm.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

namespace {
const std::vector<double> kX{1, -2, 3, 0.5, 4, 4, -1, 2.5};

// (x - mean) / sqrt(var + eps) over each group of `length` consecutive values.
std::vector<double> normalized(const std::vector<double>& x, size_t length, bool centred, double eps) {
  std::vector<double> y(x.size());
  const auto n = static_cast<double>(length);
  for (size_t start = 0; start < x.size(); start += length) {
    double mean = 0, squares = 0;
    for (size_t i = 0; i < length; ++i) mean += centred ? x[start + i] / n : 0;
    for (size_t i = 0; i < length; ++i) squares += (x[start + i] - mean) * (x[start + i] - mean) / n;
    for (size_t i = 0; i < length; ++i) y[start + i] = (x[start + i] - mean) / std::sqrt(squares + eps);
  }
  return y;
}
}  // namespace

TEST_CASE("LayerNorm and RMSNorm match plain loops, with weight and bias") {
  const std::vector<double> weight{2, -1, 0.5, 3}, bias{1, 2, 3, 4};
  tt::LayerNorm layer(4, 1e-3);
  layer.to(tt::f64);
  layer.load_state_dict({{"weight", tt::from_data(weight)}, {"bias", tt::from_data(bias)}});
  tt::RMSNorm rms(4, 1e-3);
  rms.to(tt::f64);
  rms.load_state_dict({{"weight", tt::from_data(weight)}});
  std::vector<double> expected = normalized(kX, 4, true, 1e-3), expected_rms = normalized(kX, 4, false, 1e-3);
  for (size_t i = 0; i < kX.size(); ++i) {
    expected[i] = expected[i] * weight[i % 4] + bias[i % 4];
    expected_rms[i] *= weight[i % 4];
  }
  check_values(layer(tt::from_data(kX, {2, 4})).to_vector<double>(), expected, 1e-12);
  check_values(rms(tt::from_data(kX, {2, 4})).to_vector<double>(), expected_rms, 1e-12);
}

TEST_CASE("GroupNorm normalizes each group of channels of each sample") {
  tt::GroupNorm layer(2, 4);
  layer.to(tt::f64);
  check_values(layer(tt::from_data(kX, {1, 4, 2, 1})).to_vector<double>(), normalized(kX, 4, true, 1e-5),
               1e-12);
  CHECK(message_of([] { tt::GroupNorm bad(3, 4); }).rfind("TT-NN-15", 0) == 0);
}

TEST_CASE("training and evaluation agree, and every parameter gets a gradient") {
  tt::LayerNorm a(4);
  tt::RMSNorm b(4);
  tt::GroupNorm c(2, 4);
  for (tt::Module* m :
       {static_cast<tt::Module*>(&a), static_cast<tt::Module*>(&b), static_cast<tt::Module*>(&c)}) {
    const tt::Tensor x = tt::from_data(kX, {2, 4}).to(tt::f32);
    const tt::Tensor y = (*m)(x);
    tt::sum(tt::square(y) * y).backward();
    for (const tt::Tensor& p : m->parameters()) CHECK(tt::sum(tt::abs(p.grad())).item() > 0);
    m->eval();
    CHECK((*m)(x).to_vector() == y.to_vector());
  }
}
