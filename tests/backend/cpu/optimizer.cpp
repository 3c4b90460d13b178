// Optimizer kernels against plain loops in double precision, at sizes around the grain and the vector width.
#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/backend/cpu/optimizer.hpp>
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

TEST_CASE("mismatched views and integer parameters are refused") {
  std::vector<float> p{1, 2, 3}, g{1, 2};
  std::vector<double> g64{1, 2, 3};
  std::vector<int32_t> whole{1, 2, 3};
  CHECK_THROWS_AS(cpu_kernels::sgd_step(view(p), view(g), {}, {}), tt::Error);
  CHECK_THROWS_AS(cpu_kernels::sgd_step(view(p), view(g64), {}, {}), tt::Error);
  CHECK_THROWS_AS(cpu_kernels::sgd_step(view(whole), view(whole), {}, {}), tt::Error);
  CHECK_THROWS_AS(cpu_kernels::adam_step(view(p), view(p), view(p), view(g), {}), tt::Error);
  CHECK(p == std::vector<float>{1, 2, 3});
}
