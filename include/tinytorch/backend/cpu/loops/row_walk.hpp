// Elementwise loops: a kernel on contiguous runs, applied to operands of every dtype and layout.
//
// If all operands are contiguous, the loop is flat. If an operand is transposed relative to the result, the
// loop is over tiles (tile_walk.hpp). Otherwise it is over rows of the collapsed shape: contiguous T is read
// in place, other operands pass through buffers (pack.hpp), and an operand that is constant along a row (a
// broadcast column) fills its buffer once per row. Results larger than the caches are written with
// non-temporal stores (loops/non_temporal.hpp).
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/loops/non_temporal.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cpu/loops/tile_walk.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kShortRow = 256;  // elements: shorter rows are packed several at a time

// Computes n values in a buffer and writes them with non-temporal stores. Advances the sources.
template <class T, size_t kInputs>
void run_non_temporal(Kernel<T> kernel, T* out, const T* (&source)[kInputs], T* buffer, int64_t n,
                      const double* parameters) {
  for (int64_t i = 0; i < n; i += kNonTemporalPiece<T>) {
    const int64_t m = std::min(kNonTemporalPiece<T>, n - i);
    kernel(buffer, source, m, parameters);
    stream_copy(out + i, buffer, m * static_cast<int64_t>(sizeof(T)));
    for (const T*& values : source) values += m;
  }
}

// True if v is contiguous and has as many elements as out.
inline bool is_flat(const View& v, const View& out) { return v.numel() == out.numel() && v.contiguous(); }
// True if v also has this dtype.
inline bool is_flat(const View& v, DType dtype, const View& out) {
  return v.dtype == dtype && is_flat(v, out);
}

// Loop over operands that are all contiguous; other dtypes than T pass through buffers.
template <class T, size_t kInputs>
void run_contiguous(Kernel<T> kernel, const View& out, const View (&in)[kInputs], const double* parameters) {
  const auto direct = [](const View& v) { return v.dtype == dtype_of<T>; };
  const bool all_direct = direct(out) && std::ranges::all_of(in, direct);
  parallel_for(out.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    alignas(64) T buffer[kInputs + 1][kPackLength<T>];
    const int64_t most = all_direct ? end - begin : kPackLength<T>;
    for (int64_t i = begin; i < end; i += most) {
      const int64_t n = std::min(most, end - i);
      const T* source[kInputs];
      for (size_t k = 0; k < kInputs; ++k) {
        source[k] = direct(in[k]) ? in[k].template as<T>() + i : buffer[k + 1];
        if (!direct(in[k])) read_flat(buffer[k + 1], in[k], i, n);
      }
      kernel(direct(out) ? out.as<T>() + i : buffer[0], source, n, parameters);
      if (!direct(out)) write_flat(out, i, buffer[0], n);
    }
  });
}

// Loop over the rows of the result. Operand 0 is out, the others are inputs.
template <class T, size_t kInputs>
class RowLoop {
 public:
  RowLoop(Kernel<T> kernel, const View& out, const View (&in)[kInputs], const double* parameters,
          bool non_temporal)
      : kernel_(kernel), parameters_(parameters), non_temporal_(non_temporal), shape_(out.shape) {
    strides_[0] = out.strides;
    for (size_t k = 0; k < kInputs; ++k) strides_[k + 1] = stretch(in[k], out.shape);
    collapse(shape_, strides_, kInputs + 1);
    row_ = shape_.back();
    stay_in_row_ = row_ >= kShortRow;
    repeats_ = non_temporal || row_ >= 8 * kPackLength<T> ? kPackLength<T> : kPackLength<T> / 4;
    for (size_t k = 0; k <= kInputs; ++k) {
      const View& v = k == 0 ? out : in[k - 1];
      operand_[k] = {v.data, v.dtype, shape_, strides_[k]};
      direct_[k] =
          v.dtype == dtype_of<T> && (operand_[k].contiguous() || (stay_in_row_ && strides_[k].back() == 1));
      constant_[k] = !direct_[k] && stay_in_row_ && strides_[k].back() == 0;
    }
    direct_[0] = direct_[0] && !non_temporal;
    all_direct_ = std::ranges::all_of(direct_, [](bool direct) { return direct; });
    any_constant_ = std::ranges::any_of(constant_, [](bool constant) { return constant; });
  }

