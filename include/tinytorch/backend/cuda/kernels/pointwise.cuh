// The interpreter of pointwise programs (contract: backend/cpu/pointwise.hpp), for programs of at most 16
// inputs, 16 results and 64 steps.
//
// A thread computes all steps for its elements. It keeps the result of the last step in registers, because
// the next step usually reads it; a result that is read later goes to local memory, which the L1 cache holds.
// Each step selects its function at run time, without warp divergence. So a program is one launch, and only
// its inputs and results move through DRAM. Functions are those of the single operations, and so are the
// bits. A program with a kernel of its own (acceleration/emit_cuda.hpp) does not need the selection.
// Limit: memory bandwidth, each input and each result once.
#pragma once

#include <tinytorch/backend/cuda/device/functions.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A program as a kernel argument. Values are numbered as in PointwiseProgram.
template <class C>
struct DeviceProgram {
  struct Step {
    PointwiseKind kind;
    uint8_t fn;
    DType dtype;
    bool narrow;  // operands and result have 16 bits or fewer: gelu by its short formula
    bool kept;    // a step other than the next one, or a result, reads it
    int8_t in[3];
    C p[2];
  };
  struct Result {
    void* data;
    DType dtype;
    int8_t value;
  };
  Operands<kDeviceOperands + 1> operands;  // operand 0 is the first result
  int inputs = 0, steps = 0, results = 0;
  Step step[kDeviceSteps];
  Result result[kDeviceResults];
};

// Values of one thread. Those that are kept are in local memory, because their number is known at run time.
template <class C, int kCount>
struct PointwiseValues {
  C last[kCount];
  C kept[kDeviceSteps][kCount];

  // Value v before step `now`, or after all steps.
  __device__ __forceinline__ void read(C (&out)[kCount], const DeviceProgram<C>& program, int v, int now,
                                       const Share<C, kCount>& share) const {
    const int step = v - program.inputs;
    if (step < 0) {
      cuda::read(out, program.operands, v + 1, share);
    } else if (step == now - 1) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) out[k] = last[k];
    } else {
#pragma unroll
      for (int k = 0; k < kCount; ++k) out[k] = kept[step][k];
    }
  }
};

template <class C>
__device__ __forceinline__ C rounded_to(DType dtype, C x) {
  if constexpr (std::is_same_v<C, float>) {
    if (dtype == DType::bf16) return to<float>(to<BFloat16>(x));
    if (dtype == DType::f16) return to<float>(to<Half>(x));
  }
  return x;
}

// v becomes the result of a step whose first operand is v; `second` and `third` read the others.
template <class C, int kCount, class Second, class Third>
__device__ __forceinline__ void compute_step(C (&v)[kCount], const typename DeviceProgram<C>::Step& step,
                                             Second&& second, Third&& third) {
  if (step.kind == PointwiseKind::unary) {
    select<UnaryFn::identity, kUnaryCount>(step.fn, [&]<UnaryFn kFn>() {
      if constexpr (std::is_same_v<C, float>) {
        if constexpr (kFn == UnaryFn::gelu) {
          if (step.narrow) {
#pragma unroll
            for (C& x : v) x = gelu_16_bit(x);
            return;
          }
        }
      }
#pragma unroll
      for (C& x : v) x = unary_of<kFn>(x, step.p[0], step.p[1]);
    });
  } else if (step.kind == PointwiseKind::binary) {
    C u[kCount];
    second(u);
    select<BinaryFn::add, kBinaryCount>(step.fn, [&]<BinaryFn kFn>() {
#pragma unroll
      for (int k = 0; k < kCount; ++k) v[k] = binary_of<kFn>(v[k], u[k], step.p[0]);
    });
  } else if (step.kind == PointwiseKind::where) {
    C a[kCount], b[kCount];
    second(a);
    third(b);
#pragma unroll
    for (int k = 0; k < kCount; ++k) v[k] = v[k] != C(0) ? a[k] : b[k];
  } else if (step.dtype == DType::boolean) {
#pragma unroll
    for (C& x : v) x = x != C(0) ? C(1) : C(0);
  }
#pragma unroll
  for (C& x : v) x = rounded_to(step.dtype, x);
}

