#include <08_pruning/checks/weights.hpp>
#include <tinytorch/pruning/two_four.hpp>

using namespace course;

namespace {

// A matrix with 0, 1 or 2 numbers in each group of four.
Numbers sparse(size_t N, size_t K) {
  Numbers w = numbers(random_tensor({static_cast<int64_t>(N), static_cast<int64_t>(K)}));
  for (size_t g = 0; g < w.size(); g += 4) {
    const auto first = static_cast<size_t>(uniform(0, 4)), second = static_cast<size_t>(uniform(0, 4));
    for (size_t i = 0; i < 4; ++i)
      if (i != first && i != second) w[g + i] = 0;
    if (uniform(0, 1) < 0.2) w[g + first] = 0;
  }
  return w;
}
// Group g of a row: the places of its two numbers, from word g / 4 of the row.
std::pair<int, int> places_of(const TwoFourMatrix& s, int64_t row, int64_t group) {
  const std::vector<double> bytes = numbers(s.places());
  const auto word = static_cast<size_t>(row * ((s.columns() + 15) / 16) + group / 4);
  const int bits =
      (static_cast<int>(bytes[2 * word]) | static_cast<int>(bytes[2 * word + 1]) << 8) >> (4 * (group % 4));
  return {bits & 3, bits >> 2 & 3};
}

}  // namespace

TEST_CASE("8.15 two numbers of each group, in the order of their places") {
  const TwoFourMatrix s = to_two_four(of_numbers({0, 5, 0, 7, 1, 2, 0, 0, 0, 0, 3, 4, 8, 0, 0, 9}, {1, 16}));
  expect_close("values of {0, 5, 0, 7}, {1, 2, 0, 0}, {0, 0, 3, 4}, {8, 0, 0, 9}", numbers(s.values()),
               {5, 7, 1, 2, 3, 4, 8, 9}, {1, 8});
  // 4 bits a group, the first in the lowest: 1 | 3 << 2, 0 | 1 << 2, 2 | 3 << 2, 0 | 3 << 2
  expect_close("places", numbers(s.places()), {0x4d, 0xce}, {1, 2});
}

TEST_CASE("8.15 a group with fewer numbers stores zeros at its lowest free places") {
  const TwoFourMatrix s = to_two_four(of_numbers({0, 0, 0, 0, 0, 0, 6, 0, 6, 0, 0, 0, 0, 0, 0, 6}, {1, 16}));
  expect_close("values of {0, 0, 0, 0}, {0, 0, 6, 0}, {6, 0, 0, 0}, {0, 0, 0, 6}", numbers(s.values()),
               {0, 0, 0, 6, 6, 0, 0, 6}, {1, 8});
  expect_close("places: 0 and 1, 0 and 2, 0 and 1, 0 and 3", numbers(s.places()), {0x84, 0xc4}, {1, 2});
}

TEST_CASE("8.15 places ascend, in every group and every word") {
  const Numbers w = sparse(9, 52);
  const TwoFourMatrix s = to_two_four(of_numbers(w, {9, 52}));
  expect_equal("places: 4 words a row", s.places().shape(), Shape{9, 8});
  const Numbers values = numbers(s.values());
  for (int64_t n = 0; n < 9; ++n) {
    for (int64_t g = 0; g < 13; ++g) {
      const auto [a, b] = places_of(s, n, g);
      expect("places of group " + shown(g) + " of row " + shown(n) + " ascend", a < b);
      const auto at = static_cast<size_t>(n * 52 + 4 * g), from = static_cast<size_t>(n * 26 + 2 * g);
      expect_equal("first number of group " + shown(g), values[from], w[at + static_cast<size_t>(a)]);
      expect_equal("second number of group " + shown(g), values[from + 1], w[at + static_cast<size_t>(b)]);
    }
    for (int64_t g = 13; g < 16; ++g)
      expect("places beyond the last column are 0 and 1", places_of(s, n, g) == std::pair<int, int>{0, 1});
  }
}

TEST_CASE("8.15 compressed and expanded: the same numbers, of any dtype, size and layout") {
  for (const auto& [N, K] : {std::pair<size_t, size_t>{1, 4}, {7, 8}, {3, 20}, {16, 64}, {5, 100}}) {
    const Shape shape{static_cast<int64_t>(N), static_cast<int64_t>(K)};
    const Tensor w = of_numbers(sparse(N, K), shape);
    for (const DType dtype : {f32, f64, bf16, DType::f16}) {
      const Tensor typed = w.to(dtype), back = to_two_four(typed).dense();
      expect(std::string("the dtype of ") + name_of(dtype) + " stays", back.dtype() == dtype);
      expect_equal("the shape", back.shape(), shape);
      expect(std::string("the numbers of ") + name_of(dtype) + " [" + shown(N) + ", " + shown(K) + "]",
             numbers(back) == numbers(typed));
    }
    const Tensor columns = w.t().contiguous().t();
    expect("a transposed one", numbers(to_two_four(columns).dense()) == numbers(w));
  }
  for (const Shape& shape : {Shape{0, 8}, Shape{3, 0}})
    expect_equal("nothing", to_two_four(zeros(shape)).dense().shape(), shape);
}

TEST_CASE("8.15 a NaN is a number, and -0 is none") {
  const double nan = NAN;
  const Numbers back = numbers(to_two_four(of_numbers({-0.0, nan, -0.0, 1}, {1, 4})).dense());
  expect("{-0, NaN, -0, 1} keeps NaN and 1",
         std::isnan(back[1]) && back[3] == 1 && back[0] == 0 && back[2] == 0);
}

TEST_CASE("8.15 36 of 64 bytes of 16-bit numbers, 17 of 32 of f32") {
  const Tensor w = of_numbers(sparse(6, 64), {6, 64});
  expect_equal("bf16 [6, 64]: 768 bytes dense", to_two_four(w.to(bf16)).bytes(), int64_t{768 * 36 / 64});
  expect_equal("f32 [6, 64]: 1536 bytes dense", to_two_four(w).bytes(), int64_t{768 + 6 * 8});
}

TEST_CASE("8.15 three numbers in a group, and columns that are no multiple of 4, are refused") {
  expect_throws("TT-PRUNE-01", "three of four", [] {
    (void)to_two_four(of_numbers({1, 1, 0, 0, 1, 1, 0, 1}, {1, 8}));
  });
  expect_throws("TT-PRUNE-01", "a NaN as the third", [] {
    (void)to_two_four(of_numbers({1, NAN, 0, 1}, {1, 4}));
  });
  for (const int64_t K : {1, 2, 6, 63})
    expect_throws("TT-PRUNE-01", shown(K) + " columns", [&] { (void)to_two_four(zeros({2, K})); });
  expect_throws("TT-SHAPE-02", "a vector", [] { (void)to_two_four(zeros({8})); });
}
