// Rules of one element against their definitions in long double, and their edges.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <tinytorch/backend/optimizer_rules.hpp>
#include <tinytorch/core/random.hpp>

namespace tt = tinytorch;
using namespace tt::backend;

namespace {

template <class T>
bool close(T got, long double want) {
  return std::abs(static_cast<long double>(got) - want) <=
         static_cast<long double>(64 * tt::epsilon_of(tt::dtype_of<T>)) * (1 + std::abs(want));
}

// Applies the rule and the definition, define(p, g, states), for several steps of random gradients.
template <class T, class Rule, class Define>
void compare(const typename Rule::Step& step, double lr, double decay, Define&& define) {
  tt::Generator generator(17);
  for (int start = 0; start < 50; ++start) {
    T p = static_cast<T>(generator.uniform(-2, 2)), s[3] = {};
    long double exact = p, states[3] = {};
    for (int64_t t = 1; t <= 20; ++t) {
      const T g = static_cast<T>(generator.uniform(-1, 1));
      Rule rule;
      rule.prepare(step, lr, decay, t);
      rule(p, g, s[0], s[1], s[2]);
      exact = define(exact, static_cast<long double>(g), states, t);
      REQUIRE(close(p, exact));
      for (int k = 0; k < Rule::kStates; ++k) REQUIRE(close(s[k], states[k]));
    }
  }
}

template <class T, bool kMomentum, bool kCentered>
void compare_rmsprop() {
  const RmsPropStep step{.alpha = 0.9, .eps = 1e-3, .momentum = kMomentum ? 0.8 : 0, .centered = kCentered};
  compare<T, RmsPropRule<T, kMomentum, kCentered>>(step, 0.05, 0.1,
                                                   [](long double p, long double g, long double* s, int64_t) {
                                                     g += 0.1L * p;
                                                     s[0] = 0.9L * s[0] + 0.1L * g * g;
                                                     long double square = s[0];
                                                     if (kCentered) {
                                                       long double& mean = s[kMomentum ? 2 : 1];
                                                       mean = 0.9L * mean + 0.1L * g;
                                                       square -= mean * mean;
                                                     }
                                                     long double move = g / (std::sqrt(square) + 1e-3L);
                                                     if (kMomentum) move = s[1] = 0.8L * s[1] + move;
                                                     return p - 0.05L * move;
                                                   });
}

template <class T>
void compare_all() {
  compare_rmsprop<T, false, false>();
  compare_rmsprop<T, true, false>();
  compare_rmsprop<T, false, true>();
  compare_rmsprop<T, true, true>();
  compare<T, AdagradRule<T>>({.lr_decay = 0.2, .eps = 1e-6}, 0.1, 0.05,
                             [](long double p, long double g, long double* s, int64_t t) {
                               g += 0.05L * p;
                               s[0] += g * g;
                               const long double lr = 0.1L / (1 + static_cast<long double>(t - 1) * 0.2L);
                               return p - lr * g / (std::sqrt(s[0]) + 1e-6L);
                             });
  for (const bool decoupled : {false, true}) {
    compare<T, AmsGradRule<T>>({.beta1 = 0.8, .beta2 = 0.5, .eps = 1e-3, .decoupled = decoupled}, 0.05, 0.1,
                               [decoupled](long double p, long double g, long double* s, int64_t t) {
                                 if (decoupled) p *= 1 - 0.05L * 0.1L;
                                 if (!decoupled) g += 0.1L * p;
                                 s[0] = 0.8L * s[0] + 0.2L * g;
                                 s[1] = 0.5L * s[1] + 0.5L * g * g;
                                 s[2] = std::max(s[2], s[1]);
                                 const auto n = static_cast<long double>(t);
                                 const long double m = s[0] / (1 - std::pow(0.8L, n)),
                                                   v = s[2] / (1 - std::pow(0.5L, n));
                                 return p - 0.05L * m / (std::sqrt(v) + 1e-3L);
                               });
  }
  // The sign of a mean near zero depends on rounding, so the gradients of Lion differ from it clearly.
  compare<T, LionRule<T>>({.beta1 = 0.5, .beta2 = 0.75}, 0.01, 0.1,
                          [](long double p, long double g, long double* s, int64_t) {
                            const long double mean = 0.5L * s[0] + 0.5L * g;
                            s[0] = 0.75L * s[0] + 0.25L * g;
                            return p * (1 - 0.01L * 0.1L) - 0.01L * (mean > 0 ? 1.0L : -1.0L);
                          });
}

}  // namespace

TEST_CASE("rules equal their definitions, in f32 and f64") {
  compare_all<float>();
  compare_all<double>();
}

TEST_CASE("a zero gradient moves nothing, and NaN is not hidden") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto step = [](auto rule, const auto& options, double g) {
    double p = 2, s[3] = {};
    rule.prepare(options, 0.1, 0, 1);
    rule(p, g, s[0], s[1], s[2]);
    return p;
  };
  CHECK(step(RmsPropRule<double, true, true>(), RmsPropStep{.momentum = 0.9, .centered = true}, 0) == 2);
  CHECK(step(AdagradRule<double>(), AdagradStep{}, 0) == 2);
  CHECK(step(AmsGradRule<double>(), AdamStep{}, 0) == 2);
  CHECK(step(LionRule<double>(), LionStep{}, 0) == 2);
  CHECK(std::isnan(step(RmsPropRule<double, false, false>(), RmsPropStep{}, nan)));
  CHECK(std::isnan(step(RmsPropRule<double, true, true>(), RmsPropStep{.momentum = 0.9}, nan)));
  CHECK(std::isnan(step(AdagradRule<double>(), AdagradStep{}, nan)));
  CHECK(std::isnan(step(AmsGradRule<double>(), AdamStep{}, nan)));
  CHECK(std::isnan(step(LionRule<double>(), LionStep{}, nan)));
}

TEST_CASE("the variance of centered RMSprop is not negative for a constant gradient") {
  float p = 0, v = 0, mean = 0, unused = 0;
  for (int64_t t = 1; t <= 2000; ++t) {
    RmsPropRule<float, false, true> rule;
    rule.prepare({.alpha = 0.9, .centered = true}, 1e-6, 0, t);
    rule(p, 0.1f, v, mean, unused);
    REQUIRE(std::isfinite(p));
  }
}
