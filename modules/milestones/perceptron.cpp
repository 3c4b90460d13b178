// The perceptron (Rosenblatt, "The perceptron: a probabilistic model for information storage and organization
// in the brain", 1958): a weighted sum, a threshold, and a rule that changes the weights after each mistake.
//
//   (x, y), y = 1 or -1, is a mistake if y (w . x) <= 0      then w += y x      without any derivative
//
// Novikoff's theorem (1962): if some unit vector u has y (u . x) >= gamma for all points, and all |x| <= R,
// then the rule makes at most (R / gamma)^2 mistakes, for any order of the points. The two facts of its proof
// are gates here: every mistake adds at least gamma to w . u, and at most R^2 to |w|^2.
#include "gates.hpp"

namespace tt = tinytorch;
using milestone::Numbers;

constexpr int64_t kPoints = 200, kFeatures = 10;

struct Problem {
  tt::Tensor x, y;  // f32 [N, D]; f32 [N], 1 or -1
  Numbers u;        // a unit vector that separates the classes
};

// Points on both sides of a random plane through 0, moved away from it so that there is a gap.
Problem two_clouds(double gap) {
  tt::Tensor u = tt::randn({kFeatures});
  u = u / tt::norm(u);                                              // [D]
  const tt::Tensor x = tt::randn({kPoints, kFeatures});             // [N, D]
  const tt::Tensor y = 2 * (tt::matmul(x, u) > 0).to(tt::f32) - 1;  // [N]
  return {x + gap * y.unsqueeze(1) * u, y, u.to_vector<double>()};
}

double dot(const double* a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct Learned {
  Numbers w;
  int64_t mistakes = 0, in_last_pass = 0;
};

// Applies the rule with tensors, point by point, until a pass has no mistake.
Learned learn(const Problem& problem, int most_passes) {
  tt::Tensor w = tt::zeros({kFeatures});
  Learned out;
  std::printf("pass  mistakes  all points right\n");
  for (int pass = 1; pass <= most_passes; ++pass) {
    out.in_last_pass = 0;
    for (int64_t i = 0; i < kPoints; ++i) {
      const tt::Tensor x = problem.x[i], y = problem.y[i];  // [D], []
      if ((y * (w * x).sum()).item<double>() > 0) continue;
      w = w + y * x;
      out.in_last_pass += 1;
    }
    out.mistakes += out.in_last_pass;
    const tt::Tensor right = (problem.y * tt::matmul(problem.x, w) > 0).to(tt::f32);  // [N]
    std::printf("%4d  %8lld  %15.1f%%\n", pass, static_cast<long long>(out.in_last_pass),
                100 * right.mean().item<double>());
    if (out.in_last_pass == 0) break;
  }
  out.w = w.to_vector<double>();
  return out;
}

// The reference: the same rule by plain loops in double.
Learned learn_by_hand(const Numbers& x, const Numbers& y, int most_passes) {
  Learned out{Numbers(kFeatures)};
  for (int pass = 1; pass <= most_passes; ++pass) {
    out.in_last_pass = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double* const point = x.data() + i * kFeatures;
      if (y[i] * dot(point, out.w) > 0) continue;
      for (size_t k = 0; k < kFeatures; ++k) out.w[k] += y[i] * point[k];
      out.in_last_pass += 1;
    }
    out.mistakes += out.in_last_pass;
    if (out.in_last_pass == 0) break;
  }
  return out;
}

int main() {
  return milestone::run([](milestone::Gates& gates) {
    tt::manual_seed(1958);
    constexpr int kMostPasses = 100;
    constexpr double kGap = 0.4;
    const Problem problem = two_clouds(kGap);
    const Learned learned = learn(problem, kMostPasses);

    // The quantities of the theorem, computed from the points.
    const Numbers x = problem.x.to_vector<double>(), y = problem.y.to_vector<double>();
    double gamma = HUGE_VAL, radius = 0;
    int64_t wrong = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double* const point = x.data() + i * kFeatures;
      gamma = std::min(gamma, y[i] * dot(point, problem.u));
      radius = std::max(radius, milestone::norm(Numbers(point, point + kFeatures)));
      wrong += !(y[i] * dot(point, learned.w) > 0);
    }
    const double mistakes = static_cast<double>(learned.mistakes), bound = std::pow(radius / gamma, 2);
    std::printf("gamma %.3f, R %.3f: %g mistakes, at most (R / gamma)^2 = %.0f\n", gamma, radius, mistakes,
                bound);
    const double length = milestone::norm(learned.w);
    const Learned hand = learn_by_hand(x, y, kMostPasses);

    gates.at_least("the classes are separable with a margin", gamma, 0.99 * kGap);
    gates.at_most("every point is classified correctly", static_cast<double>(wrong), 0);
    gates.at_least("training made at least two mistakes", mistakes, 2);
    gates.at_most("the number of mistakes is within Novikoff's bound", mistakes, bound);
    gates.at_least("each mistake added at least gamma to w . u", dot(learned.w.data(), problem.u),
                   mistakes * gamma * 0.999);
    gates.at_most("each mistake added at most R^2 to |w|^2", length * length,
                  mistakes * radius * radius * 1.001);
    gates.at_most("w equals the reference in double",
                  milestone::norm(milestone::difference(learned.w, hand.w)) / milestone::norm(hand.w), 1e-4);
  });
}
