// Batch normalization: y = (x - mean) / sqrt(var + eps) * weight + bias, per channel.
//
// Training normalizes by the statistics of the batch and updates the running statistics:
//   running = (1 - momentum) running + momentum batch      (the running variance is the unbiased one)
// Evaluation normalizes by the running statistics, so the result of a sample does not depend on the rest of
// its batch.
// Source: Ioffe and Szegedy, 2015.
#pragma once

#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;
};

// Batch normalization of x [N, C, ...] of any rank >= 2; the base class of BatchNorm1d and BatchNorm2d.
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, BatchNormOptions norm_options = {}) : options(norm_options) {
    if (options.affine) {
      weight = add_parameter("weight", ones({channels}));
      bias = add_parameter("bias", zeros({channels}));
    } else {
      weight = ones({channels}), bias = zeros({channels});
    }
    running_mean = add_buffer("running_mean", zeros({channels}));
    running_var = add_buffer("running_var", ones({channels}));
    batches = add_buffer("num_batches_tracked", zeros(Shape{}, i64));
  }

  // In training, batch_norm_train(x, weight, bias, eps) returns {y, mean [C], biased variance [C]}. y is the
  // result; the detached mean and variance update the running statistics. In evaluation, batch_norm_infer()
  // normalizes by the running statistics.
  Tensor forward(const Tensor& x) override {
    check_input(x);
    if (!training()) return batch_norm_infer(x, running_mean, running_var, weight, bias, options.eps);
    const Tensors result =
        batch_norm_train(x, weight, bias, options.eps);  // y, mean [C], biased variance [C]
    update_running(result[1].detach(), result[2].detach(), x.numel() / running_mean.numel());
    return result[0];
  }

  BatchNormOptions options;
  Tensor weight, bias;               // [C]
  Tensor running_mean, running_var;  // [C]
  Tensor batches;                    // i64 []: number of training batches so far

 protected:
  virtual void check_input(const Tensor& x) const {
    if (x.rank() < 2 || x.size(1) != running_mean.numel()) {
      fail("TT-NN-13", "batch norm over " + std::to_string(running_mean.numel()) +
                           " channels needs x [N, C, ...] with as many, got " + x.describe());
    }
  }

 private:
  // Updates running_mean and running_var in place, outside of any graph, and counts the batch. `count` is the
  // number of values per channel. The unbiased variance is the biased one times count / (count - 1), which
  // does not exist for a single value. Throws TT-NN-14 for that.
  void update_running(const Tensor& mean, const Tensor& biased_var, int64_t count) {
    NoGrad no_grad;
    if (count < 2) {
      fail("TT-NN-14",
           "batch norm in training needs more than one value per channel\n  hint: use a larger batch, "
           "or call eval() first");
    }
    const double unbias = static_cast<double>(count) / static_cast<double>(count - 1);
    const double m = options.momentum;
    running_mean.mul_(1 - m).add_(mean.to(running_mean.dtype()), m);
    running_var.mul_(1 - m).add_(biased_var.to(running_var.dtype()), m * unbias);
    batches.add_(ones(Shape{}, i64, batches.device()));
  }
};

// x [N, C] or [N, C, L]
class BatchNorm1d : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;

 protected:
  void check_input(const Tensor& x) const override {
    BatchNorm::check_input(x);
    if (x.rank() > 3) fail("TT-NN-13", "BatchNorm1d takes [N, C] or [N, C, L], got " + x.describe());
  }
};

// x [N, C, H, W]
class BatchNorm2d : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;

 protected:
  void check_input(const Tensor& x) const override {
    BatchNorm::check_input(x);
    if (x.rank() != 4) fail("TT-NN-13", "BatchNorm2d takes [N, C, H, W], got " + x.describe());
  }
};

}  // namespace tinytorch::inline TT_BUILD
