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

// True if v is contiguous and has as many elements as out.
inline bool is_flat(const View& v, const View& out) { return v.numel() == out.numel() && v.contiguous(); }
// True if v also has this dtype.
inline bool is_flat(const View& v, DType dtype, const View& out) {
  return v.dtype == dtype && is_flat(v, out);
}

// Loop over operands that are all contiguous; other dtypes than the kernel's pass through buffers.
inline void run_contiguous(const ElementwiseCall& call) {
  const DType dtype = call.dtype();
  const auto direct = [&](const View& v) { return v.dtype == dtype; };
  const bool all_direct = direct(call.out) && std::ranges::all_of(call.in, direct);
  const auto compute = [&](int64_t begin, int64_t end) {
    alignas(64) char buffer[kMostOperands][kPackBytes];
    const int64_t most = all_direct ? end - begin : pack_length(dtype);
    for (int64_t i = begin; i < end; i += most) {
      const int64_t n = std::min(most, end - i);
      Sources source = {};
      for (size_t k = 0; k < call.in.size(); ++k) {
        const View& v = call.in[k];
        source[k] = direct(v) ? element_at(v, i) : buffer[k + 1];
        if (!direct(v)) read_flat(buffer[k + 1], dtype, v, i, n);
      }
      call.kernel(direct(call.out) ? element_at(call.out, i) : buffer[0], source, n, call.parameters);
      if (!direct(call.out)) write_flat(call.out, i, buffer[0], dtype, n);
    }
  };
  parallel_for(call.out.numel(), kElementwiseGrain, compute);
}

// Loop over the rows of the result.
class RowLoop {
 public:
  RowLoop(const ElementwiseCall& call, bool non_temporal)
      : call_(call), bytes_(call.bytes()), non_temporal_(non_temporal), shape_(call.out.shape) {
    Strides strides[kMostOperands] = {call.out.strides};
    for (size_t k = 1; k < call.operands(); ++k) strides[k] = stretch(call.operand(k), call.out.shape);
    collapse(shape_, strides, call.operands());
    row_ = shape_.back();
    stay_in_row_ = row_ >= kShortRow;
    const int64_t length = pack_length(call.dtype());
    repeats_ = non_temporal || row_ >= 8 * length ? length : length / 4;
    for (size_t k = 0; k < call.operands(); ++k) {
      const View& v = call.operand(k);
      operand_[k] = {v.data, v.dtype, shape_, strides[k]};
      direct_[k] =
          v.dtype == call.dtype() && (operand_[k].contiguous() || (stay_in_row_ && strides[k].back() == 1));
      constant_[k] = !direct_[k] && stay_in_row_ && strides[k].back() == 0;
      any_constant_ = any_constant_ || constant_[k];
    }
    direct_[0] = direct_[0] && !non_temporal;
    all_direct_ = std::all_of(direct_, direct_ + call.operands(), [](bool direct) { return direct; });
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
    alignas(64) char values[kMostOperands][kPackBytes];
    const void* held[kMostOperands] = {};  // the element that fills the buffer of a constant operand
  };

  // The address of element i, in row-major order, of operand k.
  char* element(size_t k, int64_t i) const {
    int64_t index[kMaxRank];
    return element_at(operand_[k], locate(shape_, operand_[k].strides, i, index));
  }

  // Computes some elements from i on, and returns their number.
  int64_t piece(int64_t i, int64_t end, Buffers& buffers) const {
    const int64_t room = stay_in_row_ ? row_ - i % row_ : end - i;
    const int64_t n = std::min({end - i, room, all_direct_ ? kElementwiseGrain : pack_length(call_.dtype())});
    Sources source = {};
    for (size_t k = 1; k < call_.operands(); ++k)
      source[k - 1] = direct_[k] ? element(k, i) : fill(k, i, n, room, buffers);
    if (direct_[0]) {
      compute(element(0, i), source, n);
    } else if (non_temporal_) {
      stream(operand_[0].as<char>() + i * bytes_, source, buffers.values[0], n);
    } else {
      compute(buffers.values[0], source, n);
      unpack(operand_[0], i, buffers.values[0], call_.dtype(), n);
    }
    return n;
  }

