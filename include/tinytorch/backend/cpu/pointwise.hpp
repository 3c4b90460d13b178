// The interpreter of pointwise programs on the CPU.
//
// Elements are computed in blocks that stay in the L1 cache: for each block, each step runs the loop of its
// function (loops/function_kernels.hpp) over the block. So intermediate values never reach memory, and no
// compiler is needed at run time. The loops are those of the single operations, so the bits are the same.
//
// Contract: outputs are contiguous and have one shape; inputs broadcast to it. An output may be the same
// memory as an input of its shape and dtype, which is contiguous; otherwise they must not overlap.
#pragma once

#include <span>
#include <tinytorch/backend/pointwise.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void pointwise(const PointwiseProgram& program, std::span<const View> out, std::span<const View> in);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/loops/non_temporal.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Rounds n values to a dtype that has fewer bits than T.
template <class T>
void round_to(DType dtype, T* values, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    const auto round = [&]<class Half>(Half*) {
      TT_SIMD
      for (int64_t i = 0; i < n; ++i) values[i] = convert<float>(convert<Half>(values[i]));
    };
    if (dtype == DType::bf16) round(static_cast<BFloat16*>(nullptr));
    if (dtype == DType::f16) round(static_cast<Half*>(nullptr));
  }
}

template <class T>
void select_kernel(T* out, const T* const* in, int64_t n, const double*) {
  const T *condition = in[0], *a = in[1], *b = in[2];
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != T(0) ? a[i] : b[i];
}
template <class T>
void convert_kernel(T* out, const T* const* in, int64_t n, const double*) {
  if (out != in[0]) std::copy(in[0], in[0] + n, out);
}
// Converts values to bool, so that later steps read 0 or 1.
template <class T>
void convert_to_bool_kernel(T* out, const T* const* in, int64_t n, const double*) {
  const T* x = in[0];
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] != T(0) ? T(1) : T(0);
}

// A program with its kernels, and with a place in the buffers of a block for each value.
template <class T>
class PointwiseLoop {
 public:
  PointwiseLoop(const PointwiseProgram& program, std::span<const View> out, std::span<const View> in)
      : program_(program), out_(out), shape_(out[0].shape) {
    read_.reserve(in.size());
    for (const View& v : in) read_.push_back(reading(v));
    int64_t bytes = 0;
    for (const View& v : out) bytes += bytes_of(v);
    for (const View& v : in) bytes += bytes_of(v);
    in_place_ = std::ranges::any_of(out, [&](const View& o) {
      return std::ranges::any_of(in, [&](const View& v) { return v.data == o.data; });
    });
    non_temporal_ = bytes > streaming_bytes && !in_place_;
    choose_kernels();
    place_values();
    block_ = std::clamp<int64_t>(
        kCacheBytes / (std::max<int64_t>(slots_, 1) * int64_t{sizeof(T)}) & ~int64_t{63}, 64, kPackLength<T>);
  }

