// Steps of rules over many parameters: each element equals the rule of one element, for every dtype of the
// gradient, with a rounded copy, with a factor and at any number of threads.
#include <tinytorch/backend/cpu/optimizer_rules.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <tinytorch/backend/optimizer_rules.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tt::backend;

namespace {

template <class T>
View view(std::vector<T>& x) {
  return {x.data(), tt::dtype_of<T>, {static_cast<int64_t>(x.size())}, {1}};
}

// A parameter of T whose gradient has type G; 16-bit gradients come with a rounded parameter of G.
template <class T, class G>
struct Parameter {
  std::vector<T> p, s[3];
  std::vector<G> g, rounded;
  int64_t step = 4;
  double decay = 0.03;

  Parameter(int64_t n, uint64_t seed) {
    tt::Generator generator(seed);
    const auto size = static_cast<size_t>(n);
    p.resize(size), g.resize(size), rounded.resize(size);
    for (T& x : p) x = static_cast<T>(generator.uniform(-1, 1));
    for (G& x : g) x = tt::convert<G>(static_cast<float>(generator.uniform(-1, 1)));
    for (auto& state : s) {
      state.resize(size);
      for (T& x : state) x = static_cast<T>(generator.uniform(0.5, 1));
    }
  }
  OptimizerSlot slot(int states) {
    OptimizerSlot out{view(p), view(g), {}, {}, {&step, tt::i64, {}, {}}, decay};
    for (int k = 0; k < states; ++k) out.state[k] = view(s[k]);
    if (!std::is_same_v<T, G>) out.rounded = view(rounded);
    return out;
  }
  template <class Rule>
  void expect(const typename Rule::Step& options, double lr, double factor) {
    Rule rule;
    rule.prepare(options, lr, decay, ++step);
    for (size_t i = 0; i < p.size(); ++i) {
      rule(p[i], static_cast<T>(factor) * tt::convert<T>(g[i]), s[0][i], s[1][i], s[2][i]);
      rounded[i] = tt::convert<G>(p[i]);
    }
  }
  void check_same(const Parameter& want, int states) const {
    const auto close = [](const std::vector<T>& a, const std::vector<T>& b) {
      for (size_t i = 0; i < a.size(); ++i) {
        // The compiler may round a sum of products once or twice in either loop.
        REQUIRE(std::abs(a[i] - b[i]) <= 16 * static_cast<T>(tt::epsilon_of(tt::dtype_of<T>)));
      }
    };
    close(p, want.p);
    for (int k = 0; k < states; ++k) close(s[k], want.s[k]);
    CHECK(step == want.step);
    if constexpr (!std::is_same_v<T, G>) {
      for (size_t i = 0; i < p.size(); ++i) REQUIRE(rounded[i].bits == tt::convert<G>(p[i]).bits);
    }
  }
};

template <template <class> class Rule, class Options, class Step>
void check_rule(const Options& options, Step&& run) {
  constexpr int kStates = Rule<float>::kStates;
  const int before = tt::thread_count();
  for (const int threads : {1, 3}) {
    for (const double factor : {1.0, 0.25}) {
      tt::set_thread_count(threads);
      const int64_t sizes[] = {0, 1, 7, 1023, 1025, 16'385, 40'003};
      for (const int64_t n : sizes) {
        Parameter<float, float> a(n, 1), a_want(n, 1);
        Parameter<float, tt::BFloat16> b(n + 3, 2), b_want(n + 3, 2);
        Parameter<float, tt::Half> c(n, 3), c_want(n, 3);
        Parameter<double, double> d(n, 4), d_want(n, 4);
        double scalars[kStepScalarCount] = {0.05, factor, 0};
        const OptimizerSlot slots[] = {a.slot(kStates), b.slot(kStates), c.slot(kStates), d.slot(kStates)};
        run(slots, View{scalars, tt::f64, {kStepScalarCount}, {1}}, options, factor != 1);
        a_want.template expect<Rule<float>>(options, 0.05, factor);
        b_want.template expect<Rule<float>>(options, 0.05, factor);
        c_want.template expect<Rule<float>>(options, 0.05, factor);
        d_want.template expect<Rule<double>>(options, 0.05, factor);
        a.check_same(a_want, kStates);
        b.check_same(b_want, kStates);
        c.check_same(c_want, kStates);
        d.check_same(d_want, kStates);
      }
    }
  }
  tt::set_thread_count(before);
}

template <class T>
using Plain = RmsPropRule<T, false, false>;
template <class T>
using Momentum = RmsPropRule<T, true, false>;
template <class T>
using Centered = RmsPropRule<T, false, true>;
template <class T>
using Both = RmsPropRule<T, true, true>;

const auto rmsprop = [](auto&&... args) { cpu::rmsprop_step_all(args...); };
const auto adagrad = [](auto&&... args) { cpu::adagrad_step_all(args...); };
const auto amsgrad = [](auto&&... args) { cpu::amsgrad_step_all(args...); };
const auto lion = [](auto&&... args) { cpu::lion_step_all(args...); };

}  // namespace

TEST_CASE("a step over many parameters equals the rule of each element") {
  check_rule<Plain>(RmsPropStep{.eps = 1e-3}, rmsprop);
  check_rule<Momentum>(RmsPropStep{.eps = 1e-3, .momentum = 0.9}, rmsprop);
  check_rule<Centered>(RmsPropStep{.eps = 0.5, .centered = true}, rmsprop);
  check_rule<Both>(RmsPropStep{.eps = 0.5, .momentum = 0.9, .centered = true}, rmsprop);
  check_rule<AdagradRule>(AdagradStep{.lr_decay = 0.1}, adagrad);
  check_rule<AmsGradRule>(AdamStep{.eps = 1e-3, .decoupled = true}, amsgrad);
  check_rule<LionRule>(LionStep{}, lion);
}

TEST_CASE("a NaN factor changes nothing, and a wrong number of states is refused before any step") {
  Parameter<float, float> p(5, 1), before(5, 1);
  double scalars[kStepScalarCount] = {0.05, std::nan(""), 0};
  const View view_of_scalars{scalars, tt::f64, {kStepScalarCount}, {1}};
  const OptimizerSlot one[] = {p.slot(1)}, two[] = {p.slot(2)};
  cpu::lion_step_all(one, view_of_scalars, {}, true);
  CHECK(p.p == before.p);
  CHECK(p.step == before.step);
  CHECK(message_of([&] { cpu::lion_step_all(two, view_of_scalars, {}, false); }).find("TT-OPT-01") == 0);
  CHECK(message_of([&] { cpu::amsgrad_step_all(two, view_of_scalars, {}, false); }).find("TT-OPT-01") == 0);
  CHECK(message_of([&] {
          cpu::rmsprop_step_all(one, view_of_scalars, {.momentum = 0.5}, false);
        }).find("TT-OPT-01") == 0);
  CHECK(p.p == before.p);
  CHECK(p.step == before.step);
}
