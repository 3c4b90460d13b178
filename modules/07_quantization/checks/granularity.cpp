#include <support/check.hpp>
#include <tinytorch/quantization/granularity.hpp>

#include "heavy_tails.hpp"

using namespace course;

namespace {

// The values and scales of a matrix x [R, K] in which each run of values shares a scale, computed in plain
// double arithmetic.
struct Expected {
  std::vector<double> values, scales;
};
Expected expected_of(const Numbers& x, size_t K, size_t run, int bits, Fit fit) {
  Expected e;
  e.values.resize(x.size());
  for (size_t row = 0; row < x.size(); row += K) {
    for (size_t first = row; first < row + K; first += run) {
      const size_t last = std::min(first + run, row + K);
      double low = 0, high = 0;
      for (size_t i = first; i < last; ++i) low = std::min(low, x[i]), high = std::max(high, x[i]);
      const double most = std::ldexp(1, bits - 1);
      double scale = std::max(-low, high) / (most - 1), from = -(most - 1), to = most - 1;
      if (fit == Fit::signed_max) scale = (-low > high ? low : high) / -most, from = -most;
      if (fit == Fit::minmax) {
        scale = (high - low) / (2 * most - 1);
        const double zero = std::nearbyint(-low / scale);
        from = -zero, to = 2 * most - 1 - zero;
      }
      e.scales.push_back(scale == 0 ? 1 : scale);
      for (size_t i = first; i < last; ++i)
        e.values[i] = scale == 0 ? 0 : scale * std::min(std::max(std::nearbyint(x[i] / scale), from), to);
    }
  }
  return e;
}

const char* name_of_granularity(Granularity g) {
  return g == Granularity::tensor ? "one scale for all" : g == Granularity::row ? "by rows" : "by groups";
}

// Scales and dequantized values of x [R, K] against the definition.
void check_codes(const Tensor& x, const ScaleOptions& o) {
  const int64_t K = x.size(-1), R = x.numel() / K;
  const Numbers exact = x.to(f32).to_vector<double>();
  const bool one = o.granularity == Granularity::tensor, grouped = o.granularity == Granularity::group;
  const int64_t columns = one ? R * K : K, run = grouped ? o.group : columns;
  const Expected e =
      expected_of(exact, static_cast<size_t>(columns), static_cast<size_t>(run), o.bits, o.fit);
  const std::string what = "x [" + shown(R) + ", " + shown(K) + "] of " + name_of(x.dtype()) + ", " +
                           shown(o.bits) + " bits, " + name_of_granularity(o.granularity) +
                           (grouped ? " of " + shown(o.group) : "");
  const ScaledCodes q = scaled_codes(x, o);
  expect_equal(what + ": shape of the scales", q.scales.shape(),
               one ? Shape{1, 1} : Shape{R, grouped ? (K + o.group - 1) / o.group : 1});
  const Numbers scales = q.scales.to_vector<double>();
  expect_close(what + ": scales", scales, e.scales, q.scales.shape(), {.roundings = 8, .scale = 2});
  const Numbers got = dequantize(q).to_vector<double>();
  for (size_t i = 0; i < got.size(); ++i) {
    // Halfway between two codes the arithmetic in f32 may choose the other one.
    const bool good = std::abs(got[i] - e.values[i]) <= 1e-5 * (1 + std::abs(e.values[i])) ||
                      std::abs(std::abs(got[i] - exact[i]) - std::abs(e.values[i] - exact[i])) <= 1e-6;
    const auto at = static_cast<int64_t>(i);
    expect(what + ": element [" + shown(at / K) + ", " + shown(at % K) + "] is " + shown(exact[i]) +
               ", as a code and back it is " + shown(e.values[i]) + "; got " + shown(got[i]),
           good);
  }
}

Tensor random_matrix(int64_t R, int64_t K) {
  return from_data(Values::random(f32, {R, K}, Layout::contiguous, -1, 1.5).numbers(), {R, K}).to(f32);
}

constexpr Granularity kAll[] = {Granularity::tensor, Granularity::row, Granularity::group};

}  // namespace

TEST_CASE("7.2 one scale for a matrix, one for each row, one for each group of a row") {
  Tensor x = random_matrix(3, 64);
  for (const Granularity g : kAll) check_codes(x, {.granularity = g, .group = 32});
  // Rows and groups of different sizes: each has the scale of its own largest magnitude.
  const Tensor steps = from_data(std::vector<float>{1, -2, 3, -4, 50, -60, 70, -80}, {2, 4});
  const auto scales = [&](const ScaleOptions& o) {
    Numbers largest = scaled_codes(steps, o).scales.to_vector<double>();
    for (double& s : largest) s = std::round(127 * s);
    return largest;
  };
  expect_equal("127 times the scale of [[1, -2, 3, -4], [50, -60, 70, -80]]",
               scales({.granularity = Granularity::tensor}), Numbers{80});
  expect_equal("the same by rows", scales({.granularity = Granularity::row}), Numbers{4, 80});
  expect_equal("the same by groups of 2", scales({.granularity = Granularity::group, .group = 2}),
               Numbers{2, 4, 60, 80});
}

