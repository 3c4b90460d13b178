#include <tinytorch/backend/cpu/kv_codes.hpp>

#include <support/check.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;
using backend::kKvGroup;

namespace {

Numbers random_row(int64_t D, double size = 1) {
  return Values::random(f32, {D}, Layout::contiguous, -size, size).numbers();
}
double largest_of(const Numbers& x) {
  double largest = 0;
  for (const double value : x) largest = std::max(largest, std::abs(value));
  return largest;
}

// --- Rows of 8 bits -------------------------------------------------------------------------------------

struct Row8 {
  float scale = 0;
  std::vector<int8_t> codes;
};
// Numbers as they lie in a tensor of S, at a distance of `step`. What lies between them is large.
template <class S>
Row8 quantize8(const Numbers& x, int64_t step) {
  std::vector<S> memory(x.size() * static_cast<size_t>(step), static_cast<S>(1e4f));
  for (size_t d = 0; d < x.size(); ++d)
    memory[d * static_cast<size_t>(step)] = static_cast<S>(static_cast<float>(x[d]));
  Row8 row{0, std::vector<int8_t>(x.size() + 4, 85)};
  row.scale = cpu::quantize_row(row.codes.data(), memory.data(), step, std::ssize(x));
  for (size_t i = 0; i < 4; ++i) expect("nothing is written behind the row", row.codes[x.size() + i] == 85);
  row.codes.resize(x.size());
  return row;
}
template <class S>
void check_row8(const Numbers& given, int64_t step, DType dtype) {
  const Numbers x = Values::of(dtype, {std::ssize(given)}, given).numbers();  // as S has them
  const Row8 row = quantize8<S>(x, step);
  const double scale = largest_of(x) / 127;
  const std::string what = shown(std::ssize(x)) + " numbers of " + name_of(dtype) + ", " + shown(step) +
                           " apart, the largest " + shown(largest_of(x));
  expect("scale of " + what + ": " + shown(scale) + "; got " + shown(row.scale),
         std::abs(row.scale - scale) <= 1e-6 * scale + 2e-45);
  for (size_t d = 0; d < x.size(); ++d) {
    const double exact = x[d] / scale, code = row.codes[d];
    expect("number " + shown(static_cast<int64_t>(d)) + " of " + what + ": " + shown(exact) +
               " times the scale, as the nearest integer; got " + shown(code),
           std::abs(exact - code) <= 0.5 + 1e-4);
  }
}

// --- Rows of 4 bits -------------------------------------------------------------------------------------

// The definition: number i of a block is the sum of all numbers j, with the sign (-1)^(common bits of i and
// j), divided by the root of their count.
Numbers rotated(const Numbers& x) {
  size_t n = 1;
  while (x.size() % (2 * n) == 0) n *= 2;
  Numbers out(x.size());
  for (size_t first = 0; first < x.size(); first += n) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        size_t common = 0;
        for (size_t bits = i & j; bits > 0; bits &= bits - 1) ++common;
        out[first + i] += (common % 2 == 0 ? 1 : -1) * x[first + j];
      }
      out[first + i] /= std::sqrt(static_cast<double>(n));
    }
  }
  return out;
}
template <class T>
Numbers rotate(const Numbers& x) {
  std::vector<T> row(x.begin(), x.end());
  cpu::rotate(row.data(), std::ssize(x));
  return {row.begin(), row.end()};
}

struct Row4 {
  std::vector<uint8_t> bytes;
  std::vector<BFloat16> scales;

  int code(size_t d) const {  // from -8 to 7
    const size_t in_group = d % 32, half = in_group % 16;
    const uint8_t byte = bytes[d / 32 * 16 + half];
    return (in_group < 16 ? byte & 15 : byte >> 4) - 8;
  }
  Numbers numbers(size_t D) const {
    Numbers out;
    for (size_t d = 0; d < D; ++d) out.push_back(code(d) * static_cast<double>(scales[d / 32]));
    return out;
  }
};
Row4 quantize4(const Numbers& x, bool is_key) {
  const size_t groups = (x.size() + 31) / 32;
  std::vector<float> row(groups * 32, NAN);  // behind the last number there is nothing to read
  std::copy(x.begin(), x.end(), row.begin());
  Row4 out{std::vector<uint8_t>(groups * 16 + 4, 85), std::vector<BFloat16>(groups + 1, BFloat16(99.0f))};
  cpu::quantize_groups(out.bytes.data(), out.scales.data(), row.data(), std::ssize(x), is_key);
  expect("nothing is written behind the scales", static_cast<float>(out.scales.back()) == 99);
  for (size_t i = 0; i < 4; ++i)
    expect("nothing is written behind the groups", out.bytes[groups * 16 + i] == 85);
  return out;
}
// Each group: the scale that its extreme number asks for, and the nearest code for each number.
void check_row4(const Numbers& given, bool is_key) {
  const Numbers x = is_key ? rotated(given) : given;
  const Row4 row = quantize4(given, is_key);
  const std::string what = std::string(is_key ? "a key" : "a value") + " of " + shown(std::ssize(x));
  for (size_t g = 0; g * 32 < x.size(); ++g) {
    double extreme = 0;
    const size_t end = std::min(x.size(), g * 32 + 32);
    for (size_t d = g * 32; d < end; ++d) extreme = std::abs(x[d]) > std::abs(extreme) ? x[d] : extreme;
    const auto scale = static_cast<double>(row.scales[g]);
    expect("scale of group " + shown(static_cast<int64_t>(g)) + " of " + what + ": " + shown(extreme / -8) +
               ", rounded to bf16; got " + shown(scale),
           std::abs(scale - extreme / -8) <= std::abs(extreme / 8) / 256 + 1e-6);
    for (size_t d = g * 32; d < end; ++d) {
      const double exact = std::clamp(x[d] / scale, -8.0, 7.0);
      expect("number " + shown(static_cast<int64_t>(d)) + " of " + what + (is_key ? ", rotated: " : ": ") +
                 shown(exact) + " times the scale, as the nearest integer; got " + shown(row.code(d)),
             std::abs(exact - row.code(d)) <= 0.5 + 1e-4);
    }
  }
}

