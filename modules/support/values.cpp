#include <cmath>
#include <cstdlib>
#include <cstring>
#include <support/values.hpp>

namespace course {

const char* name_of_layout(Layout layout) {
  constexpr const char* kNames[] = {"contiguous", "with gaps", "transposed", "reversed"};
  return kNames[static_cast<int>(layout)];
}

uint64_t seed() {
  static const uint64_t value = [] {
    const char* given = std::getenv("TT_SEED");
    return given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  }();
  return value;
}
std::mt19937_64& random_source() {
  static std::mt19937_64 source(seed());
  return source;
}
double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random_source());
}

Values::Values(DType dtype, const Shape& shape, Layout layout)
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
Values Values::of(DType dtype, const Shape& shape, const Numbers& numbers, Layout layout) {
  Values v(dtype, shape, layout);
  for (int64_t i = 0; i < shape.numel(); ++i) v.put(i, numbers[static_cast<size_t>(i)]);
  return v;
}
Values Values::random(DType dtype, const Shape& shape, Layout layout, double low, double high) {
  Numbers numbers(static_cast<size_t>(shape.numel()));
  for (double& n : numbers) n = is_floating(dtype) ? uniform(low, high) : std::floor(uniform(low, high));
  return of(dtype, shape, numbers, layout);
}

View Values::view() {
  View v{bytes_.data() + first_ * element(), dtype_, shape_, strides_};
#if TINYTORCH_WITH_CUDA
  if (on_device_) v.data = to_device() + first_ * element();
#endif
  return v;
}
Numbers Values::numbers() {
#if TINYTORCH_WITH_CUDA
  if (device_) {
    backend::cuda::copy_bytes(bytes_.data(), cpu, device_.get(), kDevice, size_on_device());
  }
#endif
  Numbers out(static_cast<size_t>(shape_.numel()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = get(static_cast<int64_t>(i));
  return out;
}
double Values::unwritten(DType dtype) {
  return dtype == boolean ? kUnwritten : Values(dtype, {}).numbers()[0];
}

unsigned char* Values::place_of(int64_t linear) {
  int64_t at = first_;
  for (int d = shape_.size() - 1; d >= 0; --d) {
    at += linear % shape_[d] * strides_[d];
    linear /= shape_[d];
  }
  return bytes_.data() + at * element();
}
double Values::get(int64_t i) {
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
void Values::put(int64_t i, double number) {
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

#if TINYTORCH_WITH_CUDA
// A device gets no slack, so that the emulator detects the first access past the end. An empty tensor keeps
// some, because it needs an address.
size_t Values::size_on_device() const {
  return bytes_.size() - static_cast<size_t>(shape_.numel() > 0 ? kSlack : 0) * size_of(dtype_);
}
unsigned char* Values::to_device() {
  if (!device_) {
    const size_t size = size_on_device();
    device_ = {static_cast<unsigned char*>(backend::cuda::allocate(size, 0)),
               [size](unsigned char* p) { backend::cuda::deallocate(p, size, 0); }};
    backend::cuda::copy_bytes(device_.get(), kDevice, bytes_.data(), cpu, size);
  }
  return device_.get();
}
#endif

}  // namespace course
