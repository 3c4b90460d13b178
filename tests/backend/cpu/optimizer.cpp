// Optimizer kernels against plain loops in double precision, at sizes around the grain and the vector width.
#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/backend/cpu/optimizer.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using tt::backend::View;
namespace cpu_kernels = tt::backend::cpu;

namespace {

constexpr int64_t kSizes[] = {0, 1, 3, 7, 15, 16, 17, 33, 1009, 16383, 16384, 16385, 50021};

template <class T>
std::vector<T> values(int64_t n, uint64_t seed, double low, double high) {
  tt::Generator generator(seed);
  std::vector<T> x(static_cast<size_t>(n));
  for (T& v : x) v = static_cast<T>(generator.uniform(low, high));
  return x;
}
template <class T>
View view(std::vector<T>& x) {
  return {x.data(), tt::dtype_of<T>, {static_cast<int64_t>(x.size())}, {1}};
}
template <class T>
void check_close(const std::vector<T>& got, const std::vector<double>& expected) {
  const double tolerance = 32 * tt::epsilon_of(tt::dtype_of<T>);
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(std::abs(static_cast<double>(got[i]) - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

template <class T>
void check_sgd(const tt::backend::SgdStep& step) {
  for (int64_t n : kSizes) {
    std::vector<T> p = values<T>(n, 1, -1, 1), g = values<T>(n, 2, -1, 1), v = values<T>(n, 3, -1, 1);
    std::vector<double> p_ref(p.begin(), p.end()), v_ref(v.begin(), v.end());
    const std::vector<T> g_before = g;
    for (size_t i = 0; i < p_ref.size(); ++i) {
      const double d = static_cast<double>(g[i]) + step.weight_decay * p_ref[i];
      double direction = d;
      if (step.momentum != 0) {
        v_ref[i] = step.momentum * v_ref[i] + d;
        direction = step.nesterov ? d + step.momentum * v_ref[i] : v_ref[i];
      }
      p_ref[i] -= step.lr * direction;
    }
    const View velocity = step.momentum != 0 ? view(v) : View{};
    cpu_kernels::sgd_step(view(p), view(g), velocity, step);
    check_close(p, p_ref);
    check_close(v, v_ref);
    CHECK(g == g_before);
  }
}

template <class T>
void check_adam(const tt::backend::AdamStep& step) {
  for (int64_t n : kSizes) {
    std::vector<T> p = values<T>(n, 1, -1, 1), g = values<T>(n, 2, -1, 1);
    std::vector<T> m = values<T>(n, 3, -1, 1), v = values<T>(n, 4, 0.01, 1);
    std::vector<double> p_ref(p.begin(), p.end()), m_ref(m.begin(), m.end()), v_ref(v.begin(), v.end());
    for (size_t i = 0; i < p_ref.size(); ++i) {
      double d = static_cast<double>(g[i]);
      if (step.decoupled) p_ref[i] *= 1 - step.lr * step.weight_decay;
      if (!step.decoupled) d += step.weight_decay * p_ref[i];
      m_ref[i] = step.beta1 * m_ref[i] + (1 - step.beta1) * d;
      v_ref[i] = step.beta2 * v_ref[i] + (1 - step.beta2) * d * d;
      const double m_hat = m_ref[i] / (1 - std::pow(step.beta1, static_cast<double>(step.step)));
      const double v_hat = v_ref[i] / (1 - std::pow(step.beta2, static_cast<double>(step.step)));
      p_ref[i] -= step.lr * m_hat / (std::sqrt(v_hat) + step.eps);
    }
    cpu_kernels::adam_step(view(p), view(g), view(m), view(v), step);
    check_close(p, p_ref);
    check_close(m, m_ref);
    check_close(v, v_ref);
  }
}

}  // namespace

TEST_CASE("sgd_step: plain, momentum, Nesterov and weight decay in f32 and f64") {
  for (bool nesterov : {false, true}) {
    for (double decay : {0.0, 0.1}) {
      for (double momentum : {0.0, 0.9}) {
        if (nesterov && momentum == 0) continue;
        check_sgd<float>({.lr = 0.3, .momentum = momentum, .weight_decay = decay, .nesterov = nesterov});
        check_sgd<double>({.lr = 0.3, .momentum = momentum, .weight_decay = decay, .nesterov = nesterov});
      }
    }
  }
}

TEST_CASE("adam_step: coupled and decoupled weight decay, early and late steps, in f32 and f64") {
  for (bool decoupled : {false, true}) {
    for (double decay : {0.0, 0.1}) {
      for (int64_t step : {1, 2, 1000}) {
        const tt::backend::AdamStep options{.lr = 0.05,
                                            .beta1 = 0.8,
                                            .beta2 = 0.95,
                                            .eps = 1e-3,
                                            .weight_decay = decay,
                                            .decoupled = decoupled,
                                            .step = step};
        check_adam<float>(options);
        check_adam<double>(options);
      }
    }
  }
}

TEST_CASE("adam_step: eps keeps a zero gradient finite, and its first step has size lr") {
  std::vector<float> p{1, 1}, g{0, 1e-3f}, m{0, 0}, v{0, 0};
  cpu_kernels::adam_step(view(p), view(g), view(m), view(v), {.lr = 0.1});
  CHECK(p[0] == 1.0f);
  CHECK(p[1] == doctest::Approx(0.9).epsilon(1e-4));
}

namespace {

// Parameters of sizes around pieces and grains, in f32 and f64, some with 16-bit gradients and 16-bit copies.
struct ManySlots {
  std::vector<std::vector<float>> p, m, v;
  std::vector<std::vector<float>> g;
  std::vector<std::vector<tt::BFloat16>> narrow, rounded;
  std::vector<double> wide_p = values<double>(5000, 7, -1, 1), wide_g = values<double>(5000, 8, -1, 1),
                      wide_m = values<double>(5000, 9, -1, 1), wide_v = values<double>(5000, 10, 0.01, 1);
  std::vector<int64_t> steps;
  std::vector<tt::backend::OptimizerSlot> slots;
  double scalars[tt::backend::kStepScalarCount] = {0.05, 1, 0};

  explicit ManySlots(bool with_second) {
    for (int64_t n : {3, 1024, 0, 1025, 16384, 40'001, 7, 20'000}) {
      const uint64_t seed = p.size() * 10 + 100;
      p.push_back(values<float>(n, seed, -1, 1)), g.push_back(values<float>(n, seed + 1, -1, 1));
      m.push_back(values<float>(n, seed + 2, -1, 1)), v.push_back(values<float>(n, seed + 3, 0.01, 1));
      narrow.emplace_back(g.back().begin(), g.back().end());
      rounded.emplace_back(static_cast<size_t>(n));
    }
    for (size_t i = 0; i <= p.size(); ++i) steps.push_back(static_cast<int64_t>(i));
    for (size_t i = 0; i < p.size(); ++i) {
      const bool sixteen = i % 2 == 1;
      if (sixteen)
        for (size_t k = 0; k < g[i].size(); ++k) g[i][k] = static_cast<float>(narrow[i][k]);
      slots.push_back({view(p[i]),
                       sixteen ? view(narrow[i]) : view(g[i]),
                       {view(m[i]), with_second ? view(v[i]) : View{}},
                       sixteen ? view(rounded[i]) : View{},
                       {&steps[i], tt::i64, {}, {}},
                       0.01 * static_cast<double>(i)});
    }
    slots.push_back({view(wide_p),
                     view(wide_g),
                     {view(wide_m), with_second ? view(wide_v) : View{}},
                     {},
                     {&steps.back(), tt::i64, {}, {}},
                     0.5});
  }
  View scalar_view() { return {scalars, tt::f64, {tt::backend::kStepScalarCount}, {1}}; }
  // The gradients times `factor`, in double.
  template <class T>
  static std::vector<T> scaled(const std::vector<T>& x, double factor) {
    std::vector<T> out;
    for (const T e : x) out.push_back(static_cast<T>(factor) * e);
    return out;
  }
};

template <class T>
void expect_adam(std::vector<T>& p, std::vector<T> g, std::vector<T>& m, std::vector<T>& v, double factor,
                 tt::backend::AdamStep step, const tt::backend::OptimizerSlot& slot) {
  g = ManySlots::scaled(g, factor);
  step.step = *slot.step.as<const int64_t>() + 1;
  step.weight_decay = slot.weight_decay;
  cpu_kernels::adam_step(view(p), view(g), view(m), view(v), step);
}

}  // namespace

TEST_CASE("a step over many parameters equals a step of each, at any thread count") {
  // Single-parameter steps are compared with double above.
  const int before = tt::thread_count();
  for (const double factor : {1.0, 0.25}) {
    for (const int threads : {1, 2, 5}) {
      tt::set_thread_count(threads);
      ManySlots got(true), want(true);
      got.scalars[tt::backend::kGradientFactor] = factor;
      const tt::backend::AdamStep step{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3};
      for (size_t i = 0; i < want.p.size(); ++i)
        expect_adam(want.p[i], want.g[i], want.m[i], want.v[i], factor, step, want.slots[i]);
      expect_adam(want.wide_p, want.wide_g, want.wide_m, want.wide_v, factor, step, want.slots.back());
      cpu_kernels::adam_step_all(got.slots, got.scalar_view(), step, factor != 1);
      CHECK(got.p == want.p);
      CHECK(got.m == want.m);
      CHECK(got.v == want.v);
      CHECK(got.wide_p == want.wide_p);
      for (size_t i = 0; i < got.p.size(); ++i) {
        CHECK(got.steps[i] == want.steps[i] + 1);
        for (size_t k = 0; i % 2 == 1 && k < got.p[i].size(); ++k)
          REQUIRE(got.rounded[i][k].bits == tt::BFloat16(got.p[i][k]).bits);
      }

      ManySlots sgd(false), sgd_want(false);
      sgd.scalars[tt::backend::kGradientFactor] = factor;
      tt::backend::SgdStep rule{.lr = 0.05, .momentum = 0.9, .nesterov = true};
      for (size_t i = 0; i < sgd_want.p.size(); ++i) {
        std::vector<float> g = ManySlots::scaled(sgd_want.g[i], factor);
        rule.weight_decay = sgd_want.slots[i].weight_decay;
        cpu_kernels::sgd_step(view(sgd_want.p[i]), view(g), view(sgd_want.m[i]), rule);
      }
      cpu_kernels::sgd_step_all(sgd.slots, sgd.scalar_view(), rule, factor != 1);
      CHECK(sgd.p == sgd_want.p);
      CHECK(sgd.m == sgd_want.m);
      CHECK(sgd.steps.back() == sgd_want.steps.back() + 1);
    }
  }
  tt::set_thread_count(before);
}

TEST_CASE("a NaN factor changes nothing, and neither does a call with a mismatched slot") {
  ManySlots slots(true), unchanged(true);
  slots.scalars[tt::backend::kGradientFactor] = NAN;
  cpu_kernels::adam_step_all(slots.slots, slots.scalar_view(), {}, true);
  cpu_kernels::sgd_step_all(slots.slots, slots.scalar_view(), {}, true);
  slots.slots[1].state[1] = view(slots.v[0]);
  CHECK_THROWS_AS(cpu_kernels::adam_step_all(slots.slots, slots.scalar_view(), {}, false), tt::Error);
  std::vector<int32_t> whole(3), state(3);
  slots.slots[1] = {view(whole), view(whole), {view(state), view(state)}, {}, slots.slots[1].step};
  CHECK_THROWS_AS(cpu_kernels::adam_step_all(slots.slots, slots.scalar_view(), {}, false), tt::Error);
  CHECK(slots.p == unchanged.p);
  CHECK(slots.m == unchanged.m);
  CHECK(slots.steps == unchanged.steps);
}

TEST_CASE("gradient_factor equals its definition in double, at any thread count") {
  ManySlots slots(true);
  std::vector<View> gradients;
  double total = 0;
  for (size_t i = 0; i < slots.g.size(); ++i) {
    gradients.push_back(slots.slots[i].gradient);
    for (const float g : slots.g[i]) total += double{g} * double{g};
  }
  gradients.push_back(view(slots.wide_g));
  for (const double g : slots.wide_g) total += g * g;
  const double norm = std::sqrt(total);
  const int before = tt::thread_count();
  double first = 0;
  for (const int threads : {1, 2, 5}) {
    tt::set_thread_count(threads);
    for (const double limit : {norm / 3, 2 * norm}) {
      cpu_kernels::gradient_factor(slots.scalar_view(), gradients, limit);
      const double found = slots.scalars[tt::backend::kGradientNorm];
      if (first == 0) first = found;
      CHECK(found == first);
      CHECK(std::abs(found - norm) <= 1e-12 * norm);
      CHECK(slots.scalars[tt::backend::kGradientFactor] == (limit > norm ? 1 : limit / found));
    }
  }
  tt::set_thread_count(before);
  slots.g[4][77] = INFINITY;
  cpu_kernels::gradient_factor(slots.scalar_view(), gradients, 1);
  CHECK(std::isnan(slots.scalars[tt::backend::kGradientFactor]));
}

TEST_CASE("mismatched views and integer parameters are rejected") {
  std::vector<float> p{1, 2, 3}, g{1, 2};
  std::vector<double> g64{1, 2, 3};
  std::vector<int32_t> whole{1, 2, 3};
  CHECK_THROWS_AS(cpu_kernels::sgd_step(view(p), view(g), {}, {}), tt::Error);
  CHECK_THROWS_AS(cpu_kernels::sgd_step(view(p), view(g64), {}, {}), tt::Error);
  CHECK_THROWS_AS(cpu_kernels::sgd_step(view(whole), view(whole), {}, {}), tt::Error);
  CHECK_THROWS_AS(cpu_kernels::adam_step(view(p), view(p), view(p), view(g), {}), tt::Error);
  CHECK(p == std::vector<float>{1, 2, 3});
}
