// Observers: each sees batches of activations, and then gives the range that their codes shall cover.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.3. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <span>
#include <tinytorch/quantization/affine.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The smallest and the largest of n values; {0, 0} if there are none. Throws TT-CALIB-01 unless all are
// finite.
inline Range range_of(const char* op, std::span<const float> values, Loc loc) {
  if (values.empty()) return {};
  Range r{values[0], values[0]};
  bool finite = true;
  for (const float x : values) {
    finite = finite && std::isfinite(x);
    r = {std::min(r.min, x), std::max(r.max, x)};
  }
  if (!finite) {
    fail("TT-CALIB-01",
         std::string(op) +
             ": the values have a NaN or an infinity, so that they have no range\n  hint: find "
             "the layer that made it; isfinite of each input says where it begins",
         loc);
  }
  return r;
}

class Observer {
 public:
  virtual ~Observer() = default;
  // x: floating, any shape. An empty x changes nothing. Throws TT-CALIB-01 for a NaN or an infinity.
  void observe(const Tensor& x, TT_LOC) {
    const Tensor values = calibration_values("observe", x, loc);
    const std::span<const float> all(values.data<float>(), static_cast<size_t>(values.numel()));
    const Range range = range_of("observe", all, loc);
    if (all.empty()) return;
    count_ += values.numel();
    add(all, range);
  }
  // Throws TT-CALIB-02 if nothing was observed.
  Range range(TT_LOC) const {
    if (count_ == 0) {
      fail("TT-CALIB-02", "this observer has seen no values\n  hint: call observe(x) first", loc);
    }
    return clipped();
  }
  int64_t count() const { return count_; }

 protected:
  virtual void add(std::span<const float> values, Range range) = 0;
  virtual Range clipped() const = 0;

 private:
  int64_t count_ = 0;
};

class MinMaxObserver : public Observer {
 protected:
  inline void add(std::span<const float>, Range batch) override;  // task 7.3
  Range clipped() const override { return seen_; }

 private:
  Range seen_;
  bool first_ = true;
};

// r = momentum * r + (1 - momentum) * (range of the batch), beginning with the range of the first batch. The
// result depends on how the values are divided into batches.
class MovingAverageObserver : public Observer {
 public:
  explicit MovingAverageObserver(double momentum = 0.9, TT_LOC) : momentum_(momentum) {
    if (!(momentum >= 0 && momentum < 1))
      fail("TT-CALIB-03", "MovingAverageObserver: the momentum is at least 0 and below 1", loc);
  }

 protected:
  void add(std::span<const float>, Range batch) override {
    const double keep = first_ ? 0 : momentum_;
    min_ = keep * min_ + (1 - keep) * static_cast<double>(batch.min);
    max_ = keep * max_ + (1 - keep) * static_cast<double>(batch.max);
    first_ = false;
  }
  Range clipped() const override { return {static_cast<float>(min_), static_cast<float>(max_)}; }

 private:
  double momentum_, min_ = 0, max_ = 0;
  bool first_ = true;
};

// Counts |x| in kBins equal bins of [0, 2^e), where 2^e is the power of two above the largest |x|. If a
// larger value arrives, e grows, and neighbouring bins are added together: the counts are the same as if the
// largest value had been known before, so the order of the values does not matter.
class MagnitudeHistogram {
 public:
  static constexpr int64_t kBins = 1 << 16;

  void add(std::span<const float> values);  // task 7.3
  const std::vector<int64_t>& counts() const { return counts_; }
  double width() const { return width_; }
  float largest() const { return largest_; }
  int64_t total() const { return total_; }

 private:
  void grow(int exponent) {
    if (!empty_ && exponent <= exponent_) return;
    if (!empty_) {
      const int shift = std::min(exponent - exponent_, 16);
      std::vector<int64_t> merged(kBins);
      for (size_t i = 0; i < kBins; ++i) merged[i >> shift] += counts_[i];
      counts_ = std::move(merged);
    }
    empty_ = false;
    exponent_ = exponent;
    width_ = std::ldexp(1.0, exponent) / static_cast<double>(kBins);
  }

  std::vector<int64_t> counts_ = std::vector<int64_t>(kBins);
  int64_t total_ = 0;
  float largest_ = 0;
  double width_ = 1;
  int exponent_ = 0;
  bool empty_ = true;  // until a value other than 0 arrives; zeros are in bin 0 for every width
};

// The percentile is rounded up to the end of a bin, which is 2^-15 of the largest |x| or less.
class PercentileObserver : public Observer {
 public:
  explicit PercentileObserver(double percent = 99.99, TT_LOC) : percent_(percent) {
    if (!(percent > 0 && percent <= 100))
      fail("TT-CALIB-03", "PercentileObserver: the percentile is above 0 and at most 100", loc);
  }

 protected:
  void add(std::span<const float> values, Range) override { histogram_.add(values); }
  inline Range clipped() const override;  // task 7.3

 private:
  double percent_;
  MagnitudeHistogram histogram_;
};

// A value that occurs `count` times.
struct CountedValue {
  float value = 0;
  double count = 1;
};

inline double squared_error(std::span<const CountedValue> values, const AffineScale& s);        // task 7.3
inline AffineScale mse_scale(std::span<const CountedValue> values, const AffineScale& widest);  // task 7.3

// The values of a bin count as its middle.
class MseObserver : public Observer {
 public:
  explicit MseObserver(int bits = 8, TT_LOC) : bits_(bits) { require_bits("MseObserver", bits, loc); }

 protected:
  void add(std::span<const float> values, Range) override { histogram_.add(values); }
  inline Range clipped() const override;  // task 7.3

 private:
  int bits_;
  MagnitudeHistogram histogram_;
};

inline double divergence_of_levels(std::span<const double> bins, size_t end, double beyond);  // task 7.3

// Chooses the range of symmetric 8-bit codes by the KL divergence. The histogram is folded to 1024 to 2048
// bins up to the largest |x|.
class KlObserver : public Observer {
 protected:
  void add(std::span<const float> values, Range) override { histogram_.add(values); }
  inline Range clipped() const override;  // task 7.3

 private:
  MagnitudeHistogram histogram_;
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/quantization/observers.hpp>
