#include <tinytorch/quantization/gptq.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/quantization/awq.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

namespace {

tt::InputStatistics observed(const tt::Tensor& x) {
  tt::InputStatistics s(x.size(-1));
  s.observe(x);
  return s;
}

// Solves A y = b by elimination with pivots. A is n x n, row-major.
std::vector<double> solved(std::vector<double> A, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t r = i; r < n; ++r) pivot = std::abs(A[r * n + i]) > std::abs(A[pivot * n + i]) ? r : pivot;
    for (size_t c = 0; c < n; ++c) std::swap(A[i * n + c], A[pivot * n + c]);
    std::swap(b[i], b[pivot]);
    for (size_t r = i + 1; r < n; ++r) {
      const double factor = A[r * n + i] / A[i * n + i];
      for (size_t c = i; c < n; ++c) A[r * n + c] -= factor * A[i * n + c];
      b[r] -= factor * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t c = i + 1; c < n; ++c) b[i] -= A[i * n + c] * b[c];
    b[i] /= A[i * n + i];
  }
  return b;
}

// GPTQ by its definition, for one row: after each column is rounded, the columns that are not yet rounded are
// set to the values that make the error of the output least, by solving the normal equations anew.
std::vector<double> by_definition(std::vector<double> w, const std::vector<double>& H, size_t group,
                                  int bits) {
  const size_t K = w.size();
  const std::vector<double> original = w;
  const double most = std::ldexp(1, bits - 1) - 1;
  double scale = 1;
  for (size_t j = 0; j < K; ++j) {
    if (j % group == 0) {
      double largest = 0;
      for (size_t k = j; k < std::min(j + group, K); ++k) largest = std::max(largest, std::abs(w[k]));
      scale = largest / most;
    }
    w[j] = scale * std::clamp(std::nearbyint(w[j] / scale), -most, most);
    // H_RR (w_R - original_R) = -H_RF (w_F - original_F) for the rounded columns F = 0..j and the rest R.
    const size_t n = K - j - 1;
    std::vector<double> A(n * n), b(n);
    for (size_t r = 0; r < n; ++r) {
      for (size_t c = 0; c < n; ++c) A[r * n + c] = H[(j + 1 + r) * K + j + 1 + c];
      for (size_t f = 0; f <= j; ++f) b[r] -= H[(j + 1 + r) * K + f] * (w[f] - original[f]);
    }
    const std::vector<double> change = solved(A, b);
    for (size_t r = 0; r < n; ++r) w[j + 1 + r] = original[j + 1 + r] + change[r];
  }
  return w;
}

}  // namespace

TEST_CASE("planted cases: GPTQ answers correlation, AWQ answers outliers") {
  const tt::ScaleOptions four_bits{.bits = 4, .granularity = tt::Granularity::group, .group = 64};
  const auto near = [](double got, double expected) {
    INFO(got, " dB");
    CHECK(std::abs(got - expected) <= 1);
  };
  for (const bool outliers : {true, false}) {
    const Layer layer = planted_layer(outliers);
    const tt::InputStatistics inputs = observed(layer.x);
    const auto db = [&](const tt::Tensor& w) { return output_sqnr(layer, layer.x, w); };
    const double nearest = db(tt::dequantize(tt::scaled_codes(layer.w, four_bits))),
                 awq = db(tt::dequantize(tt::awq(layer.w, inputs, four_bits))),
                 gptq = db(tt::dequantize(tt::gptq(layer.w, inputs, {.scales = four_bits})));
    near(nearest, outliers ? 19.7 : 19.2);
    near(awq, outliers ? 29.0 : 19.9);
    near(gptq, outliers ? 21.1 : 21.9);
    if (outliers) CHECK(awq >= nearest + 8);
    if (!outliers) CHECK(gptq >= nearest + 2);
  }
}

