#include <array>
#include <support/check.hpp>
#include <tinytorch/backend/cpu/spmm.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;

namespace {

// A matrix in CSR, made here: values of a dtype, columns of 16 or 32 bits.
struct Csr {
  int64_t rows, columns;
  Numbers numbers;  // as rounded to the dtype
  std::vector<int64_t> place, offsets{0};
  Values values{f32, {0}};
  std::vector<uint16_t> narrow;
  std::vector<uint32_t> wide;

  // entries[n]: (column, value) of row n, with ascending columns.
  Csr(const std::vector<std::vector<std::pair<int64_t, double>>>& entries, int64_t K, DType dtype = f32)
      : rows(static_cast<int64_t>(entries.size())), columns(K) {
    for (const auto& row : entries) {
      for (const auto& [k, v] : row) place.push_back(k), numbers.push_back(v);
      offsets.push_back(static_cast<int64_t>(place.size()));
    }
    values = Values::of(dtype, {static_cast<int64_t>(numbers.size())}, numbers);
    numbers = values.numbers();
    for (const int64_t k : place)
      narrow.push_back(static_cast<uint16_t>(k)), wide.push_back(static_cast<uint32_t>(k));
  }
  backend::CsrView view() {
    const bool small = columns <= 65536;
    const void* const at = small ? static_cast<const void*>(narrow.data()) : wide.data();
    return {values.view().data,
            at,
            offsets.data(),
            values.dtype(),
            small,
            rows,
            columns,
            static_cast<int64_t>(numbers.size())};
  }
};

// Each element is there with probability `density`.
Csr random_csr(int64_t N, int64_t K, double density, DType dtype = f32) {
  std::vector<std::vector<std::pair<int64_t, double>>> entries(static_cast<size_t>(N));
  for (auto& row : entries)
    for (int64_t k = 0; k < K; ++k)
      if (uniform(0, 1) < density) row.emplace_back(k, uniform(-1, 1));
  return Csr(entries, K, dtype);
}

// c [N, M], whose terms are added in double.
Numbers product(const Csr& w, const Numbers& b, int64_t M) {
  Numbers c(static_cast<size_t>(w.rows * M));
  for (int64_t n = 0; n < w.rows; ++n)
    for (int64_t i = w.offsets[static_cast<size_t>(n)]; i < w.offsets[static_cast<size_t>(n + 1)]; ++i)
      for (int64_t m = 0; m < M; ++m)
        c[static_cast<size_t>(n * M + m)] += w.numbers[static_cast<size_t>(i)] *
                                             b[static_cast<size_t>(w.place[static_cast<size_t>(i)] * M + m)];
  return c;
}

void check_product(const std::string& about, Csr& w, Values b, DType out = f32,
                   Layout layout = Layout::contiguous) {
  const int64_t M = b.shape()[1];
  Values c(out, {w.rows, M}, layout);
  cpu::spmm_csr(c.view(), w.view(), b.view());
  const double terms = 4 + static_cast<double>(w.numbers.size()) / static_cast<double>(w.rows + 1);
  expect_close("w " + Shape{w.rows, w.columns}.str() + " of " + name_of(w.values.dtype()) + " with " +
                   shown(static_cast<double>(w.numbers.size())) + " numbers, times b [" + shown(w.columns) +
                   ", " + shown(M) + "] of " + name_of(b.dtype()) + about,
               c, product(w, b.numbers(), M), {.dtype = out, .roundings = terms});
}
Values random_b(int64_t K, int64_t M, DType dtype = f32, Layout layout = Layout::contiguous) {
  return Values::random(dtype, {K, M}, layout);
}

}  // namespace

TEST_CASE("8.6 a number multiplies the row of b that its column names") {
  Csr w({{{0, 2}, {2, 3}}, {{1, -1}}}, 3);
  check_product("", w, Values::of(f32, {3, 2}, {1, 10, 2, 20, 3, 30}));
  for (const int64_t k : {0, 5, 6}) {
    Csr one({{{k, 1}}}, 7);
    check_product(", a single 1 in column " + shown(k), one, random_b(7, 5));
  }
}

TEST_CASE("8.6 any number of columns: whole panels, parts of them, and one") {
  for (const int64_t M : {1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130}) {
    Csr w = random_csr(9, 21, 0.4);
    check_product("", w, random_b(21, M));
  }
}

TEST_CASE("8.6 empty rows, no numbers at all, and all of them") {
  Csr gaps({{}, {{3, 1.5}}, {}, {}, {{0, 2}, {4, 3}}, {}}, 5);
  check_product(", rows 0, 2, 3 and 5 are empty", gaps, random_b(5, 20));
  for (const double density : {0.0, 1.0}) {
    Csr w = random_csr(33, 40, density);
    check_product("", w, random_b(40, 70));
  }
  for (const auto& [N, K, M] : {std::array<int64_t, 3>{0, 4, 3}, {3, 0, 4}, {3, 4, 0}}) {
    Csr w = random_csr(N, K, 0.5);
    check_product("", w, random_b(K, M));
  }
}

TEST_CASE("8.6 columns of 16 bits up to 65536 columns, and of 32 bits beyond") {
  for (const int64_t K : {65536, 65537, 70000}) {
    Csr w({{{0, 1}, {K - 1, 2}}, {{K - 2, 3}}, {{4463, 4}}}, K);
    check_product("", w, random_b(K, 2));
  }
}

TEST_CASE("8.6 only named rows of b count: NaN elsewhere does not, and a stored 0 is a number") {
  Csr w({{{1, 2}}, {{1, 1}, {3, 0}}, {}}, 4);
  Numbers b(4 * 20, NAN);
  for (size_t m = 0; m < 20; ++m) b[20 + m] = static_cast<double>(m);
  Values c(f32, {3, 20});
  Values given = Values::of(f32, {4, 20}, b);
  cpu::spmm_csr(c.view(), w.view(), given.view());
  const Numbers got = c.numbers();
  for (size_t m = 0; m < 20; ++m) {
    expect_equal("c[0, " + shown(static_cast<double>(m)) + "], whose rows of b are finite", got[m],
                 2 * static_cast<double>(m));
    expect("c[1, " + shown(static_cast<double>(m)) + "] has the term 0 times NaN, which is NaN",
           std::isnan(got[20 + m]), "it is " + shown(got[20 + m]));
    expect_equal("c[2, " + shown(static_cast<double>(m)) + "], an empty row", got[40 + m], 0.0);
  }
}

TEST_CASE("8.6 values of 16 bits, and b and c of any dtype and layout") {
  for (const DType dtype : {bf16, f16}) {
    Csr w = random_csr(7, 30, 0.5, dtype);
    check_product("", w, random_b(30, 37));
    check_product(", result in its dtype", w, random_b(30, 37, dtype), dtype);
  }
  for (const Layout layout : kLayouts) {
    Csr w = random_csr(12, 30, 0.3);
    check_product(std::string(", layout ") + name_of_layout(layout), w, random_b(30, 67, f32, layout), f32,
                  layout);
  }
}

TEST_CASE("8.6 numbers of f64 are multiplied and added in f64") {
  Csr w = random_csr(6, 50, 0.5, f64);
  check_product("", w, random_b(50, 19, f64), f64);
}
