#include <tinytorch/pruning/activation_aware.hpp>

#include <pruning/formats.hpp>
#include <quantization/planted.hpp>
#include <tinytorch/pruning/magnitude.hpp>

using namespace test;

namespace {

tt::InputStatistics observed(const tt::Tensor& x) {
  tt::InputStatistics s(x.size(-1));
  s.observe(x);
  return s;
}

}  // namespace

TEST_CASE("planted cases: Wanda answers outliers, magnitude does not") {
  for (const bool outliers : {true, false}) {
    const Layer layer = planted_layer(outliers);
    const tt::InputStatistics inputs = observed(layer.x);
    const auto near = [&](const tt::Tensor& mask, double expected) {
      const double db = output_sqnr(layer, layer.x, tt::masked(layer.w, mask));
      INFO(db, " dB");
      CHECK(std::abs(db - expected) <= 1);
    };
    near(tt::magnitude_mask(layer.w, 0.5), outliers ? 11.6 : 11.3);
    near(tt::wanda_mask(layer.w, inputs, 0.5), outliers ? 28.9 : 14.5);
    near(tt::nm_mask(layer.w, 2, 4), outliers ? 9.5 : 8.7);
    near(tt::wanda_mask(layer.w, inputs, 2, 4), outliers ? 25.7 : 11.3);
  }
}

TEST_CASE("scores are magnitudes times the root of the sum of squares, for batches and 16-bit weights") {
  const tt::Tensor x = sparse_matrix(30, 12, 1, 4), w = sparse_matrix(5, 12, 1, 5, tt::bf16);
  tt::InputStatistics halves(12);
  halves.observe(x.slice(0, 0, 11)), halves.observe(x.slice(0, 11));
  const std::vector<double> scores = tt::wanda_scores(w, halves).to_vector<double>(),
                            X = x.to_vector<double>(), W = w.to_vector<double>();
  for (size_t j = 0; j < 12; ++j) {
    double squares = 0;
    for (size_t r = 0; r < 30; ++r) squares += X[r * 12 + j] * X[r * 12 + j];
    for (size_t n = 0; n < 5; ++n)
      CHECK(scores[n * 12 + j] == doctest::Approx(std::abs(W[n * 12 + j]) * std::sqrt(squares)));
  }
  const tt::Tensor mask = tt::wanda_mask(w, halves, 0.25);
  for (int64_t n = 0; n < 5; ++n) CHECK(nonzero_count(mask.select(0, n).to(tt::f32)) == 9);
}

TEST_CASE("statistics that do not fit are refused") {
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  CHECK(code([] { tt::wanda_mask(tt::ones({2, 3}), tt::InputStatistics(3), 0.5); }) == "TT-CALIB-02");
  CHECK(code([] { tt::wanda_mask(tt::ones({2, 4}), observed(tt::ones({2, 3})), 0.5); }) == "TT-SHAPE-02");
  CHECK(code([] { tt::wanda_mask(tt::ones({2, 3}), observed(tt::ones({2, 3})), 2, 4); }) == "TT-PRUNE-01");
}
