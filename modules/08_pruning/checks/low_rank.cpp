#include <08_pruning/checks/weights.hpp>
#include <tinytorch/pruning/low_rank.hpp>

using namespace course;

namespace {

InputStatistics observed(const Numbers& x, size_t K) {
  InputStatistics s(static_cast<int64_t>(K));
  s.observe(of_numbers(x, {static_cast<int64_t>(x.size() / K), static_cast<int64_t>(K)}));
  return s;
}
Numbers transposed(const Numbers& x, size_t columns) {
  const size_t rows = x.size() / columns;
  Numbers y(x.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
  return y;
}
// The eigenvalues of a symmetric matrix [n, n], largest first, by rotations that make its elements off the
// diagonal 0.
Numbers eigenvalues(Numbers A, size_t n) {
  for (int sweep = 0; sweep < 40; ++sweep) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (std::abs(A[p * n + q]) < 1e-300) continue;
        const double angle = 0.5 * std::atan2(2 * A[p * n + q], A[q * n + q] - A[p * n + p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (size_t k = 0; k < n; ++k) {
          const double a = A[k * n + p], b = A[k * n + q];
          A[k * n + p] = c * a - s * b, A[k * n + q] = s * a + c * b;
        }
        for (size_t k = 0; k < n; ++k) {
          const double a = A[p * n + k], b = A[q * n + k];
          A[p * n + k] = c * a - s * b, A[q * n + k] = s * a + c * b;
        }
      }
    }
  }
  Numbers out;
  for (size_t i = 0; i < n; ++i) out.push_back(A[i * n + i]);
  std::sort(out.rbegin(), out.rend());
  return out;
}
double squares(const Numbers& x, const Numbers& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return sum;
}
// A [N, r] B [r, K]
Numbers whole(const LowRank& f) {
  return product(numbers(f.A), transposed(numbers(f.B), static_cast<size_t>(f.B.size(1))),
                 static_cast<size_t>(f.A.size(1)));
}
double tail(const Numbers& values, int64_t rank) {
  double sum = 0;
  for (size_t i = static_cast<size_t>(rank); i < values.size(); ++i) sum += std::max(0.0, values[i]);
  return sum;
}

}  // namespace

TEST_CASE("8.10 the rank from which on factors are no smaller") {
  for (const auto& [N, K, want] : std::vector<std::array<int64_t, 3>>{{4, 4, 2},
                                                                      {4, 12, 3},
                                                                      {5, 7, 3},
                                                                      {1, 100, 1},
                                                                      {4096, 4096, 2048},
                                                                      {3, 3, 2},
                                                                      {0, 0, 0},
                                                                      {0, 5, 0}})
    expect_equal("break_even_rank(" + shown(N) + ", " + shown(K) + ")", break_even_rank(N, K), want);
  for (int64_t N = 1; N < 30; ++N) {
    for (int64_t K = 1; K < 30; ++K) {
      const int64_t r = break_even_rank(N, K);
      expect("factors of [" + shown(N) + ", " + shown(K) + "]: no fewer numbers at rank " + shown(r),
             r * (N + K) >= N * K && (r - 1) * (N + K) < N * K);
    }
  }
  expect_equal("break_even_rank(3000000, 2000000)", break_even_rank(3000000, 2000000), int64_t{1200000});
}

TEST_CASE("8.10 the rank of a budget of numbers, and of a share of the squares") {
  expect_equal("half the numbers of [64, 64]: 16 (64 + 64) = 2048", rank_of_budget(64, 64, 0.5), int64_t{16});
  expect_equal("half the numbers of [64, 65]: 16 (64 + 65) = 2064 of 2080", rank_of_budget(64, 65, 0.5),
               int64_t{16});
  expect_equal("a tiny budget has rank 1", rank_of_budget(64, 64, 0.001), int64_t{1});
  expect_equal("[300000, 200000] at 0.1", rank_of_budget(300000, 200000, 0.1), int64_t{12000});
  const Tensor s = Tensor(from_data(Numbers{4, 2, 2, 1}, {4}));  // squares 16, 4, 4, 1 of 25
  expect_equal("the largest of {4, 2, 2, 1} has 64 %", rank_of_energy(s, 0.64), int64_t{1});
  expect_equal("65 % of {4, 2, 2, 1}", rank_of_energy(s, 0.65), int64_t{2});
  expect_equal("96 % of {4, 2, 2, 1}", rank_of_energy(s, 0.96), int64_t{3});
  expect_equal("all of {4, 2, 2, 1}", rank_of_energy(s, 1), int64_t{4});
  expect_equal("nothing of {4, 2, 2, 1}: at least 1", rank_of_energy(s, 0), int64_t{1});
}

TEST_CASE("8.10 the factors with the least error of the weight") {
  for (const auto& [N, K] : {std::pair<size_t, size_t>{12, 20}, {20, 12}, {15, 15}}) {
    const Shape shape{static_cast<int64_t>(N), static_cast<int64_t>(K)};
    const Numbers w = numbers(random_tensor(shape));
    const Numbers values = eigenvalues(product(w, w, K), N);
    for (const int64_t rank : {1, 3, 6}) {
      const LowRank f = low_rank(of_numbers(w, shape), rank);
      const std::string what = "rank " + shown(rank) + " of [" + shown(N) + ", " + shown(K) + "]";
      expect_equal(what + ": the shape of A", f.A.shape(), Shape{static_cast<int64_t>(N), rank});
      expect_equal(what + ": the shape of B", f.B.shape(), Shape{rank, static_cast<int64_t>(K)});
      const double error = squares(w, whole(f)), least = tail(values, rank);
      expect(what + ": the squared error is " + shown(error) + ", the least is " + shown(least),
             error <= least * (1 + 1e-8));
    }
  }
}

