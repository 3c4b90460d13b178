// ReducePlan: the result to which each element belongs, for any strides.
#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <tinytorch/backend/cpu/loops/reduce_plan.hpp>
#include <vector>

namespace tt = tinytorch;
namespace cpu = tinytorch::backend::cpu;
using tinytorch::backend::View;

TEST_CASE("every element belongs to the result of its kept index") {
  std::vector<float> x(2 * 3 * 4 * 5);
  std::iota(x.begin(), x.end(), 0.0f);
  const tt::Shape shape{2, 3, 4, 5};
  for (const tt::Strides& strides :
       {tt::Strides{60, 20, 5, 1}, tt::Strides{1, 2, 6, 24}, tt::Strides{0, 20, 1, 4}}) {
    for (int which = 0; which < 16; ++which) {
      const bool reduced[] = {(which & 1) != 0, (which & 2) != 0, (which & 4) != 0, (which & 8) != 0};
      const cpu::ReducePlan plan({x.data(), tt::f32, shape, strides}, reduced);
      std::vector<std::multiset<float>> want(1);
      int64_t results = 1;
      for (int d = 0; d < 4; ++d) results *= reduced[d] ? 1 : shape[d];
      want.resize(static_cast<size_t>(results));
      for (int64_t i = 0; i < shape.numel(); ++i) {
        int64_t offset = 0, result = 0, rest = i;
        int64_t index[4];
        for (int d = 3; d >= 0; --d) index[d] = rest % shape[d], rest /= shape[d];
        for (int d = 0; d < 4; ++d) {
          offset += index[d] * strides[d];
          if (!reduced[d]) result = result * shape[d] + index[d];
        }
        want[static_cast<size_t>(result)].insert(x[static_cast<size_t>(offset)]);
      }
      REQUIRE(plan.results == results);
      REQUIRE(plan.length == shape.numel() / results);
      for (int64_t r = 0; r < results; ++r) {
        int64_t at[tt::kMaxRank];
        std::multiset<float> got;
        std::vector<float> values(static_cast<size_t>(plan.length));
        tt::backend::pack(values.data(), plan.values_of(r, at), 0, plan.length);
        CHECK(std::multiset<float>(values.begin(), values.end()) == want[static_cast<size_t>(r)]);
      }
    }
  }
}

TEST_CASE("pieces cover a range once, in order, for every layout and dtype") {
  std::vector<double> x(5000);
  std::iota(x.begin(), x.end(), 0.0);
  for (const int64_t step : {int64_t{1}, int64_t{2}}) {
    const View v{x.data(), tt::f64, {2500}, {step}};
    int64_t next = 7;
    cpu::for_each_piece<float>(v, 7, 2400, [&](int64_t i, const float* values, int64_t n) {
      CHECK(i == next);
      for (int64_t k = 0; k < n; ++k) CHECK(values[k] == static_cast<float>((i + k) * step));
      next += n;
    });
    CHECK(next == 2400);
    int64_t pieces = 0;
    cpu::for_each_piece<double>(v, 3, 3, [&](int64_t, const double*, int64_t) { ++pieces; });
    CHECK(pieces == 0);
    cpu::for_each_piece<double>(v, 0, 10, [&](int64_t, const double* values, int64_t) {
      CHECK((values == x.data()) == (step == 1));
    });
  }
}
