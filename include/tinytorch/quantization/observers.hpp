// Observers: each sees batches of activations, and then gives the range that their codes shall cover.
//
//   MinMaxObserver         the smallest and the largest value: nothing is clipped
//   MovingAverageObserver  an average over batches of their smallest and largest values
//   PercentileObserver     the magnitude below which p % of all |x| are
//   MseObserver            the clip whose codes of b bits have the least squared error
//   KlObserver             the clip whose 128 levels of |x| have the least divergence from 2048 bins
//
// The last three give [-clip, clip] and count |x| in a histogram, so that they keep no values. All but the
// moving average depend on the values alone: batches in any order, or all values at once, give the same bits.
// A NaN or an infinity in a batch is an error, and the batch is not counted.
// Sources: the range by divergence is from Migacz, "8-bit inference with TensorRT", 2017.
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
  void add(std::span<const float>, Range batch) override {
    seen_ = first_ ? batch : Range{std::min(seen_.min, batch.min), std::max(seen_.max, batch.max)};
    first_ = false;
  }
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

  void add(std::span<const float> values) {
    for (const float x : values) largest_ = std::max(largest_, std::abs(x));
    int exponent = 0;
    (void)std::frexp(largest_, &exponent);  // largest = m 2^exponent with m in [0.5, 1)
    if (largest_ > 0) grow(exponent);
    for (const float x : values) ++counts_[static_cast<size_t>(std::abs(static_cast<double>(x)) / width_)];
    total_ += static_cast<int64_t>(values.size());
  }
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
  Range clipped() const override {
    const double wanted = percent_ / 100 * static_cast<double>(histogram_.total());
    int64_t below = 0, bin = 0;
    while (static_cast<double>(below) < wanted && bin < MagnitudeHistogram::kBins)
      below += histogram_.counts()[static_cast<size_t>(bin++)];
    const double end = static_cast<double>(bin) * histogram_.width();
    const float clip = std::min(static_cast<float>(end), histogram_.largest());
    return {-clip, clip};
  }

 private:
  double percent_;
  MagnitudeHistogram histogram_;
};

// A value that occurs `count` times.
struct CountedValue {
  float value = 0;
  double count = 1;
};

// The squared error of codes with this scale: rounding inside their range, and the distance to it outside.
inline double squared_error(std::span<const CountedValue> values, const AffineScale& s) {
  double error = 0;
  for (const CountedValue& v : values) {
    const double off = static_cast<double>(v.value - dequantize_value(quantize_value(v.value, s), s));
    error += v.count * off * off;
  }
  return error;
}

// The scale with the least squared error, of 128: the widest, and each 3 % below the one before. The last
// one clips 98 % of the widest range.
inline AffineScale mse_scale(std::span<const CountedValue> values, const AffineScale& widest) {
  AffineScale best = widest, s = widest;
  double least = squared_error(values, widest);
  for (int k = 1; k < 128; ++k) {
    s.scale *= 0.97f;
    if (s.scale == 0) break;
    const double error = squared_error(values, s);
    if (error < least) least = error, best = s;
  }
  return best;
}

// The values of a bin count as its middle.
class MseObserver : public Observer {
 public:
  explicit MseObserver(int bits = 8, TT_LOC) : bits_(bits) { require_bits("MseObserver", bits, loc); }

 protected:
  void add(std::span<const float> values, Range) override { histogram_.add(values); }
  Range clipped() const override {
    std::vector<CountedValue> middles;
    for (int64_t i = 0; i < MagnitudeHistogram::kBins; ++i) {
      const int64_t count = histogram_.counts()[static_cast<size_t>(i)];
      const double middle = (static_cast<double>(i) + 0.5) * histogram_.width();
      if (count > 0 && histogram_.largest() > 0)
        middles.push_back(
            {std::min(static_cast<float>(middle), histogram_.largest()), static_cast<double>(count)});
    }
    const AffineScale widest = choose_scale(-histogram_.largest(), histogram_.largest(), bits_);
    const float clip =
        std::min(mse_scale(middles, widest).scale * static_cast<float>(widest.high), histogram_.largest());
    return {-clip, clip};
  }

 private:
  int bits_;
  MagnitudeHistogram histogram_;
};

// KL(p || q) of the bins [0, end) of a histogram. p has the counts, and everything beyond `end` in its last
// bin. q has 128 levels, as codes of 8 bits have: each level's count is spread evenly over those of its bins
// that are not empty. An empty bin of q counts as half a value, so that it costs little to clip a few
// outliers.
inline double divergence_of_levels(std::span<const double> bins, size_t end, double beyond) {
  constexpr size_t kLevels = 128;
  double inside = 0;
  for (size_t i = 0; i < end; ++i) inside += bins[i];
  if (inside == 0) return std::numeric_limits<double>::infinity();
  double divergence = 0;
  for (size_t level = 0; level < kLevels; ++level) {
    const size_t first = level * end / kLevels, last = (level + 1) * end / kLevels;
    double count = 0, filled = 0;
    for (size_t i = first; i < last; ++i) count += bins[i], filled += bins[i] > 0 ? 1 : 0;
    for (size_t i = first; i < last; ++i) {
      const double p = (bins[i] + (i + 1 == end ? beyond : 0)) / (inside + beyond);
      if (p == 0) continue;
      const double q = bins[i] > 0 ? count / filled : 0.5;
      divergence += p * std::log(p * inside / q);
    }
  }
  return divergence;
}

// Chooses the range of symmetric 8-bit codes by the KL divergence. The histogram is folded to 1024 to 2048
// bins up to the largest |x|.
class KlObserver : public Observer {
 protected:
  void add(std::span<const float> values, Range) override { histogram_.add(values); }
  Range clipped() const override {
    constexpr size_t kFold = MagnitudeHistogram::kBins / 2048;
    const double width = histogram_.width() * static_cast<double>(kFold);
    std::vector<double> bins(static_cast<size_t>(static_cast<double>(histogram_.largest()) / width) + 1);
    for (size_t i = 0; i < bins.size() * kFold; ++i)
      bins[i / kFold] += static_cast<double>(histogram_.counts()[i]);
    double beyond = 0, least = std::numeric_limits<double>::infinity();
    float clip = histogram_.largest();
    for (size_t end = bins.size(); end >= 128; --end) {
      const double divergence = divergence_of_levels(bins, end, beyond);
      if (divergence < least) {
        least = divergence;
        clip = std::min(static_cast<float>(static_cast<double>(end) * width), histogram_.largest());
      }
      beyond += bins[end - 1];
    }
    return {-clip, clip};
  }

 private:
  MagnitudeHistogram histogram_;
};

}  // namespace tinytorch::inline TT_BUILD