TEST_CASE("GPTQ equals its definition, which solves for the remaining columns after each step") {
  tt::Generator g(3);
  for (const int64_t K : {1, 2, 7, 12}) {
    const tt::Tensor x =
        tt::matmul(tt::randn({60, K}, tt::f32, tt::cpu, g), tt::randn({K, K}, tt::f32, tt::cpu, g));
    const tt::Tensor w = tt::randn({5, K}, tt::f32, tt::cpu, g);
    for (const int64_t group : {5, 12}) {
      const tt::ScaleOptions o{.bits = 4, .granularity = tt::Granularity::group, .group = group};
      const std::vector<double> got =
          tt::dequantize(tt::gptq(w, observed(x), {.scales = o, .damping = 0.02})).to_vector<double>();
      std::vector<double> H = observed(x).gram().to_vector<double>();
      const auto n = static_cast<size_t>(K);
      double mean = 0;
      for (size_t j = 0; j < n; ++j) mean += H[j * n + j] / static_cast<double>(K);
      for (size_t j = 0; j < n; ++j) H[j * n + j] += 0.02 * mean;
      const std::vector<double> all = w.to_vector<double>();
      for (size_t r = 0; r < 5; ++r) {
        const std::vector<double> row(all.begin() + static_cast<ptrdiff_t>(r * n),
                                      all.begin() + static_cast<ptrdiff_t>((r + 1) * n)),
            expected = by_definition(row, H, static_cast<size_t>(group), 4);
        for (size_t j = 0; j < n; ++j) CHECK(got[r * n + j] == doctest::Approx(expected[j]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("the factor of the inverse: U^T U (gram + damping) = 1, and U is upper triangular") {
  const tt::Tensor gram = observed(planted_layer(true).x).gram(), U = tt::inverse_factor(gram, 0.01);
  const double mean = tt::sum(gram * tt::eye(256, tt::f64, tt::cpu)).item<double>() / 256;
  const tt::Tensor H = gram + tt::eye(256, tt::f64, tt::cpu) * (0.01 * mean);
  const tt::Tensor one = tt::matmul(tt::matmul(U.t(), U), H);
  CHECK(tt::max(tt::abs(one - tt::eye(256, tt::f64, tt::cpu))).item<double>() < 1e-8);
  CHECK(tt::max(tt::abs(tt::tril(U, -1))).item<double>() == 0);
}

TEST_CASE("values lie on the grid of their scales, for every fit and for scales of 16 bits") {
  const Layer layer = planted_layer(false);
  const tt::InputStatistics inputs = observed(layer.x);
  const tt::Tensor w = layer.w.slice(0, 0, 5);
  for (const tt::Fit fit : {tt::Fit::absmax, tt::Fit::signed_max, tt::Fit::minmax, tt::Fit::mse}) {
    for (const bool act_order : {false, true}) {
      const tt::ScaleOptions o{.bits = 4,
                               .granularity = tt::Granularity::group,
                               .group = 100,  // the last group is shorter
                               .fit = fit,
                               .scale_dtype = tt::f16};
      const tt::GptqWeight q = tt::gptq(w, inputs, {.scales = o, .act_order = act_order});
      CHECK(q.weight.scales.shape() == tt::Shape{5, 3});
      CHECK(same_numbers(q.weight.scales.to(tt::f16), q.weight.scales));
      const std::vector<int64_t> codes = q.weight.codes.to_vector<int64_t>();
      const std::vector<double> scales = q.weight.scales.to_vector<double>(),
                                values = tt::dequantize(q.weight).to_vector<double>();
      bool on_grid = true, in_range = true;
      for (size_t i = 0; i < codes.size(); ++i) {
        const size_t at = i / 256 * 3 + i % 256 / 100;
        const int64_t zero = fit == tt::Fit::minmax ? q.weight.zero_points.to_vector<int64_t>()[at] : 0;
        on_grid = on_grid && std::abs(values[i] - scales[at] * static_cast<double>(codes[i] - zero)) < 1e-7;
        const int64_t low = fit == tt::Fit::minmax ? 0 : fit == tt::Fit::absmax ? -7 : -8;
        in_range = in_range && codes[i] >= low && codes[i] <= low + (fit == tt::Fit::absmax ? 14 : 15);
      }
      CHECK(on_grid);
      CHECK(in_range);
    }
  }
}

TEST_CASE("act-order is a permutation of the columns, undone by dequantize and by a permuted input") {
  const Layer layer = planted_layer(true);
  const tt::InputStatistics inputs = observed(layer.x);
  const tt::GptqWeight q = tt::gptq(layer.w, inputs, {.act_order = true});
  const std::vector<int64_t> order = q.order.to_vector<int64_t>();
  const std::vector<double> gram = inputs.gram().to_vector<double>();
  std::vector<bool> seen(256);
  for (size_t j = 0; j < 256; ++j) {
    const auto column = static_cast<size_t>(order[j]);
    seen[column] = true;
    if (j > 0) CHECK(gram[column * 257] <= gram[static_cast<size_t>(order[j - 1]) * 257]);
  }
  CHECK(std::ranges::count(seen, true) == 256);
  const tt::Tensor direct = tt::matmul(layer.x, tt::dequantize(q).t()),
                   permuted = tt::matmul(q.permuted(layer.x), tt::dequantize(q.weight).t());
  CHECK(tt::sqnr_db(direct, permuted) > 100);
  CHECK(output_sqnr(layer, layer.x, tt::dequantize(q)) >
        output_sqnr(layer, layer.x, tt::dequantize(tt::gptq(layer.w, inputs))));
}

TEST_CASE("dead channels, inputs of zeros and fewer rows than features give no NaN") {
  tt::Generator g(5);
  const tt::Tensor w = tt::randn({6, 40}, tt::f32, tt::cpu, g);
  tt::Tensor few = tt::randn({8, 40}, tt::f32, tt::cpu, g);  // X^T X has rank 8
  few.slice(1, 3, 5).zero_();
  const tt::ScaleOptions o{.bits = 4, .granularity = tt::Granularity::row};
  const tt::Tensor nearest = tt::dequantize(tt::scaled_codes(w, o));
  for (const tt::Tensor& x : {few, tt::zeros({8, 40})}) {
    for (const bool act_order : {false, true}) {
      const tt::Tensor q = tt::dequantize(tt::gptq(w, observed(x), {.scales = o, .act_order = act_order}));
      for (const double v : q.to_vector<double>()) CHECK(std::isfinite(v));
      if (!act_order) CHECK(same_numbers(q.slice(1, 3, 5), nearest.slice(1, 3, 5)));
    }
  }
  CHECK(same_numbers(tt::dequantize(tt::gptq(w, observed(tt::zeros({8, 40})), {.scales = o})), nearest));
}

TEST_CASE("the same bits again, for batches, for any number of threads, and whatever the other rows are") {
  const Layer layer = planted_layer(false);
  tt::InputStatistics halves(256);
  halves.observe(layer.x.slice(0, 0, 300));
  halves.observe(layer.x.slice(0, 300));
  const tt::GptqWeight all = tt::gptq(layer.w, observed(layer.x)), again = tt::gptq(layer.w, halves);
  CHECK(same_numbers(all.weight.codes, again.weight.codes));
  CHECK(same_numbers(all.weight.scales, again.weight.scales));
  const int threads = tt::thread_count();
  tt::set_thread_count(1);
  const tt::GptqWeight part = tt::gptq(layer.w.slice(0, 37, 60), halves);
  tt::set_thread_count(threads);
  CHECK(same_numbers(part.weight.codes, all.weight.codes.slice(0, 37, 60)));
  CHECK(same_numbers(part.weight.scales, all.weight.scales.slice(0, 37, 60)));
}

TEST_CASE("bf16 weights, transposed weights, and no rows") {
  const Layer layer = planted_layer(false);
  const tt::InputStatistics inputs = observed(layer.x);
  const tt::Tensor w = layer.w.to(tt::bf16).t();
  CHECK(same_numbers(tt::gptq(w, inputs).weight.codes,
                     tt::gptq(w.to(tt::f32).contiguous(), inputs).weight.codes));
  CHECK(tt::gptq(tt::empty({0, 256}), inputs).weight.codes.shape() == tt::Shape{0, 256});
}

TEST_CASE("bad calibration, weights and settings are refused") {
  tt::InputStatistics none(3), some(3);
  some.observe(tt::ones({4, 3}));
  const tt::Tensor w = tt::ones({2, 3});
  test::expect_error("TT-CALIB-02", "gptq: no inputs", [&] { (void)tt::gptq(w, none); });
  test::expect_error("TT-SHAPE-02", "gptq", [&] { (void)tt::gptq(tt::ones({2, 4}), some); });
  test::expect_error("TT-CALIB-01", "gptq", [&] { (void)tt::gptq(tt::full({2, 3}, std::nan("")), some); });
  test::expect_error("TT-CALIB-03", "by row or by group",
                     [&] { (void)tt::gptq(w, some, {.scales = {.granularity = tt::Granularity::tensor}}); });
  test::expect_error("TT-CALIB-03", "at least 0", [&] { (void)tt::gptq(w, some, {.damping = -1}); });
  test::expect_error("TT-CALIB-03", "2 to 8 bits", [&] { (void)tt::gptq(w, some, {.scales = {.bits = 1}}); });
  test::expect_error("TT-CALIB-04", "raise the damping", [&] { (void)tt::gptq(w, some, {.damping = 0}); });
}
