// Grades an answer: it must be as near to the f64 result as a correct f32 kernel comes.
//
// Errors are measured in units of the row's largest value. An error may be at most kKappa times the largest
// of
//   - the error of the library's own kernel on the same inputs,
//   - the change of the result when the inputs change by one unit in the last place,
//   - one unit in the last place of the result,
// or KernelTask::slack, if that is more: the rounding that the op's text permits. Where sums cancel, it is a
// fraction of the size that they had otherwise (KernelTask::squares).
// So sums in another order pass, and a result in bf16, whose error is a hundred times larger, does not. Ops
// that only select, and sums of whole numbers, must be exact. A NaN is wrong unless the oracle says NaN; the
// same holds for infinities.
#pragma once

#include <fmt/format.h>

#include <tinymlperf/kernels/library/library_kernels.hpp>
#include <tinymlperf/ops/tasks.hpp>

namespace tinymlperf::judge::kernels {

inline constexpr double kKappa = 32;

struct Grade {
  bool right = true;
  std::string reason;  // why it is wrong
};

namespace detail {

inline double as_float_would(double x) {
  return std::abs(x) > double{std::numeric_limits<float>::max()} ? std::copysign(INFINITY, x) : x;
}

struct RowError {
  // The largest error as a fraction of the row's largest value. Infinite if one of two numbers is not finite
  // and the other is different.
  double worst = 0;
  size_t place = 0;
  double largest = 0;  // of the row
};

inline const char* name_of(channel::DType dtype) {
  constexpr const char* kNames[] = {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64"};
  return kNames[static_cast<size_t>(dtype)];
}

// Calls f(values) with the values of an answer.
template <class F>
void with_values(const channel::Tensor& t, F&& f) {
  using channel::DType;
  if (t.dtype == DType::f32) return f(t.values<float>());
  if (t.dtype == DType::bf16) return f(t.values<tinytorch::BFloat16>());
  if (t.dtype == DType::u8) return f(t.values<uint8_t>());
  if (t.dtype == DType::i32) return f(t.values<int32_t>());
  throw std::logic_error(std::string("no op has a result of ") + name_of(t.dtype));
}
inline double as_double(auto x) {
  if constexpr (std::is_integral_v<decltype(x)>)
    return static_cast<double>(x);
  else
    return double{static_cast<float>(x)};
}

inline RowError error_of(std::span<const double> row, std::span<const double> truth) {
  double scale = std::numeric_limits<float>::min();  // below it the spacing of floats is constant
  for (const double t : truth)
    if (std::isfinite(as_float_would(t))) scale = std::max(scale, std::abs(t));
  RowError out{0, 0, scale};
  for (size_t i = 0; i < row.size(); ++i) {
    const double found = as_float_would(row[i]), expected = as_float_would(truth[i]);
    const bool same = found == expected || (std::isnan(found) && std::isnan(expected));
    const double error = same ? 0
                         : std::isfinite(found) && std::isfinite(expected)
                             ? std::abs(found - expected) / scale
                             : INFINITY;
    if (error > out.worst) out.worst = error, out.place = i;
  }
  return out;
}

// Moves each number to one of its neighbours; 0 and numbers that are not finite stay.
inline channel::Tensors nudged(channel::Tensors in, uint64_t seed) {
  for (channel::Tensor& t : in) {
    if (t.dtype != channel::DType::f32) continue;
    const std::span<float> values = t.mutable_values<float>();
    tinytorch::parallel_for(static_cast<int64_t>(values.size()), 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float& x = values[static_cast<size_t>(i)];
        const uint64_t bits = (static_cast<uint64_t>(i) + seed) * 0x9E3779B97F4A7C15u;
        const bool up = (bits ^ bits >> 32) * 0xD6E8FEB86659FD93u >> 63;
        if (x != 0 && std::isfinite(x)) x = std::nextafter(x, up ? INFINITY : -INFINITY);
      }
    });
  }
  return in;
}

}  // namespace detail

