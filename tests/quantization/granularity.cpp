#include <tinytorch/quantization/granularity.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;
using tt::Fit;
using tt::Granularity;

namespace {

double db(const tt::Tensor& x, const tt::ScaleOptions& o) {
  return tt::sqnr_db(x, tt::dequantize(tt::scaled_codes(x, o)));
}

// The values after quantization, by plain double arithmetic: row-major x with K columns, runs of `run` values
// that share a scale. The last run of a row may be shorter.
std::vector<double> rounded(const std::vector<double>& x, size_t K, size_t run, int bits, Fit fit) {
  std::vector<double> y(x.size());
  for (size_t row = 0; row < x.size(); row += K) {
    for (size_t first = row; first < row + K; first += run) {
      const size_t last = std::min(first + run, row + K);
      double low = 0, high = 0;
      for (size_t i = first; i < last; ++i) low = std::min(low, x[i]), high = std::max(high, x[i]);
      const double most = std::ldexp(1, bits - 1), extreme = -low > high ? low : high;
      double scale = std::max(-low, high) / (most - 1), from = -(most - 1), to = most - 1;
      if (fit == Fit::signed_max) scale = extreme / -most, from = -most;
      if (fit == Fit::minmax) {
        scale = (high - low) / (2 * most - 1);
        const double zero = std::nearbyint(-low / scale);
        from = -zero, to = 2 * most - 1 - zero;
      }
      for (size_t i = first; i < last; ++i)
        y[i] = scale == 0 ? 0 : scale * std::min(std::max(std::nearbyint(x[i] / scale), from), to);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("heavy-tailed weights: the signal-to-noise ratio of each granularity") {
  const tt::Tensor w = heavy_tailed_weights();
  const auto near = [](double got, double expected) { return std::abs(got - expected) <= 0.5; };
  CHECK(near(db(w, {.bits = 8, .granularity = Granularity::tensor}), 18.7));
  CHECK(near(db(w, {.bits = 8, .granularity = Granularity::row}), 33.1));
  const tt::ScaleOptions q8_0{
      .bits = 8, .granularity = Granularity::group, .group = 32, .fit = Fit::absmax, .scale_dtype = tt::f16};
  CHECK(near(db(w, q8_0), 43.4));
  CHECK(near(db(w, {.bits = 4, .granularity = Granularity::row}), 8.9));
  CHECK(near(db(w, {.bits = 4, .granularity = Granularity::group, .group = 32}), 18.2));
  CHECK(near(db(w, {.bits = 4, .granularity = Granularity::group, .group = 128}), 15.3));
  CHECK(near(db(w, {.bits = 3, .granularity = Granularity::group, .group = 128}), 8.2));
  CHECK(near(db(w, {.bits = 4, .granularity = Granularity::group, .fit = Fit::signed_max}), 19.4));
  CHECK(near(db(w, {.bits = 4, .granularity = Granularity::group, .fit = Fit::minmax}), 20.9));
  CHECK(near(db(w, {.bits = 2, .granularity = Granularity::group, .fit = Fit::minmax}), 6.9));
  // The scale of least squared error, with the extreme value at -8, is 0.4 to 0.6 dB better than with codes
  // that lie between -8 and 7 whichever sign is larger (16.6 and 19.2).
  const tt::Tensor part = w.slice(0, 0, 16);
  CHECK(near(db(part, {.bits = 4, .granularity = Granularity::group, .group = 128, .fit = Fit::mse}), 17.0));
  CHECK(near(db(part, {.bits = 4, .granularity = Granularity::group, .fit = Fit::mse}), 19.7));
}

TEST_CASE("normal weights: the signal-to-noise ratio of each granularity") {
  tt::Generator generator(5);
  const tt::Tensor w = tt::randn({32, 4096}, tt::f32, tt::cpu, generator);
  CHECK(db(w, {.bits = 8, .granularity = Granularity::row}) == doctest::Approx(41.2).epsilon(0.5 / 41.2));
  CHECK(db(w, {.bits = 8, .granularity = Granularity::group}) == doctest::Approx(45.5).epsilon(0.5 / 45.5));
  CHECK(db(w, {.bits = 4, .granularity = Granularity::row}) == doctest::Approx(16.0).epsilon(0.5 / 16));
}

TEST_CASE("codes and scales equal plain double arithmetic: awkward sizes, dtypes and layouts") {
  tt::Generator generator(3);
  for (const Fit fit : {Fit::absmax, Fit::signed_max, Fit::minmax}) {
    for (const int bits : {2, 3, 4, 8}) {
      for (const int64_t K : {1, 5, 31, 32, 33, 70}) {
        for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::f64}) {
          tt::Tensor x =
              (tt::randn({K, 6}, tt::f32, tt::cpu, generator) + 0.3).to(dtype).t().slice(0, 0, 6, 2);
          x.select(0, 1).zero_();  // a row of zeros
          const std::vector<double> exact = x.to(tt::f32).to_vector<double>();
          const auto check = [&](Granularity granularity, size_t columns, size_t run,
                                 const tt::Shape& scales) {
            const tt::ScaledCodes q =
                tt::scaled_codes(x, {.bits = bits, .granularity = granularity, .group = 32, .fit = fit});
            CHECK(q.scales.shape() == scales);
            CHECK(q.codes.shape() == x.shape());
            CHECK(q.zero_points.defined() == (fit == Fit::minmax));
            const std::vector<double> got = tt::dequantize(q).to_vector<double>(),
                                      wanted = rounded(exact, columns, run, bits, fit);
            bool equal = true;
            for (size_t i = 0; i < got.size(); ++i)
              equal =
                  equal && (std::abs(got[i] - wanted[i]) <= 1e-5 * (1 + std::abs(wanted[i])) ||  // or halfway
                            std::abs(std::abs(got[i] - exact[i]) - std::abs(wanted[i] - exact[i])) <= 1e-6);
            CHECK(equal);
          };
          const auto columns = static_cast<size_t>(K);
          check(Granularity::tensor, 3 * columns, 3 * columns, {1, 1});
          check(Granularity::token, columns, columns, {3, 1});
          check(Granularity::group, columns, 32, {3, (K + 31) / 32});
        }
      }
    }
  }
}

TEST_CASE("a row has the same codes alone and among others") {
  tt::Generator generator(4);
  const tt::Tensor x = tt::randn({40, 50}, tt::f32, tt::cpu, generator);
  for (const Granularity granularity : {Granularity::row, Granularity::group}) {
    const tt::ScaleOptions o{.bits = 6, .granularity = granularity, .group = 16, .fit = Fit::mse};
    const tt::ScaledCodes all = tt::scaled_codes(x, o), one = tt::scaled_codes(x.slice(0, 39, 40), o);
    CHECK(same_numbers(all.codes.slice(0, 39, 40), one.codes));
    CHECK(same_numbers(all.scales.slice(0, 39, 40), one.scales));
    CHECK(same_numbers(tt::scaled_codes(x, o).codes, all.codes));
  }
}

TEST_CASE("more dimensions are rows; empty tensors and scalars have no error") {
  tt::Generator generator(6);
  const tt::Tensor x = tt::randn({2, 3, 8}, tt::f32, tt::cpu, generator);
  CHECK(tt::scaled_codes(x, {.granularity = Granularity::token}).scales.shape() == tt::Shape{6, 1});
  CHECK(tt::dequantize(tt::scaled_codes(x, {})).shape() == x.shape());
  for (const Granularity granularity : {Granularity::tensor, Granularity::row, Granularity::group}) {
    for (const tt::Shape& shape : {tt::Shape{0}, tt::Shape{0, 3}, tt::Shape{3, 0}}) {
      const tt::ScaledCodes q = tt::scaled_codes(tt::empty(shape), {.granularity = granularity});
      CHECK(q.codes.shape() == shape);
      CHECK(tt::dequantize(q).shape() == shape);
    }
  }
  CHECK(tt::dequantize(tt::scaled_codes(tt::full({}, -2), {})).item<float>() == doctest::Approx(-2));
}

TEST_CASE("stored bytes equal those of ggml's blocks and those of the tensors") {
  const tt::ScaleOptions q8_0{.granularity = Granularity::group, .group = 32, .scale_dtype = tt::f16};
  CHECK(tt::stored_bytes({3, 64}, q8_0) == 3 * 2 * 34);
  const tt::ScaleOptions q4_0{
      .bits = 4, .granularity = Granularity::group, .group = 32, .scale_dtype = tt::f16};
  CHECK(tt::stored_bytes({3, 64}, q4_0) == 3 * 2 * 18);
  CHECK(tt::stored_bytes({3, 70}, q4_0) == 3 * (2 * 18 + 3 + 2));  // six codes are 3 bytes, and have a scale
  CHECK(tt::stored_bytes({3, 5}, q4_0) == 3 * (3 + 2));
  CHECK(tt::stored_bytes({3, 70}, {.bits = 3, .granularity = Granularity::row}) == 3 * (27 + 4));
  CHECK(tt::stored_bytes({3, 70}, {.bits = 8, .granularity = Granularity::tensor}) == 210 + 4);
  CHECK(tt::stored_bytes({3, 70}, {.granularity = Granularity::row, .fit = Fit::minmax}) == 3 * (70 + 5));
  CHECK(tt::stored_bytes({0, 70}, q4_0) == 0);
  for (const int64_t K : {1, 31, 32, 33, 100}) {
    const tt::ScaledCodes q = tt::scaled_codes(tt::ones({7, K}), {.granularity = Granularity::group});
    CHECK(static_cast<int64_t>(q.codes.bytes() + q.scales.bytes()) ==
          tt::stored_bytes({7, K}, {.granularity = Granularity::group}));
  }
}

TEST_CASE("scales of 16 bits are rounded before the codes are computed") {
  tt::Generator generator(8);
  const tt::Tensor x = tt::randn({4, 64}, tt::f32, tt::cpu, generator);
  for (const tt::DType dtype : {tt::f16, tt::bf16}) {
    const tt::ScaledCodes q = tt::scaled_codes(x, {.granularity = Granularity::group, .scale_dtype = dtype});
    CHECK(same_numbers(q.scales.to(dtype).to(tt::f32), q.scales));
    CHECK(tt::sqnr_db(x, tt::dequantize(q)) > 40);
  }
  const tt::ScaleOptions half{.granularity = Granularity::row, .scale_dtype = tt::f16};
  test::expect_error("TT-CALIB-03", "overflows f16", [&] {
    (void)tt::scaled_codes(tt::full({1, 4}, 1e8), half);
  });
  const tt::ScaledCodes tiny =
      tt::scaled_codes(tt::full({1, 4}, 1e-9), half);  // its scale is below f16's numbers
  CHECK(tiny.scales.item<double>() == std::ldexp(1, -24));
  CHECK(tt::dequantize(tiny).select(0, 0).select(0, 0).item<double>() == 0);
}

TEST_CASE("NaN, infinities and settings out of range are refused") {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    tt::Tensor x = tt::ones({3, 40});
    x.select(0, 1).select(0, 39).fill_(bad);
    for (const Granularity granularity : {Granularity::tensor, Granularity::row, Granularity::group})
      test::expect_error("TT-CALIB-01", "a NaN or an infinity",
                         [&] { (void)tt::scaled_codes(x, {.granularity = granularity}); });
  }
  const tt::Tensor x = tt::ones({2, 3});
  test::expect_error("TT-CALIB-03", "2 to 8 bits", [&] { (void)tt::scaled_codes(x, {.bits = 9}); });
  test::expect_error("TT-CALIB-03", "at least 1 value", [&] { (void)tt::scaled_codes(x, {.group = 0}); });
  test::expect_error("TT-CALIB-03", "scales are floating", [&] {
    (void)tt::stored_bytes({2, 3}, {.scale_dtype = tt::i8});
  });
  test::expect_error("TT-DTYPE-02", "scaled_codes",
                     [] { (void)tt::scaled_codes(tt::arange(0, 3), tt::ScaleOptions{}); });
}

TEST_CASE("the signal-to-noise ratio in decibels") {
  const tt::Tensor x = tt::from_data({3.0, 4.0}), y = tt::from_data({3.3, 3.6});
  CHECK(tt::sqnr_db(x, y) == doctest::Approx(10 * std::log10(25 / 0.25)).epsilon(1e-9));
  CHECK(std::isinf(tt::sqnr_db(x, x)));
  CHECK(std::isnan(tt::sqnr_db(x, tt::from_data({std::nan(""), 1.0}))));
  test::expect_error("TT-SHAPE-02", "equal shapes", [&] { (void)tt::sqnr_db(x, tt::ones({3})); });
}
