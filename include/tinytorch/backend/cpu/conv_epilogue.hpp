// Convolution with an epilogue on the CPU: batch norm, sums and activations are applied to each block of the
// result while it is in the cache.
//
// The loops are those of the single operations (loops/function_kernels.hpp, batch_norm.hpp), and each result
// is rounded to the dtype of out, so the bits are the same as one after the other.
//
// Contract: out is row-major or dense channels-last. Operands that are as large as out have its layout, and
// none of them is in its memory.
#pragma once

#include <span>
#include <tinytorch/backend/image_step.hpp>
#include <tinytorch/backend/view.hpp>
#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = the steps, applied to conv2d(x, weight, bias); operands as in conv2d (conv.hpp) and EpilogueStep.
TT_API void conv2d_epilogue(const View& out, const View& x, const View& weight, const View& bias,
                            const Window2d& window, int64_t groups, std::span<const EpilogueStep> steps,
                            std::span<const View> operands);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/backend/cpu/batch_norm.hpp>
#include <tinytorch/backend/cpu/conv.hpp>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cpu/pointwise.hpp>
#include <tinytorch/backend/layout.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The steps of an epilogue with their kernels. It is called on blocks of out.
template <class T>
class EpilogueLoop {
 public:
  EpilogueLoop(const View& out, std::span<const EpilogueStep> steps, std::span<const View> operands)
      : out_(out),
        steps_(steps),
        operands_(operands),
        C_(out.shape[1]),
        H_(out.shape[2]),
        W_(out.shape[3]),
        across_(is_dense_channels_last(out) || H_ * W_ == 1) {
    for (const EpilogueStep& s : steps) {
      kernels_.push_back(nullptr);
      number_.push_back(norms_.size());
      const bool unary = s.function.kind == PointwiseKind::unary;
      if (s.is_norm) {
        const View* const of = operands.data() + s.first;  // mean, var, weight, bias
        norms_.emplace_back(C_, of[0], of[1], of[2], of[3], s.eps);
      } else {
        kernels_.back() = unary ? kernel_of<T>(static_cast<UnaryFn>(s.function.fn))
                                : kernel_of<T>(static_cast<BinaryFn>(s.function.fn));
      }
    }
  }

  void operator()(const ImageBlock& block) const {
    constexpr int64_t kMost = kPackLength<T>;
    if (!across_) {
      for (int64_t c = block.c0; c < block.c1; ++c) {
        const int64_t first = ((block.n * C_ + c) * H_ + block.i0) * W_, n = (block.i1 - block.i0) * W_;
        for (int64_t i = 0; i < n; i += kMost) compute({first + i, 1, std::min(kMost, n - i), c});
      }
      return;
    }
    const int64_t first = (block.n * H_ + block.i0) * W_ * C_, pixels = (block.i1 - block.i0) * W_;
    for (int64_t c = block.c0; c < block.c1; c += kMost) {
      const int64_t width = std::min(kMost, block.c1 - c), at_once = kMost / width;
      for (int64_t p = 0; p < pixels; p += at_once)
        compute({first + p * C_ + c, std::min(at_once, pixels - p), width, c});
    }
  }

 private:
  // `rows` rows of n adjacent elements, C apart: of channel c, or of the channels from c on.
  struct Piece {
    int64_t offset, rows, n, c;
    int64_t size() const { return rows * n; }
  };

  bool is_one_run(const Piece& p) const { return p.rows == 1 || p.n == C_; }
  View at(const View& v, const Piece& p) const {
    char* const data = v.as<char>() + p.offset * static_cast<int64_t>(size_of(v.dtype));
    if (is_one_run(p)) return {data, v.dtype, {p.size()}, {1}};
    return {data, v.dtype, {p.rows, p.n}, {C_, 1}};
  }
  // The elements of v as T: in place, or copied into the buffer.
  const T* values(const View& v, const Piece& p, T* buffer) const {
    const View from = at(v, p);
    if (v.dtype == dtype_of<T> && is_one_run(p)) return from.template as<const T>();
    pack(buffer, from, 0, p.size());
    return buffer;
  }

  void compute(const Piece& p) const {
    alignas(64) T values_here[kPackLength<T>];
    alignas(64) T values_there[kPackLength<T>];
    T* const y = const_cast<T*>(values(out_, p, values_here));
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].is_norm) {
        normalize(norms_[number_[s]], y, p);
      } else {
        const PointwiseStep& f = steps_[s].function;
        const T* in[3] = {};
        for (int k = 0; k < f.operands(); ++k)
          in[k] = f.in[k] < 0 ? y : values(operands_[static_cast<size_t>(f.in[k])], p, values_there);
        kernels_[s](y, in, p.size(), f.p);
      }
      round_to(out_.dtype, y, p.size());
    }
    if (y == values_here) unpack(at(out_, p), 0, y, p.size());
  }
  void normalize(const ChannelNorm<T>& norm, T* y, const Piece& p) const {
    if (!across_) return norm.run(y, y, p.c, p.n);
    for (int64_t r = 0; r < p.rows; ++r) norm.across(y + r * p.n, y + r * p.n, p.c, p.n);
  }

  const View& out_;
  std::span<const EpilogueStep> steps_;
  std::span<const View> operands_;
  int64_t C_, H_, W_;
  bool across_;                     // adjacent elements are of different channels
  std::vector<Kernel<T>> kernels_;  // of each step; null for a norm
  std::vector<size_t> number_;      // of each step: its place in norms_
  std::vector<ChannelNorm<T>> norms_;
};

TT_API void conv2d_epilogue(const View& out, const View& x, const View& weight, const View& bias,
                            const Window2d& window, int64_t groups, std::span<const EpilogueStep> steps,
                            std::span<const View> operands) {
  if (out.numel() == 0) return;
  dispatch_floating(out.dtype, [&]<class T>(T*) {
    const EpilogueLoop<T> loop(out, steps, operands);
    conv2d(out, x, weight, bias, window, groups, ImageEpilogue(loop));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