// Grades the answers to one query. The oracle's rows are computed when they are needed.
class Grader {
 public:
  Grader(const KernelTask& task, const Shape& sides, Distribution distribution, channel::Tensors inputs)
      : task_(task),
        shape_(sides),
        distribution_(distribution),
        inputs_(std::move(inputs)),
        honest_(empty_output(task.output(sides), task.result)) {
    const auto& kernels = library::kernels();
    std::ranges::find(kernels, task.name, &Kernel::name)->run(inputs_, honest_);
    exact_ = task.exact == Exact::always ||
             (task.exact == Exact::for_zero_one && distribution == Distribution::zero_one);
    const auto is_f32 = [](const channel::Tensor& t) { return t.dtype == channel::DType::f32; };
    if (!exact_ && std::ranges::any_of(inputs_, is_f32))
      nudged_ = detail::nudged(inputs_, static_cast<uint64_t>(inputs_[0].bytes.size()));
  }
  const channel::Tensor& honest() const { return honest_; }
  int64_t rows() const { return count(honest_.shape) / honest_.shape.back(); }

  // Grades these rows, or all.
  Grade operator()(const channel::Tensors& answer, std::span<const int64_t> rows) const {
    if (answer.size() != 1 || answer[0].dtype != task_.result || answer[0].shape != honest_.shape)
      return {false, std::string("expected one ") + detail::name_of(task_.result) + " tensor of " +
                         to_text(honest_.shape)};
    const auto each = static_cast<size_t>(honest_.shape.back());
    std::vector<double> truth(each), other(each);
    double honest = 0x1p-23;
    std::vector<Finding> findings;
    for (const int64_t row : rows) {
      task_.oracle(inputs_, row, truth);
      const std::vector<double> found = row_of(answer[0], row);
      findings.push_back({row, detail::error_of(found, truth), 0, 0});
      Finding& f = findings.back();
      f.expected = truth[f.error.place], f.found = found[f.error.place];
      if (exact_) continue;
      honest = std::max(honest, finite(detail::error_of(row_of(honest_, row), truth).worst));
      if (nudged_.empty()) continue;
      task_.oracle(nudged_, row, other);
      honest = std::max(honest, finite(detail::error_of(other, truth).worst));
    }
    for (const Finding& f : findings) {
      double bound = exact_ ? 0 : std::max(task_.slack, kKappa * honest);
      if (f.error.worst > bound && !exact_ && task_.squares) bound = std::max(bound, slack_of(f));
      if (f.error.worst > bound) return {false, reason_of(f, bound)};
    }
    return {};
  }
  Grade operator()(const channel::Tensors& answer) const {
    std::vector<int64_t> all(static_cast<size_t>(rows()));
    std::iota(all.begin(), all.end(), int64_t{0});
    return (*this)(answer, all);
  }

 private:
  struct Finding {
    int64_t row;
    detail::RowError error;
    double expected, found;
  };
  // Returns the slack of the row as a fraction of its largest value.
  double slack_of(const Finding& f) const {
    std::vector<double> squares(static_cast<size_t>(honest_.shape.back()));
    task_.squares(inputs_, f.row, squares);
    return task_.slack * 2 * std::sqrt(*std::ranges::max_element(squares)) / f.error.largest;
  }
  std::string reason_of(const Finding& f, double bound) const {
    const auto number = [](double x) {
      return std::isnan(x) ? std::string("nan") : fmt::format("{:.9g}", x);
    };
    std::string out =
        fmt::format("{} {} {}: row {}, element {}: expected {}, found {}", task_.name, to_text(shape_),
                    name_of(distribution_), f.row, f.error.place, number(f.expected), number(f.found));
    if (std::isfinite(f.error.worst))
      out += fmt::format("; an error of {:.2g} of the row's largest, at most {:.2g}", f.error.worst, bound);
    return out;
  }
  static double finite(double x) { return std::isfinite(x) ? x : 0; }
  static std::vector<double> row_of(const channel::Tensor& t, int64_t row) {
    const auto each = static_cast<size_t>(t.shape.back());
    std::vector<double> out(each);
    detail::with_values(t, [&](const auto& values) {
      for (size_t i = 0; i < each; ++i)
        out[i] = detail::as_double(values[static_cast<size_t>(row) * each + i]);
    });
    return out;
  }

  const KernelTask& task_;
  Shape shape_;
  Distribution distribution_;
  bool exact_ = false;
  channel::Tensors inputs_, nudged_;
  channel::Tensor honest_;
};

}  // namespace tinymlperf::judge::kernels
