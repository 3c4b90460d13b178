// Epilogue: a reference to a function, or to none.
#include <doctest/doctest.h>

#include <tinytorch/backend/cpu/gemm/epilogue.hpp>

namespace cpu = tinytorch::backend::cpu;

TEST_CASE("an epilogue calls the function itself, or nothing if there is none") {
  int64_t seen = 0;
  const auto add = [&](const cpu::SumBlock& s) { seen += 1000 * s.i + 100 * s.rows + 10 * s.j + s.cols; };
  const cpu::Epilogue epilogue(add);
  epilogue({1, 2, 3, 4, nullptr, 0});
  epilogue({0, 0, 0, 5, nullptr, 0});
  CHECK(seen == 1234 + 5);
  cpu::Epilogue()({1, 2, 3, 4, nullptr, 0});
  CHECK(seen == 1239);
}

TEST_CASE("SumBlock::at addresses a sum by row and column of the block") {
  int32_t values[12] = {};
  const cpu::SumBlock sums{5, 2, 7, 3, values + 1, 6};
  CHECK(sums.at<int32_t>(0) == values + 1);
  CHECK(sums.at<int32_t>(1, 2) == values + 9);
}
