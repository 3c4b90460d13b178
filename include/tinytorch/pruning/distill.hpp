// Losses of knowledge distillation: a small student learns from the outputs of a teacher.
//
//   Tensor goal = teacher_logits(teacher, x);                               // eval mode, no gradient
//   Tensor loss = distillation_loss(student(x), goal, labels, {.temperature = 4, .soft = 0.7});
//
// The soft targets are softmax(teacher / T): at T > 1 the wrong classes differ visibly, and tell what the
// teacher confuses. The gradient of this part is smaller by 1 / T^2, so it is multiplied by T^2, and the
// weight of the parts does not depend on T. Sources: Hinton, Vinyals, Dean, "Distilling the knowledge in a
// neural network", 2015; Gu et al., "MiniLLM", 2023 (reverse divergence); Romero et al., "FitNets", 2014
// (hidden states).
#pragma once

#include <tinytorch/layers/eval_mode.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

// forward: KL(teacher || student), which makes the student cover all that the teacher does. reverse:
// KL(student || teacher), which makes it avoid what the teacher does not.
enum class Divergence : uint8_t { forward, reverse };

struct DistillOptions {
  double temperature = 2;  // T, above 0
  double soft = 0.5;       // weight of the soft targets, from 0 to 1; that of the labels is 1 - soft
  Divergence divergence = Divergence::forward;
};

// T^2 times the mean over all rows of the divergence of softmax(student / T) and softmax(teacher / T). Both
// are logits [..., V] of one shape. The teacher gets no gradient. Throws TT-PRUNE-08 for a temperature that
// is not above 0.
inline Tensor soft_target_loss(const Tensor& student, const Tensor& teacher, double temperature = 2,
                               Divergence divergence = Divergence::forward, TT_LOC) {
  require_defined("soft_target_loss", loc, student, teacher);
  if (!(student.shape() == teacher.shape()) || student.rank() == 0) {
    fail("TT-SHAPE-02",
         "soft_target_loss: student " + student.describe() + " and teacher " + teacher.describe() +
             "\n  rule: logits [..., V] of the same shape",
         loc);
  }
  if (!(temperature > 0) || std::isinf(temperature))
    fail("TT-PRUNE-08", "soft_target_loss: the temperature must be above 0 and finite", loc);
  const Tensor s = log_softmax(student * (1 / temperature), -1, loc),
               t = log_softmax(teacher.detach().to(student.dtype(), loc) * (1 / temperature), -1, loc);
  // A logit of minus infinity (a masked class) has probability 0, and 0 (-inf - -inf) must be 0.
  const auto divergence_of = [&](const Tensor& p, const Tensor& q) {
    const Tensor terms = exp(p) * (p - q);
    return where(exp(p) > 0, terms, zeros_like(terms));
  };
  const Tensor terms = divergence == Divergence::forward ? divergence_of(t, s) : divergence_of(s, t);
  const double rows = std::max(1.0, static_cast<double>(student.numel()) /
                                        static_cast<double>(std::max<int64_t>(1, student.size(-1))));
  return sum(terms) * (temperature * temperature / rows);
}

// soft * soft_target_loss + (1 - soft) * cross_entropy(student, labels). With weight 0 for a part its tensor
// (teacher or labels) may be undefined. Throws TT-PRUNE-08 for options out of range.
inline Tensor distillation_loss(const Tensor& student, const Tensor& teacher, const Tensor& labels,
                                const DistillOptions& o = {}, TT_LOC) {
  if (!(o.soft >= 0 && o.soft <= 1))
    fail("TT-PRUNE-08", "distillation_loss: the weight of the soft targets is from 0 to 1", loc);
  const auto hard = [&] { return cross_entropy(student, labels, {}, loc); };
  const auto soft = [&] { return soft_target_loss(student, teacher, o.temperature, o.divergence, loc); };
  if (o.soft == 0) return hard();
  if (o.soft == 1) return soft();
  return soft() * o.soft + hard() * (1 - o.soft);
}

// The mean squared difference of hidden states [..., C]. For a student of other width, give the student's
// states through a linear layer that is trained with it. The teacher gets no gradient.
inline Tensor hidden_state_loss(const Tensor& student, const Tensor& teacher, TT_LOC) {
  require_defined("hidden_state_loss", loc, student, teacher);
  return mse_loss(student, teacher.detach().to(student.dtype(), loc), Reduction::mean, loc);
}

// The mean over queries of KL(teacher || student) of attention probabilities [..., Tq, Tk], whose rows add to
// 1. Entries that are 0 in the teacher do not count.
inline Tensor attention_loss(const Tensor& student, const Tensor& teacher, TT_LOC) {
  require_defined("attention_loss", loc, student, teacher);
  if (!(student.shape() == teacher.shape()) || student.rank() == 0)
    fail("TT-SHAPE-02", "attention_loss: student and teacher need probabilities of the same shape", loc);
  constexpr double kTiny = 1e-12;
  const Tensor t = teacher.detach().to(student.dtype(), loc);
  const Tensor terms = t * (log(clamp(t, kTiny, 2.0)) - log(clamp(student, kTiny, 2.0)));
  const double rows =
      static_cast<double>(student.numel()) / static_cast<double>(std::max<int64_t>(1, student.size(-1)));
  return sum(terms) * (1 / std::max(1.0, rows));
}

// The outputs of a teacher: in eval mode, so that dropout is off and batch statistics stay, and without a
// graph. Its mode is restored.
inline Tensor teacher_logits(Module& teacher, const Tensor& x, TT_LOC) {
  const NoGrad no_grad;
  const EvalMode eval(teacher);
  return teacher(x, loc);
}

}  // namespace tinytorch::inline TT_BUILD
