// The rules of rounding, by what kv_append() leaves in a cache. attention_decode.cpp tests what is read back.
#include <tinytorch/backend/cpu/kv_codes.hpp>

#include <support/array.hpp>
#include <support/kv_numbers.hpp>
#include <tinytorch/backend/cpu/kv_append.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

namespace {

// Keys and values of one token [D] in a format, with what the cache holds.
struct Row {
  std::vector<double> codes, scales;
};
struct OneToken {
  Row key, value;
};
OneToken appended(KvFormat format, const std::vector<double>& x) {
  const auto D = static_cast<int64_t>(x.size());
  const backend::KvRowLayout layout = backend::kv_row_layout(format, DType::f32, D);
  Array keys(layout.dtype, {1, 1, 1, layout.elements}), values(layout.dtype, {1, 1, 1, layout.elements}),
      key_scales(layout.scale_dtype, {1, 1, 1, layout.scales}),
      value_scales(layout.scale_dtype, {1, 1, 1, layout.scales});
  Array lengths = Array::from(i64, {1}, {1}), first_row = Array::from(i64, {2}, {0, 1}),
        k = Array::from(f32, {1, 1, D}, x);
  backend::KvView kv;
  kv.keys = keys.view().data, kv.values = values.view().data, kv.format = format;
  kv.key_scales = key_scales.view().data, kv.value_scales = value_scales.view().data;
  kv.batch = kv.groups = kv.page = 1, kv.head_size = D;
  kv.lengths = lengths.view().as<int64_t>(), kv.first_row = first_row.view().as<int64_t>();
  kernels::kv_append(kv, k.view(), k.view());
  return {{keys.values(), key_scales.values()}, {values.values(), value_scales.values()}};
}
double code_of(const Row& row, size_t d) {
  const int byte = static_cast<int>(row.codes[d / 32 * 16 + d % 16]);
  return (d % 32 < 16 ? byte % 16 : byte / 16) - 8;
}
std::vector<double> random_floats(size_t count, double size, Generator& generator) {
  std::vector<double> x(count);
  for (double& value : x) value = static_cast<double>(static_cast<float>(generator.uniform(-1, 1) * size));
  return x;
}

}  // namespace

TEST_CASE("i4: scales and numbers of values by the rule, those of keys by the rule for the rotated key") {
  Generator generator(5);
  for (const size_t D : {32, 64, 128, 80, 33, 7, 1}) {
    for (const double size : {1.0, 1e-30, 1e30, 0.0}) {
      const std::vector<double> x = random_floats(D, size, generator), rotated = hadamard(x);
      const OneToken token = appended(KvFormat::i4, x);
      CHECK(token.value.scales.size() == (D + 31) / 32);
      for (size_t g = 0; g < (D + 31) / 32; ++g) {
        double extreme[2] = {0, 0};  // of the rotated key and of the value
        for (size_t d = g * 32; d < std::min(D, g * 32 + 32); ++d) {
          if (std::abs(rotated[d]) > std::abs(extreme[0])) extreme[0] = rotated[d];
          if (std::abs(x[d]) > std::abs(extreme[1])) extreme[1] = x[d];
        }
        CHECK(token.value.scales[g] == static_cast<double>(BFloat16(extreme[1] / -8)));
        CHECK(std::abs(token.key.scales[g] - extreme[0] / -8) <= std::abs(extreme[0]) / 8 * 0x1p-8);
        for (size_t d = g * 32; d < g * 32 + 32; ++d) {
          const bool there = d < D && size > 0;
          const double exact = there ? x[d] / token.value.scales[g] : 0;
          CHECK(code_of(token.value, d) == std::clamp(std::nearbyint(exact), -8.0, 7.0));
          const double turned = there ? rotated[d] / token.key.scales[g] : 0;
          CHECK(std::abs(code_of(token.key, d) - std::clamp(turned, -8.0, 7.0)) <= 0.5 + 1e-4);
        }
      }
    }
  }
}

TEST_CASE(
    "i4: ties round to even, the number opposite to the extreme one saturates, and bad groups are NaN") {
  std::vector<double> x(64);
  x[0] = -8, x[1] = 8, x[2] = 0.5, x[3] = 1.5, x[4] = -2.5, x[5] = 7.4, x[6] = -7.5;  // the scale is -1
  const Row row = appended(KvFormat::i4, x).value;
  CHECK(row.scales == std::vector<double>{-1, 0});
  const double wanted[] = {7, -8, 0, -2, 2, -7, 7};  // 8 would be one step beyond; 7.5 rounds to 8
  for (size_t d = 0; d < 7; ++d) CHECK(code_of(row, d) == wanted[d]);
  for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
    x[9] = bad;
    const OneToken token = appended(KvFormat::i4, x);
    CHECK(std::isnan(token.value.scales[0]));
    CHECK(token.value.scales[1] == 0);
    CHECK(std::isnan(token.key.scales[0]));  // the rotation spreads it over the key
    CHECK(std::isnan(token.key.scales[1]));
  }
}

TEST_CASE("fp8: the nearest number of each feature over the scale; bad rows are NaN") {
  Generator generator(6);
  for (const double size : {1.0, 1e-30, 1e30, 0.0}) {
    const std::vector<double> x = random_floats(50, size, generator);
    double largest = 0;
    for (const double value : x) largest = std::max(largest, std::abs(value));
    const OneToken token = appended(KvFormat::fp8, x);
    CHECK(token.key.codes == token.value.codes);
    CHECK(token.key.scales[0] == static_cast<double>(static_cast<float>(largest) / 448));
    for (size_t d = 0; d < x.size(); ++d) {
      const double exact = size > 0 ? x[d] * (448 / largest) : 0;
      const double got = of_float8(static_cast<int>(token.key.codes[d])),
                   best = of_float8(nearest_float8(exact));
      CHECK(std::abs(got - exact) <= std::abs(best - exact) + 1e-6 * std::abs(exact));
    }
  }
  for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL})
    CHECK(std::isnan(appended(KvFormat::fp8, {1, bad, 2}).key.scales[0]));
}

// The accuracy that the rotation is for: three channels are twelve times as large as the others.
TEST_CASE("keys with outlier channels: the error of the logits with and without the rotation") {
  constexpr size_t kD = 128, kTokens = 600;
  Generator generator(7);
  const auto normal = [&] {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += generator.uniform(-0.5, 0.5);
    return sum;
  };
  double errors[2] = {0, 0};  // of the cache, and of the same numbers without a rotation: those of values
  for (size_t t = 0; t < kTokens; ++t) {
    std::vector<double> key(kD), query(kD);
    for (double& x : key) x = normal();
    for (double& x : query) x = normal();
    for (const size_t channel : {5u, 50u, 99u}) key[channel] *= 12;
    for (double& x : key) x = static_cast<double>(static_cast<float>(x));
    const OneToken token = appended(KvFormat::i4, key);
    std::vector<double> held[2];
    for (size_t d = 0; d < kD; ++d) {
      held[0].push_back(code_of(token.key, d) * token.key.scales[d / 32]);
      held[1].push_back(code_of(token.value, d) * token.value.scales[d / 32]);
    }
    held[0] = hadamard(held[0]);
    for (int i = 0; i < 2; ++i) {
      double error = 0;
      for (size_t d = 0; d < kD; ++d) error += query[d] * (held[i][d] - key[d]) / std::sqrt(double{kD});
      errors[i] += error * error / kTokens;
    }
  }
  CHECK(std::sqrt(errors[0]) <= 0.20);
  CHECK(std::sqrt(errors[1]) > 0.30);
}
