#include <tinytorch/pruning/distill.hpp>

#include <cmath>
#include <pruning/formats.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/linear.hpp>

using namespace test;

namespace {

tt::Tensor logits(uint64_t seed, const tt::Shape& shape = {5, 7}) {
  tt::Generator g(seed);
  return tt::randn(shape, tt::f64, tt::cpu, g) * 2;
}

tt::Tensor leaf(uint64_t seed) {
  tt::Tensor x = logits(seed);
  return x.requires_grad_();
}

// T^2 times the mean divergence of the rows [rows, V], by its formula.
double by_formula(const tt::Tensor& p_logits, const tt::Tensor& q_logits, double T) {
  const std::vector<double> p = p_logits.to_vector<double>(), q = q_logits.to_vector<double>();
  const auto V = static_cast<size_t>(p_logits.size(-1)), rows = p.size() / V;
  double total = 0;
  for (size_t r = 0; r < rows; ++r) {
    double sum_p = 0, sum_q = 0;
    for (size_t v = 0; v < V; ++v) sum_p += std::exp(p[r * V + v] / T), sum_q += std::exp(q[r * V + v] / T);
    for (size_t v = 0; v < V; ++v) {
      const double a = std::exp(p[r * V + v] / T) / sum_p, b = std::exp(q[r * V + v] / T) / sum_q;
      total += a * std::log(a / b);
    }
  }
  return T * T * total / static_cast<double>(rows);
}

struct Net : tt::Module {
  tt::Generator g{3};
  tt::Linear first{6, 8, true, g}, out{8, 7, true, g};
  tt::BatchNorm norm{8};
  Net() { add("first", first), add("norm", norm), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override { return out(norm(first(x))); }
};

}  // namespace

TEST_CASE("soft targets: both divergences equal their formulas, and their gradients are right") {
  for (const tt::Shape& shape : {tt::Shape{5, 7}, tt::Shape{7}, tt::Shape{2, 3, 7}}) {
    const tt::Tensor s = logits(1, shape), t = logits(2, shape);
    for (const double T : {0.5, 1.0, 4.0}) {
      CHECK(tt::soft_target_loss(s, t, T).item<double>() == doctest::Approx(by_formula(t, s, T)));
      CHECK(tt::soft_target_loss(s, t, T, tt::Divergence::reverse).item<double>() ==
            doctest::Approx(by_formula(s, t, T)));
    }
  }
  for (const tt::Divergence d : {tt::Divergence::forward, tt::Divergence::reverse}) {
    const tt::Tensor t = logits(2);
    const auto f = [&](const tt::Tensors& in) { return tt::soft_target_loss(in[0], t, 3, d); };
    CHECK(tt::gradcheck(f, {leaf(1)}));
  }
  const tt::Tensor same = logits(4);
  CHECK(std::abs(tt::soft_target_loss(same, same, 2).item<double>()) < 1e-12);
}

TEST_CASE("for large T the gradient has a size that does not depend on T") {
  const auto size_of_gradient = [](double T) {
    tt::Tensor s = logits(1);
    s.requires_grad_();
    tt::soft_target_loss(s, logits(2), T).backward();
    return tt::sqrt(tt::sum(tt::square(s.grad()))).item<double>();
  };
  CHECK(size_of_gradient(40) == doctest::Approx(size_of_gradient(80)).epsilon(0.05));
}

TEST_CASE("labels with weight 0 and 1 work alone, and weights between mix the parts") {
  const tt::Tensor s = logits(1), t = logits(2), labels = tt::arange(0, 5, 1, tt::i64);
  const double hard = tt::cross_entropy(s, labels).item<double>(),
               soft = tt::soft_target_loss(s, t, 3).item<double>();
  CHECK(tt::distillation_loss(s, {}, labels, {.soft = 0}).item<double>() == doctest::Approx(hard));
  CHECK(tt::distillation_loss(s, t, {}, {.temperature = 3, .soft = 1}).item<double>() ==
        doctest::Approx(soft));
  CHECK(tt::distillation_loss(s, t, labels, {.temperature = 3, .soft = 0.3}).item<double>() ==
        doctest::Approx(0.3 * soft + 0.7 * hard));
}

TEST_CASE("a class that is masked in both has no part, and gives no NaN in the gradient of the others") {
  tt::Tensor s = logits(1), t = logits(2);
  for (int64_t r = 0; r < 5; ++r) t.data<double>()[r * 7 + 3] = -INFINITY;
  s.requires_grad_();
  const tt::Tensor loss = tt::soft_target_loss(s, t, 2);
  CHECK(std::isfinite(loss.item<double>()));
}

TEST_CASE("hidden states and attention: formulas, gradients for the student only") {
  tt::Tensor s = logits(1), t = logits(2);
  s.requires_grad_(), t.requires_grad_();
  tt::hidden_state_loss(s, t).backward();
  CHECK(s.grad().defined());
  CHECK_FALSE(t.grad().defined());
  const auto p = [](uint64_t seed) { return tt::softmax(logits(seed), -1); };
  CHECK(tt::attention_loss(p(1), p(2)).item<double>() ==
        doctest::Approx(by_formula(logits(2), logits(1), 1)));
  const tt::Tensor goal = p(2);
  CHECK(tt::gradcheck([&](const tt::Tensors& in) { return tt::attention_loss(tt::softmax(in[0], -1), goal); },
                      {leaf(1)}));
}

TEST_CASE("a teacher gets no gradient, does not change, and is left in its mode") {
  Net teacher, student;
  const tt::Tensor x = logits(5, {10, 6}).to(tt::f32);
  std::map<std::string, std::vector<double>> before;
  for (const auto& [name, tensor] : teacher.state_dict()) before[name] = tensor.to_vector<double>();
  const tt::Tensor goal = tt::teacher_logits(teacher, x);
  CHECK(teacher.training());
  CHECK_FALSE(goal.requires_grad());
  tt::distillation_loss(student(x), goal, tt::arange(0, 10, 1, tt::i64) * 0, {}).backward();
  for (const auto& [name, tensor] : teacher.state_dict())
    CHECK(tensor.to_vector<double>() == before.at(name));
  for (const tt::Tensor& p : teacher.parameters()) CHECK_FALSE(p.grad().defined());
  for (const tt::Tensor& p : student.parameters()) CHECK(p.grad().defined());
}

TEST_CASE("options and shapes that do not fit are refused") {
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  CHECK(code([] { tt::soft_target_loss(logits(1), logits(1), 0); }) == "TT-PRUNE-08");
  CHECK(code([] { tt::soft_target_loss(logits(1), logits(1, {5, 6})); }) == "TT-SHAPE-02");
  CHECK(code([] { tt::distillation_loss(logits(1), logits(1), {}, {.soft = 1.5}); }) == "TT-PRUNE-08");
  CHECK(code([] { tt::distillation_loss(logits(1), {}, {}, {.soft = 1}); }) == "TT-TENSOR-01");
  CHECK(code([] { tt::attention_loss(logits(1), logits(1, {5, 6})); }) == "TT-SHAPE-02");
}