  void run() const {
    parallel_for(shape_.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      Buffers buffers;
      for (int64_t i = begin; i < end;) i += piece(i, end, buffers);
      if (non_temporal_) stream_fence();
    });
  }

 private:
  struct Buffers {
    alignas(64) T values[kInputs + 1][kPackLength<T>];
    const void* held[kInputs + 1] = {};  // the element that fills the buffer of a constant operand
  };

  int64_t offset(size_t k, int64_t i) const {
    int64_t index[kMaxRank];
    return locate(shape_, strides_[k], i, index);
  }

  // Computes some elements from i on, and returns their number.
  int64_t piece(int64_t i, int64_t end, Buffers& buffers) const {
    const int64_t room = stay_in_row_ ? row_ - i % row_ : end - i;
    const int64_t n = std::min({end - i, room, all_direct_ ? kElementwiseGrain : kPackLength<T>});
    const T* source[kInputs];
    for (size_t k = 1; k <= kInputs; ++k)
      source[k - 1] = direct_[k] ? operand_[k].template as<T>() + offset(k, i) : fill(k, i, n, room, buffers);
    if (direct_[0]) {
      compute(operand_[0].template as<T>() + offset(0, i), source, n);
    } else if (non_temporal_) {
      run_non_temporal(kernel_, operand_[0].template as<T>() + i, source, buffers.values[0], n, parameters_);
    } else {
      compute(buffers.values[0], source, n);
      unpack(operand_[0], i, buffers.values[0], n);
    }
    return n;
  }

  // The next n values of input k in its buffer; `room` elements are left in the row.
  const T* fill(size_t k, int64_t i, int64_t n, int64_t room, Buffers& buffers) const {
    T* const to = buffers.values[k];
    if (!constant_[k]) {
      pack(to, operand_[k], i, n);
      return to;
    }
    const char* const element =
        operand_[k].template as<char>() + offset(k, i) * static_cast<int64_t>(size_of(operand_[k].dtype));
    if (buffers.held[k] != element) pack(to, operand_[k], i, std::min(repeats_, room));
    buffers.held[k] = room >= repeats_ ? element : nullptr;
    return to;
  }

  // Calls the kernel, on pieces no longer than the buffers of constant operands.
  void compute(T* to, const T* (&source)[kInputs], int64_t n) const {
    if (!any_constant_ || n <= repeats_) return kernel_(to, source, n, parameters_);
    for (int64_t at = 0; at < n; at += repeats_) {
      kernel_(to + at, source, std::min(repeats_, n - at), parameters_);
      for (size_t k = 0; k < kInputs; ++k) source[k] += constant_[k + 1] ? 0 : repeats_;
    }
  }

  Kernel<T> kernel_;
  const double* parameters_;
  bool non_temporal_, stay_in_row_, all_direct_, any_constant_;
  Shape shape_;  // collapsed
  Strides strides_[kInputs + 1];
  View operand_[kInputs + 1];
  bool direct_[kInputs + 1];    // contiguous T: used in place
  bool constant_[kInputs + 1];  // one element, repeated along a row
  int64_t row_;
  int64_t repeats_;  // copies of a constant in its buffer: fewer if rows are short
};

// Applies `kernel` to all elements of out; inputs broadcast.
template <class T, size_t kInputs>
void run_elementwise(Kernel<T> kernel, const View& out, const View (&in)[kInputs], const double* parameters) {
  if (out.numel() == 0) return;
  const bool non_temporal = out.dtype == dtype_of<T> && uses_non_temporal_stores(out, in);
  // Contiguous operands need no coordinates; computing them takes longer than the values of a small tensor.
  const auto flat = [&](const View& v) { return is_flat(v, out); };
  if (!non_temporal && flat(out) && std::ranges::all_of(in, flat))
    return run_contiguous(kernel, out, in, parameters);
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(
        out, in, [&](const View& to, const auto& from) { run_elementwise(kernel, to, from, parameters); });
  }
  if (out.numel() >= kTiledElements) {
    const TileLoop<T, kInputs> tiles(kernel, out, in, parameters, non_temporal);
    if (tiles.applies()) return tiles.run();
  }
  RowLoop<T, kInputs>(kernel, out, in, parameters, non_temporal).run();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
