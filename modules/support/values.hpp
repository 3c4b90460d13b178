// Values: a block of numbers for a check, in any dtype, memory layout and place. It moves numbers in and out
// by itself, so that what a student has not written yet, or has written wrong, cannot disturb it.
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
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#endif

namespace course {

using namespace tinytorch;
using backend::View;
using Numbers = std::vector<double>;

// dense: row-major; gaps: every second element of a larger block; transposed: the first dimension side by
// side; reversed: negative strides.
enum class Layout { dense, gaps, transposed, reversed };
inline constexpr Layout kLayouts[] = {Layout::dense, Layout::gaps, Layout::transposed, Layout::reversed};
const char* name_of_layout(Layout layout);

// Fresh numbers in every run; the seed is printed with a failure, and TT_SEED repeats it.
uint64_t seed();
std::mt19937_64& random_source();
double uniform(double low, double high);

class Values {
 public:
  // Filled with a pattern that no correct result has: what was never written shows.
  Values(DType dtype, const Shape& shape, Layout layout = Layout::dense);
  static Values of(DType dtype, const Shape& shape, const Numbers& numbers, Layout layout = Layout::dense);
  static Values random(DType dtype, const Shape& shape, Layout layout = Layout::dense, double low = -1,
                       double high = 1);

  // What a kernel is given. On a CUDA device the numbers are sent there, and fetched by numbers().
  View view();
  // Row-major, as the dtype holds them.
  Numbers numbers();
  // What an element holds that nobody has written.
  static double unwritten(DType dtype);
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
  unsigned char* place_of(int64_t linear);
  double get(int64_t i);
  void put(int64_t i, double number);

  DType dtype_;
  Shape shape_;
  Strides strides_;
  int64_t first_ = 0;  // element that index 0, 0, ... names
  std::vector<unsigned char> bytes_;
#if TINYTORCH_WITH_CUDA
  static constexpr Device kDevice{DeviceType::cuda, 0};
  size_t size_on_device() const;
  unsigned char* to_device();
  bool on_device_ = false;
  std::shared_ptr<unsigned char> device_;
#endif
};

}  // namespace course
