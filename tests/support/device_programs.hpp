// Pointwise programs on the device: operands, and results by the kernels of single operations.
#pragma once

#include <support/device_array.hpp>
#include <support/pointwise_programs.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <vector>

namespace test {

namespace programs = tinytorch_tests;
using backend::PointwiseProgram;
using backend::PointwiseStep;

// A copy of a view's memory on the device.
class DeviceView {
 public:
  explicit DeviceView(const backend::View& host) : host_(host), bytes_(bytes_of(host)) {
    if (host.numel() > 0)
      backend::cuda::copy_bytes(bytes_.data(), on_cuda(0), static_cast<const std::byte*>(host.data), cpu,
                                bytes_.size());
  }
  backend::View view() {
    backend::View v = host_;
    v.data = bytes_.data();
    return v;
  }
  // Copies the device's memory to that of the host's view.
  const backend::View& fetched() {
    const auto bytes = bytes_.read();
    if (!bytes.empty()) std::memcpy(host_.data, bytes.data(), bytes.size());
    return host_;
  }

 private:
  static size_t bytes_of(const backend::View& v) {
    int64_t last = 0;
    for (int d = 0; d < v.rank(); ++d) last += std::max<int64_t>(v.shape[d] - 1, 0) * v.strides[d];
    return static_cast<size_t>(v.numel() > 0 ? last + 1 : 0) * size_of(v.dtype);
  }
  backend::View host_;
  DeviceBytes bytes_;
};

// The results of a program by single kernels, each of which writes a whole array.
class SingleKernels {
 public:
  SingleKernels(const PointwiseProgram& program, const std::vector<backend::View>& in, const Shape& shape,
                programs::Arrays& arrays) {
    std::vector<backend::View> values = in;
    for (const PointwiseStep& step : program.steps) {
      made_.emplace_back(arrays.contiguous(step.dtype, shape));
      const backend::View out = made_.back().view();
      const auto v = [&](int k) { return values[static_cast<size_t>(step.in[k])]; };
      using enum tinytorch::backend::PointwiseKind;
      namespace kernels = backend::cuda;
      if (step.kind == unary)
        kernels::unary(static_cast<backend::UnaryFn>(step.fn), out, v(0), step.p[0], step.p[1]);
      if (step.kind == binary)
        kernels::binary(static_cast<backend::BinaryFn>(step.fn), out, v(0), v(1), step.p[0]);
      if (step.kind == where) kernels::where(out, v(0), v(1), v(2));
      if (step.kind == convert) kernels::copy(out, v(0));
      values.push_back(out);
    }
  }
  // The result of step s, on the host.
  const backend::View& result(size_t s) { return made_[s].fetched(); }

 private:
  std::deque<DeviceView> made_;
};

}  // namespace test