TEST_CASE("8.10 both factors have numbers of about the same size") {
  const Numbers w = numbers(random_tensor({16, 24}, 1000));
  const LowRank f = low_rank(of_numbers(w, {16, 24}), 4);
  const double a = squares(numbers(f.A), Numbers(64)), b = squares(numbers(f.B), Numbers(96));
  expect("a root of each singular value goes to each side: sums of squares " + shown(a) + " and " + shown(b),
         std::abs(a - b) <= 1e-6 * a);
}

TEST_CASE("8.10 with inputs: the factors with the least error of the outputs") {
  const size_t N = 10, K = 16;
  const Numbers x = numbers(of_numbers(product(normal(60 * K), normal(K * K), K), {60, 16}));
  const Numbers w = numbers(random_tensor({10, 16}));
  const Numbers y = product(x, w, K);
  const Numbers values = eigenvalues(product(transposed(y, N), transposed(y, N), 60), N);
  for (const int64_t rank : {1, 2, 5}) {
    const LowRank f = low_rank(of_numbers(w, {10, 16}), rank, observed(x, K), 1e-9);
    const double error = squares(y, product(x, whole(f), K)), least = tail(values, rank);
    expect("rank " + shown(rank) + ": the squared error of the outputs is " + shown(error) +
               ", the least is " + shown(least),
           error <= least * (1 + 1e-5));
  }
}

TEST_CASE("8.10 planted outliers: at least 1.5 dB over factors of the weight alone") {
  const PlantedLayer layer(true, 160, 24, 48);
  const Tensor w = of_numbers(layer.w, {24, 48});
  const double plain = layer.with(layer.x, whole(low_rank(w, 8))),
               white = layer.with(layer.x, whole(low_rank(w, 8, observed(layer.x, layer.K))));
  expect("rank 8 of [24, 48]: " + shown(white) + " dB with inputs, " + shown(plain) + " without",
         white >= plain + 1.5);
}

TEST_CASE("8.10 inputs that never occurred give no NaN") {
  Numbers x = normal(40 * 12);
  for (size_t i = 0; i < x.size(); ++i)
    if (i % 12 < 3) x[i] = 0;
  for (const Numbers& inputs : {x, Numbers(24)}) {
    bool finite = true;
    for (const double v : whole(low_rank(random_tensor({10, 12}), 3, observed(inputs, 12))))
      finite = finite && std::isfinite(v);
    expect("inputs that are always 0: all factors are finite", finite);
  }
}

TEST_CASE("8.10 a layer of factors computes A B x + bias, and forgets the weight") {
  Linear layer(18, 12);
  const Tensor x = random_tensor({7, 18});
  const Numbers w = numbers(layer.weight), bias = numbers(layer.bias);
  const std::weak_ptr<Storage> memory = layer.weight.storage();
  const Numbers ab = whole(low_rank(layer.weight, 4));
  const auto factors = factorize(layer, 4);
  expect_equal("its rank", factors->rank(), int64_t{4});
  Numbers want = product(numbers(x), ab, 18);
  for (size_t i = 0; i < want.size(); ++i) want[i] += bias[i % 12];
  expect_close("the layer's outputs", numbers(layer(x)), want, {7, 12}, {.roundings = 200, .scale = 4});
  expect_close("the outputs of its factors", numbers(factors->forward(x)), want, {7, 12},
               {.roundings = 200, .scale = 4});
  int64_t count = 0;
  for (const NamedTensor& p : layer.named_parameters()) count += p.tensor.numel();
  expect_equal("numbers that the layer stores: 4 (12 + 18) + 12", count, int64_t{132});
  expect("the dense weight is freed", memory.expired());
  Linear plain(18, 12, false);
  Linear observed_one(18, 12);
  const InputStatistics inputs = observed(numbers(random_tensor({40, 18})), 18);
  expect_equal("a layer without bias stores 4 (12 + 18)",
               (factorize(plain, 4), plain.named_parameters().size()), size_t{2});
  const Numbers best = whole(low_rank(observed_one.weight, 3, inputs)), b = numbers(observed_one.bias);
  (void)factorize(observed_one, 3, &inputs);
  Numbers outputs = product(numbers(x), best, 18);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] += b[i % 12];
  expect_close("with inputs, the outputs of their factors", numbers(observed_one(x)), outputs, {7, 12},
               {.roundings = 200, .scale = 4});
}

TEST_CASE("8.10 a rank that saves nothing is refused, and so are statistics that do not fit") {
  const Tensor w = random_tensor({12, 18});  // 12 * 18 / 30 = 7.2
  expect_equal("rank 7 of [12, 18] is the last one", low_rank(w, 7).A.size(1), int64_t{7});
  for (const int64_t rank : {int64_t{0}, int64_t{-1}, int64_t{8}, int64_t{1000}})
    expect_throws("TT-PRUNE-07", "rank " + shown(rank) + " of [12, 18]", [&] { (void)low_rank(w, rank); });
  expect_throws("TT-PRUNE-07", "rank 8 with inputs", [&] { (void)low_rank(w, 8, observed(normal(36), 18)); });
  expect_throws("TT-SHAPE-02", "a weight [12, 18] and statistics of 9 inputs",
                [&] { (void)low_rank(w, 2, observed(normal(36), 9)); });
  expect_throws("TT-CALIB-02", "statistics without a row",
                [&] { (void)low_rank(w, 2, InputStatistics(18)); });
  expect_throws("TT-SHAPE-02", "a vector", [&] { (void)low_rank(random_tensor({12}), 1); });
  Linear layer(18, 12);
  expect_throws("TT-PRUNE-07", "factorize with rank 8", [&] { (void)factorize(layer, 8); });
  expect("the layer is as it was", layer.weight.defined());
}