  // The next n values of input k in its buffer; `room` elements are left in the row.
  const char* fill(size_t k, int64_t i, int64_t n, int64_t room, Buffers& buffers) const {
    char* const to = buffers.values[k];
    if (!constant_[k]) {
      pack(to, call_.dtype(), operand_[k], i, n);
      return to;
    }
    const char* const held = element(k, i);
    if (buffers.held[k] != held) pack(to, call_.dtype(), operand_[k], i, std::min(repeats_, room));
    buffers.held[k] = room >= repeats_ ? held : nullptr;
    return to;
  }

  // Calls the kernel, on pieces no longer than the buffers of constant operands.
  void compute(char* to, Sources& source, int64_t n) const {
    if (!any_constant_ || n <= repeats_) return call_.kernel(to, source, n, call_.parameters);
    const int64_t pieces = n / repeats_, length = repeats_ * bytes_;
    int64_t steps[kMostOperands] = {length};
    for (size_t k = 1; k < call_.operands(); ++k) steps[k] = constant_[k] ? 0 : length;
    call_.kernel.rows(to, source, pieces, repeats_, steps, call_.parameters);
    for (size_t k = 0; k < call_.in.size(); ++k)
      source[k] = static_cast<const char*>(source[k]) + pieces * steps[k + 1];
    if (n > pieces * repeats_)
      call_.kernel(to + pieces * length, source, n - pieces * repeats_, call_.parameters);
  }

  // Computes n values in a buffer, in small pieces, and writes them with non-temporal stores.
  void stream(char* out, Sources& source, char* buffer, int64_t n) const {
    const int64_t most = kNonTemporalBytes / bytes_;
    for (int64_t i = 0; i < n; i += most) {
      const int64_t m = std::min(most, n - i);
      call_.kernel(buffer, source, m, call_.parameters);
      stream_copy(out + i * bytes_, buffer, m * bytes_);
      for (size_t k = 0; k < call_.in.size(); ++k)
        source[k] = static_cast<const char*>(source[k]) + m * bytes_;
    }
  }

  ElementwiseCall call_;
  int64_t bytes_;  // of a value that the kernel computes
  bool non_temporal_, stay_in_row_, all_direct_, any_constant_ = false;
  Shape shape_;                        // collapsed
  View operand_[kMostOperands];        // of this shape
  bool direct_[kMostOperands] = {};    // contiguous, of the kernel's dtype: used in place
  bool constant_[kMostOperands] = {};  // one element, repeated along a row
  int64_t row_;
  int64_t repeats_;  // copies of a constant in its buffer: fewer if rows are short
};

// Applies the kernel to all elements of out; inputs broadcast.
inline void run_elementwise(const ElementwiseCall& call) {
  const View& out = call.out;
  if (out.numel() == 0) return;
  const bool non_temporal = out.dtype == call.dtype() && uses_non_temporal_stores(out, call.in);
  // Contiguous operands need no coordinates; computing them takes longer than the values of a small tensor.
  const auto flat = [&](const View& v) { return is_flat(v, out); };
  if (!non_temporal && flat(out) && std::ranges::all_of(call.in, flat)) return run_contiguous(call);
  if (!strides_fall(out.shape, out.strides)) {
    View to = out, sorted[kMostInputs];
    std::ranges::copy(call.in, sorted);
    const std::span<View> in(sorted, call.in.size());
    sort_views(to, in);
    return run_elementwise({call.kernel, call.parameters, to, in});
  }
  if (out.numel() >= kTiledElements) {
    const TileLoop tiles(call, non_temporal);
    if (tiles.applies()) return tiles.run();
  }
  RowLoop(call, non_temporal).run();
}
template <class T, size_t kInputs>
void run_elementwise(Kernel<T> kernel, const View& out, const View (&in)[kInputs], const double* parameters) {
  static_assert(kInputs <= kMostInputs);
  // Most tensors are small and contiguous, and their kernel takes less time than to find that out twice.
  const auto direct = [&](const View& v) { return is_flat(v, dtype_of<T>, out); };
  const int64_t n = out.numel();
  if (n > 0 && n <= kElementwiseGrain && direct(out) && std::ranges::all_of(in, direct)) {
    const T* source[kInputs];
    for (size_t k = 0; k < kInputs; ++k) source[k] = in[k].template as<const T>();
    return kernel(out.as<T>(), source, n, parameters);
  }
  run_elementwise({kernel, parameters, out, in});
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
