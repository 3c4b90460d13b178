// Philox against published known answers, and statistical tests of the numbers that are derived from it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;

namespace {
void check_block(const tt::PhiloxBlock& b, uint32_t v0, uint32_t v1, uint32_t v2, uint32_t v3) {
  CHECK(b.v[0] == v0);
  CHECK(b.v[1] == v1);
  CHECK(b.v[2] == v2);
  CHECK(b.v[3] == v3);
}
}  // namespace

// Source: Random123 1.14, tests/kat_vectors, "philox4x32 10".
TEST_CASE("Philox4x32-10 gives the published known answers") {
  check_block(tt::philox(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  check_block(tt::philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}), 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
              0x6d5451fd);
  // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0
  check_block(tt::philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e), 0xd16cfe09, 0x94fdcceb,
              0x5001e420, 0x24126ea1);
}

TEST_CASE("conversion of bits to numbers at the ends and in the middle of the range") {
  CHECK(tt::uniform_from_bits(0u) == 0.0f);
  CHECK(tt::uniform_from_bits(0xffffffffu) == 1.0f - 0x1p-24f);
  CHECK(tt::uniform_from_bits(0x80000000u) == 0.5f);
  CHECK(tt::uniform_from_bits(0u, 0u) == 0.0);
  CHECK(tt::uniform_from_bits(0xffffffffu, 0xffffffffu) == 1.0 - 0x1p-53);
  CHECK(tt::below_from_bits(0, 0, 10) == 0);
  CHECK(tt::below_from_bits(0xffffffff, 0xffffffff, 10) == 9);
  CHECK(tt::below_from_bits(0xffffffff, 0xffffffff, ~uint64_t{0}) == ~uint64_t{0} - 1);
  for (int i = 0; i < 10'000; ++i) {  // expected: the high half of a 128-bit product
    const auto b = tt::philox(5, static_cast<uint64_t>(i));
    const uint64_t x = (uint64_t{b.v[0]} << 32) | b.v[1], n = (uint64_t{b.v[2]} << 32) | b.v[3];
    const auto product = static_cast<unsigned __int128>(x) * n;
    if (tt::below_from_bits(b.v[0], b.v[1], n) != static_cast<uint64_t>(product >> 64)) FAIL("wrong product");
  }
}

TEST_CASE("uniform numbers pass a Kolmogorov-Smirnov test") {
  tt::Generator g(123);
  const int n = 200'000;
  std::vector<double> v(n);
  for (double& x : v) x = g.uniform();
  std::sort(v.begin(), v.end());
  CHECK(v.front() >= 0);
  CHECK(v.back() < 1);
  double distance = 0;  // Kolmogorov-Smirnov statistic; its 0.1 % point is 1.95 / sqrt(n)
  for (int i = 0; i < n; ++i)
    distance = std::max(distance, std::abs(v[static_cast<size_t>(i)] - (i + 0.5) / n));
  CHECK(distance < 1.95 / std::sqrt(n));
  CHECK(distance > 1e-5);  // a regular grid would be closer
  CHECK(g.uniform(5, 6) >= 5);
  CHECK(g.uniform(5, 6) < 6);
}

TEST_CASE("integers in [0, n) pass a chi-squared test") {
  tt::Generator g(7);
  std::vector<int> count(7);
  for (int i = 0; i < 70'000; ++i) ++count[g.below(7)];
  double chi = 0;
  for (int c : count) chi += (c - 10'000.0) * (c - 10'000.0) / 10'000.0;
  CHECK(chi < 22.5);  // 0.1 % point for 6 degrees of freedom
  CHECK(g.below(1) == 0);
}

TEST_CASE("a generator is determined by its state") {
  tt::Generator a(42);
  const double first = a.uniform();
  const tt::GeneratorState state = a.state();
  CHECK(state.seed == 42);
  CHECK(state.next_block == 1);
  const double second = a.uniform();
  CHECK(first != second);
  tt::Generator b(1);
  b.set_state(state);
  CHECK(b.uniform() == second);
  CHECK(b.state() == a.state());
  tt::Generator c(42);
  CHECK(c.uniform() == first);
  CHECK(tt::Generator(43).uniform() != first);
  CHECK(c.reserve(10) == 1);
  CHECK(c.reserve(1) == 11);
  tt::Generator copy = c;
  CHECK(copy.uniform() == c.uniform());
}

TEST_CASE("manual_seed restarts the default generator") {
  tt::manual_seed(5);
  const double x = tt::default_generator().uniform();
  tt::default_generator().uniform();
  tt::manual_seed(5);
  CHECK(tt::default_generator().uniform() == x);
  CHECK(tt::default_generator().state().seed == 5);
}
