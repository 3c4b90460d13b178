// Values: a block of numbers for a check, in any dtype, memory layout and place. It moves numbers in and out by
// itself, so that what a student has not written yet, or has written wrong, cannot disturb it.
//
//   Values x = Values::random(f32, {3, 5}, Layout::gaps);
//   cpu::unary(UnaryFn::relu, y.view(), x.view());
//   expect_close("relu", y, reference);
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <tinytorch/backend/view.hpp>
#include <tinytorch/core/dtype.hpp>
#include <vector>
#if TINYTORCH_WITH_CUDA
#include <tinytorch/backend/cuda/runtime.hpp>
#endif

namespace course {

using namespace tinytorch;
using backend::View;
using Numbers = std::vector<double>;

// dense: row-major; gaps: every second element of a larger block; transposed: the first dimension side by side;
// reversed: negative strides.
enum class Layout { dense, gaps, transposed, reversed };
inline constexpr Layout kLayouts[] = {Layout::dense, Layout::gaps, Layout::transposed, Layout::reversed};
inline const char* name_of_layout(Layout l) {
  constexpr const char* kNames[] = {"dense", "with gaps", "transposed", "reversed"};
  return kNames[static_cast<int>(l)];
}

// Fresh numbers in every run; the seed is printed with a failure, and TT_SEED repeats it.
inline uint64_t seed() {
  static const uint64_t value = [] {
    const char* given = std::getenv("TT_SEED");
    return given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  }();
  return value;
}
inline std::mt19937_64& random_source() {
  static std::mt19937_64 source(seed());
  return source;
}
inline double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random_source());
}

class Values {
 public:
  // Filled with a pattern that no correct result has: what was never written shows.
  Values(DType dtype, const Shape& shape, Layout layout = Layout::dense)
      : dtype_(dtype), shape_(shape), strides_(Strides::filled(shape.size(), 0)) {
    int64_t step = layout == Layout::gaps ? 2 : 1;
    for (int k = shape.size() - 1; k >= 0; --k) {
      const int d = layout == Layout::transposed ? shape.size() - 1 - k : k;
      strides_[d] = step;
      step *= shape[d] + (layout == Layout::gaps ? 1 : 0);
    }
    bytes_.assign(static_cast<size_t>(step + kSlack) * size_of(dtype), kUnwritten);
    if (layout != Layout::reversed || shape.numel() == 0) return;
    for (int d = 0; d < shape.size(); ++d) {
      first_ += (shape[d] - 1) * strides_[d];
      strides_[d] = -strides_[d];
    }
  }
  static Values of(DType dtype, const Shape& shape, const Numbers& numbers, Layout layout = Layout::dense) {
    Values v(dtype, shape, layout);
    for (int64_t i = 0; i < shape.numel(); ++i) v.put(i, numbers[static_cast<size_t>(i)]);
    return v;
  }
  static Values random(DType dtype, const Shape& shape, Layout layout = Layout::dense, double low = -1,
                       double high = 1) {
    Numbers numbers(static_cast<size_t>(shape.numel()));
    for (double& n : numbers) n = is_floating(dtype) ? uniform(low, high) : std::floor(uniform(low, high));
    return of(dtype, shape, numbers, layout);
  }

  // What a kernel is given. On a CUDA device the numbers are sent there, and fetched by numbers().
  View view() {
    View v{bytes_.data() + first_ * element(), dtype_, shape_, strides_};
#if TINYTORCH_WITH_CUDA
    if (on_device_) v.data = to_device() + first_ * element();
#endif
    return v;
  }
  // Row-major, as the dtype holds them.
  Numbers numbers() {
#if TINYTORCH_WITH_CUDA
    if (device_) {
      backend::cuda::copy_bytes(bytes_.data(), cpu, device_.get(), kDevice, size_on_device());
    }
#endif
    Numbers out(static_cast<size_t>(shape_.numel()));
    for (size_t i = 0; i < out.size(); ++i) out[i] = get(static_cast<int64_t>(i));
    return out;
  }
  // What an element holds that nobody has written.
  static double unwritten(DType dtype) {
    return dtype == boolean ? kUnwritten : Values(dtype, {}).numbers()[0];
  }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

#if TINYTORCH_WITH_CUDA
  Values&& on_device() && {
    on_device_ = true;
    return std::move(*this);
  }
#endif

 private:
  static constexpr unsigned char kUnwritten = 0x7b;
  static constexpr int64_t kSlack = 8;  // elements behind the last one; a device's memory has none

  int64_t element() const { return static_cast<int64_t>(size_of(dtype_)); }
  unsigned char* place_of(int64_t linear) {
    int64_t at = first_;
    for (int d = shape_.size() - 1; d >= 0; --d) {
      at += linear % shape_[d] * strides_[d];
      linear /= shape_[d];
    }
    return bytes_.data() + at * element();
  }
  double get(int64_t i) {
    return dispatch(dtype_, [&]<class T>(T*) {
      T x;
      std::memcpy(&x, place_of(i), sizeof(T));
      if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
        return static_cast<double>(static_cast<float>(x));
      } else {
        return static_cast<double>(x);
      }
    });
  }
  void put(int64_t i, double number) {
    dispatch(dtype_, [&]<class T>(T*) {
      T x;
      if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
        x = T(static_cast<float>(number));
      } else {
        x = static_cast<T>(number);
      }
      std::memcpy(place_of(i), &x, sizeof(T));
    });
  }

  DType dtype_;
  Shape shape_;
  Strides strides_;
  int64_t first_ = 0;  // element that index 0, 0, ... names
  std::vector<unsigned char> bytes_;
#if TINYTORCH_WITH_CUDA
  static constexpr Device kDevice{DeviceType::cuda, 0};
  // The emulator sees the first access behind the end; an empty tensor has an address, too.
  size_t size_on_device() const {
    return bytes_.size() - static_cast<size_t>(shape_.numel() > 0 ? kSlack : 0) * size_of(dtype_);
  }
  unsigned char* to_device() {
    if (!device_) {
      const size_t size = size_on_device();
      device_ = {static_cast<unsigned char*>(backend::cuda::allocate(size, 0)),
                 [size](unsigned char* p) { backend::cuda::deallocate(p, size, 0); }};
      backend::cuda::copy_bytes(device_.get(), kDevice, bytes_.data(), cpu, size);
    }
    return device_.get();
  }
  bool on_device_ = false;
  std::shared_ptr<unsigned char> device_;
#endif
};

}  // namespace course