  void run() const {
    parallel_for(shape_.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      Scratch<T> memory(slots_ * block_);
      std::vector<T*> at(static_cast<size_t>(program_.values()));
      for (size_t v = 0; v < at.size(); ++v)
        at[v] = slot_[v] < 0 ? nullptr : memory.data() + slot_[v] * block_;
      for (size_t k = 0; k < read_.size(); ++k) {
        if (read_[k].how == Reading::constant) fill(at[k], read_[k].view);
      }
      for (int64_t i = begin; i < end; i += block_) compute_block(at, i, std::min(block_, end - i));
      if (non_temporal_) stream_fence();
    });
  }

 private:
  static constexpr int64_t kCacheBytes = 24 << 10;  // of the L1 cache, for the buffers of a block

  // The way in which a block gets the values of an input: they are read in place, copied once, or converted
  // block by block.
  enum class Reading : uint8_t { in_place, constant, flat, packed };
  struct Input {
    Reading how;
    View view;
  };

  Input reading(const View& v) const {
    View stretched = v;
    stretched.strides = stretch(v, shape_);
    stretched.shape = shape_;
    if (is_constant(stretched)) return {Reading::constant, v};
    const bool flat = stretched.contiguous();
    if (flat && v.dtype == dtype_of<T>) return {Reading::in_place, stretched};
    if (flat) return {Reading::flat, stretched};
    Strides strides[] = {stretched.strides};
    collapse(stretched.shape, strides, 1);
    stretched.strides = strides[0];
    return {Reading::packed, stretched};
  }
  static bool is_constant(const View& v) {
    for (int d = 0; d < v.rank(); ++d) {
      if (v.shape[d] != 1 && v.strides[d] != 0) return false;
    }
    return true;
  }
  void fill(T* buffer, const View& v) const {
    T value{};
    View one = v;
    one.shape = Shape{1};
    one.strides = Strides::filled(1, 1);
    read_flat(&value, one, 0, 1);
    std::fill(buffer, buffer + block_, value);
  }

  void choose_kernels() {
    kernels_.reserve(program_.steps.size());
    for (const PointwiseStep& s : program_.steps) {
      using enum PointwiseKind;
      kernels_.push_back(s.kind == unary             ? kernel_of<T>(static_cast<UnaryFn>(s.fn))
                         : s.kind == binary          ? kernel_of<T>(static_cast<BinaryFn>(s.fn))
                         : s.kind == where           ? select_kernel<T>
                         : s.dtype == DType::boolean ? convert_to_bool_kernel<T>
                                                     : convert_kernel<T>);
    }
  }

  // Gives each value that needs a buffer the first slot that is free from its step on. A step may overwrite
  // an operand that nothing reads after it.
  void place_values() {
    const size_t inputs = program_.inputs.size(), steps = program_.steps.size();
    std::vector<int64_t> last(static_cast<size_t>(program_.values()), 0);  // the step that reads a value last
    for (size_t s = 0; s < steps; ++s) {
      const PointwiseStep& step = program_.steps[s];
      for (int k = 0; k < step.operands(); ++k)
        last[static_cast<size_t>(step.in[k])] = static_cast<int64_t>(s);
    }
    const auto end = static_cast<int64_t>(steps);
    for (const int v : program_.outputs) last[static_cast<size_t>(v)] = end;
    slot_.assign(last.size(), -1);
    std::vector<int64_t> busy_until;  // per slot: the step after which it is free
    const auto take = [&](size_t v, int64_t now, int64_t until) {
      const auto free = std::ranges::find_if(busy_until, [&](int64_t busy) { return busy <= now; });
      slot_[v] = free - busy_until.begin();
      if (free == busy_until.end()) {
        busy_until.push_back(until);
      } else {
        *free = until;
      }
    };
    for (size_t v = 0; v < inputs; ++v) {
      const bool constant = read_[v].how == Reading::constant;
      if (read_[v].how != Reading::in_place) take(v, -1, constant ? end : last[v]);
    }
    for (size_t s = 0; s < steps; ++s) take(inputs + s, static_cast<int64_t>(s), last[inputs + s]);
    slots_ = static_cast<int64_t>(busy_until.size());
  }

  void compute_block(std::vector<T*>& at, int64_t first, int64_t n) const {
    for (size_t k = 0; k < read_.size(); ++k) {
      const Input& input = read_[k];
      if (input.how == Reading::in_place) at[k] = const_cast<T*>(input.view.template as<const T>()) + first;
      if (input.how == Reading::flat) read_flat(at[k], input.view, first, n);
      if (input.how == Reading::packed) pack(at[k], input.view, first, n);
    }
    for (size_t k = 0; k < out_.size(); ++k) {
      if (computed_there(k)) at[result_of(k)] = out_[k].template as<T>() + first;
    }
    for (size_t s = 0; s < kernels_.size(); ++s) {
      const PointwiseStep& step = program_.steps[s];
      const T* in[3] = {};
      for (int k = 0; k < step.operands(); ++k) in[k] = at[static_cast<size_t>(step.in[k])];
      T* const to = at[read_.size() + s];
      kernels_[s](to, in, n, step.p);
      round_to(step.dtype, to, n);
    }
    for (size_t k = 0; k < out_.size(); ++k) {
      if (computed_there(k)) continue;
      const T* const values = at[result_of(k)];
      if (out_[k].dtype != dtype_of<T>) {
        write_flat(out_[k], first, values, n);
      } else if (non_temporal_) {
        stream_copy(out_[k].template as<T>() + first, values, n * int64_t{sizeof(T)});
      } else {
        std::copy(values, values + n, out_[k].template as<T>() + first);
      }
    }
  }

  size_t result_of(size_t k) const { return static_cast<size_t>(program_.outputs[k]); }
  // True if the values of output k are computed in its own memory. Not if that is an input, which a later
  // step may read.
  bool computed_there(size_t k) const {
    return !in_place_ && !non_temporal_ && out_[k].dtype == dtype_of<T> && result_of(k) >= read_.size();
  }

  const PointwiseProgram& program_;
  std::span<const View> out_;
  Shape shape_;
  std::vector<Input> read_;
  std::vector<Kernel<T>> kernels_;
  std::vector<int64_t> slot_;  // of each value; -1: an input that is read in place
  int64_t slots_ = 0, block_ = 0;
  bool in_place_ = false, non_temporal_ = false;
};

TT_API void pointwise(const PointwiseProgram& program, std::span<const View> out, std::span<const View> in) {
  if (out.empty() || out[0].numel() == 0) return;
  if (program.compute == DType::f64) {
    PointwiseLoop<double>(program, out, in).run();
  } else {
    PointwiseLoop<float>(program, out, in).run();
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
