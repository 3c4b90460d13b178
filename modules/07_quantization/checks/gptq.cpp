#include <tinytorch/quantization/gptq.hpp>

#include "planted_layer.hpp"

using namespace course;

namespace {

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }
Tensor of_numbers(const Numbers& x, size_t columns) {
  const auto K = static_cast<int64_t>(columns);
  return Tensor(from_data(x, {static_cast<int64_t>(x.size()) / K, K})).to(f32);
}
Numbers in_f32(Numbers x) {
  for (double& v : x) v = static_cast<double>(static_cast<float>(v));
  return x;
}
InputStatistics observed(const Numbers& x, size_t K) {
  InputStatistics s(static_cast<int64_t>(K));
  s.observe(of_numbers(x, K));
  return s;
}
GptqOptions four_bits(int64_t group, double damping = 0.01, bool act_order = false) {
  return {{.bits = 4, .granularity = Granularity::group, .group = group}, damping, act_order};
}

// X^T X, with `damping` times the mean of its diagonal added to the diagonal.
Numbers damped_gram(const Numbers& x, size_t K, double damping) {
  Numbers H(K * K);
  for (size_t m = 0; m < x.size() / K; ++m) {
    for (size_t i = 0; i < K; ++i)
      for (size_t j = 0; j < K; ++j) H[i * K + j] += x[m * K + i] * x[m * K + j];
  }
  double mean = 0;
  for (size_t j = 0; j < K; ++j) mean += H[j * K + j] / static_cast<double>(K);
  for (size_t j = 0; j < K; ++j) H[j * K + j] += damping * mean;
  return H;
}
// Solves A y = b, by elimination; A is positive definite.
Numbers solved(Numbers A, Numbers b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
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
// The definition, for one row: after each column is rounded, those behind it are set to the values that make
// the error of the output least.
Numbers by_definition(Numbers w, const Numbers& H, size_t group) {
  const size_t K = w.size();
  const Numbers original = w;
  double scale = 1;
  for (size_t j = 0; j < K; ++j) {
    if (j % group == 0) {
      double largest = 0;
      for (size_t k = j; k < std::min(j + group, K); ++k) largest = std::max(largest, std::abs(w[k]));
      scale = largest / 7;
    }
    w[j] = scale * std::clamp(std::nearbyint(w[j] / scale), -7.0, 7.0);
    const size_t n = K - j - 1;
    Numbers A(n * n), b(n);
    for (size_t r = 0; r < n; ++r) {
      for (size_t c = 0; c < n; ++c) A[r * n + c] = H[(j + 1 + r) * K + j + 1 + c];
      for (size_t f = 0; f <= j; ++f) b[r] -= H[(j + 1 + r) * K + f] * (w[f] - original[f]);
    }
    const Numbers change = solved(A, b);
    for (size_t r = 0; r < n; ++r) w[j + 1 + r] = original[j + 1 + r] + change[r];
  }
  return w;
}
// Correlated inputs [60, K] and a weight [4, K].
struct Small {
  size_t K;
  Numbers x, w;
  explicit Small(size_t inputs)
      : K(inputs), x(in_f32(product(normal(60 * K), normal(K * K), K))), w(in_f32(normal(4 * K))) {}
  // Each row by its definition, with columns in this order.
  Numbers want(size_t group, double damping, const std::vector<size_t>& order) const {
    Numbers sorted_x(x.size()), out(w.size());
    for (size_t i = 0; i < x.size(); ++i) sorted_x[i] = x[i / K * K + order[i % K]];
    const Numbers H = damped_gram(sorted_x, K, damping);
    for (size_t r = 0; r < 4; ++r) {
      Numbers row(K);
      for (size_t k = 0; k < K; ++k) row[k] = w[r * K + order[k]];
      row = by_definition(row, H, group);
      for (size_t k = 0; k < K; ++k) out[r * K + order[k]] = row[k];
    }
    return out;
  }
};
std::vector<size_t> in_order(size_t K) {
  std::vector<size_t> order(K);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

}  // namespace

TEST_CASE("7.10 U is upper triangular, and U^T U the inverse of X^T X with damping") {
  for (const size_t K : {1, 2, 5, 20}) {
    const Small s(K);
    const Numbers U = numbers(inverse_factor(observed(s.x, K).gram(), 0.05)), H = damped_gram(s.x, K, 0.05);
    const std::string what = "[" + std::to_string(K) + ", " + std::to_string(K) + "]";
    expect_equal("size of U for X^T X " + what, U.size(), K * K);
    for (size_t i = 0; i < K * K; ++i)
      if (i % K < i / K) expect("U " + what + " is 0 below the diagonal", U[i] == 0);
    Numbers one(K * K), both(K * K), want(K * K);
    for (size_t i = 0; i < K; ++i) {
      want[i * K + i] = 1;
      for (size_t j = 0; j < K; ++j)
        for (size_t k = 0; k < K; ++k) both[i * K + j] += U[k * K + i] * U[k * K + j];
    }
    for (size_t i = 0; i < K; ++i)
      for (size_t j = 0; j < K; ++j)
        for (size_t k = 0; k < K; ++k) one[i * K + j] += both[i * K + k] * H[k * K + j];
    expect_close("U^T U (X^T X + damping) " + what, one, want,
                 {static_cast<int64_t>(K), static_cast<int64_t>(K)}, {.dtype = f64, .roundings = 1e9});
  }
}

TEST_CASE("7.10 the columns behind answer the error of each column, as if they were solved for anew") {
  for (const size_t K : {1, 2, 7, 12}) {
    for (const size_t group : {5, 12}) {
      const Small s(K);
      const Numbers got = numbers(dequantize(
          gptq(of_numbers(s.w, K), observed(s.x, K), four_bits(static_cast<int64_t>(group), 0.02))));
      expect_close(
          "gptq of 4 rows of " + std::to_string(K) + ", groups of " + std::to_string(group) + ", 4 bits", got,
          s.want(group, 0.02, in_order(K)), {4, static_cast<int64_t>(K)}, {.roundings = 100});
    }
  }
}

TEST_CASE("7.10 codes from -7 to 7, and a scale for each group, of the weights as they are then") {
  const Small s(10);
  const GptqWeight q = gptq(of_numbers(s.w, 10), observed(s.x, 10), four_bits(4));
  expect_equal("shape of the codes", q.weight.codes.shape(), Shape{4, 10});
  expect_equal("shape of the scales: groups of 4, 4 and 2", q.weight.scales.shape(), Shape{4, 3});
  const Numbers codes = numbers(q.weight.codes), scales = numbers(q.weight.scales),
                values = numbers(dequantize(q));
  for (size_t i = 0; i < codes.size(); ++i) {
    expect("codes of 4 bits are from -7 to 7; got " + shown(codes[i]), std::abs(codes[i]) <= 7);
    expect_close("value of a code: times the scale of its group", {values[i]},
                 {codes[i] * scales[i / 10 * 3 + i % 10 / 4]}, {1});
  }
  const GptqWeight by_row = gptq(of_numbers(s.w, 10), observed(s.x, 10),
                                 {{.bits = 8, .granularity = Granularity::row}, 0.01, false});
  expect_equal("shape of the scales by row", by_row.weight.scales.shape(), Shape{4, 1});
  expect("with 8 bits by row the values are near the weights",
         decibels(s.w, numbers(dequantize(by_row))) > 25);
}

TEST_CASE("7.10 act-order: columns with large inputs first") {
  Small s(9);
  const std::vector<size_t> order = {4, 0, 7, 2, 8, 1, 3, 6, 5};
  for (size_t k = 0; k < 9; ++k) {
    double squares = 0;
    for (size_t m = 0; m < 60; ++m) squares += s.x[m * 9 + order[k]] * s.x[m * 9 + order[k]];
    const double factor = (10 - static_cast<double>(k)) / std::sqrt(squares);
    for (size_t m = 0; m < 60; ++m) s.x[m * 9 + order[k]] *= factor;
  }
  s.x = in_f32(s.x);
  const GptqWeight q = gptq(of_numbers(s.w, 9), observed(s.x, 9), four_bits(4, 0.01, true));
  expect("the order is defined", q.order.defined());
  expect_close("order: by decreasing sum of squares", numbers(q.order), Numbers(order.begin(), order.end()),
               {9});
  expect_close("values, in the order of the weight's own columns", numbers(dequantize(q)),
               s.want(4, 0.01, order), {4, 9}, {.roundings = 100});
  expect("without act_order there is no order",
         !gptq(of_numbers(s.w, 9), observed(s.x, 9), four_bits(4)).order.defined());
}

TEST_CASE("7.10 inputs that are all 0, or dependent, give no NaN") {
  const auto all_finite = [](const std::string& what, const Numbers& x) {
    for (const double v : x) expect(what + ": every value is finite", std::isfinite(v));
  };
  Small s(12);
  for (size_t m = 0; m < 60; ++m) s.x[m * 12 + 5] = 0;
  const Numbers got = numbers(dequantize(gptq(of_numbers(s.w, 12), observed(s.x, 12), four_bits(12))));
  all_finite("channel 5 has no inputs", got);
  const Numbers nothing =
      numbers(dequantize(gptq(of_numbers(s.w, 12), observed(Numbers(24), 12), four_bits(12))));
  all_finite("no channel has inputs", nothing);
  expect_close("without inputs each weight is rounded to nearest", nothing, rounded(s.w, 12, 7), {4, 12},
               {.roundings = 8});
  all_finite("3 rows of 12 inputs",
             numbers(dequantize(gptq(of_numbers(s.w, 12),
                                     observed(Numbers(s.x.begin(), s.x.begin() + 36), 12), four_bits(12)))));
}

TEST_CASE("7.10 the same bits each time") {
  const PlantedLayer layer(false, 96, 40, 64);
  const auto bits = [&] {
    return numbers(dequantize(gptq(of_numbers(layer.w, 64), observed(layer.x, 64), four_bits(32))));
  };
  const Numbers first = bits();
  for (int i = 0; i < 3; ++i) expect("gptq of the same weight and inputs, again", bits() == first);
}

TEST_CASE("7.10 what cannot be rounded is refused") {
  const Small s(4);
  const Tensor w = of_numbers(s.w, 4);
  expect_throws("TT-CALIB-02", "inputs of which none was observed",
                [&] { (void)gptq(w, InputStatistics(4), four_bits(4)); });
  expect_throws("TT-SHAPE-02", "inputs of 5 features for a weight of 4",
                [&] { (void)gptq(w, observed(normal(10), 5), four_bits(4)); });
  expect_throws(
      "TT-CALIB-03", "one scale for the tensor, which would depend on columns that are not yet known", [&] {
        (void)gptq(w, observed(s.x, 4), {{.bits = 4, .granularity = Granularity::tensor}, 0.01, false});
      });
  for (const double damping : {-0.1, static_cast<double>(NAN)})
    expect_throws("TT-CALIB-03", "a damping of " + shown(damping),
                  [&] { (void)gptq(w, observed(s.x, 4), four_bits(4, damping)); });
}

TEST_CASE("7.10 planted correlation: at least 2 dB better than rounding to nearest") {
  const PlantedLayer layer(false);
  const double nearest = layer.with(layer.x, rounded(layer.w, 64, 7));
  const GptqWeight q = gptq(of_numbers(layer.w, layer.K), observed(layer.x, layer.K), four_bits(64));
  const double got = layer.with(layer.x, numbers(dequantize(q)));
  expect(
      "outputs of 4-bit weights with groups of 64, whose inputs are correlated: at least 2 dB above rounding "
      "to "
      "nearest (" +
          shown(nearest) + " dB); got " + shown(got),
      got >= nearest + 2);
}
