#include <support/errors.hpp>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("dropout depends only on the generator") {
  const tt::Tensor x = tt::ones({1000});
  tt::Generator a(9), b(9);
  const std::vector<double> first = tt::dropout(x, 0.5, a).to_vector<double>();
  CHECK(first == tt::dropout(x, 0.5, b).to_vector<double>());
  CHECK(a.state() == b.state());
  CHECK(first != tt::dropout(x, 0.5, a).to_vector<double>());
  for (double v : first) CHECK((v == 0 || v == 2));
}

TEST_CASE("dropout: p outside [0, 1] is an error") {
  expect_error("TT-RANGE-02", "got 1.5", [] { tt::dropout(tt::ones({2}), 1.5); });
  expect_error("TT-RANGE-02", "got -0.1", [] { tt::dropout(tt::ones({2}), -0.1); });
  expect_error("TT-DTYPE-02", "floating", [] { tt::dropout(tt::ones({2}, tt::i32), 0.5); });
}
