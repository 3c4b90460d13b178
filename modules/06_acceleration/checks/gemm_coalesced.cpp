#include <06_acceleration/checks/ladder_product.hpp>

using namespace course;

namespace {

const auto gemm = [](const View& out, const View& a, const View& b) {
  backend::cuda::gemm_coalesced(out, a, b);
};
void check(const ProductCase& c) { check_ladder("gemm_coalesced", c, gemm); }

}  // namespace

TEST_CASE("6.7 one tile, and one result") {
  check({.M = 8, .N = 32, .K = 16});
  check({.M = 1, .N = 1, .K = 1});
}

TEST_CASE("6.7 several tiles, the last ones partial") {
  check({.M = 16, .N = 64, .K = 5});
  check({.M = 9, .N = 33, .K = 7});
  check({.M = 7, .N = 31, .K = 40});
  check({.M = 17, .N = 3, .K = 2});
  check({.M = 3, .N = 97, .K = 1});
}

TEST_CASE("6.7 matrices of any layout, and parts of matrices") {
  for (const Layout layout : kLayouts) {
    check({.M = 9, .N = 10, .K = 5, .a = layout});
    check({.M = 9, .N = 10, .K = 5, .b = layout});
    check({.M = 9, .N = 10, .K = 5, .out = layout});
  }
  check({.M = 9, .N = 34, .K = 6, .skipped = 3});
  check({.M = 9, .N = 34, .K = 6, .upside_down = true});
  check({.M = 5, .N = 8, .K = 6, .behind = 2});
}

TEST_CASE("6.7 no terms give 0, and an empty result needs no kernel") {
  check({.M = 3, .N = 4, .K = 0});
  check({.M = 0, .N = 4, .K = 2});
  if (kCounts) expect_equal("launches for a result [3, 0]", count_ladder(3, 0, 2, f32, gemm).launches, 0.0);
}

TEST_CASE("6.7 operands that do not fit are refused") { check_ladder_refusals(f32, gemm); }

TEST_CASE("6.7 a warp reads neighbours") {
  const Counted n = count_ladder(16, 64, 24, f32, gemm);
  if (!kCounts) return expect("nothing is counted on a GPU", true);
  expect("sectors of 32 bytes per access of a warp, at most 4.5; got " + shown(n.sectors / n.requests),
         n.sectors <= 4.5 * n.requests);
  expect_equal("launches", n.launches, 1.0);
}
