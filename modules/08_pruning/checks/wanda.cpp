#include <08_pruning/checks/weights.hpp>
#include <tinytorch/pruning/activation_aware.hpp>

using namespace course;

namespace {

InputStatistics observed(const Numbers& x, size_t K, size_t batches = 1) {
  InputStatistics s(static_cast<int64_t>(K));
  const Tensor all = of_numbers(x, {static_cast<int64_t>(x.size() / K), static_cast<int64_t>(K)});
  const int64_t each = all.size(0) / static_cast<int64_t>(batches);
  for (int64_t first = 0; first < all.size(0); first += each)
    s.observe(all.slice(0, first, std::min(first + each, all.size(0))));
  return s;
}
// |w_nj| times the root of the sum of squares of input j.
Numbers scores_of(const Numbers& w, const Numbers& x, size_t K) {
  Numbers squares(K), scores(w.size());
  for (size_t i = 0; i < x.size(); ++i) squares[i % K] += x[i] * x[i];
  for (size_t i = 0; i < w.size(); ++i) scores[i] = std::abs(w[i]) * std::sqrt(squares[i % K]);
  return scores;
}
// Inputs whose columns have means and sizes that differ, so that no other norm gives the same order.
Numbers uneven_inputs(size_t rows, size_t K) {
  Numbers x = normal(rows * K);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t k = i % K;
    x[i] = k % 3 == 0 ? x[i] * (i / K % 11 == 0 ? 9 : 0.05) : x[i] * (1 + static_cast<double>(k) / 8);
    x[i] = static_cast<double>(static_cast<float>(x[i]));
  }
  return x;
}

}  // namespace

TEST_CASE("8.3 a score is |w| times the norm of its input") {
  const Numbers w{1, -2, 3, -4, 5, 0}, x{3, 0, 1, 4, -2, 0};
  expect_close("wanda_scores of {1, -2, 3}, {-4, 5, 0} for inputs {3, 0, 1}, {4, -2, 0}",
               numbers(wanda_scores(of_numbers(w, {2, 3}), observed(x, 3))), {5, 4, 3, 20, 10, 0}, {2, 3},
               {.dtype = f64, .scale = 20});
  const Numbers big = uneven_inputs(44, 24), weight = numbers(random_tensor({10, 24}));
  expect_close("wanda_scores of random [10, 24]",
               numbers(wanda_scores(of_numbers(weight, {10, 24}), observed(big, 24))),
               scores_of(weight, big, 24), {10, 24}, {.dtype = f64, .roundings = 100, .scale = 100});
}

TEST_CASE("8.3 norms are sums over all batches: any division gives the same scores") {
  const Numbers x = uneven_inputs(60, 8), w = numbers(random_tensor({5, 8}));
  const Numbers whole = numbers(wanda_scores(of_numbers(w, {5, 8}), observed(x, 8)));
  for (const size_t batches : {2, 3, 60})
    expect("scores from " + shown(batches) + " batches have the bits of those from one",
           numbers(wanda_scores(of_numbers(w, {5, 8}), observed(x, 8, batches))) == whole);
  expect_close("scores after 60 rows", whole, scores_of(w, x, 8), {5, 8},
               {.dtype = f64, .roundings = 100, .scale = 60});
}

TEST_CASE("8.3 every row loses the same share, by an exact count") {
  const Numbers x = uneven_inputs(44, 22);
  Numbers w = numbers(random_tensor({9, 22}));
  for (size_t i = 0; i < w.size(); ++i) w[i] *= std::pow(10.0, static_cast<double>(i / 22) - 4);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(static_cast<float>(w[i]));
  for (const double sparsity : {0.0, 0.25, 0.5, 0.9, 0.99}) {
    const auto removed = static_cast<size_t>(std::llround(sparsity * 22));
    expect_mask("wanda_mask of rows of very different size, at " + shown(sparsity),
                wanda_mask(of_numbers(w, {9, 22}), observed(x, 22), sparsity),
                mask_by_definition(scores_of(w, x, 22), 22, removed), {9, 22});
  }
}

TEST_CASE("8.3 the same scores in groups: N of each M columns") {
  const Numbers x = uneven_inputs(44, 24), w = numbers(random_tensor({6, 24}));
  for (const auto& [N, M] : {std::pair<int64_t, int64_t>{2, 4}, {1, 8}, {3, 3}, {5, 12}})
    expect_mask("wanda_mask that keeps " + shown(N) + " of each " + shown(M),
                wanda_mask(of_numbers(w, {6, 24}), observed(x, 24), N, M),
                mask_by_definition(scores_of(w, x, 24), static_cast<size_t>(M), static_cast<size_t>(M - N)),
                {6, 24});
}

TEST_CASE("8.3 no weight changes, and weights of bf16 and transposed ones have scores too") {
  const Numbers x = uneven_inputs(44, 12);
  const Tensor w = random_tensor({12, 12}).to(bf16);
  const Numbers before = numbers(w);
  expect_close("scores of a transposed bf16 weight", numbers(wanda_scores(w.t(), observed(x, 12))),
               scores_of(numbers(w.t()), x, 12), {12, 12}, {.dtype = f64, .roundings = 100, .scale = 60});
  (void)wanda_mask(w, observed(x, 12), 0.5);
  expect("the weight is as it was", numbers(w) == before);
  expect_mask("no rows [0, 12]", wanda_mask(zeros({0, 12}), observed(x, 12), 0.5), {}, {0, 12});
}

TEST_CASE("8.3 planted outliers: at least 10 dB over magnitude, and never below it by more than a half") {
  for (const bool outliers : {true, false}) {
    const PlantedLayer layer(outliers);
    const Tensor w = of_numbers(layer.w, {static_cast<int64_t>(layer.N), static_cast<int64_t>(layer.K)});
    const Numbers mask = numbers(wanda_mask(w, observed(layer.x, layer.K), 0.5));
    const double wanda = layer.with(layer.x, times(layer.w, mask)),
                 plain = layer.with(layer.x,
                                    times(layer.w, mask_by_definition(magnitudes(layer.w), layer.w.size(),
                                                                      layer.w.size() / 2)));
    expect((outliers ? "four inputs are 30 times as large: " : "no outliers: ") + shown(wanda) +
               " dB, by magnitude " + shown(plain),
           outliers ? wanda >= plain + 10 : wanda >= plain - 0.5);
  }
}

TEST_CASE("8.3 statistics of other inputs, or of none, are refused, and so is a sparsity of 1") {
  const Numbers x = uneven_inputs(44, 8);
  expect_throws("TT-SHAPE-02", "a weight [3, 9] and statistics of 8 inputs", [&] {
    (void)wanda_scores(ones({3, 9}), observed(x, 8));
  });
  expect_throws("TT-CALIB-02", "statistics without a row", [&] {
    (void)wanda_mask(ones({3, 8}), InputStatistics(8), 0.5);
  });
  expect_throws("TT-PRUNE-02", "sparsity 1", [&] { (void)wanda_mask(ones({3, 8}), observed(x, 8), 1.0); });
  expect_throws("TT-PRUNE-01", "2 of each 3 of 8 columns", [&] {
    (void)wanda_mask(ones({3, 8}), observed(x, 8), 2, 3);
  });
}