TEST_CASE("7.2 codes of 2 to 8 bits, and each way to choose a scale") {
  for (const int bits : {2, 3, 4, 8})
    for (const Fit fit : {Fit::absmax, Fit::signed_max, Fit::minmax})
      for (const Granularity g : kAll)
        check_codes(random_matrix(3, 40), {.bits = bits, .granularity = g, .group = 8, .fit = fit});
}

TEST_CASE("7.2 the last group of a row may be shorter, and it ends with its row") {
  for (const int64_t K : {1, 5, 31, 33, 70})
    for (const int64_t group : {32, 4})
      check_codes(random_matrix(4, K), {.granularity = Granularity::group, .group = group});
  const Tensor x = from_data(std::vector<float>{1, 1, 1, 1000, 1, 1}, {2, 3});
  const Numbers scales =
      scaled_codes(x, {.granularity = Granularity::group, .group = 2}).scales.to_vector<double>();
  expect(
      "groups of 2 of [[1, 1, 1], [1000, 1, 1]]: the last group of row 0 has one value, a 1, and no part "
      "of row 1; 127 times its scale is " +
          shown(127 * scales.at(1)),
      std::abs(127 * scales[1] - 1) < 1e-4);
}

TEST_CASE("7.2 scale_at finds the scale of any value") {
  for (const Granularity g : kAll) {
    for (const Fit fit : {Fit::absmax, Fit::minmax}) {
      const Tensor x = random_matrix(3, 7);
      const ScaledCodes q = scaled_codes(x, {.bits = 5, .granularity = g, .group = 3, .fit = fit});
      const Numbers scales = q.scales.to_vector<double>(), codes = q.codes.to_vector<double>();
      const Numbers exact = x.to_vector<double>();
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t k = 0; k < 7; ++k) {
          const int64_t at = g == Granularity::tensor ? 0 : g == Granularity::row ? r : 3 * r + k / 3;
          const AffineScale s = q.scale_at(r, k);
          const std::string what =
              std::string(name_of_granularity(g)) + " of 3, scale_at(" + shown(r) + ", " + shown(k) + ")";
          expect_equal(what + ": scale number " + shown(at), static_cast<double>(s.scale),
                       scales[static_cast<size_t>(at)]);
          const auto i = static_cast<size_t>(7 * r + k);
          const double value = static_cast<double>(s.scale) * (codes[i] - s.zero_point);
          expect(what + ", scale times (code - zero point): " + shown(exact[i]) +
                     " within half a scale; got " + shown(value),
                 std::abs(value - exact[i]) <= 1.01 * static_cast<double>(std::abs(s.scale)));
        }
      }
    }
  }
}

TEST_CASE("7.2 heavy tails: 18.7 dB with one scale, 33.1 dB by rows of 4096, 43.4 dB by groups of 32") {
  std::vector<float> values = heavy_tails(32, 4096);
  Tensor w = from_data(values, {32, 4096});
  const auto check_db = [&](const char* what, double want, const ScaleOptions& o) {
    const double got = sqnr_db(w, dequantize(scaled_codes(w, o)));
    expect(std::string(what) + ": within 0.5 dB of " + shown(want) + "; got " + shown(got),
           std::abs(got - want) <= 0.5);
  };
  check_db("8 bits, by rows", 33.1, {.granularity = Granularity::row});
  check_db("8 bits, by groups of 32, scales in f16 (Q8_0)", 43.4,
           {.granularity = Granularity::group, .scale_dtype = f16});
  check_db("4 bits, by groups of 32, signed maximum (Q4_0)", 19.4,
           {.bits = 4, .granularity = Granularity::group, .fit = Fit::signed_max, .scale_dtype = f16});
  values[777] = -66;  // as large as the largest of half a million such numbers
  w = from_data(values, {32, 4096});
  check_db("8 bits, one scale for all", 18.7, {.granularity = Granularity::tensor});
}

TEST_CASE("7.2 a row has the same codes alone and among others") {
  const Tensor x = random_matrix(9, 50);
  for (const Granularity g : {Granularity::row, Granularity::group}) {
    const ScaleOptions o{.bits = 6, .granularity = g, .group = 16};
    const ScaledCodes all = scaled_codes(x, o), one = scaled_codes(x.slice(0, 8, 9), o);
    expect(std::string(name_of_granularity(g)) + ": codes of the last of 9 rows, as of this row alone",
           all.codes.slice(0, 8, 9).to_vector<double>() == one.codes.to_vector<double>());
    expect(std::string(name_of_granularity(g)) + ": its scales",
           all.scales.slice(0, 8, 9).to_vector<double>() == one.scales.to_vector<double>());
  }
}