double dot(const Numbers& a, const Numbers& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

TEST_CASE("9.9 8 bits: the largest magnitude of a row becomes 127, all others the nearest integer") {
  for (const int64_t D : {1, 2, 7, 64, 80})
    for (const double size : {1.0, 1e-3, 300.0}) check_row8<float>(random_row(D, size), 1, f32);
  const Row8 row = quantize8<float>({-12.7, 6.35, 0, 12.65}, 1);
  expect_close("scale of {-12.7, 6.35, 0, 12.65}", {row.scale}, {0.1}, {1}, {.scale = 0.1});
  expect_equal("its largest magnitude", static_cast<int>(row.codes[0]), -127);
  // A scale of 1: halves are exact.
  const Row8 ties = quantize8<float>({127, 0.5, 1.5, 2.5, -0.5, -1.5, 63.5, 0.49}, 1);
  expect_equal("127, 0.5, 1.5, 2.5, -0.5, -1.5, 63.5 and 0.49: ties go to the even integer",
               std::vector<int>(ties.codes.begin(), ties.codes.end()),
               std::vector<int>{127, 0, 2, 2, 0, -2, 64, 0});
}

TEST_CASE("9.9 8 bits: rows of each dtype, and numbers that are not neighbours in memory") {
  for (const int64_t step : {1, 2, 5}) {
    check_row8<float>(random_row(33), step, f32);
    check_row8<BFloat16>(random_row(33), step, bf16);
    check_row8<Half>(random_row(33), step, f16);
    check_row8<double>(random_row(33), step, f64);
  }
}

TEST_CASE("9.9 8 bits: a row of zeros has scale 0, one that is not finite has scale NaN") {
  const Row8 zeros = quantize8<float>(Numbers(5), 1);
  expect_equal("scale of zeros", zeros.scale, 0.0f);
  expect_equal("codes of zeros", std::vector<int>(zeros.codes.begin(), zeros.codes.end()),
               std::vector<int>(5, 0));
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    for (const size_t at : {size_t{0}, size_t{4}}) {
      Numbers x = {1, 2, 3, 4, 5};
      x[at] = bad;
      expect("the scale of a row with " + shown(bad) + " at " + shown(static_cast<int64_t>(at)) +
                 " is NaN: attention to it must show that",
             std::isnan(quantize8<float>(x, 1).scale));
    }
  }
  check_row8<float>({1e-38, -3e-39, 2e-38, 1e-45}, 1, f32);  // 127 / 2e-38 is no float
}

TEST_CASE("9.9 the rotation is that of a Hadamard matrix, in blocks of a power of two") {
  for (const int64_t D : {2, 4, 8, 64, 128, 12, 24, 80, 96}) {
    const Numbers x = random_row(D);
    expect_close("rotation of " + shown(D) + " numbers, blocks of " + shown(backend::hadamard_block(D)),
                 rotate<double>(x), rotated(x), {D}, {.dtype = f64, .roundings = 64});
    expect_close("the same in f32", rotate<float>(x), rotated(x), {D}, {.roundings = 64});
  }
  for (const int64_t D : {1, 5, 33}) {
    const Numbers x = random_row(D);
    expect_equal(shown(D) + " numbers have blocks of 1, which stay as they are", rotate<double>(x), x);
  }
}

TEST_CASE("9.9 a rotation of query and key changes no score, and the second one undoes the first") {
  for (const int64_t D : {8, 64, 96}) {
    const Numbers q = random_row(D), k = random_row(D), both = rotate<double>(k);
    expect_close("score of rotated rows of " + shown(D), {dot(rotate<double>(q), both)}, {dot(q, k)}, {1},
                 {.dtype = f64, .roundings = 1e3});
    expect_close("rotated twice", rotate<double>(both), k, {D}, {.dtype = f64, .roundings = 64});
  }
}

