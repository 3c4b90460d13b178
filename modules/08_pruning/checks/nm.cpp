#include <08_pruning/checks/weights.hpp>
#include <tinytorch/pruning/nm.hpp>

using namespace course;

namespace {

void check_pattern(const Tensor& w, int64_t N, int64_t M) {
  expect_mask("nm_mask of " + w.describe() + " that keeps " + shown(N) + " of each " + shown(M),
              nm_mask(w, N, M),
              mask_by_definition(magnitudes(numbers(w)), static_cast<size_t>(M), static_cast<size_t>(M - N)),
              w.shape());
}

}  // namespace

TEST_CASE("8.5 two of each four neighbours of a row stay, the largest ones") {
  expect_mask("nm_mask(2, 4) of {1, -5, 3, 2, 0, 0.5, -0.1, 4}, {9, 8, 7, 6, -1, 1, 2, -2}",
              nm_mask(of_numbers({1, -5, 3, 2, 0, 0.5, -0.1, 4, 9, 8, 7, 6, -1, 1, 2, -2}, {2, 8}), 2, 4),
              {0, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1}, {2, 8});
  check_pattern(random_tensor({12, 20}), 2, 4);
}

TEST_CASE("8.5 any N of any M") {
  const Tensor w = random_tensor({5, 24});
  for (const int64_t M : {1, 2, 3, 4, 8, 24})
    for (int64_t N = 1; N <= M; ++N) check_pattern(w, N, M);
}

TEST_CASE("8.5 of equal scores the first go; a NaN goes last") {
  expect_mask("2 of 4 equal ones", nm_mask(ones({1, 4}), 2, 4), {0, 0, 1, 1}, {1, 4});
  const double nan = NAN;
  expect_mask("nm_mask(1, 4) of {9, NaN, 1, -inf}", nm_mask(of_numbers({9, nan, 1, -INFINITY}, {4}), 1, 4),
              {0, 1, 0, 0}, {4});
  Numbers few = numbers(random_tensor({8, 32}, 3));
  for (double& v : few) v = std::nearbyint(v);
  check_pattern(of_numbers(few, {8, 32}), 3, 8);
}

TEST_CASE("8.5 scores of a criterion have signs, magnitudes have not") {
  const Tensor scores = of_numbers({-4, 1, -2, 3}, {1, 4});
  expect_mask("nm_mask_of_scores of {-4, 1, -2, 3}: the smallest scores go", nm_mask_of_scores(scores, 2, 4),
              {0, 1, 0, 1}, {1, 4});
  expect_mask("nm_mask of {-4, 1, -2, 3}: the smallest magnitudes go", nm_mask(scores, 2, 4), {1, 0, 0, 1},
              {1, 4});
}

TEST_CASE("8.5 groups lie along the last dimension, of any rank and layout") {
  check_pattern(random_tensor({8}), 2, 4);
  check_pattern(random_tensor({3, 2, 5, 8}), 1, 4);
  const Tensor w = random_tensor({16, 12});
  check_pattern(w.t(), 2, 4);
  check_pattern(w.slice(1, 2, 10), 2, 4);
  for (const DType dtype : {f64, bf16, DType::f16}) check_pattern(w.to(dtype), 2, 4);
  expect_mask("scores of i64", nm_mask_of_scores(w.to(DType::i64) + 0, 1, 2),
              mask_by_definition(numbers(w.to(DType::i64)), 2, 1), {16, 12});
  check_pattern(zeros({0, 8}), 2, 4);
  check_pattern(zeros({3, 0}), 2, 4);
}

TEST_CASE("8.5 many groups: the same mask with 1, 2 and 7 threads") {
  const Tensor w = random_tensor({64, 1024});
  const int threads = thread_count();
  for (const int n : {1, 2, 7}) {
    set_thread_count(n);
    const Numbers mask = numbers(nm_mask(w, 2, 4)), size = magnitudes(numbers(w));
    set_thread_count(threads);
    bool right = true;
    for (size_t i = 0; i < mask.size() && right; i += 4) {
      double kept = 0, least = INFINITY, gone = 0;
      for (size_t j = i; j < i + 4; ++j) {
        kept += mask[j];
        if (mask[j] != 0)
          least = std::min(least, size[j]);
        else
          gone = std::max(gone, size[j]);
      }
      right = kept == 2 && gone <= least;
    }
    expect("with " + shown(n) + " threads each group keeps its two largest", right);
  }
}

TEST_CASE("8.5 columns that are no multiple of M, and N that does not fit, are refused") {
  const auto refuses = [](const std::string& what, const Shape& shape, int64_t N, int64_t M) {
    expect_throws("TT-PRUNE-01", what, [&] { (void)nm_mask(ones(shape), N, M); });
    expect_throws("TT-PRUNE-01", what + ", of scores", [&] { (void)nm_mask_of_scores(ones(shape), N, M); });
  };
  refuses("2 of each 4 of 6 columns", {4, 6}, 2, 4);
  refuses("0 of 4", {4, 8}, 0, 4);
  refuses("5 of 4", {4, 8}, 5, 4);
  refuses("a scalar", {}, 1, 1);
}
