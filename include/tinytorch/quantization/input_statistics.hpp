// InputStatistics: what calibration keeps of the inputs X of a linear layer, summed over all rows (tokens).
//
//   gram      X^T X [K, K]: the squared error of a changed weight row e is e (X^T X) e^T, so no output has to
//             be computed to judge a quantizer. GPTQ calls it the Hessian (it is half of it).
//   abs_max   max|X_j| [K], for SmoothQuant
//   abs_mean  mean|X_j| [K], for AWQ
//
// Every sum is added row by row in double, so the bits depend on the rows and their order, but not on their
// division into batches or on the number of threads.
#pragma once

#include <tinytorch/core/parallel.hpp>
#include <tinytorch/quantization/observers.hpp>

namespace tinytorch::inline TT_BUILD {

class InputStatistics {
 public:
  // K: input features, at least 1.
  explicit InputStatistics(int64_t features, TT_LOC) : features_(features) {
    if (features < 1) fail("TT-CALIB-03", "InputStatistics: at least one feature is needed", loc);
    const auto K = static_cast<size_t>(features);
    gram_.resize(K * K), abs_sum_.resize(K), abs_max_.resize(K);
  }

  // x [..., K], floating. Throws TT-SHAPE-02 for another K, and TT-CALIB-01 for a NaN or an infinity, before
  // anything is counted.
  void observe(const Tensor& x, TT_LOC) {
    const Tensor values = calibration_values("observe", x, loc);
    if (values.rank() == 0 || values.size(-1) != features_) {
      fail("TT-SHAPE-02",
           "observe: " + x.describe() + " does not end with " + std::to_string(features_) + " features", loc);
    }
    const std::span<const float> all(values.data<float>(), static_cast<size_t>(values.numel()));
    (void)range_of("observe", all, loc);
    const int64_t rows = values.numel() / features_;
    add_gram(all.data(), rows);
    add_magnitudes(all.data(), rows);
    rows_ += rows;
  }

  int64_t features() const { return features_; }
  int64_t rows() const { return rows_; }
  // f64 [K, K], symmetric.
  Tensor gram() const {
    const Tensor out = empty({features_, features_}, DType::f64, cpu);
    double* const to = out.data<double>();
    for (int64_t i = 0; i < features_; ++i) {
      for (int64_t j = i; j < features_; ++j)
        to[i * features_ + j] = to[j * features_ + i] = gram_[static_cast<size_t>(i * features_ + j)];
    }
    return out;
  }
  // f32 [K].
  Tensor abs_max() const { return from_data(abs_max_, {features_}, cpu); }
  // f64 [K]; zeros before the first row.
  Tensor abs_mean() const {
    return from_data(abs_sum_, {features_}, cpu) / static_cast<double>(std::max<int64_t>(rows_, 1));
  }

 private:
  // The upper half of the Gram matrix. A thread adds all rows of X to some rows of the matrix, in order.
  void add_gram(const float* x, int64_t rows) {
    const int64_t K = features_;
    parallel_for(K, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double* const sums = gram_.data() + i * K;
        for (int64_t r = 0; r < rows; ++r) {
          const float* const row = x + r * K;
          const auto xi = static_cast<double>(row[i]);
          for (int64_t j = i; j < K; ++j) sums[j] += xi * static_cast<double>(row[j]);
        }
      }
    });
  }
  void add_magnitudes(const float* x, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < abs_max_.size(); ++j) {
        const float magnitude = std::abs(*x++);
        abs_max_[j] = std::max(abs_max_[j], magnitude);
        abs_sum_[j] += static_cast<double>(magnitude);
      }
    }
  }

  int64_t features_, rows_ = 0;
  std::vector<double> gram_, abs_sum_;
  std::vector<float> abs_max_;
};

// Throws TT-SHAPE-02 unless weight is a matrix [N, K] with the K of the statistics, TT-CALIB-02 unless they
// have seen a row.
inline void require_statistics(const char* op, const Tensor& weight, const InputStatistics& inputs, Loc loc) {
  require_defined(op, loc, weight);
  if (weight.rank() != 2 || weight.size(1) != inputs.features()) {
    fail("TT-SHAPE-02",
         std::string(op) + ": " + weight.describe() + " is no weight [N, K] for " +
             std::to_string(inputs.features()) + " input features",
         loc);
  }
  if (inputs.rows() == 0) {
    fail("TT-CALIB-02", std::string(op) + ": no inputs were observed\n  hint: call observe(x) first", loc);
  }
}

}  // namespace tinytorch::inline TT_BUILD
