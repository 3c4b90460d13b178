#include <06_acceleration/checks/ladder_product.hpp>

using namespace course;

namespace {

const auto gemm = [](const View& out, const View& a, const View& b) {
  backend::cuda::gemm_registers(out, a, b);
};
void check(const ProductCase& c) { check_ladder("gemm_registers", c, gemm); }

}  // namespace

TEST_CASE("6.9 one tile, and one result") {
  check({.M = 64, .N = 64, .K = 16});
  check({.M = 1, .N = 1, .K = 1});
}

TEST_CASE("6.9 several tiles along k, and depths that are no multiple of 16 or of 4") {
  check({.M = 8, .N = 8, .K = 48});
  for (const int64_t K : {15, 17, 18, 35}) check({.M = 5, .N = 6, .K = K});
}

TEST_CASE("6.9 several tiles of the result, the last ones partial") {
  check({.M = 128, .N = 64, .K = 5});
  check({.M = 65, .N = 63, .K = 7});
  check({.M = 63, .N = 66, .K = 18});
}

TEST_CASE("6.9 matrices of any layout, parts that are not aligned, rows of any width") {
  for (const Layout layout : kLayouts)
    check({.M = 9, .N = 10, .K = 8, .a = layout, .b = layout, .out = layout});
  for (const int64_t skipped : {1, 2, 4}) check({.M = 9, .N = 36, .K = 20, .skipped = skipped});
  check({.M = 9, .N = 36, .K = 20, .upside_down = true});
  check({.M = 5, .N = 8, .K = 6, .behind = 2});
}

TEST_CASE("6.9 no terms give 0, and an empty result needs no kernel") {
  check({.M = 3, .N = 4, .K = 0});
  check({.M = 0, .N = 4, .K = 2});
  if (kCounts) expect_equal("launches for a result [3, 0]", count_ladder(3, 0, 2, f32, gemm).launches, 0.0);
}

TEST_CASE("6.9 operands that do not fit are refused") { check_ladder_refusals(f32, gemm); }

TEST_CASE("6.9 aligned rows are read in pieces of 16 bytes, each once per tile") {
  const int64_t M = 64, N = 64, K = 64;
  const Counted n = count_ladder(M, N, K, f32, gemm);
  if (!kCounts) return expect("nothing is counted on a GPU", true);
  const double bytes = 4.0 * static_cast<double>(M * K + K * N);
  expect_equal("bytes read of [64, 64] and [64, 64], for one tile", n.bytes_read, bytes);
  // 256 threads have a piece of each operand per stage of 16, and 16 results each; the emulator sees a piece
  // of 16 bytes as one or two accesses.
  const double most = 8.0 * (2.0 * 2 * 4 + 16);
  expect("accesses of warps to device memory, at most " + shown(most) + "; got " + shown(n.requests),
         n.requests <= most);
}
