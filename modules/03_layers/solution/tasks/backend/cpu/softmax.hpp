// Softmax, its logarithm and log-sum-exp on the CPU, with gradients, along any dimension.
//
//   softmax(x)_i = e^(x_i - max) / sum_j e^(x_j - max)        log_softmax(x)_i = x_i - max - log(sum)
//
// Subtracting the maximum changes nothing in exact arithmetic and keeps e^x from overflowing. You write the
// five functions of one row; the rest brings rows of any dtype, layout and dimension to them.
//
// Task 3.3: softmax_of_row, log_softmax_of_row, softmax_grad_of_row, log_softmax_grad_of_row,
// logsumexp_of_row. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cpu/softmax.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out_i = e^(x_i - max) / sum. Three passes: the largest value; the powers, stored and summed; the division.
// Sum in double: of 50,000 terms, float would lose three digits.
template <class T>
void softmax_of_row(T* out, const T* x, int64_t n) {
  T largest = x[0];
  for (int64_t i = 1; i < n; ++i) largest = std::max(largest, x[i]);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::exp(x[i] - largest);
    sum += static_cast<double>(out[i]);
  }
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(static_cast<double>(out[i]) / sum);
}

// out_i = (x_i - max) - log(sum of e^(x_j - max)). Not the logarithm of softmax: where that is rounded to 0,
// this is an ordinary number such as -200.
template <class T>
void log_softmax_of_row(T* out, const T* x, int64_t n) {
  T largest = x[0];
  for (int64_t i = 1; i < n; ++i) largest = std::max(largest, x[i]);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(std::exp(x[i] - largest));
  const T log_sum = static_cast<T>(std::log(sum));
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] - largest - log_sum;
}

// From the result y = softmax(x) and the gradient dy of the loss by y: each y_j depends on every x_i, and
// adding up dy_j dy_j/dx_i over j leaves dx_i = y_i (dy_i - sum_j dy_j y_j).
template <class T>
void softmax_grad_of_row(T* dx, const T* dy, const T* y, int64_t n) {
  double dot = 0;
  for (int64_t i = 0; i < n; ++i) dot += static_cast<double>(dy[i]) * static_cast<double>(y[i]);
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - static_cast<T>(dot));
}

// From y = log_softmax(x): dx_i = dy_i - e^y_i sum_j dy_j.
template <class T>
void log_softmax_grad_of_row(T* dx, const T* dy, const T* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(dy[i]);
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - std::exp(y[i]) * static_cast<T>(sum);
}

// max + log(sum of e^(x_i - max)). An infinite maximum is not subtracted, because inf - inf is no number: a
// row of -inf alone gives -inf, as does an empty one (n = 0), and a row that holds +inf gives +inf.
template <class T>
T logsumexp_of_row(const T* x, int64_t n) {
  T largest = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, x[i]);
  const T shift = std::isinf(largest) ? T(0) : largest;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(std::exp(x[i] - shift));
  return shift + static_cast<T>(std::log(sum));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
