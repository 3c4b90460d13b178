// to_string(t) and std::cout << t, in PyTorch's format.
//
//   tensor([[ 1.0000, -2.5000],
//           [ 0.3333,  4.0000]])            the dtype is shown unless it is f32, i64 or bool
//
// All numbers of a tensor share one format, which depends on its finite values: integers without decimals,
// and scientific notation if the range is too wide. A tensor of more than 1000 elements is summarized: three
// elements at each end of each dimension are shown.
#pragma once

#include <iosfwd>
#include <string>
#include <tinytorch/tensor/tensor.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct PrintOptions {
  int precision = 4;
  int64_t threshold = 1000;
  int64_t edge_items = 3;
  int line_width = 80;
};

TT_API std::string to_string(const Tensor& t, PrintOptions options = {});

// The stream types are complete where a program includes <iostream>, and only there.
template <class Char, class Traits>
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, const Tensor& t) {
  return out << to_string(t);
}
template <class Char, class Traits>
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, const Dims& dims) {
  return out << dims.str();
}

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tinytorch/tensor/ops/members.hpp>
#include <tinytorch/tensor/ops/shape.hpp>

namespace tinytorch::inline TT_BUILD {

namespace printing {

// The common format of all numbers of a tensor.
struct NumberFormat {
  bool floating = false, scientific = false, integral = false;
  int precision = 4;
  size_t width = 0;

  std::string text(double v) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    char digits[400];  // enough for every finite double without an exponent
    std::snprintf(digits, sizeof(digits), scientific ? "%.*e" : "%.*f",
                  integral && !scientific ? 0 : precision, v);
    return std::string(digits) + (integral && !scientific ? "." : "");
  }
};

inline NumberFormat choose_format(const std::vector<double>& values, const PrintOptions& options) {
  NumberFormat f;
  f.floating = true;
  f.precision = options.precision;
  f.integral = true;
  double smallest = 0, largest = 0;
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    f.integral = f.integral && v == std::round(v);
    const double a = std::abs(v);
    if (a == 0) continue;
    smallest = smallest == 0 ? a : std::min(smallest, a);
    largest = std::max(largest, a);
  }
  if (f.integral) {
    f.scientific = largest >= 1e8 || (smallest > 0 && largest / smallest > 1e8);
  } else {
    f.scientific = smallest > 0 && (largest / smallest > 1000 || largest > 1e8 || smallest < 1e-4);
  }
  for (double v : values) f.width = std::max(f.width, f.text(v).size());
  return f;
}

class Writer {
 public:
  Writer(const Tensor& t, const PrintOptions& options)
      : tensor_(t.detach()), options_(options), summarize_(t.numel() > options.threshold) {
    std::vector<double> shown;
    if (is_floating(t.dtype())) {
      collect(tensor_, 0, shown);
      format_ = choose_format(shown, options);
    } else {
      widen(tensor_, 0);
    }
  }
  std::string str() { return block(tensor_, 0, 7); }

 private:
  // The positions along a dimension that are shown; -1 stands for the omitted ones.
  std::vector<int64_t> positions(int64_t size) const {
    std::vector<int64_t> p;
    const int64_t e = options_.edge_items;
    for (int64_t i = 0; i < size; ++i) {
      if (!summarize_ || size <= 2 * e || i < e || i >= size - e) {
        p.push_back(i);
      } else if (i == e) {
        p.push_back(-1);
      }
    }
    return p;
  }
  static double value_of(const Tensor& t) { return t.item<double>(); }
  std::string element(const Tensor& t) const {
    if (t.dtype() == DType::boolean) return t.item<bool>() ? "True" : "False";
    if (!is_floating(t.dtype())) return std::to_string(t.to_vector<int64_t>()[0]);
    return format_.text(value_of(t));
  }
  void collect(const Tensor& t, int depth, std::vector<double>& out) const {
    if (t.rank() == 0) return out.push_back(value_of(t));
    for (int64_t i : positions(t.shape()[0])) {
      if (i >= 0) collect(t[i], depth + 1, out);
    }
  }
  void widen(const Tensor& t, int depth) {
    if (t.rank() == 0) {
      format_.width = std::max(format_.width, element(t).size());
      return;
    }
    for (int64_t i : positions(t.shape()[0])) {
      if (i >= 0) widen(t[i], depth + 1);
    }
  }
  std::string padded(std::string text) const {
    if (text.size() < format_.width) text.insert(0, format_.width - text.size(), ' ');
    return text;
  }
  std::string row(const Tensor& t, size_t indent) const {
    std::string line = "[";
    size_t column = indent + 1;
    bool first = true;
    for (int64_t i : positions(t.shape()[0])) {
      const std::string item = i < 0 ? " ..." : padded(element(t[i]));
      if (!first) {
        line += ",";
        if (column + item.size() + 2 > static_cast<size_t>(options_.line_width)) {
          line += "\n" + std::string(indent + 1, ' ');
          column = indent + 1;
        } else {
          line += " ";
          column += 2;
        }
      }
      line += item;
      column += item.size();
      first = false;
    }
    return line + "]";
  }
  std::string block(const Tensor& t, int depth, size_t indent) const {
    if (t.rank() == 0) return element(t);
    if (t.rank() == 1) return row(t, indent);
    std::string text = "[";
    bool first = true;
    for (int64_t i : positions(t.shape()[0])) {
      if (!first)
        text += "," + std::string(static_cast<size_t>(t.rank() - 1), '\n') + std::string(indent + 1, ' ');
      text += i < 0 ? "..." : block(t[i], depth + 1, indent + 1);
      first = false;
    }
    return text + "]";
  }

  Tensor tensor_;
  PrintOptions options_;
  bool summarize_;
  NumberFormat format_;
};

}  // namespace printing

TT_API std::string to_string(const Tensor& t, PrintOptions options) {
  if (!t.defined()) return "tensor(undefined)";
  std::string text = "tensor(";
  text += t.numel() == 0 ? "[]" : printing::Writer(t, options).str();
  if (t.numel() == 0 && t.rank() > 1) text += ", shape=" + t.shape().str();
  const DType d = t.dtype();
  if (d != DType::f32 && d != DType::i64 && d != DType::boolean) text += std::string(", dtype=") + name_of(d);
  if (t.device().is_cuda()) text += ", device=" + t.device().str();
  if (t.requires_grad()) text += ", requires_grad=True";
  return text + ")";
}

}  // namespace tinytorch::inline TT_BUILD
#endif
