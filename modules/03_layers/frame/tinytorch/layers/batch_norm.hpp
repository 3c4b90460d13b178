// Batch normalization: y = (x - mean) / sqrt(var + eps) * weight + bias, per channel.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.10. It is cut
// from the library's header by modules/frames.py.
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

  inline Tensor forward(const Tensor& x) override;  // task 3.10

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
  void update_running(const Tensor& mean, const Tensor& biased_var, int64_t count);  // task 3.10
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

#include <tasks/layers/batch_norm.hpp>
