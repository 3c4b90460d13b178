#include <08_pruning/checks/weights.hpp>
#include <tinytorch/pruning/activation_aware.hpp>
#include <tinytorch/pruning/sparsegpt.hpp>

using namespace course;

namespace {

InputStatistics observed(const Numbers& x, size_t K) {
  InputStatistics s(static_cast<int64_t>(K));
  s.observe(of_numbers(x, {static_cast<int64_t>(x.size() / K), static_cast<int64_t>(K)}));
  return s;
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
// The changes of the columns after `j` that compensate errors e of columns 0 to j: -H_RR^-1 H_RF e.
Numbers answer(const Numbers& H, size_t K, const Numbers& e) {
  const size_t first = e.size(), n = K - first;
  Numbers A(n * n), b(n);
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < n; ++c) A[r * n + c] = H[(first + r) * K + first + c];
    for (size_t f = 0; f < first; ++f) b[r] -= H[(first + r) * K + f] * e[f];
  }
  return solved(A, b);
}
// The rise of the squared error if w_j goes and the columns behind it answer: w_j^2 times this number.
double rise(const Numbers& H, size_t K, size_t j) {
  Numbers one(j + 1);
  one[j] = 1;
  const Numbers y = answer(H, K, one);
  double sum = H[j * K + j];
  for (size_t r = 0; r < y.size(); ++r) sum += H[(j + 1 + r) * K + j] * y[r];
  return sum;
}
struct Pattern {
  size_t block;
  bool by_row;     // count of each row's group, or of all rows of the block
  double removed;  // share
};
// The definition: the mask of a block follows from the weights as they are at its first column. After each
// column the later ones have the values that make the error of the output least.
Numbers by_definition(const Numbers& weight, const Numbers& H, size_t K, const Pattern& p) {
  const size_t N = weight.size() / K;
  Numbers w = weight;
  for (size_t first = 0; first < K; first += p.block) {
    const size_t width = std::min(p.block, K - first);
    Numbers scores(N * width);
    for (size_t j = 0; j < width; ++j) {
      const double each = rise(H, K, first + j);
      for (size_t n = 0; n < N; ++n)
        scores[n * width + j] = w[n * K + first + j] * w[n * K + first + j] * each;
    }
    const size_t together = p.by_row ? width : N * width;
    const Numbers keep = mask_by_definition(
        scores, together, static_cast<size_t>(std::llround(p.removed * static_cast<double>(together))));
    for (size_t j = first; j < first + width; ++j) {
      for (size_t n = 0; n < N; ++n) {
        if (keep[n * width + j - first] != 0) continue;
        w[n * K + j] = 0;
        Numbers e(j + 1);
        for (size_t f = 0; f <= j; ++f) e[f] = w[n * K + f] - weight[n * K + f];
        const Numbers y = answer(H, K, e);
        for (size_t r = 0; r < y.size(); ++r) w[n * K + j + 1 + r] = weight[n * K + j + 1 + r] + y[r];
      }
    }
  }
  return w;
}
struct Small {
  size_t K;
  Numbers x, w;
  explicit Small(size_t inputs, size_t outputs = 5)
      : K(inputs),
        x(numbers(of_numbers(product(normal(80 * K), normal(K * K), K), {80, static_cast<int64_t>(K)}))),
        w(numbers(
            of_numbers(normal(outputs * K), {static_cast<int64_t>(outputs), static_cast<int64_t>(K)}))) {}
  Tensor weight() const {
    return of_numbers(w, {static_cast<int64_t>(w.size() / K), static_cast<int64_t>(K)});
  }
  void check(const std::string& what, const SparseGptOptions& o, const Pattern& p) const {
    const Tensor got = sparsegpt(weight(), observed(x, K), o);
    const Numbers want = by_definition(w, damped_gram(x, K, o.damping), K, p), values = numbers(got);
    expect_equal(what + ": the shape", got.shape(), weight().shape());
    for (size_t i = 0; i < want.size(); ++i)
      expect_equal(what + ": element " + shown(i) + " is exactly 0", values[i] == 0, want[i] == 0);
    expect_close(what, values, want, got.shape(), {.roundings = 2000, .scale = 2});
  }
};

}  // namespace

TEST_CASE("8.4 the last column can only go: what stays has the least error of the output") {
  const Small s(6, 1);
  s.check("one of six goes", {.sparsity = 1.0 / 6}, {6, false, 1.0 / 6});
  s.check("five of six go", {.sparsity = 5.0 / 6}, {6, false, 5.0 / 6});
}

TEST_CASE("8.4 later columns answer for those that go, in one block") {
  for (const double damping : {0.01, 0.3}) {
    const Small s(12);
    s.check("[5, 12] at 0.5, damping " + shown(damping), {.sparsity = 0.5, .damping = damping},
            {12, false, 0.5});
  }
}