TEST_CASE("7.2 more dimensions are rows; every dtype and layout; scalars and empty tensors") {
  const Tensor x = random_matrix(6, 8);
  const ScaledCodes q = scaled_codes(x.reshape({2, 3, 8}), {});
  expect_equal("scales of [2, 3, 8] by rows", q.scales.shape(), Shape{6, 1});
  expect_equal("codes of [2, 3, 8]", q.codes.shape(), Shape{2, 3, 8});
  for (const DType dtype : {f16, bf16, f64})
    check_codes(x.to(dtype), {.granularity = Granularity::group, .group = 3});
  check_codes(x.t(), {.granularity = Granularity::row});
  for (const Granularity g : kAll) {
    for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{3, 0}}) {
      const ScaledCodes none = scaled_codes(tinytorch::empty(shape), {.granularity = g});
      expect_equal("codes of an empty tensor " + shape.str(), none.codes.shape(), shape);
    }
  }
  const double back = dequantize(scaled_codes(full({}, -2), {})).item<double>();
  expect("-2 without dimensions, as a code and back; got " + shown(back), std::abs(back + 2) < 1e-6);
}

TEST_CASE("7.2 values without a scale, and options out of range, are refused") {
  for (const float bad : {NAN, INFINITY})
    for (const Granularity g : kAll)
      expect_throws("TT-CALIB-01", std::string(name_of_granularity(g)) + ": x has " + shown(bad), [&] {
        scaled_codes(from_data(std::vector<float>{1, 2, bad, 4}, {2, 2}), {.granularity = g});
      });
  expect_throws("TT-CALIB-03", "9 bits", [] { scaled_codes(ones({2, 2}), {.bits = 9}); });
  expect_throws("TT-CALIB-03", "groups of 0", [] {
    scaled_codes(ones({2, 2}), {.granularity = Granularity::group, .group = 0});
  });
  expect_throws("TT-CALIB-03", "stored_bytes of codes of 1 bit", [] { stored_bytes({2, 2}, {.bits = 1}); });
}

TEST_CASE("7.2 the bytes of a packed tensor: runs of codes begin at a byte, and scales have their bytes") {
  const auto check_bytes = [](const char* what, const Shape& shape, const ScaleOptions& o, int64_t want) {
    expect_equal(std::string("bytes of ") + shape.str() + ", " + what, stored_bytes(shape, o), want);
  };
  constexpr auto group = Granularity::group;
  check_bytes("Q8_0: 34 for 32 values", {3, 64}, {.granularity = group, .scale_dtype = f16}, 3 * 2 * 34);
  check_bytes("Q4_0: 18 for 32 values", {3, 64}, {.bits = 4, .granularity = group, .scale_dtype = f16},
              3 * 2 * 18);
  check_bytes("4 bits, groups of 32, and 6 values are left", {2, 70},
              {.bits = 4, .granularity = group, .scale_dtype = f16}, 2 * (2 * 18 + 3 + 2));
  check_bytes("3 bits, one scale in f32", {3, 5}, {.bits = 3, .granularity = Granularity::tensor}, 6 + 4);
  check_bytes("3 bits by rows: 5 codes are 15 bits, 2 bytes", {3, 5}, {.bits = 3}, 3 * (2 + 4));
  check_bytes("8 bits by rows with zero points of one byte", {3, 5}, {.fit = Fit::minmax}, 3 * (5 + 4 + 1));
  check_bytes("groups longer than a row", {3, 5}, {.granularity = group, .group = 32}, 3 * (5 + 4));
  check_bytes("[2, 3, 8] has 6 rows", {2, 3, 8}, {}, 6 * (8 + 4));
  check_bytes("no rows", {0, 8}, {}, 0);
}

TEST_CASE("7.2 the ratio of signal and error in decibels") {
  const auto check_ratio = [](const std::vector<float>& x, const std::vector<float>& y, double want) {
    const double got = sqnr_db(from_data(x), from_data(y));
    expect("sqnr_db of " + shown(Numbers(x.begin(), x.end())) + " and " + shown(Numbers(y.begin(), y.end())) +
               ": expected " + shown(want) + ", got " + shown(got),
           std::abs(got - want) < 1e-6 || got == want);
  };
  check_ratio({3, 4}, {3, 4.5f}, 20);  // 25 to 0.25
  check_ratio({10, 0}, {0, 0}, 0);     // nothing is left of the signal
  check_ratio({1, 0}, {11, 0}, -20);   // the error is ten times the signal
  check_ratio({1, 2, 3}, {1, 2, 3}, INFINITY);
  check_ratio({0, 0}, {0, 0}, INFINITY);
  expect_throws("TT-SHAPE-02", "sqnr_db of [2] and [3]", [] { sqnr_db(ones({2}), ones({3})); });
}
