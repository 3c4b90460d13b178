#include <support/array.hpp>

#include <tinytorch/backend/cpu/loops/channel_runs.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

namespace {

struct Images {
  Shape shape;
  Array x, dy, center;
  Images(int64_t N, int64_t C, int64_t S)
      : shape{N, C, S},
        x(Array::random(f64, shape, 1, -2, 3)),
        dy(Array::random(f64, shape, 2, -1, 1)),
        center(Array::random(f64, {C}, 3, -1, 1)) {}
  double at(Array& a, int64_t n, int64_t c, int64_t s) {
    return a.view().as<double>()[(n * shape[1] + c) * shape[2] + s];
  }
};

const int64_t kSizes[][3] = {{1, 1, 1}, {5, 3, 1}, {40, 70, 1}, {3, 2, 7}, {2, 5, 1500}, {9, 1, 4}};

}  // namespace

TEST_CASE("sums per channel equal plain loops") {
  for (const auto& [N, C, S] : kSizes) {
    Images i(N, C, S);
    const kernels::ChannelShape shape(i.x.view());
    const double *x = i.x.view().as<double>(), *dy = i.dy.view().as<double>(),
                 *center = i.center.view().as<double>();
    const kernels::ChannelSums<double> values({kernels::RunSum::value, x, nullptr, nullptr, 0}, shape);
    const kernels::ChannelSums<double> squares({kernels::RunSum::square, x, nullptr, center, 0}, shape);
    const kernels::ChannelSums<double> products({kernels::RunSum::products, x, dy, center, 0}, shape);
    for (int64_t c = 0; c < C; ++c) {
      double value = 0, square = 0, sum_dy = 0, dot = 0;
      for (int64_t n = 0; n < N; ++n) {
        for (int64_t s = 0; s < S; ++s) {
          const double distance = i.at(i.x, n, c, s) - center[c];
          value += i.at(i.x, n, c, s);
          square += distance * distance;
          sum_dy += i.at(i.dy, n, c, s);
          dot += i.at(i.dy, n, c, s) * distance;
        }
      }
      const auto k = static_cast<size_t>(c);
      const double tolerance = 1e-12 * static_cast<double>(N * S);
      CHECK(std::abs(values.first[k] - value) < tolerance);
      CHECK(std::abs(squares.first[k] - square) < 10 * tolerance);
      CHECK(std::abs(products.first[k] - sum_dy) < tolerance);
      CHECK(std::abs(products.second[k] - dot) < 10 * tolerance);
    }
  }
}

TEST_CASE("combine_runs computes a dy + b (x - center) + c, with one set of coefficients per channel") {
  for (const auto& [N, C, S] : kSizes) {
    for (const bool with_dy : {true, false}) {
      Images i(N, C, S);
      kernels::RunCoefficients<double> k(C, 0);
      for (int64_t c = 0; c < C; ++c) {
        const auto at = static_cast<size_t>(c);
        k.a[at] = 1 + static_cast<double>(c);
        k.b[at] = 0.5 - static_cast<double>(c);
        k.c[at] = 0.25 * static_cast<double>(c);
        k.center[at] = i.center.view().as<double>()[c];
      }
      Array out(f64, i.shape);
      kernels::combine_runs<double>(out.view().as<double>(), with_dy ? i.dy.view().as<double>() : nullptr,
                                    i.x.view().as<double>(), k, kernels::ChannelShape(i.x.view()));
      std::vector<double> expected;
      for (int64_t n = 0; n < N; ++n) {
        for (int64_t c = 0; c < C; ++c) {
          const auto at = static_cast<size_t>(c);
          for (int64_t s = 0; s < S; ++s) {
            expected.push_back((with_dy ? k.a[at] * i.at(i.dy, n, c, s) : 0) +
                               k.b[at] * (i.at(i.x, n, c, s) - k.center[at]) + k.c[at]);
          }
        }
      }
      check_close(out.values(), expected, f64, 64, 8);
    }
  }
}
