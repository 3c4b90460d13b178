// The formulas; families.cpp compares them with transformers in models.
#include <tinytorch/transformer/rotary_scaling.hpp>

#include <doctest/doctest.h>

namespace tt = tinytorch;

TEST_CASE("linear and dynamic scaling") {
  tt::RotaryOptions o{.theta = 100};
  const std::vector<double> plain = o.frequencies(4);
  CHECK(plain == std::vector<double>{1, 0.1});
  o.stretch = tt::LinearScaling{4};
  CHECK(o.frequencies(4) == std::vector<double>{0.25, 0.1 / 4});
  CHECK(o.kind_of(1000000) == 0);
  o.stretch = tt::DynamicScaling{2, 10};
  CHECK(o.kind_of(10) == 0);
  CHECK(o.kind_of(30) == 30);
  CHECK(o.frequencies(4, 10) == plain);
  // theta (2 * 30 / 10 - 1)^(4 / 2) = 2500
  CHECK(o.frequencies(4, 30)[1] == doctest::Approx(1 / std::sqrt(2500.0)));
  CHECK(o.context(10) == 20);
}

TEST_CASE("yarn keeps fast pairs, divides slow ones, and enlarges both") {
  tt::RotaryOptions o{.theta = 10000};
  const std::vector<double> plain = o.frequencies(64);
  o.stretch = tt::YarnScaling{.factor = 8, .original_positions = 4096, .attention_factor = 1.25};
  const std::vector<double> got = o.frequencies(64);
  CHECK(got.front() == plain.front());
  CHECK(got.back() == doctest::Approx(plain.back() / 8));
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] <= plain[i]);
    CHECK(got[i] >= plain[i] / 8 * (1 - 1e-12));
  }
  CHECK(o.attention_factor() == 1.25);
  CHECK(tt::YarnScaling::recommended(0.5) == 1);
  CHECK(tt::YarnScaling::recommended(std::exp(1.0)) == doctest::Approx(1.1));
}

TEST_CASE("longrope has a list for short texts and one for long texts; a part of a head may be turned") {
  tt::RotaryOptions o{.theta = 100, .share = 0.5};
  CHECK(o.turned(8) == 4);
  o.stretch = tt::LongRopeScaling{{1, 2}, {4, 5}, 10, 1.5};
  CHECK(o.frequencies(4, 10) == std::vector<double>{1, 0.1 / 2});
  CHECK(o.frequencies(4, 11) == std::vector<double>{1.0 / 4, 0.1 / 5});
  CHECK(o.kind_of(10) != o.kind_of(11));
  CHECK(tt::LongRopeScaling::recommended(4, 4096) == doctest::Approx(std::sqrt(1 + 2.0 / 12)));
}
