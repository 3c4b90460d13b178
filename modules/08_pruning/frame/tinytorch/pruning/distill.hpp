// Losses of knowledge distillation: a small student learns from the outputs of a teacher.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.11. It is cut
// from the library's header by modules/frames.py.
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

inline Tensor soft_target_loss(const Tensor& student, const Tensor& teacher, double temperature = 2,
                               Divergence divergence = Divergence::forward, TT_LOC);  // task 8.11
inline Tensor distillation_loss(const Tensor& student, const Tensor& teacher, const Tensor& labels,
                                const DistillOptions& o = {}, TT_LOC);                  // task 8.11
inline Tensor hidden_state_loss(const Tensor& student, const Tensor& teacher, TT_LOC);  // task 8.11
inline Tensor attention_loss(const Tensor& student, const Tensor& teacher, TT_LOC);     // task 8.11
inline Tensor teacher_logits(Module& teacher, const Tensor& x, TT_LOC);                 // task 8.11

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/distill.hpp>
