// Elementwise walks: any function of contiguous runs, applied to operands of every dtype and layout.
//
// Flat operands are passed as they lie. Where an operand lies across the result, tiles are walked
// (tile_walk.hpp). Others are walked row by row, along the last dimension once those that lie one after the
// other are merged: what lies in rows of T is read in place, the rest passes through buffers (pack.hpp), and
// what repeats one element along a row (a broadcast column) fills its buffer once a row. Results larger than
// the caches are written past them (loops/non_temporal.hpp).
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/loops/non_temporal.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cpu/loops/tile_walk.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kShortRow = 256;  // rows below this are packed several at a time

// n values through a buffer, past the caches. Moves the sources on.
template <class T, size_t kInputs>
void run_streamed(Kernel<T> kernel, T* out, const T* (&source)[kInputs], T* buffer, int64_t n,
                  const double* parameters) {
  for (int64_t i = 0; i < n; i += kStreamPiece<T>) {
    const int64_t m = std::min(kStreamPiece<T>, n - i);
    kernel(buffer, source, m, parameters);
    stream_copy(out + i, buffer, m * static_cast<int64_t>(sizeof(T)));
    for (const T*& values : source) values += m;
  }
}

// Whether the elements of v lie one after the other, as many as out has;
inline bool lies_flat(const View& v, const View& out) { return v.numel() == out.numel() && v.contiguous(); }
// and are of that dtype.
inline bool lies_flat(const View& v, DType dtype, const View& out) {
  return v.dtype == dtype && lies_flat(v, out);
}

// Flat operands, those of other dtypes through buffers.
template <class T, size_t kInputs>
void run_flat(Kernel<T> kernel, const View& out, const View (&in)[kInputs], const double* parameters) {
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

// Operand 0 is out, the others are inputs.
template <class T, size_t kInputs>
class RowWalk {
 public:
  RowWalk(Kernel<T> kernel, const View& out, const View (&in)[kInputs], const double* parameters,
          bool streamed)
      : kernel_(kernel), parameters_(parameters), streamed_(streamed), shape_(out.shape) {
    strides_[0] = out.strides;
    for (size_t k = 0; k < kInputs; ++k) strides_[k + 1] = stretch(in[k], out.shape);
    collapse(shape_, strides_, kInputs + 1);
    row_ = shape_.back();
    stay_in_row_ = row_ >= kShortRow;
    repeats_ = streamed || row_ >= 8 * kPackLength<T> ? kPackLength<T> : kPackLength<T> / 4;
    for (size_t k = 0; k <= kInputs; ++k) {
      const View& v = k == 0 ? out : in[k - 1];
      operand_[k] = {v.data, v.dtype, shape_, strides_[k]};
      direct_[k] =
          v.dtype == dtype_of<T> && (operand_[k].contiguous() || (stay_in_row_ && strides_[k].back() == 1));
      constant_[k] = !direct_[k] && stay_in_row_ && strides_[k].back() == 0;
    }
    direct_[0] = direct_[0] && !streamed;
    all_direct_ = std::ranges::all_of(direct_, [](bool direct) { return direct; });
    any_constant_ = std::ranges::any_of(constant_, [](bool constant) { return constant; });
  }

  void run() const {
    parallel_for(shape_.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      Buffers buffers;
      for (int64_t i = begin; i < end;) i += piece(i, end, buffers);
      if (streamed_) stream_fence();
    });
  }

 private:
  struct Buffers {
    alignas(64) T values[kInputs + 1][kPackLength<T>];
    const void* held[kInputs + 1] = {};  // the single element a buffer is filled with, to skip refilling
  };

  int64_t offset(size_t k, int64_t i) const {
    int64_t index[kMaxRank];
    return locate(shape_, strides_[k], i, index);
  }

  // Computes elements from i on; how many.
  int64_t piece(int64_t i, int64_t end, Buffers& buffers) const {
    const int64_t room = stay_in_row_ ? row_ - i % row_ : end - i;
    const int64_t n = std::min({end - i, room, all_direct_ ? kElementwiseGrain : kPackLength<T>});
    const T* source[kInputs];
    for (size_t k = 1; k <= kInputs; ++k)
      source[k - 1] = direct_[k] ? operand_[k].template as<T>() + offset(k, i) : fill(k, i, n, room, buffers);
    if (direct_[0]) {
      compute(operand_[0].template as<T>() + offset(0, i), source, n);
    } else if (streamed_) {
      run_streamed(kernel_, operand_[0].template as<T>() + i, source, buffers.values[0], n, parameters_);
    } else {
      compute(buffers.values[0], source, n);
      unpack(operand_[0], i, buffers.values[0], n);
    }
    return n;
  }

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

  void compute(T* to, const T* (&source)[kInputs], int64_t n) const {
    if (!any_constant_ || n <= repeats_) return kernel_(to, source, n, parameters_);
    for (int64_t at = 0; at < n; at += repeats_) {
      kernel_(to + at, source, std::min(repeats_, n - at), parameters_);
      for (size_t k = 0; k < kInputs; ++k) source[k] += constant_[k + 1] ? 0 : repeats_;
    }
  }

  Kernel<T> kernel_;
  const double* parameters_;
  bool streamed_, stay_in_row_, all_direct_, any_constant_;
  Shape shape_;  // collapsed
  Strides strides_[kInputs + 1];
  View operand_[kInputs + 1];
  bool direct_[kInputs + 1];    // read and written where it lies
  bool constant_[kInputs + 1];  // one element along a row
  int64_t row_;
  int64_t repeats_;  // of a constant, in its buffer: fewer where each row brings another one
};

// Applies `kernel` to all elements of out.
template <class T, size_t kInputs>
void run_packed(Kernel<T> kernel, const View& out, const View (&in)[kInputs], const double* parameters) {
  if (out.numel() == 0) return;
  const bool streamed = out.dtype == dtype_of<T> && streams(out, in);
  // Without coordinates where there is no need of them: finding them takes a small tensor longer than its
  // values.
  const auto flat = [&](const View& v) { return lies_flat(v, out); };
  if (!streamed && flat(out) && std::ranges::all_of(in, flat)) return run_flat(kernel, out, in, parameters);
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, in,
                       [&](const View& to, const auto& from) { run_packed(kernel, to, from, parameters); });
  }
  if (out.numel() >= kTiledElements) {
    const TileWalk<T, kInputs> tiles(kernel, out, in, parameters, streamed);
    if (tiles.applies()) return tiles.run();
  }
  RowWalk<T, kInputs>(kernel, out, in, parameters, streamed).run();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
