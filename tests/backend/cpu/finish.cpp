// A reference to a function, or to none.
#include <doctest/doctest.h>

#include <tinytorch/backend/cpu/finish.hpp>

namespace cpu = tinytorch::backend::cpu;

TEST_CASE("what is called is the function itself, and nothing where there is none") {
  int64_t seen = 0;
  const auto add = [&](int64_t i, int64_t rows, int64_t j, int64_t cols) {
    seen += 1000 * i + 100 * rows + 10 * j + cols;
  };
  const cpu::Finish finish(add);
  finish(1, 2, 3, 4);
  finish(0, 0, 0, 5);
  CHECK(seen == 1234 + 5);
  cpu::Finish()(1, 2, 3, 4);
  CHECK(seen == 1239);
}
