// DeviceArray: an Array (array.hpp) on the first CUDA device, with the same strides and gaps, for tests that
// call the kernel launchers.
#pragma once

#include <support/array.hpp>
#include <support/device.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

namespace test {

namespace kernels = backend::cuda;
using backend::View;
using backend::Window2d;

class DeviceArray {
 public:
  DeviceArray(DType dtype, const Shape& shape, Layout layout = Layout::dense)
      : DeviceArray(Array(dtype, shape, layout)) {}
  static DeviceArray random(DType dtype, const Shape& shape, uint64_t seed, double low = -1, double high = 1,
                            Layout layout = Layout::dense) {
    return DeviceArray(Array::random(dtype, shape, seed, low, high, layout));
  }
  static DeviceArray from(DType dtype, const Shape& shape, const std::vector<double>& values,
                          Layout layout = Layout::dense) {
    return DeviceArray(Array::from(dtype, shape, values, layout));
  }
  backend::View view() {
    backend::View v = host_.view();
    v.data = device_.data() + host_.first_byte();
    return v;
  }
  std::vector<double> values() {
    host_.bytes() = device_.read();
    return host_.values();
  }
  bool untouched_around() {
    host_.bytes() = device_.read();
    return host_.untouched_around();
  }
  DType dtype() const { return host_.dtype(); }
  const Shape& shape() const { return host_.shape(); }

 private:
  explicit DeviceArray(Array host) : host_(std::move(host)), device_(host_.bytes().size()) {
    backend::cuda::copy_bytes(device_.data(), on_cuda(0), host_.bytes().data(), cpu, device_.size());
  }
  Array host_;
  DeviceBytes device_;
};

}  // namespace test
