#include <06_acceleration/checks/matrices.hpp>
#include <tinytorch/backend/cpu/ladder/five_loops.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;
namespace ladder = cpu::ladder;

namespace {

template <class T>
cpu::Matrix<T> of(Grid<T>& g) {
  return {g.data(), g.row, g.col};
}

template <class T>
void check_product(int64_t M, int64_t N, int64_t K, int64_t threads = 1, Layout left = Layout::contiguous,
                   Layout right = Layout::contiguous) {
  Grid<T> a(M, K, left), b(K, N, right), c(M, N);
  a.fill();
  b.fill();
  ladder::product<T>(c.data(), c.row, of(a), of(b), M, N, K, threads);
  expect_product("product of " + sizes_text(M, N, K) + ", " + name_of_layout(left) + " and " +
                     name_of_layout(right) + ", " + std::to_string(threads) + " threads",
                 c, a, b);
}

// The bits of the product with so many threads, one range after the other.
std::vector<float> bits(Grid<float>& a, Grid<float>& b, int64_t threads, bool backwards = false) {
  std::vector<float> c(static_cast<size_t>(a.rows * b.cols), -1);
  for (int64_t t = 0; t < threads; ++t) {
    const int64_t thread = backwards ? threads - 1 - t : t;
    ladder::product_of_rows<float>(c.data(), b.cols, of(a), of(b), b.cols, a.cols,
                                   ladder::rows_of_thread(a.rows, threads, thread));
  }
  return c;
}

}  // namespace

TEST_CASE("6.5 the rows are shared: each once, in whole tiles, and evenly") {
  for (const int64_t M : {int64_t{0}, int64_t{1}, int64_t{6}, int64_t{7}, int64_t{41}, int64_t{96},
                          int64_t{1000}, (int64_t{1} << 40) + 3}) {
    for (const int64_t threads : {1, 2, 3, 7, 64}) {
      const std::string what =
          "rows_of_thread(" + std::to_string(M) + ", " + std::to_string(threads) + ", t)";
      int64_t next = 0, least = M + 1, most = 0;
      for (int64_t t = 0; t < threads; ++t) {
        const ladder::RowRange r = ladder::rows_of_thread(M, threads, t);
        expect_equal(what + ": range " + std::to_string(t) + " begins where the one before ends", r.begin,
                     next);
        expect(what + ": begins at a whole tile, or at the end", r.begin % cpu::kMR == 0 || r.begin == M);
        expect(what + ": ends behind its beginning", r.end >= r.begin);
        next = r.end;
        const int64_t tiles = (r.end - r.begin + cpu::kMR - 1) / cpu::kMR;
        least = std::min(least, tiles), most = std::max(most, tiles);
      }
      expect_equal(what + ": the last range ends at M", next, M);
      expect(what + ": tiles per thread differ by at most 1", most - least <= 1);
    }
  }
}

TEST_CASE("6.5 one tile, and partial tiles") {
  check_product<float>(cpu::kMR, cpu::kNR<float>, 16);
  for (const int64_t n : {1, 5, 6, 7, 13, 33}) check_product<float>(n, 2 * n + 1, 3);
  check_product<double>(7, 19, 31);
}

TEST_CASE("6.5 several blocks of rows, of the depth and of columns") {
  using namespace ladder;
  check_product<float>(kRowsOfBlock + 1, 5, 4);
  check_product<float>(2 * kRowsOfBlock - 1, 9, 7);
  check_product<float>(5, 6, kDepthOfBlock + 1);
  check_product<float>(4, 3, 3 * kDepthOfBlock);
  check_product<float>(3, kColsOfBlock + 1, 2);
  check_product<float>(kRowsOfBlock + 5, 17, kDepthOfBlock + 9);
}

TEST_CASE("6.5 operands in any layout") {
  for (const Layout left : kLayouts)
    for (const Layout right : kLayouts) check_product<float>(13, 21, 19, 2, left, right);
}

TEST_CASE("6.5 no terms give 0, and no rows or columns give nothing") {
  check_product<float>(3, 4, 0);
  check_product<float>(0, 4, 5);
  check_product<float>(4, 0, 5);
  check_product<float>(4, 0, 0, 3);
}

TEST_CASE("6.5 a thread writes its own rows only") {
  Grid<float> a(40, 300), b(300, 20), c(40, 20);
  a.fill();
  b.fill();
  ladder::product_of_rows<float>(c.data(), c.row, of(a), of(b), 20, 300, {12, 24});
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 20; ++j) {
      const bool unwritten = c.at(i, j) != c.at(i, j);
      expect("rows 12 to 23 of 40: element [" + shown(i) + ", " + shown(j) + "] is " +
                 (unwritten ? "not written" : "written"),
             unwritten == (i < 12 || i >= 24));
    }
  }
}

TEST_CASE("6.5 the same bits with 1, 2, 3 and 7 threads, in any order") {
  const int64_t M = 61, N = 18, K = 2 * ladder::kDepthOfBlock + 11;
  Grid<float> a(M, K), b(K, N);
  a.fill();
  b.fill();
  const std::vector<float> one = bits(a, b, 1);
  for (const int64_t threads : {2, 3, 7})
    for (const bool backwards : {false, true})
      expect(std::to_string(threads) + " ranges" + (backwards ? ", the last one first" : "") +
                 " have the bits of one",
             bits(a, b, threads, backwards) == one);
  for (const int64_t threads : {1, 2, 3, 7}) {
    std::vector<float> c(static_cast<size_t>(M * N));
    ladder::product<float>(c.data(), N, of(a), of(b), M, N, K, threads);
    expect("product with " + std::to_string(threads) + " threads has the bits of one", c == one);
  }
}