TEST_CASE("9.9 4 bits: groups of 32 numbers from -8 to 7, two to a byte, and the extreme one is -8") {
  for (const int64_t D : {32, 64, 128, 8, 40, 80, 33}) check_row4(random_row(D), false);
  Numbers x(32);
  for (size_t i = 0; i < 32; ++i) x[i] = static_cast<double>(i % 16) - 8;
  x[31] = 3;
  const Row4 row = quantize4(x, false);
  expect_equal("scale of the numbers -8 to 7", static_cast<float>(row.scales[0]), 1.0f);
  for (size_t i = 0; i < 32; ++i)
    expect_equal("code of number " + shown(static_cast<int64_t>(i)) +
                     " of a group: low bits of byte i for i < 16, else high bits of byte i - 16",
                 row.code(i), static_cast<int>(x[i]));
  for (double& value : x) value = -value;
  expect_equal("the extreme number is 8: the scale is", static_cast<float>(quantize4(x, false).scales[0]),
               -1.0f);
}

TEST_CASE("9.9 4 bits: each group has a scale of its own, and numbers are divided by it as it is stored") {
  Numbers x = random_row(96);
  for (size_t i = 32; i < 64; ++i) x[i] *= 1000;
  for (size_t i = 64; i < 96; ++i) x[i] *= 1e-3;
  check_row4(x, false);
  // 1.99 / 8 has no bf16: a number near the border of two codes shows by what it was divided.
  for (int i = 0; i < 20; ++i) {
    Numbers y = random_row(32);
    const double extreme = uniform(1.5, 2.5),
                 scale = static_cast<double>(BFloat16(static_cast<float>(extreme / -8)));
    y[0] = extreme;
    for (size_t d = 1; d < 32; ++d)
      y[d] = scale * ((static_cast<double>(d % 13) - 6) + (d % 2 == 0 ? 0.49 : 0.51) * (d % 3 == 0 ? 1 : -1));
    check_row4(Values::of(f32, {32}, y).numbers(), false);
  }
}

TEST_CASE("9.9 4 bits: keys are rotated before they are rounded, values are not") {
  for (const int64_t D : {32, 64, 128, 96, 80, 40, 33}) {
    check_row4(random_row(D), true);
    check_row4(random_row(D, 50), false);
  }
}

TEST_CASE("9.9 4 bits: groups of zeros, and numbers that are not finite") {
  Numbers x = random_row(64);
  std::fill(x.begin(), x.begin() + 32, 0.0);
  const Row4 row = quantize4(x, false);
  expect("scale of a group of zeros: 0", static_cast<float>(row.scales[0]) == 0);
  expect_equal("the numbers of the other group are not touched by it", row.numbers(32), Numbers(32));
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    Numbers y = random_row(64);
    y[40] = bad;
    const Row4 values = quantize4(y, false);
    expect("a group with " + shown(bad) + " has scale NaN", std::isnan(static_cast<float>(values.scales[1])));
    expect("the group beside it has not", std::isfinite(static_cast<float>(values.scales[0])));
    const Row4 key = quantize4(y, true);
    expect("in a key of 64, the rotation spreads " + shown(bad) + " over both groups",
           std::isnan(static_cast<float>(key.scales[0])) && std::isnan(static_cast<float>(key.scales[1])));
  }
}

TEST_CASE("9.9 a row depends on itself alone: appending changes no older row, and no later one") {
  const Numbers small = random_row(64, 0.1), large = random_row(64, 500);
  const Row8 first8 = quantize8<float>(small, 1);
  const Row4 first4 = quantize4(small, true);
  quantize8<float>(large, 1), quantize4(large, true), quantize4(large, false);
  const Row8 again8 = quantize8<float>(small, 1);
  const Row4 again4 = quantize4(small, true);
  expect("8 bits: the same row, alone and behind a row that is 5,000 times larger",
         first8.scale == again8.scale && first8.codes == again8.codes);
  expect("4 bits: the same", first4.bytes == again4.bytes && static_cast<float>(first4.scales[1]) ==
                                                                 static_cast<float>(again4.scales[1]));
}

TEST_CASE("9.9 a channel with large values does not take the precision from the others") {
  // 200 keys of 64 numbers. Two channels are 15 times as large as the others, as in trained models.
  double error = 0, plain = 0, count = 0;
  for (int i = 0; i < 200; ++i) {
    Numbers k = random_row(64);
    k[5] = 15 + uniform(-1, 1), k[40] = -15 + uniform(-1, 1);
    const Numbers back = rotated(quantize4(k, true).numbers(64)), value = quantize4(k, false).numbers(64);
    for (size_t d = 0; d < 64; ++d) {
      if (d == 5 || d == 40) continue;
      error += (back[d] - k[d]) * (back[d] - k[d]), plain += (value[d] - k[d]) * (value[d] - k[d]), ++count;
    }
  }
  const double with = std::sqrt(error / count), without = std::sqrt(plain / count);
  expect("RMS error of the ordinary channels of a key: at most 0.25 (without a rotation " + shown(without) +
             "); got " + shown(with),
         with <= 0.25);
}