TEST_CASE("8.4 the mask of a block follows from the weights as they are when it is reached") {
  const Small s(13);
  s.check("[5, 13] in blocks of 4 at 0.6", {.sparsity = 0.6, .block = 4}, {4, false, 0.6});
  s.check("[5, 13] in blocks of 1 at 0.4", {.sparsity = 0.4, .block = 1}, {1, false, 0.4});
}

TEST_CASE("8.4 patterns: N of each M columns of every row") {
  const Small s(16);
  s.check("2 of 4", {.keep = 2, .of = 4}, {4, true, 0.5});
  s.check("1 of 8", {.keep = 1, .of = 8}, {8, true, 7.0 / 8});
}

TEST_CASE("8.4 nothing goes at sparsity 0, and dead inputs give no NaN") {
  Small s(10);
  expect("at 0 the weight has its bits",
         numbers(sparsegpt(s.weight(), observed(s.x, 10), {.sparsity = 0})) == s.w);
  for (size_t i = 0; i < s.x.size(); ++i)
    if (i % 10 == 3 || i % 10 == 9) s.x[i] = 0;
  for (const Numbers& x : {s.x, Numbers(400)}) {
    bool finite = true;
    const Numbers got = numbers(sparsegpt(s.weight(), observed(x, 10)));
    for (const double v : got) finite = finite && std::isfinite(v);
    expect("inputs that are always 0: all weights are finite", finite);
    expect_equal("25 of 50 stay", count_of(got), 25.0);
  }
}

TEST_CASE("8.4 dtype, shape and bits: bf16, no rows, any number of threads") {
  const Small s(24, 40);
  const InputStatistics inputs = observed(s.x, 24);
  const Tensor half = sparsegpt(s.weight().to(bf16), inputs);
  expect("the result of a bf16 weight is bf16", half.dtype() == bf16);
  expect_equal("half of its elements stay", count_of(numbers(half)), 480.0);
  expect_equal("no rows", sparsegpt(zeros({0, 24}), inputs).shape(), Shape{0, 24});
  const int threads = thread_count();
  const Numbers whole = numbers(sparsegpt(s.weight(), inputs, {.block = 8}));
  for (const int n : {1, 3}) {
    set_thread_count(n);
    const Numbers got = numbers(sparsegpt(s.weight(), inputs, {.block = 8}));
    set_thread_count(threads);
    expect("with " + shown(n) + " threads the same bits", got == whole);
  }
}

TEST_CASE("8.4 correlated inputs: at least 1.2 dB over a mask of Wanda") {
  const PlantedLayer layer(false, 512, 32, 256);
  const auto K = static_cast<int64_t>(layer.K);
  const Tensor w = of_numbers(layer.w, {static_cast<int64_t>(layer.N), K});
  const InputStatistics inputs = observed(layer.x, layer.K);
  const double half = layer.with(layer.x, numbers(sparsegpt(w, inputs))),
               pairs = layer.with(layer.x, numbers(sparsegpt(w, inputs, {.keep = 2, .of = 4})));
  const double mask = layer.with(layer.x, times(layer.w, numbers(wanda_mask(w, inputs, 0.5)))),
               mask_pairs = layer.with(layer.x, times(layer.w, numbers(wanda_mask(w, inputs, 2, 4))));
  expect("at 0.5: " + shown(half) + " dB, the mask of Wanda " + shown(mask), half >= mask + 1.2);
  expect("2 of 4: " + shown(pairs) + " dB, the mask of Wanda " + shown(mask_pairs),
         pairs >= mask_pairs + 1.2);
}

TEST_CASE("8.4 options out of range, and weights that do not fit the statistics, are refused") {
  const Small s(10);
  const InputStatistics inputs = observed(s.x, 10);
  const auto refuses = [&](const std::string& code, const std::string& what, const SparseGptOptions& o) {
    expect_throws(code, what, [&] { (void)sparsegpt(s.weight(), inputs, o); });
  };
  refuses("TT-PRUNE-02", "sparsity 1", {.sparsity = 1});
  refuses("TT-PRUNE-02", "sparsity -0.1", {.sparsity = -0.1});
  refuses("TT-PRUNE-02", "blocks of 0 columns", {.block = 0});
  refuses("TT-PRUNE-02", "damping -1", {.damping = -1});
  refuses("TT-PRUNE-02", "damping NaN", {.damping = NAN});
  refuses("TT-PRUNE-01", "2 of each 4 of 10 columns", {.keep = 2, .of = 4});
  refuses("TT-PRUNE-01", "0 of 5", {.keep = 0, .of = 5});
  expect_throws("TT-SHAPE-02", "a weight [3, 9] and statistics of 10 inputs", [&] {
    (void)sparsegpt(ones({3, 9}), inputs);
  });
  expect_throws("TT-CALIB-02", "statistics without a row",
                [&] { (void)sparsegpt(s.weight(), InputStatistics(10)); });
  expect_throws("TT-CALIB-01", "a weight with a NaN", [&] {
    (void)sparsegpt(full({3, 10}, static_cast<double>(NAN)), inputs);
  });
}