template <class C, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    pointwise_kernel(const __grid_constant__ DeviceProgram<C> program) {
  const Share<C, kCount> share;
  if (share.first >= program.operands.count) return;
  PointwiseValues<C, kCount> values;
  for (int s = 0; s < program.steps; ++s) {
    const auto& step = program.step[s];
    C v[kCount];
    values.read(v, program, step.in[0], s, share);
    compute_step<C, kCount>(
        v, step, [&](C(&u)[kCount]) { values.read(u, program, step.in[1], s, share); },
        [&](C(&u)[kCount]) { values.read(u, program, step.in[2], s, share); });
#pragma unroll
    for (int k = 0; k < kCount; ++k) values.last[k] = v[k];
    if (!step.kept) continue;
#pragma unroll
    for (int k = 0; k < kCount; ++k) values.kept[s][k] = v[k];
  }
  // Results are written after the last read, because a result may lie in the memory of an input.
  for (int r = 0; r < program.results; ++r) {
    const auto& result = program.result[r];
    C v[kCount];
    values.read(v, program, result.value, program.steps, share);
    for_stored<C>(result.dtype, [&]<class T>(T*) {
      T* const data = static_cast<T*>(result.data);
      if constexpr (kCount > kPerThreadStrided) {
        if (share.first + kCount <= program.operands.count) return store(data + share.first, v);
      }
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const int64_t i = share.element(k);
        if (i < program.operands.count) data[i] = to<T>(v[k]);
      }
    });
  }
}

// --- launcher ---

// Fills in the steps and results. A step is kept if anything later than the next step reads its result.
template <class C>
void set_program(DeviceProgram<C>& device, const PointwiseProgram& program, std::span<const View> out) {
  const auto inputs = static_cast<int>(program.inputs.size()), steps = static_cast<int>(program.steps.size());
  device.inputs = inputs, device.steps = steps, device.results = static_cast<int>(out.size());
  const auto keep = [&](int value, int reader) {
    const int step = value - inputs;
    if (step >= 0 && reader > step + 1) device.step[step].kept = true;
  };
  for (int s = 0; s < steps; ++s) {
    const PointwiseStep& step = program.steps[static_cast<size_t>(s)];
    auto& to = device.step[s];
    to = {step.kind,
          step.fn,
          step.dtype,
          size_of(step.dtype) <= 2,
          false,
          {-1, -1, -1},
          {convert<C>(step.p[0]), convert<C>(step.p[1])}};
    for (int k = 0; k < step.operands(); ++k) {
      to.in[k] = static_cast<int8_t>(step.in[k]);
      to.narrow = to.narrow && size_of(program.dtype_of_value(step.in[k])) <= 2;
      keep(step.in[k], s);
    }
  }
  for (size_t r = 0; r < out.size(); ++r) {
    device.result[r] = {out[r].data, out[r].dtype, static_cast<int8_t>(program.outputs[r])};
    keep(program.outputs[r], steps);
  }
}

// Describes shape and operands of the call. True if threads may use vectors of `per_thread` elements.
template <class C>
bool set_operands(DeviceProgram<C>& device, std::span<const View> out, std::span<const View> in,
                  int per_thread) {
  View views[kDeviceOperands + 1];
  views[0] = out[0];
  for (size_t k = 0; k < in.size(); ++k) views[k + 1] = in[k];
  for (size_t k = in.size() + 1; k < std::size(views); ++k) views[k] = out[0];  // no step reads these
  const Plan<kDeviceOperands + 1> plan(views, per_thread);
  device.operands = plan.operands;
  bool aligned = true;
  for (const View& v : out) {
    const auto bytes = static_cast<uintptr_t>(size_of(v.dtype)) * static_cast<uintptr_t>(per_thread);
    aligned = aligned && reinterpret_cast<uintptr_t>(v.data) % (bytes < 16 ? bytes : 16) == 0;
  }
  return plan.vectorized && aligned;
}

template <class C>
void run_pointwise(const PointwiseProgram& program, std::span<const View> out, std::span<const View> in) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(C));
  DeviceProgram<C> device;
  set_program(device, program, out);
  const bool vectors = set_operands(device, out, in, kVector);
  const int each = vectors ? kVector : kPerThreadStrided;
  const LaunchConfig config = over(ceil_div(device.operands.count, each), kElementwiseBlock);
  if constexpr (kVector > kPerThreadStrided) {
    if (vectors) return launch(pointwise_kernel<C, kVector>, config, device);
  }
  launch(pointwise_kernel<C, kPerThreadStrided>, config, device);
}

void pointwise(const PointwiseProgram& program, std::span<const View> out, std::span<const View> in) {
  if (out.empty() || out[0].numel() == 0) return;
  if (in.size() > kDeviceOperands || out.size() > kDeviceResults || program.steps.size() > kDeviceSteps) {
    fail("TT-SHAPE-02", "pointwise: a program on a GPU has at most " + std::to_string(kDeviceOperands) +
                            " inputs, as many results and " + std::to_string(kDeviceSteps) + " steps");
  }
  program.compute == DType::f64 ? run_pointwise<double>(program, out, in)
                                : run_pointwise<float>(program, out, in);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
