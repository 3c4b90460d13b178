// Cases and the definition, in double, of products of 8-bit codes, for tests of both backends.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <support/array.hpp>
#include <support/row_codes.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <vector>

namespace test {

using backend::Activation;

struct CodesCase {
  int64_t M, N, K;
  DType out = f32;
  bool row_scales = true, column_scales = true;  // one for each row or column; else one for all
  bool scaled = true, biased = true;
  Activation fn = Activation::none;
  DType bias = f32;
};

struct CodesOperands {
  std::vector<double> x, w, x_scale, w_scale, bias;
};
inline CodesOperands codes_operands(const CodesCase& c, DType codes, uint64_t seed, bool extreme = false) {
  Generator random(seed);
  CodesOperands o;
  const auto code = [&] {
    if (codes == i8) return extreme ? -128.0 : std::floor(random.uniform(-128, 128));
    double bits = std::floor(random.uniform(0, 256));
    return std::fmod(bits, 128) == 127 ? 0 : bits;  // no NaN
  };
  for (int64_t i = 0; i < c.M * c.K; ++i) o.x.push_back(code());
  for (int64_t i = 0; i < c.N * c.K; ++i) o.w.push_back(code());
  const double size = codes == i8 ? 0.01 : 0.002;
  const auto factor = [&] { return static_cast<double>(static_cast<float>(random.uniform(0.5, 1) * size)); };
  for (int64_t i = 0; i < (c.row_scales ? c.M : 1) && c.scaled; ++i) o.x_scale.push_back(factor());
  for (int64_t i = 0; i < (c.column_scales ? c.N : 1) && c.scaled; ++i) o.w_scale.push_back(factor());
  for (int64_t i = 0; i < c.N && c.biased; ++i) {
    double b = random.uniform(-1, 1);
    Array stored = Array::from(c.bias, {1}, {b});
    o.bias.push_back(stored.values()[0]);
  }
  return o;
}

inline double activated(Activation fn, double z) {
  switch (fn) {
    case Activation::relu:
      return z > 0 ? z : 0 * z;
    case Activation::silu:
      return z / (1 + std::exp(-z));
    case Activation::gelu:
      return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * z * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (z + 0.044715 * z * z * z)));
    default:
      return z;
  }
}

// The results, and in `bound` the sum of the magnitudes of all terms.
inline std::vector<double> codes_product(const CodesCase& c, const CodesOperands& o, DType codes,
                                         std::vector<double>& bound) {
  std::vector<double> out;
  bound.clear();
  const auto at = [](const std::vector<double>& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  std::vector<double> x, w;
  for (const double v : o.x) x.push_back(code_value(codes, v));
  for (const double v : o.w) w.push_back(code_value(codes, v));
  for (int64_t m = 0; m < c.M; ++m) {
    for (int64_t n = 0; n < c.N; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < c.K; ++k) {
        const double term = at(x, m * c.K + k) * at(w, n * c.K + k);
        sum += term, magnitude += std::abs(term);
      }
      if (c.out == i32) {
        out.push_back(sum), bound.push_back(0);
        continue;
      }
      const double by = c.scaled
                            ? at(o.x_scale, c.row_scales ? m : 0) * at(o.w_scale, c.column_scales ? n : 0)
                            : 1,
                   add = c.biased ? at(o.bias, n) : 0;
      out.push_back(activated(c.fn, sum * by + add));
      bound.push_back(std::abs(sum * by) + std::abs(add) + (codes == i8 ? 0 : magnitude * by));
    }
  }
  return out;
}

// Results are exact in i32; else within a few units in the last place of the terms' sizes.
inline void check_codes_result(const CodesCase& c, DType codes, const std::vector<double>& own,
                               const std::vector<double>& want, const std::vector<double>& bound) {
  if (c.out == i32) {
    CHECK(own == want);
    return;
  }
  REQUIRE(own.size() == want.size());
  const double result = c.out == f32    ? 0x1p-24
                        : c.out == bf16 ? 0x1p-8
                                        : 0x1p-11,
               sums = codes == i8 ? 8 * 0x1p-24 : (8 + std::sqrt(static_cast<double>(c.K))) * 0x1p-24;
  int64_t wrong = 0;
  double worst = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    const double error = std::abs(own[i] - want[i]), allowed = 1.01 * result * std::abs(want[i]) +
                                                               3 * sums * bound[i] +
                                                               (c.out == f16 ? 0x1p-24 : 1e-30);
    wrong += !(error <= allowed);
    worst = std::max(worst, error / allowed);
  }
  INFO("worst error / allowed: ", worst);
  CHECK(wrong == 0);
}

}  // namespace test
