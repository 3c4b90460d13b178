#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/random.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using tinytorch::backend::Distribution;

// Element i by the definition, from the words of block `first + i / each`.
double expected(Distribution kind, DType t, uint64_t seed, uint64_t first, size_t i, double a, double b) {
  const size_t each = t == f32 ? 4 : 2, e = i % each;
  const PhiloxBlock block = philox(seed, first + i / each);
  const auto uniform = [&](size_t k) {
    return t == f32 ? static_cast<double>(block.v[k] >> 8) * 0x1p-24
                    : std::floor(static_cast<double>(block.v[2 * k]) * 0x1p21 +
                                 static_cast<double>(block.v[2 * k + 1] >> 11)) *
                          0x1p-53;
  };
  if (t == i64) {
    return a + static_cast<double>(
                   below_from_bits(block.v[2 * e], block.v[2 * e + 1], static_cast<uint64_t>(b - a)));
  }
  if (kind == Distribution::uniform) return a + (b - a) * uniform(e);
  if (kind == Distribution::bernoulli) return uniform(e) < (t == f32 ? static_cast<float>(a) : a) ? 1 : 0;
  const double r = std::sqrt(-2 * std::log(1 - uniform(e / 2 * 2)));
  const double angle = 2 * 3.14159265358979323846 * uniform(e / 2 * 2 + 1);
  return a + b * r * (e % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

struct Case {
  Distribution kind;
  DType dtype;
  double a, b;
};
const Case kCases[] = {{Distribution::uniform, f32, -2, 5},
                       {Distribution::uniform, f64, -2, 5},
                       {Distribution::normal, f32, 0.5, 2},
                       {Distribution::normal, f64, 0.5, 2},
                       {Distribution::bernoulli, f32, 0.3, 0},
                       {Distribution::bernoulli, f64, 0.3, 0},
                       {{}, i64, -7, 1000003},
                       {{}, i64, 5, 6}};  // integers

}  // namespace

TEST_CASE("random tensors of every size equal the definition and are not written beyond their end" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const Case& c : kCases) {
    for (const int64_t n : {0, 1, 2, 3, 5, 31, 33, 257, 1000, 1025}) {
      // 0xfffffff0: block numbers exceed 32 bits
      const uint64_t seed = fresh.next(), first = n % 2 ? 0xfffffff0u : 3;
      INFO("distribution ", static_cast<int>(c.kind), " ", text_of(c.dtype), " n ", n);
      const int64_t guard = 9;
      DeviceArray out =
          DeviceArray::from(c.dtype, {n + guard}, std::vector<double>(static_cast<size_t>(n + guard), -77));
      View part = out.view();
      part.shape = {n};
      if (c.dtype == i64) {
        const auto low = static_cast<int64_t>(c.a);
        kernels::random_integers(part, seed, first, low, static_cast<uint64_t>(c.b - c.a));
      } else {
        kernels::random(c.kind, part, seed, first, c.a, c.b);
      }
      std::vector<double> want(static_cast<size_t>(n + guard), -77);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        want[i] = expected(c.kind, c.dtype, seed, first, i, c.a, c.b);
      }
      const bool exact = c.dtype == i64 || c.kind == Distribution::bernoulli;
      if (exact) CHECK(out.values() == want);
      // 2 pi v is rounded before the cosine, which causes an absolute error.
      if (!exact) check_close(out.values(), want, c.dtype, 24, 4);
    }
  }
}

TEST_CASE("random numbers are bit-identical with the CPU's, except for rounding of normals" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const Case& c : kCases) {
    INFO("distribution ", static_cast<int>(c.kind), " ", text_of(c.dtype));
    const uint64_t seed = fresh.next();
    Array on_cpu(c.dtype, {1001});
    DeviceArray out(c.dtype, {1001});
    // [0, 1): with another scale, a device could use one fused multiply-add where the other rounds twice.
    const bool unit = c.kind == Distribution::uniform;
    kernels::random(c.kind, out.view(), seed, 2, unit ? 0 : c.a, unit ? 1 : c.b);
    tinytorch::backend::cpu::random(c.kind, on_cpu.view(), seed, 2, unit ? 0 : c.a, unit ? 1 : c.b);
    if (c.kind == Distribution::normal) {
      check_close(out.values(), on_cpu.values(), c.dtype, 24, 4);
    } else {
      CHECK(out.values() == on_cpu.values());
    }
  }
}

TEST_CASE("random numbers depend on seed and first block, and are reproducible" * needs_devices()) {
  const auto draw = [](uint64_t seed, uint64_t first) {
    DeviceArray out(f32, {512});
    kernels::random(Distribution::normal, out.view(), seed, first, 0, 1);
    return out.values();
  };
  const std::vector<double> one = draw(1, 0);
  CHECK(one == draw(1, 0));
  CHECK(one != draw(2, 0));
  CHECK(one != draw(1, uint64_t{1} << 32));
  // Starts 64 blocks later, so its first half is the second half of the other.
  const std::vector<double> later = draw(1, 64);
  CHECK(std::equal(later.begin(), later.begin() + 256, one.begin() + 256));
  double sum = 0, squares = 0;
  for (const double v : one) sum += v, squares += v * v;
  CHECK(std::abs(sum / 512) < 6 / std::sqrt(512.0));
  CHECK(std::abs(squares / 512 - 1) < 6 * std::sqrt(2 / 512.0));
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
