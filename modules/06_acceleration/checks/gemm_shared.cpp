#include <06_acceleration/checks/ladder_product.hpp>

using namespace course;

namespace {

const auto gemm = [](const View& out, const View& a, const View& b) {
  backend::cuda::gemm_shared(out, a, b);
};
void check(const ProductCase& c) { check_ladder("gemm_shared", c, gemm); }

}  // namespace

TEST_CASE("6.8 one tile, and one result") {
  check({.M = 32, .N = 32, .K = 32});
  check({.M = 1, .N = 1, .K = 1});
}

TEST_CASE("6.8 several tiles along k") {
  check({.M = 32, .N = 32, .K = 96});
  check({.M = 5, .N = 6, .K = 33});
  check({.M = 6, .N = 5, .K = 31});
}

TEST_CASE("6.8 several tiles of the result, the last ones partial") {
  check({.M = 64, .N = 32, .K = 7});
  check({.M = 33, .N = 31, .K = 34});
  check({.M = 31, .N = 67, .K = 3});
}

TEST_CASE("6.8 matrices of any layout, and parts of matrices") {
  for (const Layout layout : kLayouts)
    check({.M = 9, .N = 10, .K = 5, .a = layout, .b = layout, .out = layout});
  check({.M = 9, .N = 34, .K = 6, .skipped = 3});
  check({.M = 9, .N = 34, .K = 6, .upside_down = true});
  check({.M = 5, .N = 8, .K = 6, .behind = 2});
}

TEST_CASE("6.8 no terms give 0, and an empty result needs no kernel") {
  check({.M = 3, .N = 4, .K = 0});
  check({.M = 0, .N = 4, .K = 2});
  if (kCounts) expect_equal("launches for a result [3, 0]", count_ladder(3, 0, 2, f32, gemm).launches, 0.0);
}

TEST_CASE("6.8 operands that do not fit are refused") { check_ladder_refusals(f32, gemm); }

TEST_CASE("6.8 each number is read once per tile") {
  const int64_t M = 64, N = 32, K = 64;
  const Counted n = count_ladder(M, N, K, f32, gemm);
  if (!kCounts) return expect("nothing is counted on a GPU", true);
  const double most = 1.3 * 4 * 2.0 * static_cast<double>(M * N * K) / 32;
  expect("bytes read of [64, 64] and [64, 32], at most 1.3 * 4 * 2 M N K / 32 = " + shown(most) + "; got " +
             shown(n.bytes_read),
         n.bytes_read <= most);
}
